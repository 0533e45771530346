"""Gradients of reductions, softmax and running sums."""

from __future__ import annotations

import math
from collections.abc import Callable

from vknn.graph import Op, Value
from vknn.ops import elementwise as e
from vknn.ops import reduction as r
from vknn.ops.elementwise.logic import Equal, Where
from vknn.training.gradients import gradient
from vknn.training.scope import Scope

#: Makes the gradient of the input (or one that broadcasts to it) from the gradient of the result
#: and the result, in both of which reduced axes have size 1.
Share = Callable[[Scope, Value, Value], Value]


def reduces(*ops: type[Op]) -> Callable[[Share], Share]:
    """Registration of a reduction's rule: the share of the gradient that each element gets."""

    def register(share: Share) -> Share:
        @gradient(*ops)
        def rule(g: Scope, dy: Value) -> Value:
            axes, dims = axes_of(g), g.x().type.dims
            kept = [1 if a in axes else d for a, d in enumerate(dims)]
            given = share(g, g.reshape(dy, *kept), g.reshape(g.y, *kept))
            return g.expand(given, dims)

        return share

    return register


def axes_of(g: Scope) -> tuple[int, ...]:
    """The axes of the node's reduction, counted from the front."""
    op, rank = g.node.op, g.x().type.rank
    assert isinstance(op, r.Reduction)
    return tuple(range(rank)) if op.axes is None else tuple(sorted(a % rank for a in op.axes))


@reduces(r.ReduceSum)
def total(g: Scope, dy: Value, y: Value) -> Value:
    """dy"""
    return dy


@reduces(r.ReduceMean)
def mean(g: Scope, dy: Value, y: Value) -> Value:
    """dy over the number of elements"""
    count = math.prod(g.x().type.dims[a] for a in axes_of(g))
    return g.times(dy, 1 / max(1, count))


@reduces(r.ReduceMax, r.ReduceMin)
def extreme(g: Scope, dy: Value, y: Value) -> Value:
    """dy to the elements that equal the result, in equal shares."""
    hit = g.cast(g.add(Equal(), g.x(), y), dy.type.dtype)
    return g.times(hit, g.over(dy, g.sum(hit, axes_of(g))))


@reduces(r.ReduceProd)
def product(g: Scope, dy: Value, y: Value) -> Value:
    """dy times the product of the others, right where one of them is 0, too."""
    x, axes, dtype = g.x(), axes_of(g), dy.type.dtype
    none, one = g.scalar(0.0, dtype), g.scalar(1.0, dtype)
    empty = g.add(Equal(), x, none)
    filled = g.add(Where(), empty, one, x)
    others = g.over(g.add(r.ReduceProd(axes), filled), filled)
    zero = g.cast(empty, dtype)
    # Of the factors that are 0, how many are others.
    left = g.minus(g.sum(zero, axes), zero)
    return g.times(g.times(others, g.cast(g.add(Equal(), left, none), dtype)), dy)


@reduces(r.ReduceSumSquare)
def sum_square(g: Scope, dy: Value, y: Value) -> Value:
    """2 x dy"""
    return g.times(g.x(), g.times(dy, 2))


@reduces(r.ReduceL1)
def l1(g: Scope, dy: Value, y: Value) -> Value:
    """dy with the sign of x"""
    return g.times(g.unary(e.Sign(), g.x()), dy)


@reduces(r.ReduceL2)
def l2(g: Scope, dy: Value, y: Value) -> Value:
    """dy x / y, 0 where y is 0"""
    none = g.scalar(0.0, dy.type.dtype)
    safe = g.add(Where(), g.add(Equal(), y, none), g.scalar(1.0, dy.type.dtype), y)
    return g.times(g.x(), g.over(dy, safe))


@reduces(r.ReduceLogSum)
def log_sum(g: Scope, dy: Value, y: Value) -> Value:
    """dy over the sum"""
    return g.times(dy, g.unary(e.Exp(), g.times(y, -1)))


@reduces(r.ReduceLogSumExp)
def log_sum_exp(g: Scope, dy: Value, y: Value) -> Value:
    """dy e^(x - y)"""
    return g.times(g.unary(e.Exp(), g.minus(g.x(), y)), dy)


@gradient(r.Softmax)
def softmax(g: Scope, dy: Value) -> Value:
    """y (dy - sum of y dy)"""
    axis = g.op(r.Softmax).axis % g.y.type.rank
    weighted = g.times(dy, g.y)
    return g.minus(weighted, g.times(g.y, g.sum(weighted, [axis])))


@gradient(r.LogSoftmax)
def log_softmax(g: Scope, dy: Value) -> Value:
    """dy - e^y * sum of dy"""
    axis = g.op(r.LogSoftmax).axis % g.y.type.rank
    return g.minus(dy, g.times(g.unary(e.Exp(), g.y), g.sum(dy, [axis])))


@gradient(r.CumSum)
def cumulative_sum(g: Scope, dy: Value) -> Value:
    """Sums from the other end"""
    op = g.op(r.CumSum)
    return g.add(r.CumSum(op.axis, op.exclusive, not op.reverse), dy)
