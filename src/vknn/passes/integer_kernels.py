"""Integer kernels for operators of floats between quantized tensors (``passes.integers``)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vknn.graph import DType, Node, Op, Origin, Value
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Add, Cast, Mul, Sub
from vknn.ops.matmul import MatMul
from vknn.ops.normalization import BatchNormalization
from vknn.ops.pooling.pool import AveragePool, GlobalAveragePool
from vknn.ops.quantized.arithmetic import QuantizedBinary
from vknn.ops.quantized.convolution import MOST_WEIGHT, QuantizedConv
from vknn.ops.quantized.fixed_point import FAR, float_bits
from vknn.ops.quantized.linear import DequantizeLinear
from vknn.ops.quantized.matmul import QuantizedGemm
from vknn.passes.patterns import float_constant, scalar_constant
from vknn.passes.rewriter import Rewriter

#: Element types that are multiplied.
BYTES = (DType.INT8, DType.UINT8)
#: Elements of a window whose mean is a convolution: larger ones wait for each other's sums.
_MOST_POOLED = 256


@dataclass(frozen=True)
class StoredIntegers:
    """Integers that stand for scale * (value - zero)."""

    value: Value
    scale: float
    zero: int
    origin: Origin


@dataclass(frozen=True)
class QuantizedTarget:
    """Results that stand for scale * (y - zero), from ``low`` to ``high``."""

    scale: float
    zero: int
    low: int
    high: int
    dtype: DType

    def settings(self) -> dict[str, int | DType]:
        """Keyword arguments of a requantized op."""
        return {"zero_out": self.zero, "low": self.low, "high": self.high, "dtype": self.dtype}


def whole_constant(value: Value | None) -> int | None:
    """The number of a constant of one integer; 0 for none at all."""
    if value is None:
        return 0
    found = scalar_constant(value)
    return None if found is None else int(found)


def stored_integers(rewriter: Rewriter, value: Value | None) -> StoredIntegers | None:
    """The integers that a value was dequantized from: (x - zero) * scale of bytes."""
    node = rewriter.producer(value)
    if node is None or not isinstance(node.op, DequantizeLinear):
        return None
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        return None
    scale, whole, zero = scalar_constant(node.inputs[1]), node.inputs[0], node.op.zero
    made = rewriter.producer(whole)
    if made is not None and isinstance(made.op, Sub):
        found = whole_constant(made.inputs[1])
        if found is None:
            return None
        zero, made = found, rewriter.producer(made.inputs[0])
    if made is None or not isinstance(made.op, Cast) or made.op.to is not DType.INT32:
        return None
    x = made.inputs[0]
    if x is None or x.type.dtype not in BYTES or scale is None or not 0 < scale < float("inf"):
        return None
    return StoredIntegers(x, scale, zero, node.origin)


#: An op and its inputs.
Made = tuple[Op, tuple[Value | None, ...]]


def _conv(rewriter: Rewriter, node: Node, target: QuantizedTarget) -> Made | None:
    x, weights = stored_integers(rewriter, node.inputs[0]), node.inputs[1]
    assert isinstance(node.op, Conv)
    found = None if x is None else _numbers(rewriter, node, weights, 0, x.scale, target)
    if x is None or found is None:
        return None
    op = QuantizedConv(
        node.op.strides, node.op.pads, node.op.dilations, node.op.group, zero_in=x.zero,
        rounding="float", **target.settings(),  # type: ignore[arg-type]
    )  # fmt: skip
    return op, (x.value, *found)


def _matmul(rewriter: Rewriter, node: Node, target: QuantizedTarget) -> Made | None:
    a, b = stored_integers(rewriter, node.inputs[0]), node.inputs[1]
    assert isinstance(node.op, MatMul)
    if a is None or b is None:
        return None
    other = stored_integers(rewriter, b)
    if other is not None and (len(node.inputs) < 3 or node.inputs[2] is None):
        factor = np.float32(a.scale) * np.float32(other.scale) / np.float32(target.scale)
        scaled = _multiplier(rewriter, np.atleast_1d(factor))
        made: tuple[Value | None, ...] | None = (other.value, None, *scaled)
        zero = other.zero
    else:
        axis = b.type.rank - (2 if node.op.transpose_b else 1)
        made, zero = _numbers(rewriter, node, b, axis, a.scale, target), 0
    if made is None:
        return None
    op = QuantizedGemm(
        zero_in=a.zero, zero_b=zero, rounding="float", transpose_a=node.op.transpose_a,
        transpose_b=node.op.transpose_b, **target.settings(),  # type: ignore[arg-type]
    )  # fmt: skip
    return op, (a.value, *made)


def _numbers(
    rewriter: Rewriter,
    node: Node,
    weights: Value | None,
    axis: int,
    scale: float,
    target: QuantizedTarget,
) -> tuple[Value | None, ...] | None:
    """Weights less their zero points, bias, multiplier and shift of a quantized kernel.

    ``axis``: that of the weights along which output channels lie.
    """
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    whole = _whole_weights(weights, axis)
    offsets = None if bias is None else float_constant(bias)
    if whole is None or (bias is not None and offsets is None):
        return None
    integers, steps = whole
    units = (np.float32(scale) * steps).astype(np.float32)
    multiplier = units / np.float32(target.scale)
    if not np.isfinite(multiplier).all() or not (units > 0).all():
        return None
    held = None
    if offsets is not None:
        sums = np.rint(offsets.astype(np.float64) / units)
        if not (np.abs(sums) < FAR).all():
            return None
        held = rewriter.constant(sums.astype(np.int32), f"{node.name}.bias")
    stored = rewriter.constant(integers, f"{node.name}.weights")
    return stored, held, *_multiplier(rewriter, multiplier)


def _whole_weights(value: Value | None, axis: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Integers that constant weights stand for, and their scales, one or one for a channel."""
    if value is None or value.constant is None or value.quantization is None:
        return None
    found = value.quantization
    scales = np.asarray(found.scale, np.float32)
    rank = value.type.rank
    if len(scales) > 1 and found.axis % rank != axis:
        return None
    shape = [1] * rank
    shape[axis] = -1
    with np.errstate(all="ignore"):
        whole = np.rint(value.constant.astype(np.float64) / scales.reshape(shape))
    if not (np.abs(whole) <= MOST_WEIGHT).all():
        return None
    narrow = whole.size == 0 or (whole.min() >= -128 and whole.max() <= 127)
    return whole.astype(np.int8 if narrow else np.int16), scales


