"""bfloat16 bit for bit: what the host and what kernels make of every kind of float32."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.helpers import ACCESS_MODES, run_graph, shared_device, single_op_graph, skip_without_half

from vknn import bfloat16
from vknn.lowering import Layout, LoweringOptions, lower
from vknn.ops.elementwise import Neg
from vknn.ops.quantized.linear import RoundBFloat16

#: float32 as bits -> the nearest bfloat16, by hand.
ROUNDED = {
    0x00000000: 0x0000,
    0x80000000: 0x8000,
    0x3F800000: 0x3F80,  # 1
    0x3F807FFF: 0x3F80,  # below half of the way
    0x3F808000: 0x3F80,  # half of the way, to even
    0x3F808001: 0x3F81,
    0x3F818000: 0x3F82,  # half of the way, to even
    0xBF818000: 0xBF82,
    0x3FFF8000: 0x4000,  # into the next power of two
    0x7F7F7FFF: 0x7F7F,  # the largest that stays finite
    0x7F7F8000: 0x7F80,  # infinite from here on
    0xFF7FFFFF: 0xFF80,
    0x7F800000: 0x7F80,
    0xFF800000: 0xFF80,
    0x7F800001: 0x7FC0,  # a NaN whose upper half alone would be infinite
    0x7FC00000: 0x7FC0,
    0xFFFFFFFF: 0xFFFF,
    0x7FBFFFFF: 0x7FFF,
}
#: Those that a device may flush to zero where it computes with them.
SUBNORMAL = {
    0x00000001: 0x0000,
    0x00008000: 0x0000,
    0x00008001: 0x0001,
    0x00018000: 0x0002,
    0x007FFFFF: 0x0080,  # into the smallest normal number
    0x80410000: 0x8041,
}
ALL = ROUNDED | SUBNORMAL


def floats(table: dict[int, int]) -> np.ndarray:
    return np.array(list(table), np.uint32).view(np.float32)


def expected(table: dict[int, int]) -> np.ndarray:
    return np.array(list(table.values()), np.uint16)


def test_the_host_rounds() -> None:
    np.testing.assert_array_equal(bfloat16.bits_of(floats(ALL)), expected(ALL))
    for shape in [(), (0,), (3, 2)]:
        zeros = np.zeros(shape, np.float16)
        assert bfloat16.bits_of(zeros).shape == bfloat16.rounded(zeros).shape == shape
        assert bfloat16.rounded(zeros).dtype == np.float16


def test_what_it_holds_comes_back() -> None:
    bits = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    back = bfloat16.bits_of(bfloat16.floats_of(bits))
    nan = np.isnan(bfloat16.floats_of(bits))
    np.testing.assert_array_equal(back, np.where(nan, bits | 0x40, bits))


@pytest.mark.parametrize("access", ACCESS_MODES)
def test_kernels_store_what_the_host_would(access: str) -> None:
    """Every bfloat16 through a kernel that loads, changes a sign, and stores it."""
    skip_without_half()
    bits = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    x = bfloat16.floats_of(bits)
    size = np.abs(x)
    x = x[~np.isnan(x) & ((size == 0) | (size >= 2.0**-126))]
    limits = dataclasses.replace(shared_device().limits, preferred_access=access)
    options = LoweringOptions(precision="bf16")
    y = run_graph(single_op_graph(Neg(), [x]), limits, options, {"x0": x})["y0"]
    np.testing.assert_array_equal(y.view(np.uint32), (-x).view(np.uint32))


@pytest.mark.parametrize("access", ACCESS_MODES)
@pytest.mark.parametrize("spatial", [(7, 11), (4, 7)], ids=str)
def test_kernels_round(spatial: tuple[int, int], access: str) -> None:
    """Repacks from float32 and back, as at the edges of a GPU's plans, only move bits."""
    skip_without_half()
    shape = (1, 5, *spatial)
    x, wanted = np.resize(floats(ALL), shape), np.resize(expected(ALL), shape)
    limits = dataclasses.replace(shared_device().limits, kind="discrete", preferred_access=access)
    options = LoweringOptions(precision="bf16", layout=Layout.C4)
    graph = single_op_graph(RoundBFloat16(), [x])
    plan = lower(graph, limits, options)
    assert sum(("SINGLE", "1") in d.variant for d in plan.dispatches) == 2
    y = run_graph(graph, limits, options, {"x0": x})["y0"]
    np.testing.assert_array_equal(y.view(np.uint32), wanted.astype(np.uint32) << 16)
