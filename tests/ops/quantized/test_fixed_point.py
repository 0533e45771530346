"""Fixed-point ops: kernels against references, and the arithmetic against plain integers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.errors import ShapeError
from vknn.graph import DType, TensorType
from vknn.ops.quantized import fixed_point as fp
from vknn.ops.quantized.arithmetic import (
    KINDS,
    FloatRescale,
    QuantizedBinary,
    Rescale,
    TableLookup,
)

SHAPES = [(3,), (2, 7, 3), (1, 6, 5, 3)]


def _int8(shape: tuple[int, ...], seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, shape, np.int8)


def _half_away(value: Fraction) -> int:
    sign = -1 if value < 0 else 1
    return sign * int(abs(value) + Fraction(1, 2))


@pytest.mark.host
@pytest.mark.parametrize("a", [-(2**31), -7, -1, 0, 1, 12345, 2**31 - 1])
@pytest.mark.parametrize("b", [-(2**31), -3, 2**30, 2**31 - 1])
def test_doubling_high_multiply(a: int, b: int) -> None:
    found = int(fp.doubling_high_multiply(np.int64(a), np.int64(b)))
    if a == b == -(2**31):
        assert found == 2**31 - 1
        return
    # Halves go up, as the nudge is one less for negative products.
    assert found == (a * b + 2**30) >> 31


@pytest.mark.host
@pytest.mark.parametrize("x", [-17, -8, -5, -4, -1, 0, 3, 4, 12, 1000])
@pytest.mark.parametrize("e", [0, 1, 3, 31])
def test_rounding_divide(x: int, e: int) -> None:
    assert int(fp.rounding_divide_by_pot(np.int64(x), e)) == _half_away(Fraction(x, 2**e))


@pytest.mark.host
@pytest.mark.parametrize("real", [1e-12, 0.0003, 0.5, 0.75, 1.0, 3.7, 1000.25])
def test_multipliers_are_within_half_a_unit(real: float) -> None:
    q, shift = fp.quantize_multiplier(real)
    if real < 2.0**-32:
        assert (q, shift) == (0, 0)
        return
    assert 2**30 <= q < 2**31
    assert abs(float(q) * 2.0 ** (int(shift) - 31) - real) <= real * 2.0**-31


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["int8", "int32", "float32"])
def test_table_lookup(shape: tuple[int, ...], dtype: str) -> None:
    table = np.random.default_rng(2).integers(-100, 100, 256).astype(dtype)
    check_op(TableLookup(-128), _int8(shape), table, constants={1})


@pytest.mark.parametrize("shape", [(2, 5, 3), (1, 8, 3, 1)])
def test_table_of_bytes_of_another_sign(shape: tuple[int, ...]) -> None:
    x = _int8(shape).astype(np.uint8)
    table = np.random.default_rng(2).integers(-128, 128, 256).astype(np.int8)
    check_op(TableLookup(0), x, table, constants={1})
    check_op(TableLookup(-128), x.astype(np.int8), table.astype(np.uint8), constants={1})


def test_table_lookup_holds_to_the_ends() -> None:
    table = np.arange(5, dtype=np.int32)
    (y,) = TableLookup(-2).reference(np.array([-9, -2, 0, 2, 7], np.int8), table)
    assert y.tolist() == [0, 0, 2, 4, 4]
    check_op(TableLookup(-2), _int8((2, 5, 3)), table)


def test_table_of_floats_in_fp16() -> None:
    table = np.arange(256, dtype=np.float32)
    check_op(TableLookup(-128), _int8((2, 5, 3)), table, constants={1}, precision="fp16")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("real", [0.0031, 0.97, 5.3])
def test_rescale(shape: tuple[int, ...], real: float) -> None:
    q, shift = fp.quantize_multiplier(real)
    x = np.random.default_rng(3).integers(-70000, 70000, shape, np.int32)
    check_op(Rescale(int(q), int(shift), 7, 3, -4, -128, 127, DType.INT8), x)
    check_op(Rescale(int(q), int(shift)), x)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scale", [0.5, -0.031, 7.3])
def test_float_rescale(shape: tuple[int, ...], scale: float) -> None:
    x = np.random.default_rng(3).integers(-3000, 3000, shape, np.int32)
    check_op(FloatRescale(scale, 2.25, -4), x)
    (y,) = FloatRescale(0.5, 0.0).reference(np.array([-3, -1, 1, 3], np.int32))
    assert y.tolist() == [-2, -1, 1, 2]


def _settings(kind: str) -> QuantizedBinary:
    reals = (0.4, 0.25, 0.003) if kind in ("mul", "div") else (0.47, 0.31, 0.0000012)
    if kind == "squared_difference":
        reals = (0.5, 0.4, 0.00002)
    if kind == "div":
        reals = (0.0, 0.0, 0.9)
    pairs = [fp.quantize_multiplier(r) for r in reals]
    q = tuple(int(p[0]) for p in pairs)
    shifts = tuple(int(p[1]) for p in pairs)
    left = {"add": 20, "sub": 20, "squared_difference": 7}.get(kind, 0)
    if kind.startswith("float"):
        bits = fp.float_bits(np.array([0.5, 0.31, 0.003], np.float32))
        m = tuple(int(v) for v in bits)
        return QuantizedBinary(kind, DType.INT8, (3, 130), m, zero_out=-5)  # type: ignore[arg-type]
    if kind.startswith("shifted"):
        return QuantizedBinary(kind, DType.INT16, shifts=(-3, 0, 0), low=-32768, high=32767)
    return QuantizedBinary(kind, DType.INT8, (3, 130), q, shifts, left, -5)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "shapes",
    [((5,), (5,)), ((2, 7, 3), (7, 1)), ((1, 5, 3, 2), (1, 5, 1, 1)), ((3, 1, 4), (1, 5, 1))],
    ids=["same", "column", "channel", "both"],
)
def test_binary(kind: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    check_op(_settings(kind), _int8(shapes[0], 4), _int8(shapes[1], 5))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(2, 7, 3), (1, 8, 1, 5)])
def test_binary_of_bytes_of_other_signs(kind: str, shape: tuple[int, ...]) -> None:
    a, b = _int8(shape, 4), _int8(shape, 5)
    check_op(_settings(kind), a, b)
    check_op(_settings(kind), a.astype(np.uint8), b)
    check_op(_settings(kind), a, b.astype(np.uint8))


def test_high_halves_of_doubled_products() -> None:
    ends = np.array([-32768, -32768, 32767, 1, -1, 3, -3, 255], np.int16)
    a = np.concatenate([ends, _int8((43,), 8).astype(np.int16) * 253])
    b = np.concatenate([ends[::-1], _int8((43,), 9).astype(np.int16) * 251])
    b[0] = -32768
    op = QuantizedBinary("doubling_high", DType.INT16, low=-32768, high=32767)
    check_op(op, a, b)
    (y,) = op.reference(a, b)
    assert y[0] == 32767  # 1 would be 32768
    halves_away = np.trunc(a.astype(np.float64) * b / 32768 + np.copysign(0.5, 1.0 * a * b))
    np.testing.assert_allclose(y[1:], halves_away[1:], atol=1)


@pytest.mark.host
@pytest.mark.parametrize("kind", ["add", "sub", "mul", "div"])
def test_binary_is_near_the_real_result(kind: str) -> None:
    """With scales 0.1, 0.2 and 0.5 (mul 0.05) the results are those of the real numbers.

    Each is rounded twice, the first time with at least one more bit: 0.25 + 0.5 at the most.
    """
    a, b = _int8((400,), 6), _int8((400,), 7)
    b = np.where(b == 0, 1, b).astype(np.int8)
    if kind == "div":  # where the quotient is tiny the kernel's shifts do not fit
        large = np.abs(a.astype(int)) > 0.7 * np.abs(b.astype(int))
        a, b = a[large], b[large]
    scale = {"mul": 0.05, "div": 0.625}.get(kind, 0.5)
    real = {
        "add": a * 0.1 + b * 0.2,
        "sub": a * 0.1 - b * 0.2,
        "mul": a * 0.1 * (b * 0.2),
        "div": (a * 0.1) / (b * 0.2),
    }[kind]
    factors = {"mul": (0, 0, 0.02 / scale), "div": (0, 0, 0.5 / scale)}.get(
        kind, (0.25, 0.5, 0.4 / (2**20 * scale))
    )
    pairs = [fp.quantize_multiplier(f) for f in factors]
    op = QuantizedBinary(
        kind,
        DType.INT8,
        (0, 0),
        tuple(int(p[0]) for p in pairs),  # type: ignore[arg-type]
        tuple(int(p[1]) for p in pairs),  # type: ignore[arg-type]
        20 if kind in ("add", "sub") else 0,
    )
    (y,) = op.reference(a, b)
    assert np.abs(y - np.clip(real / scale, -128, 127)).max() <= 0.75 + 1e-4


@pytest.mark.host
def test_products_rounded_once_are_cut_to_32_bits() -> None:
    most = (1 << 31) - 1
    assert int(fp.multiply_wide(3, 1 << 30, 1)) == 3
    assert int(fp.multiply_wide(1 << 20, most, 14)) == fp.wrapped((1 << 20) * 0x7FFF >> 1)
    assert int(fp.multiply_once(5, most, 30)) == fp.wrapped((5 * most + 1) >> 1)
    for shift in (15, 16, 30):  # no shift to the right is left
        assert int(fp.multiply_wide(7, most, shift)) == int(fp.multiply_wide(7, most, 14))


@pytest.mark.host
def test_products_of_64_bits() -> None:
    """All bits of the product count, however many are shifted away."""
    rng = np.random.default_rng(5)
    x = rng.integers(-(1 << 63), 1 << 63, 999) >> rng.integers(0, 63, 999)
    q, shift = rng.integers(1 << 30, 1 << 31, 999), rng.integers(-31, 31, 999)
    found = fp.multiply_long(x, q, shift)
    for i, (a, b, c) in enumerate(zip(x.tolist(), q.tolist(), shift.tolist(), strict=True)):
        exact = (a * b + (1 << (30 - c))) >> (31 - c)
        assert (exact - int(found[i])) % (1 << 32) == 0
    assert (np.abs(found) <= 1 << 31).all()


def test_a_float_rescale_beyond_float32() -> None:
    x = np.array([-(1 << 31), -7, 0, 1, 9, (1 << 31) - 1], np.int32)
    for scale, bias in ((3e38, 0.0), (3e38, -3e38), (1e30, 1e30), (-2e38, 5.0)):
        check_op(FloatRescale(scale, bias, 6), x)
    (y,) = FloatRescale(3e38, 0.0, 6).reference(x)
    assert y.tolist() == [-128, -128, 6, 127, 127, 127]
    with pytest.raises(ShapeError, match="inf and 0.0 are no numbers of float32"):
        FloatRescale(np.inf, 0.0).infer(TensorType((3,), DType.INT32))


def test_operands_that_are_shifted_away() -> None:
    a, b = (np.array([-32768, -1, 0, 1, 32767], np.int16) for _ in range(2))
    op = QuantizedBinary("shifted_sub", DType.INT16, shifts=(-1, -31, 0), low=-32768, high=32767)
    np.testing.assert_array_equal(op.reference(a, b)[0], [-16384, -1, 0, 1, 16384])
    check_op(op, a, b)
    with pytest.raises(ShapeError, match="shifts of 32 bits"):
        QuantizedBinary("shifted_sub", DType.INT16, shifts=(-1, -32, 0)).infer(
            TensorType((5,), DType.INT16), TensorType((5,), DType.INT16)
        )
