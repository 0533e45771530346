"""Gemm, Convert and Copy against NumPy."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.openvino.many import BACKENDS, Fixed, Many, refuse


def made(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gemm(backend: str, tmp_path: Path) -> None:
    many = Many(1e-5)
    for lead, other in (((), ()), ((2, 3), (2, 3)), ((2, 1), (1, 3)), ((4,), ()), ((), (2, 2))):
        for first, second in itertools.product((False, True), repeat=2):
            a, b = made(*lead, 4, 5), made(*other, 5, 6, seed=1)
            left = a.swapaxes(-1, -2).copy() if first else a
            right = b.swapaxes(-1, -2).copy() if second else b
            attributes: dict[str, Any] = {"transpose_a": first, "transpose_b": second}
            many.add("Gemm", [left, right], a @ b, attributes)
            many.add("Gemm", [left, Fixed(right)], a @ b, attributes)
    c = made(6)
    y = 0.5 * (a @ b) - 2 * c
    many.add("Gemm", [a, b, c], y.astype(np.float32), {"alpha": 0.5, "beta": "-2"})
    many.add("Gemm", [a, b, c], a @ b + c)
    many.check(backend, tmp_path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_convert(backend: str, tmp_path: Path) -> None:
    many = Many()
    x = 5 * made(3, 4)
    whole = np.arange(-4, 4, dtype=np.int32)
    many.add("Convert", [x], x.astype(np.int32), {"precision": "I32"})
    many.add("Convert", [x], x.astype(np.int32))
    many.add("Convert", [whole], whole.astype(np.float32), {"precision": "FP32"})
    many.add("Convert", [whole], whole.astype(np.uint8))
    many.add("Copy", [x], x)
    many.check(backend, tmp_path)


def test_contradictions(tmp_path: Path) -> None:
    refuse(tmp_path, "Gemm", [made(2, 3), made(2, 3)], [(2, 3)], {}, "MatMul")
    refuse(tmp_path, "Gemm", [made(2, 3), made(3)], [(2,)], {}, "no matrix")
