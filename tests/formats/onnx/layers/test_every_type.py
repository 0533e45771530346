"""Element types that a schema allows and few files have."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from tests.formats.onnx.layers.conftest import Run

FLOAT8 = [
    np.dtype(getattr(ml_dtypes, name))
    for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
]


@pytest.mark.parametrize("kind", FLOAT8, ids=str)
def test_floats_of_8_bits(run: Run, kind: np.dtype) -> None:
    x = np.float32([[0.5, -3, 1], [2, np.nan, -1.5]]).astype(kind)
    (found,) = run("IsNaN", [x], 20)
    assert found.tolist() == [[False, False, False], [False, True, False]]
    (found,) = run("IsInf", [np.float32([1, np.inf, -np.inf]).astype(kind)], 20, detect_negative=0)
    assert found.tolist() == [False, kind == np.dtype(ml_dtypes.float8_e5m2), False]
    (found,) = run("Dropout", [x], 22)
    assert found.dtype == kind and (found.view(np.uint8) == x.view(np.uint8)).all()
    ones = np.ones(4000, np.float32).astype(kind)
    kept, mask = run("Dropout", [ones, np.array(0.5, kind), np.array(True)], 22, outputs=2)
    assert kept.dtype == kind and (kept.astype(np.float32) == 2.0 * mask).all()
    assert 0.4 < mask.mean() < 0.6
    one, zero = np.float32(1), np.array(0, kind)
    a, b = np.float32([[0.5, 2], [-3, 1]]).astype(kind), np.float32([[4], [-0.5]]).astype(kind)
    (found,) = run("QLinearMatMul", [a, one, zero, b, one, zero, np.float32(0.5), zero], 21)
    want = np.float32([[2], [-25]]).astype(kind)
    assert found.dtype == kind and found.astype(float).tolist() == want.astype(float).tolist()
    byte = np.array(9, np.uint8)
    (found,) = run("QLinearMatMul", [a, one, zero, b, one, zero, np.float32(-5), byte], 21)
    assert found.dtype == np.uint8 and found.tolist() == [[9], [11]]


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int32, np.int64, np.uint64])
def test_error_functions_of_integers(run: Run, kind: type) -> None:
    """Without their fraction; version 13 takes no integers."""
    (found,) = run("Erf", [np.array([0, 1, 3, 100], kind)], 9)
    assert found.dtype == kind and found.tolist() == [0, 0, 0, int(math.erf(100))]


@pytest.mark.parametrize("kind", [np.int32, np.uint32, np.int64, np.uint64])
def test_factors_with_fractions_of_integers(run: Run, kind: type) -> None:
    a, b, bias = (np.array(v, kind) for v in ([[1, 2], [3, 5]], [[1, 1], [2, 4]], [1, 3]))
    (found,) = run("Gemm", [a, b, bias], 13, alpha=0.5, beta=1.5)
    want = np.trunc(0.5 * (a @ b).astype(float) + 1.5 * bias.astype(float))
    assert found.dtype == kind and found.tolist() == want.tolist()
    (found,) = run("Gemm", [a, b, bias], 13, alpha=2.0, beta=3.0)
    assert found.tolist() == (2 * (a @ b) + 3 * bias).tolist()


def test_sizes_of_parts_as_floats(run: Run) -> None:
    """The first version of Split takes them in the type of what is split."""
    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    found = run("Split", [x, np.float32([2, 3])], 1, outputs=2, axis=0)
    assert [part.tolist() for part in found] == [x[:2].tolist(), x[2:].tolist()]


@pytest.mark.parametrize("name", ["float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"])
def test_zero_points_of_floats_of_few_bits(run: Run, name: str) -> None:
    """They count for these, as in ONNX's reference; it takes those of float6 off again."""
    kind = np.dtype(getattr(ml_dtypes, name))
    x, scale, zero = np.float32([1, -2, 3]), np.float32(2), np.array(1, kind)
    (found,) = run("QuantizeLinear", [x, scale, zero], 28)
    want = np.float32([1.5, 0, 2.5]).astype(kind)
    assert found.dtype == kind and found.astype(float).tolist() == want.astype(float).tolist()
    (again,) = run("DequantizeLinear", [found, scale, zero], 28)
    less = 0 if name == "float4_e2m1fn" else 1
    assert again.tolist() == ((found.astype(np.float32) - less) * 2).tolist()
