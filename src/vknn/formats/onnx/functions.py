"""Functions of a model: checks that calls end, and that they do not expand without measure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vknn.errors import ModelFormatError
from vknn.formats.onnx.records import FunctionRecord, GraphRecord, Key, NodeRecord
from vknn.formats.topological_sort import topological_sort

#: The most nodes of a model with all of its functions expanded.
MAX_NODES = 200_000
#: How deep functions may call one another.
MAX_DEPTH = 1000


def check_functions(
    graph: GraphRecord, functions: Mapping[Key, FunctionRecord], file: str | None
) -> None:
    """Check: ModelFormatError for functions that call themselves, or expand beyond MAX_NODES."""
    sizes: dict[Key, int] = {}
    depths: dict[Key, int] = {}
    for key in _callees_first(functions, file):
        sizes[key] = _size(functions[key].nodes, sizes)
        called = (depths.get(node.key, 0) for node in all_nodes(functions[key].nodes))
        depths[key] = 1 + max(called, default=0)
        if depths[key] > MAX_DEPTH:
            raise ModelFormatError(
                f"its functions call one another {MAX_DEPTH} deep and deeper, which no network "
                "needs; the file is damaged or made to do harm",
                file=file,
            )
    if _size(graph.nodes, sizes) > MAX_NODES:
        raise ModelFormatError(
            f"with its functions expanded it has more than {MAX_NODES} nodes, which no network "
            "has; the file is damaged or made to do harm",
            file=file,
        )


def all_nodes(nodes: Iterable[NodeRecord]) -> Iterable[NodeRecord]:
    """The nodes and those of their subgraphs."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [inner for graph in node.graphs() for inner in graph.nodes]


def _callees_first(functions: Mapping[Key, FunctionRecord], file: str | None) -> list[Key]:
    """The functions, each after those that it calls."""
    calls = {
        key: {n.key for n in all_nodes(f.nodes) if n.key in functions}
        for key, f in functions.items()
    }
    keys = list(functions)
    places = {key: place for place, key in enumerate(keys)}
    waits, readers = [len(calls[key]) for key in keys], [list[int]() for _ in keys]
    for place, key in enumerate(keys):
        for called in calls[key]:
            readers[places[called]].append(place)
    done = [keys[place] for place in topological_sort(waits, readers)]
    if len(done) < len(keys):
        names = ", ".join(sorted(key[1] for key in set(keys) - set(done))[:8])
        raise ModelFormatError(
            f"the functions {names} call one another in a circle, which ONNX forbids", file=file
        )
    return done


def _size(nodes: Iterable[NodeRecord], sizes: Mapping[Key, int]) -> int:
    return sum(1 + sizes.get(node.key, 0) for node in all_nodes(nodes))
