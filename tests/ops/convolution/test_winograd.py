"""Winograd convolution on the device, its matrices, and its rounding errors."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.helpers import (
    ACCESS_MODES,
    GUARD_BYTES,
    assert_close,
    run_graph,
    shared_device,
    single_op_graph,
)

from vknn.crosscheck import allowances
from vknn.graph import Op
from vknn.lowering import LoweringOptions, candidates
from vknn.lowering.kernels.convolution.winograd import matrices, pack_winograd
from vknn.ops.convolution.conv import Conv, ExactConv
from vknn.ops.elementwise import Add, Fused, FusedStep, Relu, Sigmoid
from vknn.plan import DeviceLimits

SIZES = (2, 4)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def conv(*pads: int) -> Conv:
    return Conv((1, 1), pads or (1, 1, 1, 1), (1, 1))


def check(
    op: Op, *arrays: np.ndarray, size: int, access: str = "image", kind: str | None = None
) -> None:
    """``op`` by the Winograd candidate of this tile size; guards and padding lanes are checked."""
    count = len(arrays) - (op.operand_count if isinstance(op, Fused) else 0)
    constants = range(1, count)
    graph = single_op_graph(op, arrays, list(constants))
    limits = shared_device().limits
    limits = dataclasses.replace(limits, kind=kind or limits.kind, preferred_access=access)
    options = LoweringOptions(guard=GUARD_BYTES, algorithm=f"winograd{size}3")
    assert [c.name for c in candidates(graph.nodes[0], limits, options)] == [options.algorithm]
    feeds = {f"x{i}": a for i, a in enumerate(arrays) if i not in constants}
    results = run_graph(graph, limits, options, feeds)
    (expected,) = op.reference(*arrays)
    assert_close(results["y0"], expected, 1e-5, f"{op} [{options.algorithm}, {access}]")


#: pads, batch, channels in and out, height, width
CASES = [
    ((1, 1, 1, 1), 1, 5, 13, 7, 6),
    ((0, 0, 0, 0), 1, 3, 4, 3, 3),
    ((0, 0, 0, 0), 2, 4, 5, 13, 11),
    ((2, 2, 2, 2), 1, 1, 1, 1, 1),
    ((1, 1, 1, 1), 2, 8, 3, 1, 13),
    ((0, 2, 1, 0), 2, 13, 8, 5, 7),
    ((2, 0, 0, 1), 1, 4, 13, 11, 2),
    ((1, 1, 1, 1), 2, 13, 67, 9, 12),
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_winograd(case: tuple, size: int) -> None:
    pads, batch, channels_in, channels_out, height, width = case
    x, w = random(batch, channels_in, height, width), random(channels_out, channels_in, 3, 3)
    for access in ACCESS_MODES if case in CASES[::5] else ("image",):
        check(conv(*pads), x, w, random(channels_out), size=size, access=access)


@pytest.mark.parametrize("size", SIZES)
def test_winograd_without_bias(size: int) -> None:
    check(conv(), random(1, 5, 7, 6), random(3, 5, 3, 3), size=size)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("case", CASES[::2], ids=str)
def test_winograd_as_on_a_gpu(case: tuple, size: int) -> None:
    pads, batch, channels_in, channels_out, height, width = case
    x, w = random(batch, channels_in, height, width), random(channels_out, channels_in, 3, 3)
    arrays = x, w, random(channels_out)
    check(conv(*pads), *arrays, size=size, access="storage", kind="discrete")


@pytest.mark.parametrize("size", SIZES)
def test_winograd_with_an_epilogue(size: int) -> None:
    arrays = random(2, 5, 6, 7), random(7, 5, 3, 3), random(7)
    full = (FusedStep(Sigmoid(), None), FusedStep(Add(), 0), FusedStep(Relu(), None))
    check(Fused(conv(), full), *arrays, random(2, 7, 6, 7), size=size)
    channel = (FusedStep(Add(), 0), FusedStep(Sigmoid(), None))
    check(Fused(conv(), channel), *arrays, random(1, 7, 1, 1), size=size, access="storage")


def names(op: Conv, x: tuple[int, ...], w: tuple[int, ...], disabled: str = "") -> set[str]:
    graph = single_op_graph(op, [random(*x), random(*w)], [1])
    options = LoweringOptions(disabled=frozenset({disabled}))
    found = candidates(graph.nodes[0], shared_device().limits, options)
    return {c.name for c in found if c.name.startswith("winograd")}


def test_what_winograd_takes() -> None:
    x, w = (1, 4, 8, 8), (4, 4, 3, 3)
    assert names(conv(), x, w) == {"winograd23", "winograd43"}
    assert not names(conv(), x, w, disabled="winograd")
    assert not names(Conv((2, 1), (1, 1, 1, 1), (1, 1)), x, w)
    assert not names(Conv((1, 1), (1, 1, 1, 1), (1, 2)), x, w)
    assert not names(Conv((1, 1), (1, 1, 1, 1), (1, 1), 2), x, (4, 2, 3, 3))
    assert not names(conv(), x, (4, 4, 3, 1))
    graph = single_op_graph(conv(), [random(*x), random(*w)])
    found = candidates(graph.nodes[0], shared_device().limits, LoweringOptions())
    assert not any(c.name.startswith("winograd") for c in found)


@pytest.mark.host
@pytest.mark.parametrize("size", SIZES)
def test_matrices_filter(size: int) -> None:
    """A^T [(G w) * (B^T d)] is the correlation of d with w, in float64."""
    bt, g, at = matrices(size)
    rng = np.random.default_rng(0)
    d, w = rng.standard_normal(size + 2), rng.standard_normal(3)
    expected = [d[i : i + 3] @ w for i in range(size)]
    np.testing.assert_allclose(at @ ((g @ w) * (bt @ d)), expected, rtol=1e-13, atol=1e-14)


@pytest.mark.host
@pytest.mark.parametrize("size", SIZES)
def test_pack_winograd(size: int) -> None:
    w = random(5, 3, 3, 3)
    side = size + 2
    packed = pack_winograd(size, 1, w).reshape(side, side, 2, 1, 4, 4)
    _, g, _ = matrices(size)
    expected = g @ w[4, 2].astype(np.float64) @ g.T
    np.testing.assert_allclose(packed[:, :, 1, 0, 2, 0], expected, rtol=1e-6, atol=1e-7)
    assert not packed[:, :, 1, :, :, 1:].any()
    assert not packed[:, :, :, :, 3].any()


#: Largest error, as a share of the output's largest element, on layers whose weights keep the
#: variance (He et al., 2015), measured at 8, 64 and 512 channels: F(2x2, 3x3) 2.0e-7, 2.8e-7 and
#: 6.5e-7; F(4x4, 3x3) 4.5e-7, 1.1e-6 and 2.5e-6. (On the points 0, 1, -1, 2, -2: up to 1.6e-5.)
BOUNDS = {2: 2e-6, 4: 1e-5}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("channels", [8, 64, 512])
def test_rounding_errors_stay_small(channels: int, size: int) -> None:
    rng = np.random.default_rng(channels)
    x = np.maximum(rng.standard_normal((1, channels, 12, 12)), 0).astype(np.float32)
    deviation = (2 / (9 * channels)) ** 0.5
    w = (deviation * rng.standard_normal((16, channels, 3, 3))).astype(np.float32)
    graph = single_op_graph(conv(), [x, w], [1])
    options = LoweringOptions(algorithm=f"winograd{size}3")
    y = run_graph(graph, shared_device().limits, options, {"x0": x})["y0"]
    (expected,) = conv().reference(x, w)
    assert_close(y, expected, BOUNDS[size], f"{channels} channels")
    (bound,) = allowances(conv(), [x, w], [expected])
    assert np.all(np.abs(y.astype(np.float64) - expected) <= bound.allowed)


@pytest.mark.host
def test_sums_of_whole_numbers_are_left_to_others() -> None:
    def offered(whole: bool) -> set[str]:
        op = (ExactConv if whole else Conv)((1, 1), (1, 1, 1, 1), (1, 1))
        arrays = [np.ones((1, 64, 28, 28), np.float32), np.ones((64, 64, 3, 3), np.float32)]
        (node,) = single_op_graph(op, arrays, (1,)).nodes
        return {c.name for c in candidates(node, DeviceLimits(), LoweringOptions())}

    assert any(name.startswith("winograd") for name in offered(False) - offered(True))
    assert not any(name.startswith("winograd") for name in offered(True))
    assert offered(True)
