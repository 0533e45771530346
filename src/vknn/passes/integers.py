"""Operators between DequantizeLinear and QuantizeLinear computed on the integers themselves.

Networks are quantized by such pairs around operators of floats. What lies between two of them
becomes an integer kernel (a convolution, a product, a normalization by channel), a table (functions
of one byte), or an operator that moves bytes. Results may differ by one step where a float lies
within rounding of a half; sums are exact instead of rounded.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from vknn.graph import DType, Graph, Node, Op, Origin, Value
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Add, Cast, Clip, Mul, Relu, Sub
from vknn.ops.elementwise.binary import Binary
from vknn.ops.elementwise.unary import Unary
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Concat, Identity, Reshape, Slice, Transpose
from vknn.ops.normalization import BatchNormalization
from vknn.ops.pooling.pool import AveragePool, GlobalAveragePool, MaxPool
from vknn.ops.quantized.arithmetic import QuantizedBinary, TableLookup
from vknn.ops.quantized.convolution import MOST_WEIGHT, QuantizedConv
from vknn.ops.quantized.fixed_point import FAR, float_bits
from vknn.ops.quantized.linear import DequantizeLinear, QuantizeLinear
from vknn.ops.quantized.matmul import QuantizedGemm
from vknn.passes.patterns import float_constant, scalar_constant
from vknn.passes.rewriter import Rewriter, merged, sweep

_BYTES = (DType.INT8, DType.UINT8)
#: Ops that move elements of their one input, or take the largest.
_MOVERS = (Transpose, Reshape, Slice, Identity, MaxPool)
#: Elements of a window whose mean is a convolution: larger ones wait for each other's sums.
_MOST_POOLED = 256
#: Ops of a chain that becomes a table, at most.
_LONGEST = 8


@dataclass(frozen=True)
class _Stored:
    """Integers that stand for scale * (value - zero)."""

    value: Value
    scale: float
    zero: int
    origin: Origin


@dataclass(frozen=True)
class _Target:
    """Results that stand for scale * (y - zero), from ``low`` to ``high``."""

    scale: float
    zero: int
    low: int
    high: int
    dtype: DType

    def settings(self) -> dict[str, int | DType]:
        """Keyword arguments of a requantized op."""
        return {"zero_out": self.zero, "low": self.low, "high": self.high, "dtype": self.dtype}


def compute_on_integers(graph: Graph) -> Graph:
    """Integer kernels, tables and moved bytes for what lies between two quantized tensors."""
    return sweep(graph, _fold, (QuantizeLinear,))


def _fold(rewriter: Rewriter, node: Node) -> tuple[Value, ...] | None:
    target = _target(node)
    if target is None:
        return None
    value = node.inputs[0]
    origins = [node.origin]
    base = rewriter.sole_producer(value)
    while base is not None and isinstance(base.op, Relu | Clip):
        held = _held(base.op, target)
        before = rewriter.sole_producer(base.inputs[0])
        if held is None or before is None or type(before.op) not in _KERNELS:
            break
        target, base = held, before
        origins.insert(0, base.origin)
    if base is not None:
        origin = merged(base.origin, *origins)
        kernel = _KERNELS.get(type(base.op))
        found = kernel(rewriter, base, target) if kernel is not None else None
        if found is None and isinstance(base.op, (*_MOVERS, Concat)):
            moved = _moved(rewriter, base, target, origin)
            if moved is not None:
                return (moved,)
        if found is not None:
            op, inputs = found
            return rewriter.emit(op, inputs, origin, node)
    return _table(rewriter, node, target)


def _target(node: Node) -> _Target | None:
    """What a QuantizeLinear of one known scale gives; None for any other node."""
    op = node.op
    if not isinstance(op, QuantizeLinear) or op.multiply or op.rounding != "half_even":
        return None
    zero_point = node.inputs[2] if len(node.inputs) > 2 else None
    scale, zero = scalar_constant(node.inputs[1]), _whole_constant(zero_point)
    if scale is None or not 0 < scale < float("inf") or zero is None or op.dtype not in _BYTES:
        return None
    return _Target(scale, zero, op.low, op.high, op.dtype)


def _whole_constant(value: Value | None) -> int | None:
    """The number of a constant of one integer; 0 for none at all."""
    if value is None:
        return 0
    found = scalar_constant(value)
    return None if found is None else int(found)


def _held(op: Op, target: _Target) -> _Target | None:
    """The target with the bounds that Relu or Clip sets: rounding keeps the order of numbers."""
    low, high = (0.0, float("inf")) if isinstance(op, Relu) else (op.min, op.max)  # type: ignore[attr-defined]
    scale = np.float32(target.scale)

    def step(bound: float, outermost: int) -> int:
        if not np.isfinite(bound):
            return outermost
        whole = int(np.clip(np.rint(np.float32(bound) / scale), -FAR, FAR)) + target.zero
        return min(max(whole, target.low), target.high)

    least, most = step(low, target.low), step(high, target.high)
    return dataclasses.replace(target, low=least, high=most) if least <= most else None


def _stored(rewriter: Rewriter, value: Value | None) -> _Stored | None:
    """The integers that a value was dequantized from: (x - zero) * scale of bytes."""
    node = rewriter.producer(value)
    if node is None or not isinstance(node.op, DequantizeLinear):
        return None
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        return None
    scale, whole, zero = scalar_constant(node.inputs[1]), node.inputs[0], 0
    made = rewriter.producer(whole)
    if made is not None and isinstance(made.op, Sub):
        found = _whole_constant(made.inputs[1])
        if found is None:
            return None
        zero, made = found, rewriter.producer(made.inputs[0])
    if made is None or not isinstance(made.op, Cast) or made.op.to is not DType.INT32:
        return None
    x = made.inputs[0]
    if x is None or x.type.dtype not in _BYTES or scale is None or not 0 < scale < float("inf"):
        return None
    return _Stored(x, scale, zero, node.origin)


# --- kernels --------------------------------------------------------------------------------------

_Made = tuple[Op, tuple[Value | None, ...]]


def _conv(rewriter: Rewriter, node: Node, target: _Target) -> _Made | None:
    x, weights = _stored(rewriter, node.inputs[0]), node.inputs[1]
    assert isinstance(node.op, Conv)
    found = None if x is None else _numbers(rewriter, node, weights, 0, x.scale, target)
    if x is None or found is None:
        return None
    op = QuantizedConv(
        node.op.strides, node.op.pads, node.op.dilations, node.op.group, zero_in=x.zero,
        rounding="float", **target.settings(),  # type: ignore[arg-type]
    )  # fmt: skip
    return op, (x.value, *found)


def _matmul(rewriter: Rewriter, node: Node, target: _Target) -> _Made | None:
    a, b = _stored(rewriter, node.inputs[0]), node.inputs[1]
    assert isinstance(node.op, MatMul)
    if a is None or b is None:
        return None
    other = _stored(rewriter, b)
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
    rewriter: Rewriter, node: Node, weights: Value | None, axis: int, scale: float, target: _Target
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


def _batch_norm(rewriter: Rewriter, node: Node, target: _Target) -> _Made | None:
    """A normalization by channel as a convolution of one tap with weights of 1."""
    x = _stored(rewriter, node.inputs[0])
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
    rewriter: Rewriter, node: Node, x: _Stored, target: _Target, factors: np.ndarray,
    offsets: np.ndarray,
) -> _Made | None:  # fmt: skip
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


def _average(rewriter: Rewriter, node: Node, target: _Target) -> _Made | None:
    """Means of windows that all have as many elements, as a convolution with weights of 1."""
    x, op = _stored(rewriter, node.inputs[0]), node.op
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


def _both(rewriter: Rewriter, node: Node, target: _Target) -> _Made | None:
    """A sum, difference or product of two quantized tensors."""
    a, b = (_stored(rewriter, v) for v in node.inputs)
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


_KERNELS = {
    Conv: _conv, MatMul: _matmul, BatchNormalization: _batch_norm, AveragePool: _average,
    GlobalAveragePool: _average, Add: _both, Sub: _both, Mul: _both,
}  # fmt: skip


# --- bytes that move, tables ----------------------------------------------------------------------


def _moved(rewriter: Rewriter, node: Node, target: _Target, origin: Origin) -> Value | None:
    """The moved bytes, each input rescaled before where that has to be."""
    sources = [_stored(rewriter, v) for v in node.inputs]
    if any(s is None for s in sources):
        return None
    values = [_rescaled(rewriter, s, target, origin) for s in sources if s is not None]
    (found,) = rewriter.emit(node.op, values, origin)
    return found


def _rescaled(rewriter: Rewriter, source: _Stored, target: _Target, origin: Origin) -> Value:
    """The integers of a source as they stand for the same numbers in the target."""
    table = _results(source, target, [])
    info = np.iinfo(source.value.type.dtype.numpy)
    if np.array_equal(table, np.arange(info.min, info.max + 1)) and (
        source.value.type.dtype is target.dtype
    ):
        return source.value
    held = rewriter.constant(table, "table")
    (found,) = rewriter.emit(TableLookup(int(info.min)), (source.value, held), origin)
    return found


def _table(rewriter: Rewriter, node: Node, target: _Target) -> tuple[Value, ...] | None:
    """Functions of each byte by itself, one after the other, looked up."""
    chain: list[Node] = []
    value = node.inputs[0]
    source = _stored(rewriter, value)
    while source is None and len(chain) < _LONGEST:
        before = rewriter.sole_producer(value)
        if before is None or not _is_pointwise(before):
            return None
        chain.insert(0, before)
        value = before.inputs[_open_input(before)]
        source = _stored(rewriter, value)
    if source is None or not source.value.type.is_static:
        return None
    if any(n.outputs[0].type.shape != source.value.type.shape for n in chain):
        return None
    origin = merged(source.origin, *(n.origin for n in chain), node.origin)
    if not chain:
        return (_rescaled(rewriter, source, target, origin),)
    info = np.iinfo(source.value.type.dtype.numpy)
    held = rewriter.constant(_results(source, target, chain), f"{node.name}.table")
    return rewriter.emit(TableLookup(int(info.min)), (source.value, held), origin, node)


def _is_pointwise(node: Node) -> bool:
    """Whether each element of the result depends on one of the one input that is no constant."""
    if not isinstance(node.op, Unary | Binary) or len(node.outputs) != 1:
        return False
    if node.outputs[0].type.dtype is not DType.FLOAT32:
        return False
    others = [v for v in node.inputs if v is not None and v.constant is not None]
    return len(others) == len(node.inputs) - 1 and all(v.type.size == 1 for v in others)


def _open_input(node: Node) -> int:
    return next(i for i, v in enumerate(node.inputs) if v is not None and v.constant is None)


def _results(source: _Stored, target: _Target, chain: list[Node]) -> np.ndarray:
    """The result for each integer of the source's type, in order."""
    info = np.iinfo(source.value.type.dtype.numpy)
    whole = np.arange(info.min, info.max + 1) - source.zero
    real = (whole * np.float64(np.float32(source.scale))).astype(np.float32)
    with np.errstate(all="ignore"):
        for node in chain:
            at = _open_input(node)
            arrays = [v.constant if v is not None else None for v in node.inputs]
            arrays = [real if i == at else _flat(a) for i, a in enumerate(arrays)]
            real = node.op.reference(*arrays)[0]
    op = QuantizeLinear(target.dtype, target.low, target.high, axis=0)
    zero = np.asarray(target.zero, np.int32)
    return op.reference(real, np.asarray(target.scale, np.float32), zero)[0]


def _flat(array: np.ndarray | None) -> np.ndarray | None:
    return None if array is None else array.reshape(())
