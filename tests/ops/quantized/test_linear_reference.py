"""Quantizing and dequantizing against Python's own arithmetic."""

from __future__ import annotations

import decimal
import math

import numpy as np
import pytest

from reference_helper import check, data, f32, i8, i32, refuses
from vknn.graph import DType, Op, TensorType
from vknn.ops.quantized.linear import DequantizeLinear, QuantizeLinear, RoundBFloat16

HALVES = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, -0.49999997, 126.6, 1000, -1000]


def rounded(value: float, rounding: str) -> int:
    how = decimal.ROUND_HALF_EVEN if rounding == "half_even" else decimal.ROUND_HALF_UP
    return int(decimal.Decimal(value).quantize(decimal.Decimal(1), how))


@pytest.mark.parametrize("rounding", ["half_even", "half_away"])
@pytest.mark.parametrize("multiply", [False, True])
def test_quantize(rounding: str, multiply: bool) -> None:
    x = np.concatenate([np.array(HALVES, np.float32), data(50) * 60])
    for scale in (1.0, 0.25, 3.0):
        op = QuantizeLinear(DType.INT8, -127, 127, rounding, multiply, axis=0)
        factor = np.array(scale, np.float32)
        product = x * factor if multiply else x / factor
        y = [min(max(rounded(float(v), rounding), -127), 127) for v in product]
        check(op, x, factor, expected=np.array(y, np.int8))
        check(op, x, factor.reshape(1), expected=np.array(y, np.int8))


@pytest.mark.parametrize(("shape", "axis"), [((2, 3), 1), ((1, 3, 5), -2), ((1, 2, 5, 3), 3)])
def test_quantize_along_an_axis(shape: tuple[int, ...], axis: int) -> None:
    x, scale = data(*shape) * 9, np.array([0.5, 1, 3], np.float32)
    zero = np.array([0, 10, 200], np.uint8)
    y = np.empty(shape, np.uint8)
    for index in np.ndindex(*shape):
        k = index[axis]
        y[index] = min(max(round(float(x[index] / scale[k])) + int(zero[k]), 0), 255)
    check(QuantizeLinear(DType.UINT8, 0, 255, axis=axis), x, scale, zero, expected=y)


def test_quantize_special_values() -> None:
    x = np.array([math.nan, math.inf, -math.inf], np.float32)
    one = np.ones((), np.float32)
    y = np.array([0, 127, -128], np.int8)
    check(QuantizeLinear(axis=0), x, one, expected=y)
    zero = np.array(5, np.int8)
    check(QuantizeLinear(axis=0), x, one, zero, expected=np.array([5, 127, -128], np.int8))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
@pytest.mark.parametrize(("shape", "axis"), [((3,), 0), ((2, 3), 1), ((2, 3, 2, 2), -3)])
def test_dequantize(dtype: str, shape: tuple[int, ...], axis: int) -> None:
    x, scale, bias = data(*shape, dtype=dtype), data(3, seed=1), data(3, seed=2)
    y, z = np.empty(shape, np.float32), np.empty(shape, np.float32)
    for index in np.ndindex(*shape):
        y[index] = int(x[index]) * float(scale[index[axis]])
        z[index] = int(x[index]) * float(scale[index[axis]]) + float(bias[index[axis]])
    op = DequantizeLinear(axis)
    check(op, x, scale, expected=y)
    check(op, x, scale, bias, expected=z)
    one = np.array(0.5, np.float32)
    check(op, x, one, one.reshape(1), expected=(x * 0.5 + 0.5).astype(np.float32))


def test_large_sums_are_dequantized_exactly() -> None:
    x = np.array([2**31 - 1, -(2**31)], np.int32)
    one = np.ones((), np.float32)
    check(DequantizeLinear(0), x, one, one, expected=np.array([2**31, 1 - 2**31], np.float32))


REFUSED = [
    (QuantizeLinear(), [i32(1, 3), f32()], "floating point"),
    (QuantizeLinear(), [f32(1, 3), f32(2)], "fits neither one value nor axis 1"),
    (QuantizeLinear(), [f32(1, 3), f32(1, 3)], "fits neither"),
    (QuantizeLinear(), [f32(1, 3), f32(3), f32(3)], "zero_point"),
    (QuantizeLinear(), [f32(1, 3), f32(3), i8(2)], "zero_point"),
    (QuantizeLinear(axis=2), [f32(1, 3), f32(3)], "out of range"),
    (QuantizeLinear(rounding="up"), [f32(1, 3), f32()], "no rounding"),
    (QuantizeLinear(DType.FLOAT32), [f32(1, 3), f32()], "no integer type"),
    (QuantizeLinear(DType.INT8, -129, 127), [f32(1, 3), f32()], "no range of int8"),
    (QuantizeLinear(DType.INT8, 5, 4), [f32(1, 3), f32()], "no range of int8"),
    (DequantizeLinear(), [f32(1, 3), f32()], "wants integers"),
    (DequantizeLinear(), [i8(1, 3), f32(2)], "scale"),
    (DequantizeLinear(), [i8(1, 3), f32(3), f32(2)], "bias"),
    (DequantizeLinear(), [i8(1, 3), i8(3)], "floating point"),
]


@pytest.mark.parametrize(("op", "types", "words"), REFUSED, ids=lambda v: str(v)[:40])
def test_infer_refuses(op: Op, types: list[TensorType], words: str) -> None:
    refuses(op, *types, match=words)


def test_bfloat16_is_the_nearest_of_two_neighbours() -> None:
    x = np.random.default_rng(3).standard_normal(500).astype(np.float32)
    x[:4] = 1.00390625, 1.01171875, -1.00390625, 65280.0  # halves between two, and one of them
    (y,) = RoundBFloat16().reference(x)
    for value, got in zip(x.tolist(), y.tolist(), strict=True):
        # Eight binary digits, the first of them in front of the point.
        _, exponent = math.frexp(value)
        step = 2.0 ** (exponent - 8)
        assert got == round(value / step) * step


def test_bfloat16_of_odd_numbers() -> None:
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 3.4e38], np.float32)
    x.view(np.uint32)[0] = 0x7F800001  # a NaN all of whose digits would be cut off
    (y,) = RoundBFloat16().reference(x)
    assert np.isnan(y[0])
    assert y[1:].tolist() == [np.inf, -np.inf, 0.0, np.inf]
    assert np.signbit(y[3])
