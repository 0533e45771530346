"""Glu: on the device against NumPy, and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.errors import ShapeError
from vknn.graph import TensorType
from vknn.ops.elementwise.glu import Glu

RNG = np.random.default_rng(53)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(7,), (5, 8), (2, 8, 3, 7), (1, 9, 2, 6), (2, 16, 4)])
def test_glu(shape: tuple[int, ...]) -> None:
    for axis in range(len(shape)):
        if shape[axis] > 1:
            check_op(Glu(axis), floats(*shape))


def test_in_fp16() -> None:
    for shape in ((2, 8, 3, 5), (3, 7)):
        check_op(Glu(1), floats(*shape), precision="fp16")


def test_halves() -> None:
    x = np.array([[1.0, 2.0, 0.0, math.log(3), 9.0]], np.float32)
    np.testing.assert_allclose(Glu(1).reference(x)[0], [[0.5, 1.5]], rtol=1e-6)
    assert Glu(-1).infer(TensorType((1, 5)))[0].shape == (1, 2)
    with pytest.raises(ShapeError, match="halves"):
        Glu(0).infer(TensorType((1, 5)))
