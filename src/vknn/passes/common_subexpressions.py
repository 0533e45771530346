"""Common subexpressions: equal nodes of a graph are computed once."""

from __future__ import annotations

from vknn.graph import Graph, Node, Value
from vknn.passes.rewriter import Rewriter, sweep


def merge_common_subexpressions(graph: Graph) -> Graph:
    """Merging of nodes of equal deterministic ops on the same values (or constant arrays)."""
    seen: dict[tuple[object, ...], Node] = {}

    def merge(rewriter: Rewriter, node: Node) -> tuple[Value, ...] | None:
        if not node.op.deterministic:
            return None
        key = (node.op, *(_identity(v) for v in node.inputs))
        first = seen.setdefault(key, node)
        if first is node or rewriter.producer(first.outputs[0]) is not first:
            seen[key] = node
            return None
        return first.outputs

    return sweep(graph, merge)


def _identity(value: Value | None) -> int:
    # Values and arrays live as long as the graph, so an id names one of them.
    return id(value if value is None or value.constant is None else value.constant)
