"""Fewer nodes: those of the wrong layer alone, or what delta debugging leaves."""

from __future__ import annotations

from collections.abc import Iterator

from vknn.graph import Node
from vknn.reduction.cases import GraphCase
from vknn.reduction.search import Search, least
from vknn.reduction.verdict import Verdict, names_of


def fewer_nodes(search: Search) -> None:
    """Reduction of the best case to the nodes that it takes to fail."""
    search.step = "nodes"
    whole = search.best
    for nodes in guesses(whole, search.failure):
        if search.take(whole.part(nodes)):
            break
    whole = search.best

    def fails(nodes: list[Node]) -> bool:
        return len(nodes) < len(search.best.graph.nodes) and search.take(whole.part(nodes))

    least(whole.graph.nodes, fails)


def guesses(case: GraphCase, failure: Verdict) -> Iterator[list[Node]]:
    """The nodes of the wrong layer, and these with their neighbours; none where none is known."""
    names = names_of(failure) if failure.layers else set()
    nodes = [node for node in case.graph.nodes if node.origin.name in names]
    for _ in range(2):
        if not 0 < len(nodes) < len(case.graph.nodes):
            return
        yield nodes
        nodes = neighbourhood(case, nodes)


def neighbourhood(case: GraphCase, nodes: list[Node]) -> list[Node]:
    """The nodes with those that make what they read, and those that read what they make."""
    made = {v for node in nodes for v in node.outputs}
    read = {v for node in nodes for v in node.inputs if v is not None}
    return [
        node
        for node in case.graph.nodes
        if node in nodes or not read.isdisjoint(node.outputs) or not made.isdisjoint(node.inputs)
    ]
