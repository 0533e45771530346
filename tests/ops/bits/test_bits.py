"""Operators on the bits of integers on the device."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.ops.bits import BitShift, BitwiseAnd, BitwiseNot, BitwiseOr, BitwiseXor

TYPES = ("int8", "uint8", "int16", "int32")
SHAPES = [((7,), (7,)), ((3, 5), (5,)), ((2, 1, 4), (3, 1)), ((1, 5, 3, 2), (1, 5, 1, 1)), ((), ())]


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 1) -> np.ndarray:
    info = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    return np.asarray(rng.integers(info.min, info.max + 1, shape), dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", [BitwiseAnd(), BitwiseOr(), BitwiseXor()], ids=str)
def test_two_operands(op: BitwiseAnd, dtype: str) -> None:
    for a, b in SHAPES:
        check_op(op, numbers(a, dtype), numbers(b, dtype, 2), access=("storage",))


@pytest.mark.parametrize("dtype", TYPES)
def test_not(dtype: str) -> None:
    for shape in ((7,), (1, 5, 3, 2), (2, 8)):
        check_op(BitwiseNot(), numbers(shape, dtype), access=("storage",))


@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
@pytest.mark.parametrize("dtype", TYPES)
def test_shifts(left: bool, dtype: str) -> None:
    info = np.iinfo(dtype)
    places = np.array([0, 1, 3, 7, 8, 15, 31, 32, 100, info.min, info.max]).clip(info.min, info.max)
    x = numbers((3, 11), dtype)
    check_op(BitShift(left), x, places.astype(dtype), access=("storage",))
    check_op(BitShift(left), x.reshape(1, 33, 1), x[:1, :1, None], access=("storage",))


def test_ways_to_read() -> None:
    check_op(BitwiseXor(), numbers((3, 5), "int32"), numbers((3, 1), "int32", 2))
    check_op(BitwiseXor(), numbers((3, 8), "int8"), numbers((8,), "int8", 2))
