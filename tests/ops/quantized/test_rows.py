"""Rows of quantized integers: kernels against references, references against real numbers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.errors import ShapeError
from vknn.graph import DType, TensorType
from vknn.ops.quantized import fixed_point as fp
from vknn.ops.quantized.rows import (
    FixedByteSoftmax,
    FixedSoftmax,
    QuantizedL2Normalization,
    QuantizedLayerNormalization,
    QuantizedLogSoftmax,
    QuantizedReduceProd,
)

SHAPES = [(1,), (7,), (3, 5), (2, 3, 37)]


def _codes(shape: tuple[int, ...], dtype: str, seed: int = 1) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max + 1, shape).astype(dtype)


def _table(step: float) -> np.ndarray:
    return np.exp(-step * np.arange(255, -1, -1)).astype(np.float32)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_log_softmax(shape: tuple[int, ...], dtype: str) -> None:
    info, scale = np.iinfo(dtype), 1 / 16
    low, high = int(info.min), int(info.max)
    op = QuantizedLogSoftmax(scale, high, low, high, DType(dtype), 0.03)
    x, table = _codes(shape, dtype), _table(0.03)
    check_op(op, x, table, constants={1})
    check_op(op, x, table, constants={1}, kind="discrete")
    (y,) = op.reference(x, table)
    real = np.exp(0.03 * (x.astype(float) - x.max(-1, keepdims=True).astype(float)))
    real /= real.sum(-1, keepdims=True)
    wanted = np.log(real) / scale + high
    assert np.abs(y - np.clip(wanted, low, high)).max() <= 0.51


def test_a_log_softmax_of_rows_that_workgroups_share_in_several_parts() -> None:
    op = QuantizedLogSoftmax(1 / 16, 127, -128, 127, DType.INT8, 0.05)
    check_op(
        op, _codes((3, 2311), "int8"), _table(0.05), constants={1}, kind="discrete",
        only="rows-shared",
    )  # fmt: skip


def _byte_table(step: float) -> np.ndarray:
    """Exponentials in 31 fractional bits; of large distances none."""
    distance = np.arange(255, -1, -1)
    terms = np.minimum(np.exp(-step * distance) * 2.0**31, 2**31 - 1)
    return np.where(distance < 201, terms, 0).astype(np.int32)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("made", ["int8", "uint8", "int16"])
def test_fixed_byte_softmax(shape: tuple[int, ...], dtype: str, made: str) -> None:
    info, op = np.iinfo(made), FixedByteSoftmax(DType(made))
    x, table = _codes(shape, dtype), _byte_table(0.03)
    check_op(op, x, table, constants={1})
    check_op(op, x, table, constants={1}, kind="discrete")
    (y,) = op.reference(x, table)
    distance = x.max(-1, keepdims=True).astype(float) - x
    real = np.exp(-0.03 * distance) * (distance < 201)
    wanted = real / real.sum(-1, keepdims=True) * 2.0**info.bits + info.min
    # 19 fractional bits in the sum, half of the last of the result's
    most = 0.51 + 2.0 ** (info.bits - 19) * shape[-1] / 2
    assert np.abs(y - np.clip(wanted, info.min, info.max)).max() <= most


@pytest.mark.parametrize("width", [1, 2, 37, 4096])
def test_fixed_byte_softmax_of_equal_numbers(width: int) -> None:
    """The largest sum of so many terms that 12 integer bits hold, and the smallest."""
    op, x = FixedByteSoftmax(DType.INT16), np.full((3, width), -7, np.int8)
    check_op(op, x, _byte_table(0.1), constants={1})
    check_op(op, x, _byte_table(0.1), constants={1}, kind="discrete", only="rows-shared")
    (y,) = op.reference(x, _byte_table(0.1))
    assert np.array_equal(y, np.full(x.shape, min(round(65536 / width) - 32768, 32767), np.int16))


@pytest.mark.parametrize("width", [257, 1001])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_fixed_byte_softmax_of_long_rows_of_equal_numbers(width: int, dtype: str) -> None:
    """Their products are shifted by more than the 31 bits that an integer has."""
    op, x = FixedByteSoftmax(DType(dtype)), np.full((3, width), 5, dtype)
    check_op(op, x, _byte_table(0.1), constants={1}, kind="discrete")
    low, real = np.iinfo(dtype).min, 256 / width
    assert np.abs(op.reference(x, _byte_table(0.1))[0] - (low + real)).max() <= 0.51


@pytest.mark.host
def test_a_log_softmax_whose_zero_point_its_type_does_not_hold() -> None:
    op = QuantizedLogSoftmax(1 / 16, -(1 << 31), -128, 127, DType.INT8, 0.03)
    with pytest.raises(ShapeError, match="zero point -2147483648 of int8"):
        op.infer(TensorType((3, 5), DType.INT8), TensorType((256,)))


def _fixed_tables(step: float) -> tuple[np.ndarray, np.ndarray]:
    terms = np.round(32767 * np.exp(-step * np.arange(65535, -1, -1.0))).astype(np.int32)
    place = np.arange(513) / 512
    return terms, np.minimum(np.round(32768 / (1 + place)), 32767).astype(np.int32)


@pytest.mark.parametrize("shape", SHAPES)
def test_fixed_softmax(shape: tuple[int, ...]) -> None:
    x = _codes(shape, "int16")
    terms, reciprocals = _fixed_tables(0.0001)
    check_op(FixedSoftmax(), x, terms, reciprocals, constants={1, 2})
    (y,) = FixedSoftmax().reference(x, terms, reciprocals)
    real = np.exp(0.0001 * (x.astype(float) - x.max(-1, keepdims=True)))
    real /= real.sum(-1, keepdims=True)
    assert np.abs(y - np.minimum(32768 * real, 32767)).max() <= 8


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_l2_normalization(shape: tuple[int, ...], dtype: str) -> None:
    zero = 128 if dtype == "uint8" else 0
    op, x = QuantizedL2Normalization(zero), _codes(shape, dtype)
    check_op(op, x)
    check_op(op, np.full(shape, zero, dtype))  # a sum of 0
    (y,) = op.reference(x)
    real = x.astype(float) - zero
    real /= np.sqrt((real * real).sum(-1, keepdims=True))
    wanted = np.clip(128 * real + zero, *((0, 255) if zero else (-128, 127)))
    assert np.abs(y - wanted).max() <= 1.0


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("real", [0.9, 0.013, 0.00002])
def test_reduce_prod(shape: tuple[int, ...], dtype: str, real: float) -> None:
    q, shift = fp.quantize_multiplier(real)
    check_op(QuantizedReduceProd(int(q), int(shift), 2, -3), _codes(shape, dtype))


def test_reduce_prod_by_more_than_16_bits_hold() -> None:
    """Shifts that are more than the product has bits behind the point."""
    for shift in (13, 14, 15, 30):
        check_op(QuantizedReduceProd((1 << 31) - 1, shift, 2, -3), _codes((7, 3), "int16"))


@pytest.mark.host
def test_reduce_prod_is_near_the_real_product() -> None:
    q, shift = fp.quantize_multiplier(0.05)
    x = np.array([[100, 30, -20], [1, 1, 1], [-90, 80, 70]], np.int8)
    (y,) = QuantizedReduceProd(int(q), int(shift)).reference(x)
    assert y.tolist() == [-7, 0, -63]  # -7.5 goes up


@pytest.mark.parametrize("shape", [(1, 4), (3, 5), (2, 67)])
def test_layer_normalization(shape: tuple[int, int]) -> None:
    x, op = _codes(shape, "int16"), QuantizedLayerNormalization(3e-5)
    x[0] = x[0, 0]  # a row without variance
    weight, bias = _codes(shape[1:], "int16", 2), _codes(shape[1:], "int16", 3).astype(np.int32)
    check_op(op, x, weight, bias, constants={1, 2})
    (y,) = op.reference(x, weight, bias)
    real = x[1:] - x[1:].mean(-1, keepdims=True)
    real = real / x[1:].std(-1, keepdims=True) * weight * 3e-5 + bias * (3e-5 / 1024)
    assert np.abs(y[1:] - np.clip(real * 4096, -32768, 32767)).max(initial=0) < 0.6


def test_layer_normalization_beyond_32_bits() -> None:
    x, op = np.array([[-3, 0, 4]], np.int16), QuantizedLayerNormalization(1e5)
    given = x, np.full(3, 30000, np.int16), np.zeros(3, np.int32)
    check_op(op, *given, constants={1, 2})
    assert op.reference(*given)[0].tolist() == [[-32768] * 3]
