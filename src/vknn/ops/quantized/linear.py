"""QuantizeLinear, DequantizeLinear, and rounding to bfloat16."""

from __future__ import annotations

from typing import Any

import numpy as np

from vknn import bfloat16
from vknn.errors import ShapeError
from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.blocks import in_blocks
from vknn.ops.common.checks import arguments, fits, normal_axis, require, require_float


@attributes
class QuantizeLinear(Op):
    """clip(round(x / scale) + zero_point, low, high) as ``dtype``; NaN gives zero_point.

    Inputs x, scale, zero_point (optional): scale and zero_point are scalars (or have one element)
    or vectors along ``axis`` of x. ``multiply``: x * scale instead of x / scale. The quotient or
    product is rounded to float32, then ``rounding``: "half_even" or "half_away" (from zero).
    """

    dtype: DType = DType.INT8
    low: int = -128
    high: int = 127
    rounding: str = "half_even"
    multiply: bool = False
    axis: int = 1

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, scale, zero_point = arguments(self, inputs, 2, optional=1)
        require_float(self, x, scale)
        known = self.rounding in ("half_even", "half_away")
        require(known, f"QuantizeLinear: no rounding {self.rounding!r}")
        require(self.dtype.is_integer, f"QuantizeLinear: {self.dtype.value} is no integer type")
        info = np.iinfo(self.dtype.numpy)
        inside = info.min <= self.low <= self.high <= info.max
        name = self.dtype.value
        require(inside, f"QuantizeLinear: {self.low}..{self.high} is no range of {name}")
        _check_parameter(self, "scale", scale, x, self.axis)
        if zero_point is not None:
            require(zero_point.dtype.is_integer, f"QuantizeLinear: zero_point is {zero_point}")
            _check_parameter(self, "zero_point", zero_point, x, self.axis)
        return (x.with_dtype(self.dtype),)

    @in_blocks(whole=lambda op, _: (op.axis,), split=1)
    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, scale, zero_point = arguments(self, inputs, 2, optional=1)
        scale = _along(scale, x, self.axis)
        with np.errstate(all="ignore"):
            scaled = (x * scale if self.multiply else x / scale).astype(np.float64)
            if self.rounding == "half_even":
                whole = np.rint(scaled)
            else:
                whole = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)
            whole = np.where(np.isnan(whole), 0.0, whole)
            if zero_point is not None:
                whole = whole + _along(zero_point, x, self.axis).astype(np.float64)
            return (np.clip(whole, self.low, self.high).astype(self.dtype.numpy),)


@attributes
class DequantizeLinear(Op):
    """(x - zero) * scale + bias as float32, rounded once.

    Inputs x (integers, of at most 16 bits where ``zero`` is not 0), scale, bias (optional): scale
    and bias are float32 scalars (or have one element) or vectors along ``axis`` of x.
    """

    axis: int = 1
    zero: int = 0

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, scale, bias = arguments(self, inputs, 2, optional=1)
        require(x.dtype.is_integer, f"DequantizeLinear wants integers, not {x}")
        exact = not self.zero or (x.dtype.numpy.itemsize <= 2 and abs(self.zero) < 1 << 16)
        require(exact, f"DequantizeLinear takes no zero point {self.zero} off {x}")
        require_float(self, scale, bias)
        _check_parameter(self, "scale", scale, x, self.axis)
        if bias is not None:
            _check_parameter(self, "bias", bias, x, self.axis)
        return (x.with_dtype(DType.FLOAT32),)

    @in_blocks(whole=lambda op, _: (op.axis,), split=1)
    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, scale, bias = arguments(self, inputs, 2, optional=1)
        with np.errstate(all="ignore"):
            whole = x.astype(np.int32) - self.zero if self.zero else x
            y = whole * _along(scale, x, self.axis).astype(np.float64)
            if bias is not None:
                y = y + _along(bias, x, self.axis)
            return (np.asarray(y).astype(np.float32),)


@attributes
class RoundBFloat16(Op):
    """x rounded to the nearest bfloat16 (halves to even) and kept in the dtype of x."""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require_float(self, x)
        return (x,)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        return (bfloat16.rounded(x),)


def _check_parameter(op: Op, what: str, value: TensorType, x: TensorType, axis: int) -> None:
    if value.rank == 0 or value.shape == (1,):
        return
    length = x.shape[normal_axis(op, axis, x.rank)]
    if value.rank != 1 or not fits(value.shape[0], length):
        name = type(op).__name__
        raise ShapeError(f"{name}: {what} {value} fits neither one value nor axis {axis} of {x}")


def _along(value: Any, x: np.ndarray, axis: int) -> Any:
    """A parameter shaped to broadcast along ``axis`` of ``x``."""
    if value.size == 1:
        return value.reshape(())
    return value.reshape(-1, *[1] * (x.ndim - axis % x.ndim - 1))