def _multiplier(
    rewriter: Rewriter, factors: np.ndarray, offsets: np.ndarray | None = None
) -> tuple[Value, Value]:
    """Multiplier and shift of the rounding "float": factors, and offsets, by default 0."""
    offsets = np.zeros_like(factors) if offsets is None else offsets
    names = ("multiplier", "shift")
    pairs = zip((factors, offsets), names, strict=True)
    held = [rewriter.constant(float_bits(numbers), name) for numbers, name in pairs]
    return held[0], held[1]


def _batch_norm(rewriter: Rewriter, node: Node, target: QuantizedTarget) -> Made | None:
    """A normalization by channel as a convolution of one tap with weights of 1."""
    x = stored_integers(rewriter, node.inputs[0])
    vectors = [float_constant(v) for v in node.inputs[1:5]]
    if x is None or x.value.type.rank not in (3, 4, 5) or any(v is None for v in vectors):
        return None
    assert isinstance(node.op, BatchNormalization)
    scale, bias, mean, var = (np.asarray(v, np.float64) for v in vectors)
    with np.errstate(all="ignore"):
        slope = scale / np.sqrt(var + node.op.epsilon)
        factors = (slope * x.scale / target.scale).astype(np.float32)
        offsets = ((bias - mean * slope) / target.scale).astype(np.float32)
    if not (np.isfinite(factors) & np.isfinite(offsets)).all():
        return None
    joined = _after_kernel(rewriter, node, x, target, factors, offsets)
    if joined is not None:
        return joined
    axes, channels = x.value.type.rank - 2, len(factors)
    ones = (1,) * axes
    op = QuantizedConv(
        ones, (0,) * (2 * axes), ones, channels, zero_in=x.zero, rounding="float",
        **target.settings(),  # type: ignore[arg-type]
    )  # fmt: skip
    weights = rewriter.constant(np.ones((channels, 1, *ones), np.int8), f"{node.name}.weights")
    return op, (x.value, weights, None, *_multiplier(rewriter, factors, offsets))


