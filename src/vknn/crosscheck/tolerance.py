"""Tolerance of a result: how far it may lie from the reference, by the operator's arithmetic.

Rounding errors are in proportion to what an operator adds up, not to what comes out: a sum of
large terms that cancel is small and yet as inexact as its terms. So each op has a *magnitude*, an
array of the output's shape (or one that broadcasts to it) that says how large the numbers are which
are accumulated, and a *factor*, how many units of rounding they may gather:

    allowed = unit * factor * magnitude + conditioning

- Sums of K products (Conv, MatMul, pooling): the magnitude is the same sum over absolute values
  (of a channel's largest, for Conv: fast algorithms mix the elements of a tile); errors of K
  roundings add up like a random walk (Higham and Mary 2019, "A New Approach to Probabilistic
  Rounding Error Analysis": in proportion to sqrt(K)), so the factor is 4 (sqrt(K) + 8). Where
  Winograd's algorithm (Lavin and Gray 2016) may be used, each tap meets each pixel of a tile on the
  way: the magnitude is at least the sum over channels of the largest pixel times the largest tap.
  F(4x4, 3x3) stays below two thirds of that in simulation, whatever the distribution of pixels and
  taps.
- Elementwise ops: the result's own size, and *conditioning*: how far the result moves when the
  inputs move by a few units, which is what a log near 1 or a step function needs. A fused epilogue
  carries the allowance of what is before it through its steps in the same way.
- Ops that only move or compare elements, and integers: nothing is allowed.

``unit`` is half the distance from 1 to the next number: 2^-24 in fp32. ``storage`` is that of what
results are stored in where it is coarser (2^-11 for float16, 2^-8 for bfloat16,
vknn.crosscheck.storage), for inputs that were rounded to it beforehand: it allows one more rounding
of the result, and two of what a sum accumulates, for weights that are rounded after they were
transformed. Where Winograd's algorithm may be used it is twelve: weights, tiles and products are
rounded after their transformation, and each rounding moves the result by up to 2.8 in simulation of
F(4x4, 3x3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vknn.crosscheck import (
    tolerance_attention,
    tolerance_products,
    tolerance_rows,
    tolerance_selection,
    tolerance_spatial,
)
from vknn.crosscheck.storage import HALF_TINY, TINIES
from vknn.crosscheck.tolerance_products import (
    absolute,
    carried,
    finite,
    may_be_winograd,
)
from vknn.crosscheck.tolerance_rows import walk
from vknn.graph import Op
from vknn.ops.chain import Chain
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Add, Fused, FusedStep, Gelu, Mish, Pow, Sub, Unary
from vknn.ops.indexing.gather import Gather
from vknn.ops.matmul import MatMul, Projections
from vknn.ops.movement.shape import (
    ChannelShuffle,
    Concat,
    Expand,
    Identity,
    Pad,
    Reshape,
    Slice,
    Transpose,
)
from vknn.ops.normalization import LRN, BatchNormalization, LayerNormalization
from vknn.ops.pooling.pool import (
    AdaptiveAveragePool,
    AdaptiveMaxPool,
    AveragePool,
    GlobalAveragePool,
    GlobalMaxPool,
    MaxPool,
)
from vknn.ops.quantized.codes import GatherCodes
from vknn.ops.quantized.linear import DequantizeLinear
from vknn.ops.recurrent.rnn import GRU, LSTM, RNN, Recurrent
from vknn.ops.reduction import Softmax
from vknn.ops.sampling.resize import Resize

UNIT = 2.0**-24
#: Units by which inputs are moved to see how far the result moves, and units a function may err.
NUDGE, FUNCTION = 4, 16
#: Below the smallest normal number a device may flush to zero.
TINY = 1.2e-38

Arrays = Sequence[np.ndarray | None]


@dataclass(frozen=True)
class Allowance:
    """Arrays that broadcast to the output: what is accumulated, and the error allowed."""

    magnitude: np.ndarray
    allowed: np.ndarray


Rule = Callable[[Any, Arrays, np.ndarray], tuple[np.ndarray, float]]
_RULES: dict[type[Op], Rule] = {
    **tolerance_products.RULES,
    **tolerance_rows.RULES,
    **tolerance_selection.RULES,
    **tolerance_spatial.RULES,
    **tolerance_attention.RULES,
}


def allowances(
    op: Op,
    inputs: Arrays,
    outputs: Sequence[np.ndarray],
    *,
    unit: float = UNIT,
    storage: float = 0.0,
    sums: float = 0.0,
    tolerance: float | None = None,
) -> list[Allowance]:
    """The error allowed to each output of ``op``, given the reference's inputs and outputs.

    ``sums``: error of a convolution's or product's partial sums, where they are in float16.
    ``tolerance`` takes the place of ``unit * factor``: an error relative to the magnitude.
    """
    with np.errstate(all="ignore"):
        if isinstance(op, Chain):
            found = _chained(op, inputs, unit, storage, tolerance, sums)
        elif isinstance(op, Fused):
            found = [_fused(op, inputs, unit, storage, tolerance, sums)]
        else:
            found = [
                _single(op, inputs, y, i, unit, storage, tolerance, sums)
                for i, y in enumerate(outputs)
            ]
        return [_stored(a, y, storage) for a, y in zip(found, outputs, strict=True)]


def _stored(allowance: Allowance, y: np.ndarray, storage: float) -> Allowance:
    """Bound with the rounding of the result to its storage type."""
    return Allowance(allowance.magnitude, allowance.allowed + stored_rounding(y, storage))


def stored_rounding(y: np.ndarray, storage: float) -> np.ndarray:
    """Error of each element of a result that is rounded to its storage type, at most."""
    if not storage or y.dtype.kind != "f":
        return np.zeros(y.shape)
    return storage * finite(np.abs(y.astype(np.float64))) + TINIES[storage]


def is_exact(op: Op) -> bool:
    """Whether an op moves or compares elements alone, and computes none."""
    return _RULES.get(type(op)) is _exact


def _single(
    op: Op,
    inputs: Arrays,
    y: np.ndarray,
    index: int,
    unit: float,
    storage: float,
    tolerance: float | None,
    sums: float = 0.0,
) -> Allowance:
    rule = _RULES.get(type(op))
    if not y.size or y.dtype == object:  # text
        return Allowance(np.zeros(y.shape), np.zeros(y.shape))
    if rule is None:
        return _elementwise(op, inputs, y, index, unit, tolerance)
    magnitude, factor = rule(op, inputs, y)
    relative = unit * factor if tolerance is None or not factor else tolerance
    relative += (12.0 if may_be_winograd(op, inputs) else 2.0) * storage if factor else 0.0
    tiny = TINY if factor else 0.0
    if sums and isinstance(op, Conv | MatMul | Projections):
        relative += sums
        tiny = HALF_TINY * max(1.0, factor / 4.0 - 8.0) ** 2  # as many roundings near 0 as terms
    return Allowance(magnitude, finite(relative * magnitude) + tiny)


def _elementwise(
    op: Op, inputs: Arrays, y: np.ndarray, index: int, unit: float, tolerance: float | None
) -> Allowance:
    moved = [_nudged(op, inputs, y, index, sign * NUDGE * unit) for sign in (-1, 1)]
    size = finite(np.abs(y.astype(np.float64)))
    if y.dtype.kind != "f":
        return Allowance(size, np.maximum(*moved))
    if isinstance(op, Unary) and op.exact:
        return Allowance(size, 2.0 * unit * size + TINY)
    if isinstance(op, Gelu | Mish) and inputs[0] is not None:
        size = np.maximum(size, np.abs(inputs[0]))  # x times a difference that vanishes
    relative = unit * FUNCTION if tolerance is None else tolerance
    return Allowance(size, relative * size + np.maximum(*moved) + TINY)


def _nudged(op: Op, inputs: Arrays, y: np.ndarray, index: int, by: float) -> np.ndarray:
    """How far the output moves when the first input grows by a share ``by``."""
    first, *others = inputs
    if first is None or first.dtype.kind != "f":
        return np.zeros(y.shape)
    other = op.reference(first * first.dtype.type(1 + by), *others)[index]
    if other.shape != y.shape:
        return np.zeros(y.shape)
    return finite(np.abs(other.astype(np.float64) - y))


def _fused(
    op: Fused,
    inputs: Arrays,
    unit: float,
    storage: float,
    tolerance: float | None,
    sums: float = 0.0,
) -> Allowance:
    own, extra = op.split(tuple(inputs))
    (value,) = op.base.reference(*own)
    before = _single(op.base, own, value, 0, unit, storage, tolerance, sums)
    return _through_steps(op, extra, value, before, unit, tolerance)


def _chained(
    op: Chain, inputs: Arrays, unit: float, storage: float, tolerance: float | None, sums: float
) -> list[Allowance]:
    """Links one after the other: an error of a link's input is weighed as its elements are.

    Of each output one.
    """
    result = Allowance(np.zeros(()), np.zeros(()))
    results = []
    value: np.ndarray | None = None
    for number, (link, own) in enumerate(zip(op.links, op.split(inputs), strict=True)):
        known = own if value is None else (value, *own)
        base, extra = link, ()
        if isinstance(link, Fused):
            base, (known, extra) = link.base, link.split(tuple(known))
        (made,) = base.reference(*known)
        here = _single(base, known, made, 0, unit, storage, tolerance, sums)
        if value is not None:
            allowed = np.broadcast_to(result.allowed, value.shape)
            here = Allowance(here.magnitude, here.allowed + carried(base, known, allowed))
        if isinstance(link, Fused):
            here = _through_steps(link, extra, made, here, unit, tolerance)
            (made,) = link.reference(*known, *extra)
        if number in op.kept:  # the next link reads it as it is stored
            results.append(here)
            here = _stored(here, made, storage)
        value, result = made, here
    return [*results, result]


def _through_steps(
    op: Fused,
    extra: Sequence[Any],
    value: np.ndarray,
    before: Allowance,
    unit: float,
    tolerance: float | None,
) -> Allowance:
    """The allowance of a fused op's result, given that of its base's result ``value``."""
    magnitude, allowed = before.magnitude, before.allowed
    for step in op.steps:
        other = _step_operand(step, extra, value)
        (result,) = step.op.reference(*_ordered(step, value, other))
        here = _elementwise(step.op, _ordered(step, value, other), result, 0, unit, tolerance)
        reach = [
            step.op.reference(*_ordered(step, (value + sign * allowed).astype(value.dtype), other))
            for sign in (-1, 1)
        ]
        spread = np.maximum(*(finite(np.abs(r.astype(np.float64) - result)) for (r,) in reach))
        magnitude = np.maximum(here.magnitude, magnitude * _gain(spread, allowed))
        value, allowed = result, here.allowed + spread
    return Allowance(magnitude, allowed)


def _gain(spread: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Factor by which a step of an epilogue changes an error of its input."""
    return np.where(allowed > 0, spread / np.where(allowed > 0, allowed, 1), 1.0)


