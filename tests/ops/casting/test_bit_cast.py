"""BitCast on the device."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.graph import DType
from vknn.ops.casting import BitCast

TYPES = ("float32", "float16", "int8", "uint8", "int16", "int32", "bool")


def held(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers whose bits differ, none of which is NaN."""
    rng = np.random.default_rng(5)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.startswith("float"):
        return (rng.standard_normal(shape) * 100).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


@pytest.mark.parametrize(("source", "target"), list(itertools.product(TYPES, TYPES)))
def test_pairs(source: str, target: str) -> None:
    ratio = np.dtype(target).itemsize // np.dtype(source).itemsize
    x = held(source, (3, 5, ratio) if ratio > 1 else (3, 5))
    if target.startswith("float") and not source.startswith("float"):
        whole = held(target, (3, 4))  # none is NaN
        x = whole.view(np.uint8) % 2 != 0 if source == "bool" else whole.view(source)
        x = x.reshape(3, -1, ratio) if ratio > 1 else x
    check_op(BitCast(DType(target)), x, access=("storage",))


def test_ways_to_read() -> None:
    check_op(BitCast(DType.UINT8), held("float32", (7,)))
    check_op(BitCast(DType.FLOAT32), held("int16", (7, 2)) & 0x3FFF)


def test_in_fp16() -> None:
    check_op(BitCast(DType.INT16), held("float16", (7,)), precision="fp16")
    check_op(BitCast(DType.INT32), held("float32", (7,)), precision="fp16", host=True)
