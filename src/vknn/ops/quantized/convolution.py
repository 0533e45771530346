"""Convolutions of quantized integers, requantized in fixed point (``quantized.fixed_point``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vknn.graph import DType, Fusion, Op, Shape, TensorType, attributes
from vknn.ops.common.checks import arguments, require, require_dtype
from vknn.ops.convolution.base import ConvolutionBase
from vknn.ops.convolution.conv import Convolution
from vknn.ops.convolution.conv_transpose import Transposition
from vknn.ops.quantized import fixed_point as fp

#: Element types of the data that are quantized, and of their weights.
DATA = (DType.INT8, DType.UINT8, DType.INT16)
WEIGHTS = (DType.INT8, DType.INT16)
#: Largest magnitude of a weight.
MOST_WEIGHT = 255
ROUNDINGS = ("double", "wide", "none", "single", "float", "twice", "long")
#: Roundings of sums in int64.
LONG_SUMS = ("wide", "long")


_MULTIPLY = {
    "double": fp.multiply, "single": fp.multiply_once, "wide": fp.multiply_wide,
    "float": fp.multiply_float, "long": fp.multiply_long,
}  # fmt: skip


@attributes
class Requantized(Op):
    """Requantization of exact sums: y = clip((sum + bias) * (q, shift) + zero_out, low, high).

    The product and ``zero_out`` are added up modulo 2^32. (Of what 32 bits do not hold TensorFlow
    Lite's kernels make different numbers.)

    ``zero_in``: the zero point of the data, which padding has. ``rounding``: "double", sums
    in int32 that wrap around, and a product rounded twice (``fixed_point.multiply``); "single",
    the same sums and a product rounded once (``fixed_point.multiply_once``); "wide", sums in int64
    and a multiplier of 16 bits (``fixed_point.multiply_wide``); "long", these and a multiplier of
    31 bits (``fixed_point.multiply_long``); "none", int32 sums as they are;
    "float", the same sums times a float32 plus another, whose bits multiplier and shift hold
    (``fixed_point.multiply_float``); "twice", the same and, of the result within bounds, once more:
    multipliers [4, M] are those of both products, lower and upper bounds, shifts [2, M] both
    numbers that are added.
    """

    zero_in: int = 0
    zero_out: int = 0
    low: int = -128
    high: int = 127
    dtype: DType = DType.INT8
    rounding: str = "double"

    @property
    def channel_axis(self) -> int:
        """The output's axis of bias, multiplier and shift."""
        return 1

    @property
    def weight_axis(self) -> int:
        """The weights' axis of output channels."""
        return 0

    @property
    def weight_zero(self) -> int:
        """The zero point of the weights."""
        return 0

    @property
    def most_weight(self) -> int:
        """The largest magnitude of a weight."""
        return MOST_WEIGHT

    @property
    def weight_types(self) -> tuple[DType, ...]:
        """Element types that weights may have."""
        return WEIGHTS

    def _finished(
        self, shape: Shape, x: TensorType, w: TensorType, *vectors: TensorType | None
    ) -> TensorType:
        """The output's type; raises ShapeError for element types or vectors that do not suit."""
        name, info = self.type_name, np.iinfo(self.dtype.numpy)
        require(x.dtype in DATA, f"{name}: takes quantized data, not {x}")
        require(w.dtype in self.weight_types, f"{name}: takes no weights of {w}")
        require(self.rounding in ROUNDINGS, f"{name}: no rounding {self.rounding!r}")
        require(self.dtype in (*DATA, DType.INT32), f"{name}: gives {self.dtype.value}")
        inside = info.min <= self.low <= self.high <= info.max
        require(inside, f"{name}: {self.low}..{self.high} in {self.dtype.value}")
        bias, multiplier, shift = vectors
        channels = shape[self.channel_axis]
        require_dtype(self, DType.INT32, bias, multiplier, shift)
        shapes = [(channels,), (1,)]
        rows = {"multiplier": 4, "shift": 2} if self.rounding == "twice" else {}
        for what, vector in (("multiplier", multiplier), ("shift", shift)):
            wanted = [(rows[what], channels)] if rows else shapes
            right = vector is not None and vector.shape in wanted
            require(right, f"{name}: {what} {vector} should have shape {wanted[0]}")
        if bias is not None:
            wide = bias.shape == (2, channels) and self.rounding in LONG_SUMS
            right = wide or bias.shape == (channels,)
            require(right, f"{name}: bias {bias} should have shape ({channels},)")
        return TensorType(shape, self.dtype)

    def _requantize(self, sums: np.ndarray, *vectors: np.ndarray | None) -> np.ndarray:
        """The results of exact sums (integers in float64)."""
        bias, multiplier, shift = vectors
        assert multiplier is not None and shift is not None
        shape = [1] * sums.ndim
        shape[self.channel_axis] = -1
        total = sums.astype(np.int64)
        if bias is not None:
            total += _as_int64(bias).reshape(shape)
        total = total if self.rounding in LONG_SUMS else fp.wrapped(total)
        if self.rounding == "twice":
            total = _twice(total, multiplier, shift, shape)
        elif self.rounding != "none":
            total = _MULTIPLY[self.rounding](total, multiplier.reshape(shape), shift.reshape(shape))
        total += self.zero_out
        y = fp.wrapped(total)
        return np.asarray(np.clip(y, self.low, self.high, out=y).astype(self.dtype.numpy))


def _twice(
    sums: np.ndarray, multiplier: np.ndarray, shift: np.ndarray, shape: list[int]
) -> np.ndarray:
    """Sums times floats, plus floats, within bounds; and that once more without bounds."""
    first, second, low, high = (row.reshape(shape) for row in multiplier)
    between = np.clip(fp.multiply_float(sums, first, shift[0].reshape(shape)), low, high)
    return fp.multiply_float(between, second, shift[1].reshape(shape))


def _as_int64(bias: np.ndarray) -> np.ndarray:
    """A bias as int64; of two rows the first is the low words, the second the high ones."""
    if bias.ndim == 1:
        return bias.astype(np.int64)
    low, high = bias.astype(np.int64)
    return (low & 0xFFFFFFFF) + (high << 32)


def bias_words(bias: np.ndarray) -> np.ndarray:
    """An int64 bias [M] as int32 [2, M]: low words, high words."""
    low = (bias & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    return np.stack([low, (bias >> 32).astype(np.int32)])


@attributes
class _RequantizedConvolution(Requantized, ConvolutionBase):
    """Shapes and reference of the requantized convolutions."""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, w, *vectors = requantized_inputs(self, inputs)
        return (self._finished(self._shape(x, w), x, w, *vectors),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, w, *vectors = requantized_inputs(self, inputs)

        def requantized(sums: np.ndarray, channels: slice) -> np.ndarray:
            return self._requantize(sums, *of_channels(vectors, channels))

        dtype = np.dtype(self.dtype.numpy)
        return (self._finished_sums(x, w, dtype, requantized, self.zero_in),)


@attributes
class QuantizedConv(_RequantizedConvolution, Convolution):
    """Conv of quantized integers: the sums of (x - zero_in) * w, requantized.

    Inputs x (int8, uint8, int16), w (int8, or int16 of at most 255 in magnitude; its zero point is
    0), bias (None or int32 [M]; with rounding "wide" also [2, M]: low and high words), multiplier
    and shift (int32, [M] or [1]). Formulas: :class:`Requantized`, after TensorFlow Lite's kernels.
    ``weight_bits``: 4 or 2 where constant w has no more; 0 says nothing of them.
    """

    weight_bits: int = 0
    fusion = Fusion(operands=1)


@attributes
class QuantizedConvTranspose(_RequantizedConvolution, Transposition):
    """ConvTranspose of quantized integers: the sums of (x - zero_in) * w, requantized.

    Inputs as those of QuantizedConv, w in the order of ConvTranspose.
    """

    @property
    def weight_axis(self) -> int:
        return 1


def of_channels(vectors: Sequence[Any], channels: slice) -> list[Any]:
    """The parts of bias, multiplier and shift that are some channels'; one for all is left."""
    return [v if v is None or v.shape[-1] == 1 else v[..., channels] for v in vectors]


def requantized_inputs(op: Op, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """x, w, bias (or None), multiplier, shift."""
    require(len(inputs) == 5, f"{op.type_name} takes 5 inputs, not {len(inputs)}")
    x, w, bias, multiplier, shift = inputs
    x, w, multiplier, shift = arguments(op, (x, w, multiplier, shift), 4)
    return x, w, bias, multiplier, shift
