"""DynamicUpdateSlice on the device."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.ops.movement.rearrange import DynamicUpdateSlice

CASES = [
    ((7,), (3,), (2,)),
    ((7,), (3,), (6,)),
    ((8,), (4,), (-5,)),
    ((8,), (8,), (3,)),
    ((3, 5), (2, 2), (1, 9)),
    ((5, 8), (1, 8), (4, 7)),
    ((2, 7, 5), (1, 3, 5), (1, 2, -1)),
    ((1, 7, 3, 4), (1, 1, 3, 4), (0, 5, 0, 0)),
    ((2, 3, 2, 3, 5, 3), (1, 2, 1, 2, 3, 2), (1, 1, 0, 9, -9, 1)),
    ((1, 2, 3, 1, 2, 3, 2, 1), (1, 1, 2, 1, 2, 2, 2, 1), (0, 1, 1, 0, 0, 1, 0, 0)),
    ((7,), (2,), (2**31 - 1,)),
    ((7,), (2,), (-(2**31),)),
]


@pytest.mark.parametrize(("shape", "part", "starts"), CASES)
def test_update(shape: tuple[int, ...], part: tuple[int, ...], starts: tuple[int, ...]) -> None:
    rng, begins = np.random.default_rng(3), np.array(starts, np.int32)
    x = rng.standard_normal(shape).astype(np.float32)
    update = rng.standard_normal(part).astype(np.float32)
    check_op(DynamicUpdateSlice(), x, update, begins)
    whole = rng.integers(-128, 128, shape).astype(np.int8)
    check_op(DynamicUpdateSlice(), whole, np.ones(part, np.int8), begins, access=("storage",))


def test_in_fp16() -> None:
    x, begins = np.arange(24, dtype=np.float32).reshape(3, 8), np.array([1, 4], np.int32)
    for part in ((1, 3), (2, 8)):
        check_op(DynamicUpdateSlice(), x, -np.ones(part, np.float32), begins, precision="fp16")


def test_on_the_host() -> None:
    x, begins = np.ones((2,) * 8, np.float32), np.zeros(8, np.int32)
    part = np.ones((1,) * 8, np.float32)  # more axes than the kernel has, none of them whole
    check_op(DynamicUpdateSlice(), x, part, begins, host=True)
    check_op(DynamicUpdateSlice(), x[0], part[0, :0], begins[1:], host=True)
    check_op(DynamicUpdateSlice(), np.ones(()), np.ones(()), begins[:0], host=True)