def _step_operand(step: FusedStep, extra: Sequence[Any], value: np.ndarray) -> np.ndarray | None:
    if step.operand is not None:
        return np.asarray(extra[step.operand])
    return None if step.scalar is None else np.asarray(step.scalar, value.dtype)


def _ordered(step: FusedStep, value: np.ndarray, other: np.ndarray | None) -> list[np.ndarray]:
    if other is None:
        return [value]
    return [other, value] if step.reverse else [value, other]


def _rule(*ops: type[Op]) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(ops, rule))
        return rule

    return register


@_rule(AveragePool, GlobalAveragePool, AdaptiveAveragePool)
def _mean(op: Op, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    x = inputs[0]
    assert x is not None
    terms = math.prod(op.kernel) if isinstance(op, AveragePool) else x.size / max(1, y.size)
    return finite(absolute(op, inputs)), walk(terms)


@_rule(
    *(MaxPool, GlobalMaxPool, AdaptiveMaxPool),
    *(ChannelShuffle, Concat, Expand, Gather, GatherCodes, Identity, Pad, Reshape, Slice),
    Transpose,
)
def _exact(op: Op, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    return np.abs(y.astype(np.float64)), 0.0


@_rule(Add, Sub)
def _sum(op: Op, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    return np.abs(y.astype(np.float64)), 2.0 if y.dtype.kind == "f" else 0.0


@_rule(Pow)
def _power(op: Op, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    base, exponent = (np.abs(np.asarray(a, np.float64)) for a in inputs)
    # Computed as exp2(b log2 a): an absolute error of that product is a relative one of the power.
    return finite(np.abs(y) * (1.0 + np.abs(exponent * np.log2(base)))), FUNCTION


@_rule(DequantizeLinear)
def _dequantize(op: Op, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    bias = np.zeros_like(y) if len(inputs) < 3 or inputs[2] is None else y
    return 2.0 * np.abs(y - bias) + np.abs(y), 4.0


@_rule(BatchNormalization)
def _batch_norm(op: BatchNormalization, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    x, scale, bias, mean, var = (np.asarray(a, np.float64) for a in inputs)
    shape = (-1, *(1,) * (y.ndim - 2))
    gain = np.abs(scale / np.sqrt(var + op.epsilon)).reshape(shape)
    return (np.abs(x) + np.abs(mean).reshape(shape)) * gain + np.abs(bias).reshape(shape), 16.0


@_rule(LayerNormalization)
def _layer_norm(op: LayerNormalization, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    x, scale, bias = (*inputs, None, None)[:3]
    assert x is not None
    axes = tuple(range(op.axis % x.ndim, x.ndim))
    size = np.abs(x.astype(np.float64))
    deviation = np.sqrt(x.var(axis=axes, keepdims=True, dtype=np.float64) + op.epsilon)
    # The mean and the deviation err by what the largest elements round to.
    gain = (size + size.max(axis=axes, keepdims=True, initial=0.0)) / deviation
    magnitude = gain * (1.0 if scale is None else np.abs(scale))
    count = math.prod(x.shape[a] for a in axes)
    return magnitude + (0.0 if bias is None else np.abs(bias)), walk(math.sqrt(count))


@_rule(LRN)
def _lrn(op: LRN, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    return np.abs(y.astype(np.float64)), 64.0


@_rule(Softmax)
def _softmax(op: Softmax, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    x = np.asarray(inputs[0], np.float64)
    reach = finite(np.abs(x).max(axis=op.axis, keepdims=True, initial=0.0))
    # exp turns an absolute error of its argument into a relative one of the result.
    return np.abs(y) * (1.0 + reach), walk(math.sqrt(x.shape[op.axis]))


@_rule(Resize)
def _resize(op: Resize, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    x = inputs[0]
    assert x is not None
    if op.mode == "nearest":
        return np.abs(y.astype(np.float64)), 0.0
    size = np.abs(x.astype(np.float64))
    # A coordinate near the far end rounds to as many units as the axis is long.
    largest = size.max(axis=tuple(range(2, x.ndim)), keepdims=True, initial=0.0)
    return largest, 16.0 + 4.0 * max(x.shape[2:], default=1)


@_rule(RNN, GRU, LSTM)
def _recurrent(op: Recurrent, inputs: Arrays, y: np.ndarray) -> tuple[np.ndarray, float]:
    x, w, r, held = (finite(np.abs(np.asarray(a, np.float64))) for a in (*inputs[:3], y))
    sums = x.max() * w.sum(axis=2).max() + max(1.0, held.max()) * r.sum(axis=2).max()
    # Rounded to 127 levels, a value that lies between two of them may fall to either.
    rounded = op.state_rounding != "none"
    factor = 1.0 / (127 * UNIT) if rounded else walk(x.shape[2] + r.shape[2])
    return np.full(y.shape, max(1.0, sums)), factor
