"""Stacking: products of the same tensor with several constant matrices as one dispatch, on GPUs.

The projections of an attention are products of few rows: apart, each leaves much of a GPU without
work, and costs a dispatch. One dispatch computes all of them (:class:`vknn.ops.matmul.Projections`)
where the device's model says that it takes less. On CPUs none are stacked.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from vknn.graph import Graph, Node, Value
from vknn.lowering import LoweringOptions, candidates
from vknn.lowering.kit.layouts import element_bytes
from vknn.lowering.kit.machine import machine_of
from vknn.ops.matmul import MatMul, Projections
from vknn.ops.movement.shape import Reshape, Slice
from vknn.passes.rewriter import Rewriter, merged, sweep
from vknn.plan import DeviceLimits

#: What VKNN_DISABLE calls it.
NAME = "stacking"
#: Part of a dispatch's cost that one without a barrier before it has (docs/gpu.md).
_BESIDE = 3 / 8


def stack_products(graph: Graph, limits: DeviceLimits, options: LoweringOptions) -> Graph:
    """The graph with Projections in place of products that cost the device more apart.

    Nodes read their results as slices, which are views.
    """
    if limits.kind == "cpu" or NAME in options.disabled:
        return graph
    groups = [g for g in _groups(graph, limits, options) if _saves(g, limits, options)]
    firsts = {group[0].outputs[0]: group for group in groups}
    stacked: dict[Value, Value] = {}

    def replaced(rewriter: Rewriter, node: Node) -> Sequence[Value] | None:
        own = node.outputs[0]  # which stays the same while inputs are rewritten
        if own in firsts:
            stacked.update(_emitted(rewriter, firsts[own], node.inputs[0]))
        return (stacked[own],) if own in stacked else None

    return sweep(graph, replaced, (MatMul,)) if firsts else graph


def _emitted(
    rewriter: Rewriter, group: Sequence[Node], a: Value | None
) -> Iterator[tuple[Value, Value]]:
    """The stacked product of ``a``: of each node the output, and what takes its place."""
    whole = stacked_node(group)
    (result,) = rewriter.emit(whole.op, (a, *whole.inputs[1:]), whole.origin)
    for number, node in enumerate(group):
        own = Slice(starts=(number,), ends=(number + 1,), axes=(0,), steps=(1,))
        (part,) = rewriter.emit(own, (result,), node.origin)
        (value,) = rewriter.emit(Reshape(node.output_types[0].dims), (part,), node.origin)
        yield node.outputs[0], value


def stacked_node(group: Sequence[Node]) -> Node:
    """The node that computes the products of all nodes, which read the same first input."""
    op = group[0].op
    assert isinstance(op, MatMul)
    inputs = [group[0].inputs[0]]
    for node in group:
        inputs += (*node.inputs[1:], None)[:2]
    stacked = Projections(op.transpose_b)
    types = stacked.infer(*(v.type if v is not None else None for v in inputs))
    origin = merged(*(node.origin for node in group))
    return Node(stacked, tuple(inputs), (Value(origin.name, types[0]),), origin.name, origin)


def _groups(graph: Graph, limits: DeviceLimits, options: LoweringOptions) -> Iterator[list[Node]]:
    """Products of the same tensor with matrices of one size, two or more."""
    found: dict[tuple[object, ...], list[Node]] = defaultdict(list)
    outputs = set(graph.outputs.values())
    for node in graph.nodes:
        if _is_product(node) and node.outputs[0] not in outputs and _aligned(node, limits, options):
            precision = options.of(node.origin.name).precision
            found[node.inputs[0], node.op, node.input_types[1], precision].append(node)
    yield from (group for group in found.values() if len(group) > 1)


def _is_product(node: Node) -> bool:
    """True for a MatMul of rows with a constant matrix."""
    if not isinstance(node.op, MatMul) or node.op.transpose_a or not node.is_static:
        return False
    constants = [v is None or v.constant is not None for v in node.inputs[1:]]
    b = node.input_types[1]
    return all(constants) and b is not None and b.rank == 2


def _aligned(node: Node, limits: DeviceLimits, options: LoweringOptions) -> bool:
    """True where a result that follows others in a buffer may be bound: it is a view then."""
    type_, half = node.output_types[0], options.of(node.origin.name).half
    size = math.prod(type_.dims) * element_bytes(type_.dtype, half)
    return size > 0 and size % max(1, limits.alignment) == 0


def _saves(group: Sequence[Node], limits: DeviceLimits, options: LoweringOptions) -> bool:
    """True where the products take longer apart; without barriers between they do so side by
    side.
    """
    beside = (1 - _BESIDE) * machine_of(limits).dispatch * (len(group) - 1)
    apart = sum(_cost(node, limits, options) for node in group) - beside
    return _cost(stacked_node(group), limits, options) < apart


def _cost(node: Node, limits: DeviceLimits, options: LoweringOptions) -> float:
    """Least estimated microseconds; infinite where no kernel takes the node."""
    return min((c.cost for c in candidates(node, limits, options)), default=math.inf)
