"""Coverage of a model: its layers, the operators they become, and where these run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from vknn.graph import Graph, Node
from vknn.lowering import LoweringOptions, candidates
from vknn.plan import DeviceLimits

#: Where a layer's operators run.
DEVICE, HOST, BOTH, NOWHERE, LATER = "vulkan", "host", "vulkan and host", "", "planned at run time"


@dataclass(frozen=True)
class Covered:
    """The layers of a type: how many there are, and the operators that they become.

    ``where`` is DEVICE, HOST or BOTH, of the operators by themselves; NOWHERE for layers of which
    no operator is left (constants, moves that change nothing), LATER where data decide.
    """

    type: str
    count: int
    operators: tuple[str, ...]
    where: str


def coverage(
    graph: Graph, types: Iterable[str], limits: DeviceLimits, options: LoweringOptions
) -> list[Covered]:
    """An entry for each type of layer; ``graph`` is the model's before any pass.

    ``types``: those of the file's layers, one for each layer. ``limits``: the device's.
    """
    counts = Counter(types)
    nodes: dict[str, list[Node]] = {}
    for node in graph.nodes:
        nodes.setdefault(node.origin.type, []).append(node)
    for type_ in nodes.keys() - counts.keys():  # what a format adds: the means of inputs
        counts[type_] = len({node.origin.name for node in nodes[type_]})
    later = set(graph.continuation.layers) if graph.continuation is not None else set()
    return [
        _covered(type_, count, nodes.get(type_, []), type_ in later, limits, options)
        for type_, count in counts.most_common()
    ]


def _covered(
    type_: str,
    count: int,
    nodes: list[Node],
    later: bool,
    limits: DeviceLimits,
    options: LoweringOptions,
) -> Covered:
    operators = Counter(node.op.type_name for node in nodes)
    if later:
        return Covered(type_, count, tuple(operators), LATER)
    places = {_place(node, limits, options) for node in nodes}
    where = places.pop() if len(places) == 1 else BOTH if places else NOWHERE
    return Covered(type_, count, tuple(operators), where)


def _place(node: Node, limits: DeviceLimits, options: LoweringOptions) -> str:
    if not node.is_static:
        return LATER
    return DEVICE if candidates(node, limits, options) else HOST
