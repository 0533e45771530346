"""Transposes and Reshapes merged, cancelled and sunk."""

from __future__ import annotations

import dataclasses

from vknn.graph import Graph, Node, Origin, Value
from vknn.ops.elementwise import Unary
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Reshape, Transpose
from vknn.passes.rewriter import Rewriter, merged, sweep
from vknn.passes.sinking import sink

Results = tuple[Value, ...] | None


def cancel_transposes(graph: Graph) -> Graph:
    """Merging of neighbouring Transposes and Reshapes, moved to where they meet or vanish.

    A Transpose sinks below ops that can do without it (see ``sinking``), a Reshape below functions
    of one input: there it may meet its inverse, and above it these ops join the epilogue of what
    computes their input. A Transpose that moves only axes of size 1 is a Reshape; one of a matrix
    operand becomes a flag of MatMul.
    """
    return sweep(graph, _rewrite, (Transpose, Reshape))


def _rewrite(rewriter: Rewriter, node: Node) -> Results:
    match node.op:
        case Transpose():
            return _transpose(rewriter, node)
        case Reshape():
            return _reshape(rewriter, node)
        case Unary():
            return sink(rewriter, node) or _sink_reshape(rewriter, node)
        case MatMul():
            return _operands(rewriter, node)
    return sink(rewriter, node)


def _transpose(rewriter: Rewriter, node: Node) -> Results:
    assert isinstance(node.op, Transpose)
    source, perm, origin = node.inputs[0], _perm(node), node.origin
    before = rewriter.producer(source)
    merging = before is not None and isinstance(before.op, Transpose)
    if before is not None and merging:
        inner = _perm(before)
        source, perm = before.inputs[0], tuple(inner[axis] for axis in perm)
        origin = merged(before.origin, origin)
    assert source is not None
    if perm == tuple(range(len(perm))):
        return (source,)
    if _order_kept(source, perm):
        return _emit_reshape(rewriter, source, node, origin)
    return rewriter.emit(Transpose(perm), (source,), origin, node) if merging else None


def _reshape(rewriter: Rewriter, node: Node) -> Results:
    source = node.inputs[0]
    before = rewriter.producer(source)
    if before is None or not isinstance(before.op, Reshape) or not node.outputs[0].type.is_static:
        return None
    return _emit_reshape(rewriter, source, node, node.origin)


def _emit_reshape(rewriter: Rewriter, source: Value | None, node: Node, origin: Origin) -> Results:
    """One Reshape to the type of the node's output from where a chain of them starts."""
    while (before := rewriter.producer(source)) is not None and isinstance(before.op, Reshape):
        source, origin = before.inputs[0], merged(before.origin, origin)
    assert source is not None
    target = node.outputs[0].type
    if source.type == target:
        return (source,)
    return rewriter.emit(Reshape(target.dims), (source,), origin, node)


def _sink_reshape(rewriter: Rewriter, node: Node) -> Results:
    """f(reshape(x)) = reshape(f(x))."""
    mover = rewriter.sole_producer(node.inputs[0])
    if mover is None or not isinstance(mover.op, Reshape):
        return None
    (result,) = rewriter.emit(node.op, mover.inputs, node.origin)
    return rewriter.emit(mover.op, (result,), mover.origin, node)


def _operands(rewriter: Rewriter, node: Node) -> Results:
    """matmul(transpose(a), b) = matmul(a, b) with the flag turned, for either operand."""
    op, inputs, origins = node.op, list(node.inputs), []
    assert isinstance(op, MatMul)
    for index, flag in ((0, "transpose_a"), (1, "transpose_b")):
        mover = rewriter.producer(inputs[index])
        if mover is not None and isinstance(mover.op, Transpose) and _swaps_last(_perm(mover)):
            inputs[index] = mover.inputs[0]
            origins.append(mover.origin)
            op = dataclasses.replace(op, **{flag: not getattr(op, flag)})
    if not origins:
        return None
    return rewriter.emit(op, inputs, merged(*origins, node.origin), node)


def _perm(node: Node) -> tuple[int, ...]:
    assert isinstance(node.op, Transpose)
    assert node.inputs[0] is not None
    rank = node.inputs[0].type.rank
    return tuple(axis % rank for axis in node.op.perm)


def _swaps_last(perm: tuple[int, ...]) -> bool:
    rank = len(perm)
    return rank >= 2 and perm == (*range(rank - 2), rank - 1, rank - 2)


def _order_kept(source: Value, perm: tuple[int, ...]) -> bool:
    """True where no axis of more than one element passes another."""
    if not source.type.is_static:
        return False
    moved = [axis for axis in perm if source.type.dims[axis] != 1]
    return moved == sorted(moved)
