"""Convolutions whose output is one pixel, and products of one row, as on a GPU."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
from tests.helpers import check_op, single_op_graph
from tests.lowering.limits import DISCRETE, MINIMUM

from vknn.graph import Op
from vknn.lowering import LoweringOptions, candidates
from vknn.lowering.kernels.convolution.row import pack_row
from vknn.lowering.kernels.matmul.gemm import Gemm
from vknn.lowering.kernels.matmul.kernels import row_split
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Add, Fused, FusedStep, Sigmoid
from vknn.ops.matmul import MatMul
from vknn.plan import DeviceLimits

RNG = np.random.default_rng(2)
check = functools.partial(check_op, kind="discrete", access=("storage",), only="row")


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def conv(axes: int, stride: int = 1, pads: tuple[int, ...] | None = None) -> Conv:
    return Conv((stride,) * axes, pads or (0,) * 2 * axes, (1,) * axes)


CASES = {
    "1x1": (conv(2), (1, 33, 1, 1), (37, 33, 1, 1)),
    "1x1 strided": (conv(2, 2), (2, 8, 1, 1), (12, 8, 1, 1)),
    "whole image": (conv(2), (3, 5, 2, 3), (6, 5, 2, 3)),
    "long": (conv(2), (1, 520, 1, 1), (7, 520, 1, 1)),
    "1-D": (conv(1), (2, 3, 5), (9, 3, 5)),
    "3-D": (conv(3), (1, 2, 2, 1, 3), (5, 2, 2, 1, 3)),
    "padded behind": (conv(2, 3, (0, 0, 1, 2)), (1, 5, 2, 2), (6, 5, 2, 2)),
}


@pytest.mark.parametrize("name", CASES)
def test_one_pixel(name: str) -> None:
    op, x, w = CASES[name]
    check(op, floats(*x), floats(*w), floats(w[0]), constants=(1, 2))
    check(op, floats(*x), floats(*w), constants=(1,), precision="fp16")


def test_an_epilogue_leaves_padding_lanes_zero() -> None:
    op, x, w = CASES["1x1"]
    fused = Fused(op, (FusedStep(Sigmoid(), None), FusedStep(Add(), 0)))
    check(fused, floats(*x), floats(*w), floats(37), floats(1, 37, 1, 1), constants=(1, 2))


def test_rows_of_a_product() -> None:
    check(MatMul(), floats(1, 1100), floats(1100, 11), floats(11), constants=(1, 2))
    check(MatMul(), floats(2, 1, 40), floats(2, 40, 12))


def offered(op: Op, x: tuple[int, ...], w: tuple[int, ...], limits: DeviceLimits) -> list[str]:
    graph = single_op_graph(op, [np.ones(x, np.float32), np.ones(w, np.float32)], (1,))
    found = sorted(candidates(graph.nodes[0], limits, LoweringOptions()), key=lambda c: c.cost)
    return [c.name for c in found]


@pytest.mark.host
def test_devices_that_are_offered_rows() -> None:
    x, w = (1, 256, 1, 1), (64, 256, 1, 1)
    assert offered(conv(2), x, w, DISCRETE)[0] == "row"
    assert "row" not in offered(conv(2), x, w, dataclasses.replace(DISCRETE, kind="cpu"))
    assert "row" not in offered(conv(2), (1, 256, 2, 1), w, DISCRETE)
    around = Conv((1, 1), (1, 1, 1, 1), (1, 1))
    assert "row" not in offered(around, x, (64, 256, 3, 3), DISCRETE)


@pytest.mark.host
def test_long_rows_are_split_the_more_the_fewer_lanes_there_are() -> None:
    short, long = (Gemm(1, 40, k, k, 1, 40, 1, 40) for k in (64, 4096))
    assert row_split(short, DISCRETE).lanes_k == 16
    assert row_split(long, DISCRETE).lanes_k == 32
    assert row_split(long, MINIMUM).lanes_k == 16
    wide = dataclasses.replace(long, n=1 << 16)
    assert row_split(wide, DISCRETE).lanes_n * row_split(wide, DISCRETE).lanes_k == 128


@pytest.mark.host
def test_packed_rows_are_channels_then_taps() -> None:
    w = np.arange(2 * 5 * 2, dtype=np.float32).reshape(2, 5, 1, 2)
    packed = pack_row(1, w, np.float32([7, 8]))
    rows = packed[: 16 * 4].reshape(2, 2, 4, 4)  # c4, tap, channel, output channel
    assert rows[0, 1, 3].tolist() == [w[0, 3, 0, 1], w[1, 3, 0, 1], 0, 0]
    assert rows[1, 0, 0].tolist() == [w[0, 4, 0, 0], w[1, 4, 0, 0], 0, 0]
    assert not rows[1, :, 1:].any()
    assert packed[16 * 4 :].tolist() == [7, 8, 0, 0]
