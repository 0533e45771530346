"""Partition of a graph into segments: which nodes run where, and which run together. Pure.

A graph is cut into runs of nodes that the device can do (one plan each) and runs of nodes that only
the host can (their references). Nodes behind a shape that depends on data are deferred: they are
compiled when the shape is known. A network without such nodes is one segment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vknn.graph import Graph, Node, TensorType, Value
from vknn.graph.graph import unique_name
from vknn.lowering import LoweringOptions, candidates
from vknn.lowering.choose.candidates import is_widened
from vknn.lowering.choose.split_weights import split_columns
from vknn.lowering.kit.candidate import Candidate
from vknn.ops.chain import Chain
from vknn.ops.elementwise import Fused
from vknn.passes.chains import unchain
from vknn.passes.fusion import unfuse
from vknn.passes.zero_factors import spell_out
from vknn.plan import DeviceLimits

Candidates = Mapping[Node, Sequence[Candidate]]


@dataclass(frozen=True, eq=False)
class Partition:
    """A graph cut into segments.

    ``graph``: the whole of it, in which names of values are unique. ``segments``: graphs in the
    order in which they run, each on the side that ``placement`` ("vulkan" or "host") has for its
    nodes. ``deferred``: nodes behind a data-dependent shape, in order. ``candidates``: the kernels
    of the nodes on the device.
    """

    graph: Graph
    segments: list[Graph]
    deferred: list[Node]
    placement: dict[Node, str]
    candidates: Candidates


def partition(
    graph: Graph,
    limits: DeviceLimits | None,
    options: LoweringOptions,
    *,
    keep_values: bool = False,
) -> Partition:
    """The segments of a graph, for a device of these limits (None: all run on the host).

    ``keep_values``: every value leaves its segment, also one that nothing outside reads.
    """
    kernels = _Kernels(limits, options)
    graph = graph.replace([part for node in graph.nodes for part in kernels.parts(node)])
    _name_apart(graph)
    ready, deferred = _split_static(graph.nodes)
    on_device = _on_device(ready, kernels)
    needed = set(graph.outputs.values())
    needed |= {v for n in deferred for v in n.inputs if v is not None}
    if keep_values:
        needed |= {v for n in ready for v in n.outputs}
    groups = _group(ready, on_device)
    segments = []
    for number, nodes in enumerate(groups):
        later = {v for group in groups[number + 1 :] for n in group for v in n.inputs}
        segments.append(_segment(nodes, needed, later, graph.name))
    placement = {n: "vulkan" if n in on_device else "host" for n in graph.nodes}
    return Partition(graph, segments, deferred, placement, kernels.found)


def refine(
    nodes: list[Node], types: Mapping[Value, TensorType], outputs: Mapping[str, Value]
) -> Graph:
    """The nodes over new values: ``types`` are those known of what enters, the rest inferred."""
    renewed = {v: Value(v.name, t, None, v.quantization) for v, t in types.items()}
    inputs = list(renewed.values())
    fresh = []
    for node in nodes:
        ins = tuple(renewed.get(v, v) if v is not None else None for v in node.inputs)
        inferred = node.op.infer(*(v.type if v is not None else None for v in ins))
        outs = tuple(
            Value(v.name, t, None, v.quantization)
            for v, t in zip(node.outputs, inferred, strict=True)
        )
        renewed.update(zip(node.outputs, outs, strict=True))
        fresh.append(Node(node.op, ins, outs, node.name, node.origin))
    return Graph(inputs, {name: renewed[v] for name, v in outputs.items()}, fresh)


class _Kernels:
    """The candidates of nodes on a device, each found once; none without a device."""

    def __init__(self, limits: DeviceLimits | None, options: LoweringOptions) -> None:
        self._limits, self._options = limits, options
        self.found: dict[Node, list[Candidate]] = {}

    def of(self, node: Node) -> list[Candidate]:
        """The candidates of a node whose input types are known."""
        if self._limits is None:
            return []
        if node not in self.found:
            self.found[node] = candidates(node, self._limits, self._options)
        return self.found[node]

    def parts(self, node: Node) -> list[Node]:
        """The node, or where no kernel takes it whole and those of its parts fit better, these."""
        if self._limits is None or not node.is_static or self.of(node):
            return [node]
        parts: list[Node] | None
        if isinstance(node.op, Chain):
            parts = unchain(node)
        elif isinstance(node.op, Fused):
            parts = self._columns(node) or unfuse(node)
        else:
            parts = spell_out(node) or self._columns(node)
        return [node] if parts is None else [p for part in parts for p in self.parts(part)]

    def _columns(self, node: Node) -> list[Node] | None:
        assert self._limits is not None
        return split_columns(node, self._limits.max_storage_buffer_range, self._options.half)


def _name_apart(graph: Graph) -> None:
    """Makes the names of values unique: segments exchange arrays by them."""
    taken: set[str] = set()
    for value in graph.values():
        value.name = unique_name(value.name, taken)
        taken.add(value.name)


def _split_static(nodes: list[Node]) -> tuple[list[Node], list[Node]]:
    """Nodes whose input types are known, and those behind a data-dependent shape."""
    ready: list[Node] = []
    deferred: list[Node] = []
    late: set[Value | None] = set()
    for node in nodes:
        if not node.is_static or not late.isdisjoint(node.inputs):
            deferred.append(node)
            late.update(node.outputs)
        else:
            ready.append(node)
    return ready, deferred


def _on_device(nodes: list[Node], kernels: _Kernels) -> set[Node]:
    """The nodes that run on the device. Casts that its ports do are none of its work where the host
    has what they read."""
    found: set[Node] = set()
    there: set[Value | None] = set()
    for node in nodes:
        idle = is_widened(node) and there.isdisjoint(node.inputs)
        if not idle and kernels.of(node):
            found.add(node)
            there.update(node.outputs)
    return found


def _group(nodes: list[Node], on_device: set[Node]) -> list[list[Node]]:
    """Runs of nodes on one side, in an order that respects the data and changes sides seldom."""
    made_by = {v: n for n in nodes for v in n.outputs}
    waiting = list(nodes)
    done: set[Node] = set()
    groups: list[list[Node]] = []
    side = bool(waiting) and waiting[0] in on_device
    while waiting:
        group: list[Node] = []
        left: list[Node] = []
        for node in waiting:
            sources = {made_by[v] for v in node.inputs if v in made_by}
            if (node in on_device) == side and sources <= done:
                group.append(node)
                done.add(node)
            else:
                left.append(node)
        if group:
            groups.append(group)
        waiting, side = left, not side
    return groups


def _segment(nodes: list[Node], needed: set[Value], later: set[Value | None], name: str) -> Graph:
    """The graph of nodes that run together; its outputs are what is needed or read later."""
    made = {v for n in nodes for v in n.outputs}
    read = dict.fromkeys(v for n in nodes for v in n.inputs if v is not None and v.constant is None)
    kept = (v for n in nodes for v in n.outputs if v in needed or v in later)
    outputs = {f"{i}:{v.name}": v for i, v in enumerate(kept)}
    return Graph([v for v in read if v not in made], outputs, nodes, name)
