"""Arithmetic on any number of inputs or with stored numbers, and reductions: the oldest layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vknn.formats.coreml import coreml_pb2 as pb
from vknn.formats.coreml.context import Context
from vknn.formats.coreml.layers.common.batch import merges_batch_axes
from vknn.formats.coreml.layers.elementwise.activation import scaled
from vknn.formats.coreml.registry import layer
from vknn.graph import Op, Value
from vknn.ops import reduction
from vknn.ops.elementwise.binary import Add, Div, Max, Min, Mul
from vknn.ops.elementwise.unary import Log
from vknn.ops.indexing.topk import ArgMax

#: The least product of norms, so that vectors of zeros give 0.
_TINY = 1e-30


@layer("add", inputs=(1, None))
@merges_batch_axes
def add(c: Context) -> Value:
    """Sum of the inputs, which broadcast; a single input plus alpha."""
    if len(c.inputs) == 1:
        return c.add(Add(), c.x, c.scalar(c.params.alpha))
    return _folded(c, Add())


@layer("multiply", inputs=(1, None))
@merges_batch_axes
def multiply(c: Context) -> Value:
    """Product of the inputs, which broadcast; a single input times alpha."""
    if len(c.inputs) == 1:
        return c.add(Mul(), c.x, c.scalar(c.params.alpha))
    return _folded(c, Mul())


@layer("average", inputs=(2, None))
@merges_batch_axes
def average(c: Context) -> Value:
    """Mean of the inputs, which broadcast."""
    return scaled(c, _folded(c, Add()), 1.0 / len(c.inputs), 0.0)


@layer("max", inputs=(2, None))
@merges_batch_axes
def maximum(c: Context) -> Value:
    """Maximum of the inputs, which broadcast."""
    return _folded(c, Max())


@layer("min", inputs=(2, None))
@merges_batch_axes
def minimum(c: Context) -> Value:
    """Minimum of the inputs, which broadcast."""
    return _folded(c, Min())


@layer("dot", inputs=2)
def dot(c: Context) -> Value:
    """Inner product along axis -3; with cosineSimilarity divided by the product of the norms."""
    a, b = c.x, c.value(1)
    for x in (a, b):
        right = x.type.rank >= 3 and x.type.dims[-2:] == (1, 1)
        c.require(right, f"its input {x.type} is not [..., C, 1, 1]")
    c.require(a.type.dims == b.type.dims, f"its inputs {a.type} and {b.type} differ")
    product = c.add(reduction.ReduceSum(axes=(-3,)), c.add(Mul(), a, b))
    if not c.params.cosineSimilarity:
        return product
    first, second = (c.add(reduction.ReduceL2(axes=(-3,)), x) for x in (a, b))
    norms = c.add(Max(), c.add(Mul(), first, second), c.scalar(_TINY))
    return c.add(Div(), product, norms)


@layer("scale")
@merges_batch_axes
def scale(c: Context) -> Value:
    """x * scale + bias, both along the last three axes; a vector is along axis -3."""
    p = c.params
    y = c.add(Mul(), c.x, _parameter(c, p.scale, p.shapeScale, "scale"))
    if not p.hasBias:
        return y
    return c.add(Add(), y, _parameter(c, p.bias, p.shapeBias, "bias"))


@layer("bias")
@merges_batch_axes
def bias(c: Context) -> Value:
    """x + bias along the last three axes; a vector is along axis -3."""
    return c.add(Add(), c.x, _parameter(c, c.params.bias, c.params.shape, "bias"))


@layer("reduce")
@merges_batch_axes
def reduce(c: Context) -> Value:
    """Reduction over one or more of the last three axes, which stay with size 1."""
    p, kinds = c.params, pb.ReduceLayerParams
    choices = ((-3, -2, -1), (-2, -1), (-3,), (-2,), (-1,))
    c.require(0 <= p.axis < len(choices), f"there is no axis of number {p.axis}")
    axes, x = choices[p.axis], c.x
    c.require(x.type.rank >= -axes[0], f"its input {x.type} has not rank {-axes[0]} or more")
    if p.mode == kinds.ARGMAX:
        c.require(len(axes) == 1, "looks for the largest element along more than one axis")
        return c.add(ArgMax(axis=axes[0]), x)
    if p.mode == kinds.LOGSUM:
        x = c.add(Log(), scaled(c, x, 1.0, p.epsilon or 1e-6))
    ops: dict[int, Op] = {
        kinds.SUM: reduction.ReduceSum(axes=axes),
        kinds.AVG: reduction.ReduceMean(axes=axes),
        kinds.PROD: reduction.ReduceProd(axes=axes),
        kinds.LOGSUM: reduction.ReduceSum(axes=axes),
        kinds.SUMSQUARE: reduction.ReduceSumSquare(axes=axes),
        kinds.L1: reduction.ReduceL1(axes=axes),
        kinds.L2: reduction.ReduceL2(axes=axes),
        kinds.MAX: reduction.ReduceMax(axes=axes),
        kinds.MIN: reduction.ReduceMin(axes=axes),
    }
    c.require(p.mode in ops, f"there is no reduction of mode {p.mode}")
    return c.add(ops[p.mode], x)


def _folded(c: Context, op: Op) -> Value:
    """The inputs combined one after the other."""
    result = c.x
    for value in c.inputs[1:]:
        result = c.add(op, result, value)
    return result


def _parameter(c: Context, message: Any, shape: Sequence[int], what: str) -> Value:
    """Stored numbers in a shape that broadcasts to the input."""
    dims, stated = c.x.type.dims, tuple(int(d) for d in shape)
    c.require(len(stated) > 0, f"{what} has no shape")
    array = c.weight(message, c.size(stated, what), what)
    # One number per channel is along axis -3, not along the last axis.
    spread = array.reshape(()) if array.size == 1 else array
    if len(stated) == 1 and array.size > 1:
        spread = array.reshape(-1, 1, 1)
    fits = spread.ndim <= len(dims) and all(
        n in (1, d) for n, d in zip(spread.shape[::-1], dims[::-1], strict=False)
    )
    c.require(fits, f"{what} of shape {list(stated)} does not lie along its input {c.x.type}")
    return c.constant(spread, what)
