"""CumSum and CumProd on the device, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.ops.reduction import CumProd, CumSum

RNG = np.random.default_rng(53)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(7,), (5, 8), (3, 5, 7), (2, 5, 3, 7), (1, 6, 2, 8)])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumsum(shape: tuple[int, ...], exclusive: bool, reverse: bool) -> None:
    for axis in range(len(shape)):
        check_op(CumSum(axis, exclusive, reverse), floats(*shape), access=("image",))
        x = RNG.integers(-(2**30), 2**30, shape, np.int32)
        check_op(CumSum(axis, exclusive, reverse), x, access=("storage",), kind="discrete")


def test_long_rows() -> None:
    for reverse in (False, True):
        check_op(CumSum(1, reverse=reverse), floats(2, 5003), access=("image",))
        check_op(CumSum(0, True, reverse), floats(5003, 4), access=("storage",), kind="discrete")
    check_op(CumSum(1), floats(1000, 9), access=("storage",))


def test_in_fp16() -> None:
    for shape in ((2, 8, 3, 5), (3, 7)):
        check_op(CumSum(1), floats(*shape), precision="fp16")
        check_op(CumSum(len(shape) - 1, True, True), floats(*shape), precision="fp16")


@pytest.mark.parametrize("reverse", [False, True])
def test_products(reverse: bool) -> None:
    for exclusive in (False, True):
        for axis in range(4):
            op = CumProd(axis, exclusive, reverse)
            check_op(op, floats(2, 5, 3, 7), access=("texel",))
            x = RNG.integers(-9, 9, (2, 5, 3, 7), np.int32)
            check_op(op, x, access=("storage",), kind="discrete")
    # Elements near 1, so that products neither vanish nor leave the range.
    long = (1 + floats(3, 1009) / 64).astype(np.float32)
    check_op(CumProd(1, reverse=reverse), long, access=("storage",), kind="discrete")
    check_op(CumProd(0, reverse=reverse), long, precision="fp16")
