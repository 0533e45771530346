"""Order of a graph's nodes, and checks that each value is made once and before it is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vknn.formats.onnx.records import NodeRecord
from vknn.formats.topological_sort import topological_sort

_SHOWN = 8


class OrderProblem(ValueError):
    """Nodes that cannot be put in order; ``node``: the name of one at fault."""

    def __init__(self, message: str, node: str | None = None) -> None:
        super().__init__(message)
        self.node = node


def ordered_graph(
    nodes: Sequence[NodeRecord], known: Iterable[str], outer: Iterable[str], outputs: Sequence[str]
) -> tuple[tuple[NodeRecord, ...], tuple[str, ...]]:
    """The nodes, each after those whose results it reads, and the names of outer values read.

    ``known``: inputs and initializers. The file's order is kept where it is one. Raises
    OrderProblem for values that are made twice or never, and for circles.
    """
    known, outer = set(known), set(outer)
    makers: dict[str, int] = {}
    for position, node in enumerate(nodes):
        for name in node.outputs:
            if name and (name in makers or name in known):
                raise OrderProblem(
                    f"the value {name!r} is made twice; the file is damaged, or its exporter "
                    "gave one name to two values",
                    node.label,
                )
            if name:
                makers[name] = position
    captured: dict[str, None] = {}
    waits = [0] * len(nodes)
    readers: list[list[int]] = [[] for _ in nodes]
    for position, node in enumerate(nodes):
        for name in dict.fromkeys(node.reads):
            if name in makers:
                waits[position] += 1
                readers[makers[name]].append(position)
            elif name in outer and name not in known:
                captured[name] = None
            elif name not in known:
                raise OrderProblem(
                    f"{node.type} reads the value {name!r}, which nothing makes; the file is "
                    "damaged or incomplete: export it again",
                    node.label,
                )
    for name in outputs:
        if name and name not in makers and name not in known:
            if name not in outer:
                raise OrderProblem(f"nothing makes the output {name!r}; export the model again")
            captured[name] = None
    return tuple(_sorted(nodes, waits, readers)), tuple(captured)


def _sorted(
    nodes: Sequence[NodeRecord], waits: list[int], readers: Sequence[Sequence[int]]
) -> list[NodeRecord]:
    ordered = [nodes[position] for position in topological_sort(waits, readers)]
    if len(ordered) < len(nodes):
        stuck = [nodes[i] for i, count in enumerate(waits) if count]
        names = ", ".join(repr(node.label) for node in stuck[:_SHOWN])
        more = f" and {len(stuck) - _SHOWN} more" if len(stuck) > _SHOWN else ""
        raise OrderProblem(
            f"the nodes {names}{more} wait for one another in a circle; no runtime can run it: "
            "export the model again",
            stuck[0].label,
        )
    return ordered
