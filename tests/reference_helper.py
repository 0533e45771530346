"""Tests of what an op means: ``reference`` against an independent formulation, and ``infer``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from vknn.errors import ShapeError
from vknn.graph import DType, Op, TensorType


def data(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    """Normal floats, or integers from the whole range of an 8-bit type (+-1000 for others)."""
    rng = np.random.default_rng([seed, *shape])
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(max(info.min, -1000), min(info.max, 1000), shape, dtype, endpoint=True)


def f32(*shape: int | None) -> TensorType:
    return TensorType(shape)


def i8(*shape: int | None) -> TensorType:
    return TensorType(shape, DType.INT8)


def i32(*shape: int | None) -> TensorType:
    return TensorType(shape, DType.INT32)


def check(
    op: Op,
    *arrays: np.ndarray | None,
    expected: np.ndarray | Sequence[np.ndarray],
    tolerance: float = 2e-6,
) -> None:
    """Compares ``op.reference`` with ``expected`` and ``op.infer`` with what came out.

    Integers must be equal; floats within ``tolerance`` of the largest magnitude expected.
    """
    before = [None if a is None else a.copy() for a in arrays]
    results = op.reference(*arrays)
    for old, array in zip(before, arrays, strict=True):
        assert old is None or np.array_equal(old, array, equal_nan=old.dtype.kind == "f"), (
            f"{op} changed its input"
        )
    wanted = [expected] if isinstance(expected, np.ndarray) else list(expected)
    inferred = op.infer(*(None if a is None else TensorType.of(a) for a in arrays))
    assert len(results) == len(wanted) == len(inferred)
    for result, want, type_ in zip(results, wanted, inferred, strict=True):
        assert isinstance(result, np.ndarray)
        assert DType.of(result) is type_.dtype, f"{op}: {result.dtype}, inferred {type_}"
        assert fits(result.shape, type_.shape), f"{op}: {result.shape}, inferred {type_}"
        assert result.shape == want.shape, f"{op}: {result.shape}, expected {want.shape}"
        scale = np.max(np.abs(want[np.isfinite(want)]), initial=0)
        slack = float(scale) * tolerance if result.dtype.kind == "f" else 0
        np.testing.assert_allclose(result, want, rtol=0, atol=slack, err_msg=str(op))


def fits(shape: Sequence[int], pattern: Sequence[int | None]) -> bool:
    if len(shape) != len(pattern):
        return False
    return all(p is None or p == s for s, p in zip(shape, pattern, strict=True))


def refuses(op: Op | Callable[[], Op], *types: TensorType | None, match: str = "") -> None:
    """``op`` (or making it) must raise ShapeError for these types."""
    with pytest.raises(ShapeError, match=match):
        (op if isinstance(op, Op) else op()).infer(*types)
