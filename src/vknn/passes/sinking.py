"""Sinking of transposes: moved below the ops that read them.

op(transpose(x)) = transpose(op'(x)), where op' has its axes renamed. Models that keep their
channels last have a transpose on either side of each convolution; sunk through what stands between
two convolutions, the one meets the other and both vanish.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vknn.graph import Node, Op, Origin, Value
from vknn.ops.elementwise import Binary, Cast, Unary
from vknn.ops.elementwise.logic import Comparison, Logic, Not, Where
from vknn.ops.movement.shape import Concat, Pad, Reshape, Slice, Transpose
from vknn.ops.quantized.arithmetic import QuantizedBinary, Rescale, TableLookup
from vknn.ops.quantized.linear import DequantizeLinear, QuantizeLinear
from vknn.ops.reduction import Cumulative, LogSoftmax, Reduction, Softmax
from vknn.passes.rewriter import Rewriter

Perm = tuple[int, ...]
Results = tuple[Value, ...] | None
#: The op on the untransposed input, and the order of the axes of its result; None where it cannot.
Renamed = tuple[Op, Perm] | None


def sink(rewriter: Rewriter, node: Node) -> Results:
    """The node with the transposes of its inputs below it; None where that cannot be."""
    if len(node.outputs) != 1 or not node.outputs[0].type.is_static:
        return None
    count = _data_inputs(node)
    if not count:
        return None
    data, rest = node.inputs[:count], node.inputs[count:]
    found = _moved(rewriter, data)
    if found is None:
        return None
    perm, inputs, origin = found
    renamed = rename(node.op, perm)
    if renamed is None:
        return None
    op, order = renamed
    (result,) = rewriter.emit(op, [*inputs, *rest], node.origin)
    if order == tuple(range(len(order))):
        return (result,)
    return rewriter.emit(Transpose(order), (result,), origin, node)


def _data_inputs(node: Node) -> int:
    """How many inputs, from the first, have the axes of the result; 0 for ops that do not sink."""
    match node.op:
        case Pad():
            return 1 if len(node.inputs) == 1 else 0  # values by channel have an axis of their own
        case Concat():
            return len(node.inputs)
    return _fixed_inputs(type(node.op))


@functools.cache
def _fixed_inputs(op: type[Op]) -> int:
    return next((count for classes, count in _SINKING if issubclass(op, classes)), 0)


#: How many inputs with the axes of the result ops of these classes have.
_SINKING: tuple[tuple[tuple[type[Op], ...], int], ...] = (
    ((Unary, Cast, Not, Rescale, TableLookup, Reduction), 1),
    ((QuantizeLinear, DequantizeLinear, Softmax, LogSoftmax, Cumulative, Slice), 1),
    ((Binary, Comparison, Logic, QuantizedBinary), 2),
    ((Where,), 3),
)


def _moved(
    rewriter: Rewriter, values: Sequence[Value | None]
) -> tuple[Perm, list[Value], Origin] | None:
    """The order that all (but constants) are transposed by, the values before that, an origin."""
    perm: Perm | None = None
    origin: Origin | None = None
    for value in values:
        mover = rewriter.producer(value)
        if mover is not None and isinstance(mover.op, Transpose):
            if rewriter.is_output(mover.outputs[0]):
                return None  # it stays in any case
            own = tuple(axis % len(mover.op.perm) for axis in mover.op.perm)
            if perm is not None and own != perm:
                return None
            perm, origin = own, mover.origin
    if perm is None or origin is None:
        return None
    inputs: list[Value] = []
    for value in values:
        source = None if value is None else _without(rewriter, value, perm, origin)
        if source is None:
            return None
        inputs.append(source)
    return perm, inputs, origin


def _without(rewriter: Rewriter, value: Value, perm: Perm, origin: Origin) -> Value | None:
    """The value that ``value`` is a transpose of.

    Of a constant it is made here, and where a Reshape does the same as the transpose, by one.
    """
    mover = rewriter.producer(value)
    if mover is not None and isinstance(mover.op, Transpose):
        return mover.inputs[0] if value.type.rank == len(perm) else None
    if value.type.is_static and value.type.size == 1 and value.type.rank == 0:
        return value
    if value.type.rank > len(perm):
        return None
    if value.constant is None:
        return _reshaped(rewriter, value, perm, origin)
    array = value.constant
    if array.size == 1:
        return value
    full = array.reshape((1,) * (len(perm) - array.ndim) + array.shape)
    return rewriter.constant(np.ascontiguousarray(full.transpose(np.argsort(perm))), value.name)


def _reshaped(rewriter: Rewriter, value: Value, perm: Perm, origin: Origin) -> Value | None:
    """The value in the shape that it is a transpose of, where that does not change its order."""
    if not value.type.is_static:
        return None
    dims = (1,) * (len(perm) - value.type.rank) + value.type.dims
    places = [perm[axis] for axis, size in enumerate(dims) if size > 1]
    if places != sorted(places):
        return None
    shape = tuple(dims[perm.index(axis)] for axis in range(len(perm)))
    return rewriter.emit(Reshape(shape), (value,), origin)[0]


def rename(op: Op, perm: Perm) -> Renamed:
    """``op`` for an input that was not transposed by ``perm`` before, and the order left to do."""
    for kind, function in _RENAMES:
        if isinstance(op, kind):
            return function(op, perm)
    return op, perm


def _axis(op: Any, perm: Perm) -> Renamed:
    return dataclasses.replace(op, axis=perm[op.axis % len(perm)]), perm


def _pad(op: Pad, perm: Perm) -> Renamed:
    rank = len(perm)
    begins, ends = [0] * rank, [0] * rank
    for axis, source in enumerate(perm):
        begins[source], ends[source] = op.pads[axis], op.pads[rank + axis]
    return dataclasses.replace(op, pads=(*begins, *ends)), perm


def _slice(op: Slice, perm: Perm) -> Renamed:
    axes = tuple(range(len(op.starts))) if op.axes is None else op.axes
    return dataclasses.replace(op, axes=tuple(perm[a % len(perm)] for a in axes)), perm


def _reduction(op: Reduction, perm: Perm) -> Renamed:
    rank = len(perm)
    axes = tuple(range(rank)) if op.axes is None else tuple(a % rank for a in op.axes)
    renamed = dataclasses.replace(op, axes=tuple(sorted(perm[a] for a in axes)))
    if op.keepdims:
        return renamed, perm
    kept = [perm[a] for a in range(rank) if a not in axes]
    return renamed, tuple(sorted(kept).index(a) for a in kept)


_RENAMES: tuple[tuple[Any, Callable[[Any, Perm], Renamed]], ...] = (
    ((Concat, Softmax, LogSoftmax, Cumulative, QuantizeLinear, DequantizeLinear), _axis),
    (Pad, _pad),
    (Slice, _slice),
    (Reduction, _reduction),
)
