"""Casts to and from element types that NumPy lacks, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from vknn.errors import ShapeError
from vknn.graph import DType, TensorType
from vknn.ops.casting import AsString, BitCast, LowPrecisionCast, StringToNumber


def cast(numbers: list[float], to: DType, **options: object) -> list[float]:
    (found,) = LowPrecisionCast(to, **options).reference(np.float32(numbers))
    assert DType.of(found) is to
    return found.astype(np.float32).tolist()


def test_floats_of_eight_bits() -> None:
    assert cast([1.0, 17.0, 19.0, 1e6, -np.inf], DType.FLOAT8E4M3FN) == [1, 16, 20, 448, -448]
    assert cast([1e6, -1e6], DType.FLOAT8E5M2, saturate=False) == [np.inf, -np.inf]
    assert np.isnan(cast([1e6], DType.FLOAT8E4M3FN, saturate=False)).all()
    assert cast([3.0, 4.0], DType.FLOAT8E8M0, rounding="up") == [4, 4]
    assert cast([3.0, 5.0], DType.FLOAT8E8M0, rounding="down") == [2, 4]
    assert cast([0.3, 100.0], DType.FLOAT4E2M1) == [0.5, 6]


def test_integers_of_few_bits_keep_their_lowest() -> None:
    assert cast([7.9, 8.0, -1.5, 17.0], DType.INT4) == [7, -8, -1, 1]
    assert cast([15.0, 16.0, -1.0], DType.UINT4) == [15, 0, 15]
    assert cast([1.0, 2.0, -2.0], DType.INT2) == [1, -2, -2]


def test_numbers_and_text() -> None:
    (text,) = AsString().reference(np.float32([1.5, -2.0, np.inf, np.nan, 1e10]))
    assert text.tolist() == [b"1.5", b"-2", b"INF", b"NaN", b"1e+10"]
    (back,) = StringToNumber(DType.FLOAT32).reference(text)
    assert np.array_equal(back, np.float32([1.5, -2, np.inf, np.nan, 1e10]), equal_nan=True)
    with pytest.raises(ShapeError, match="is no int64"):
        StringToNumber(DType.INT64).reference(np.array([b"one"], object))


def test_bits_as_they_are() -> None:
    (found,) = BitCast(DType.INT32).reference(np.float32([1.0, -0.0]))
    assert found.tolist() == [0x3F800000, -(1 << 31)]
    (halves,) = BitCast(DType.UINT16).reference(np.int32([[0x12345678]]))
    assert halves.tolist() == [[[0x5678, 0x1234]]]
    (whole,) = BitCast(DType.INT32).reference(halves)
    assert whole.tolist() == [[0x12345678]]
    (truth,) = BitCast(DType.BOOL).reference(np.int16([0x0200]))
    assert truth.tolist() == [[False, True]]


def test_bits_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ShapeError, match="no last axis of 2 for int32"):
        BitCast(DType.INT32).infer(TensorType((2, 3), DType.INT16))
    with pytest.raises(ShapeError, match="no last axis of 4"):
        BitCast(DType.INT32).infer(TensorType((), DType.INT8))
    with pytest.raises(ShapeError, match="differ in width"):
        BitCast(DType.INT16).infer(TensorType((2,), DType.INT4))