def _after_kernel(
    rewriter: Rewriter, node: Node, x: StoredIntegers, target: QuantizedTarget, factors: np.ndarray,
    offsets: np.ndarray,
) -> Made | None:  # fmt: skip
    """A convolution that nobody else reads, with the normalization in its requantization."""
    made = rewriter.sole_producer(node.inputs[0])
    while made is not None and not isinstance(made.op, QuantizedConv):
        known = isinstance(made.op, DequantizeLinear | Sub | Cast)
        made = rewriter.sole_producer(made.inputs[0]) if known else None
    if made is None or made.op.rounding != "float" or made.op.zero_out != x.zero:  # type: ignore[attr-defined]
        return None
    assert isinstance(made.op, QuantizedConv)
    multiplier, shift = (v.constant for v in made.inputs[3:5] if v is not None)
    assert multiplier is not None and shift is not None
    bounds = (np.full(len(factors), b - x.zero, np.int32) for b in (made.op.low, made.op.high))
    first, added = (np.broadcast_to(v, len(factors)) for v in (multiplier, shift))
    rows = np.stack([first, float_bits(factors), *bounds])
    held = rewriter.constant(rows, "multiplier")
    moved = rewriter.constant(np.stack([added, float_bits(offsets)]), "shift")
    op = dataclasses.replace(made.op, rounding="twice", **target.settings())  # type: ignore[arg-type]
    return op, (*made.inputs[:3], held, moved)


def _average(rewriter: Rewriter, node: Node, target: QuantizedTarget) -> Made | None:
    """Means of windows that all have as many elements, as a convolution with weights of 1."""
    x, op = stored_integers(rewriter, node.inputs[0]), node.op
    if x is None or x.value.type.rank not in (3, 4, 5) or not x.value.type.is_static:
        return None
    spatial = x.value.type.dims[2:]
    if isinstance(op, AveragePool):
        kernel, strides, pads = op.kernel, op.strides, op.pads
        if any(pads) and not op.count_include_pad:
            return None
    else:
        kernel, strides, pads = spatial, (1,) * len(spatial), (0,) * (2 * len(spatial))
    channels, count = x.value.type.dims[1], math.prod(kernel)
    if not 0 < count <= _MOST_POOLED:
        return None
    made = QuantizedConv(
        strides, pads, (1,) * len(kernel), channels, zero_in=x.zero, rounding="float",
        **target.settings(),  # type: ignore[arg-type]
    )  # fmt: skip
    weights = rewriter.constant(np.ones((channels, 1, *kernel), np.int8), f"{node.name}.weights")
    factor = np.full(1, np.float32(x.scale) / (np.float32(count) * np.float32(target.scale)))
    return made, (x.value, weights, None, *_multiplier(rewriter, factor.astype(np.float32)))


_KINDS = {"Add": "float_add", "Sub": "float_sub", "Mul": "float_mul"}


def _both(rewriter: Rewriter, node: Node, target: QuantizedTarget) -> Made | None:
    """A sum, difference or product of two quantized tensors."""
    a, b = (stored_integers(rewriter, v) for v in node.inputs)
    if a is None or b is None:
        return None
    bits = float_bits(np.array([a.scale, b.scale, target.scale], np.float32))
    multipliers = int(bits[0]), int(bits[1]), int(bits[2])
    kind = _KINDS[node.op.type_name]
    op = QuantizedBinary(
        kind, target.dtype, (a.zero, b.zero), multipliers, zero_out=target.zero, low=target.low,
        high=target.high,
    )  # fmt: skip
    return op, (a.value, b.value)


#: Op -> the kernel and its inputs for a node between quantized tensors, or None.
KERNELS: dict[type[Op], Callable[[Rewriter, Node, QuantizedTarget], Made | None]] = {
    Conv: _conv, MatMul: _matmul, BatchNormalization: _batch_norm, AveragePool: _average,
    GlobalAveragePool: _average, Add: _both, Sub: _both, Mul: _both,
}  # fmt: skip
