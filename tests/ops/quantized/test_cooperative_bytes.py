"""Quantized convolutions by cooperative matrices of int8, exact, where the device has them."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
from tests.helpers import check_op, shared_device, single_op_graph
from tests.ops.quantized.convolutions import conv, operands
from tests.ops.quantized.test_convolution_sum import added

from vknn.graph import DType
from vknn.lowering import LoweringOptions, candidates
from vknn.ops.elementwise import Fused, FusedStep
from vknn.ops.quantized import fixed_point as fp

# llvmpipe takes long to compile the large tile.
check = functools.partial(
    check_op, kind="discrete", access=("storage",), only="cooperative32", constants=(1, 2, 3, 4)
)


@pytest.fixture(autouse=True)
def _matrices() -> None:
    """Skips where the device has no matrices of int8."""
    limits = dataclasses.replace(shared_device().limits, kind="discrete")
    graph = single_op_graph(conv(), [*operands((1, 4, 2, 2), (4, 4, 1, 1), 4)], (1, 2, 3, 4))
    found = candidates(graph.nodes[0], limits, LoweringOptions())
    if not any(c.name.startswith("cooperative") for c in found):
        pytest.skip(f"{shared_device().name} has no cooperative matrices of int8")


CONVOLUTIONS = {
    "1x1": ({}, (2, 7, 5, 5), (6, 7, 1, 1)),
    "several rounds": ({}, (1, 67, 3, 5), (41, 67, 1, 1)),
    "3x3": ({"pads": (1, 1, 1, 1)}, (1, 5, 7, 6), (11, 5, 3, 3)),
    "several tiles": ({"pads": (1, 1, 1, 1)}, (1, 7, 11, 13), (71, 7, 3, 3)),
    "strides": ({"strides": (2, 1), "pads": (0, 2, 3, 1), "dilations": (1, 3)},
                (2, 3, 7, 9), (5, 3, 4, 2)),
    "groups": ({"group": 2, "pads": (1, 1, 1, 1)}, (1, 8, 5, 5), (24, 4, 3, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_convolutions(name: str, dtype: str) -> None:
    attributes, x, w = CONVOLUTIONS[name]
    zero = 131 if dtype == "uint8" else -7
    op = conv(**attributes, zero_in=zero, zero_out=3, low=-120, high=99)
    check(op, *operands(x, w, w[0], dtype))


def test_the_large_tile() -> None:
    _, x, w = CONVOLUTIONS["several tiles"]
    op = conv(pads=(1, 1, 1, 1), zero_in=-7)
    check(op, *operands(x, w, w[0]), only="cooperative64")


def test_the_ends_of_the_range() -> None:
    x = np.array([-128, 127, -128, 127], np.int8).repeat(9).reshape(1, 4, 3, 3)
    w = np.array([-128, 127, 127, -128], np.int8).reshape(1, 4, 1, 1).repeat(5, 0)
    q, shift = fp.quantize_multiplier(np.full(5, 0.001))
    for zero in (-128, 127):
        op = conv(zero_in=zero, pads=(1, 1, 1, 1), dtype=DType.INT8)
        check(op, x, w, None, q, shift, constants=(1, 3, 4))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_sum_with_another_tensor(dtype: str) -> None:
    info = np.iinfo(dtype)
    x, w, bias, q, shift = operands((1, 5, 7, 5), (11, 5, 3, 3), 11, dtype)
    low, high = int(info.min), int(info.max)
    base = conv(pads=(1, 1, 1, 1), zero_in=low + 37, low=low, high=high, dtype=DType(dtype))
    (y,) = base.reference(x, w, bias, q, shift)
    other = np.random.default_rng(5).integers(low, high + 1, y.shape).astype(dtype)
    op = Fused(base, (FusedStep(added(dtype), operand=0),))
    check(op, x, w, bias, q, shift, other)
