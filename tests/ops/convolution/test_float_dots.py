"""Convolutions by dot products of float16, written out for devices without such an instruction."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
from tests.helpers import check_op, shared_device, single_op_graph
from tests.lowering.plan_texts import MATRICES

from vknn.lowering import LoweringOptions, candidates, lower
from vknn.lowering.kernels.convolution import register_tiles
from vknn.lowering.kernels.matmul import shared_memory_tiles
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Add, Fused, FusedStep, Relu
from vknn.plan import DeviceLimits

FEATURES = ("float_dot", "fp16_storage", "fp16_arithmetic")
KERNELS = ("convolution/conv", "convolution/shared")
WRITTEN_OUT = 2
#: Strides, pads, dilations, groups; shapes of input and weights.
CASES = {
    "3x3": (((1, 1), (1, 1, 1, 1), (1, 1), 1), (2, 7, 5, 11), (13, 7, 3, 3)),
    "1x1": (((1, 1), (0, 0, 0, 0), (1, 1), 1), (1, 19, 7, 13), (23, 19, 1, 1)),
    "strided": (((2, 2), (0, 1, 2, 1), (1, 1), 1), (1, 3, 17, 11), (37, 3, 5, 3)),
    "dilated": (((1, 2), (2, 2, 2, 2), (2, 3), 1), (1, 11, 13, 7), (5, 11, 3, 2)),
    "groups": (((1, 1), (1, 1, 1, 1), (1, 1), 3), (1, 12, 7, 5), (24, 4, 3, 3)),
    "wide": (((1, 1), (0, 0, 0, 0), (1, 1), 1), (1, 67, 19, 11), (131, 67, 1, 1)),
    "rounds of a tap": (((1, 2), (1, 1, 1, 1), (1, 1), 1), (1, 32, 5, 7), (13, 32, 3, 3)),
    "3-D": (((1, 1, 1), (1,) * 6, (1, 1, 1), 1), (1, 5, 3, 5, 7), (7, 5, 3, 3, 3)),
}
check = functools.partial(
    check_op, kind="discrete", access=("storage",), precision="fp16", features=FEATURES
)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def case(name: str) -> tuple[Conv, np.ndarray, np.ndarray, np.ndarray]:
    (strides, pads, dilations, group), x, w = CASES[name]
    return Conv(strides, pads, dilations, group), random(*x), random(*w), random(w[0])


def gpu(*features: str) -> DeviceLimits:
    name = f"gpu of {features}"
    return dataclasses.replace(MATRICES, name=name, kind="discrete", features=frozenset(features))


@pytest.fixture
def written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (register_tiles, shared_memory_tiles):
        monkeypatch.setattr(module, "FLOAT_DOTS", WRITTEN_OUT)


@pytest.mark.device
@pytest.mark.usefixtures("written_out")
@pytest.mark.parametrize("form", ["tile", "dot"])
@pytest.mark.parametrize("name", CASES)
def test_against_numpy(name: str, form: str) -> None:
    op, *arrays = case(name)
    check(op, *arrays, constants=(1, 2), only=form)
    check(op, *arrays[:2], constants=(1,), only=form)


@pytest.mark.device
@pytest.mark.usefixtures("written_out")
@pytest.mark.parametrize("form", ["tile", "dot"])
def test_with_an_epilogue(form: str) -> None:
    base, *arrays = case("3x3")
    (y,) = base.reference(*arrays)
    op = Fused(base, (FusedStep(Add(), 0), FusedStep(Relu(), None)))
    check(op, *arrays, random(*y.shape), constants=(1, 2), only=form)


@pytest.mark.device
@pytest.mark.usefixtures("written_out")
def test_sums_are_float32() -> None:
    """What float16 would lose beside a large sum."""
    x, w = np.ones((1, 64, 3, 5), np.float32), np.full((4, 64, 1, 1), 0.25, np.float32)
    x[:, 0], w[:, 0] = 64, 64
    op = Conv((1, 1), (0, 0, 0, 0), (1, 1))
    assert op.reference(x, w)[0].max() == 4096 + 63 / 4
    check(op, x, w, constants=(1,), only="tile", tolerance=0)
    check(op, x, w, constants=(1,), only="dot", tolerance=0)


@pytest.mark.device
@pytest.mark.usefixtures("written_out")
@pytest.mark.parametrize("channels", [(5, 7), (67, 131)], ids=str)
def test_products_of_winograd(channels: tuple[int, int]) -> None:
    inner, outer = channels
    op, x = Conv((1, 1), (1, 1, 1, 1), (1, 1)), random(1, inner, 37, 13)
    check(op, x, random(outer, inner, 3, 3), constants=(1,), only="winograd", tolerance=4e-3)


@pytest.mark.host
@pytest.mark.parametrize("arithmetic", ["fp32", "fp16"])
def test_taken_where_the_device_has_them(arithmetic: str) -> None:
    op, *arrays = case("wide")
    graph = single_op_graph(op, arrays, (1, 2))
    options = LoweringOptions(precision="fp16", arithmetic=arithmetic)
    for limits, wanted in ((gpu(*FEATURES), True), (gpu(*FEATURES[1:]), False)):
        names = [c.name for c in candidates(graph.nodes[0], limits, options)]
        for name in names:
            forced = dataclasses.replace(options, algorithm=name)
            plan = lower(graph, limits, forced)
            convs = [d for d in plan.dispatches if d.kernel in KERNELS]
            assert all((("DOTS", "1") in d.variant) == wanted for d in convs), name
        assert any(name.startswith("dot") for name in names) == wanted


@pytest.mark.host
def test_not_taken_for_other_weights_and_precisions() -> None:
    op, *arrays = case("wide")
    for constants, precision in (((1, 2), "fp32"), ((), "fp16"), ((1,), "fp16")):
        graph = single_op_graph(op, arrays, constants)
        options = LoweringOptions(precision=precision)
        for c in candidates(graph.nodes[0], gpu(*FEATURES), options):
            plan = lower(graph, gpu(*FEATURES), dataclasses.replace(options, algorithm=c.name))
            assert not any("DOTS" in dict(d.variant) for d in plan.dispatches), c.name


@pytest.mark.device
def test_this_device_has_them_or_takes_none() -> None:
    op, *arrays = case("wide")
    limits = dataclasses.replace(shared_device().limits, kind="discrete")
    graph = single_op_graph(op, arrays, (1, 2))
    options = LoweringOptions(precision="fp16")
    found = any(c.name.startswith("dot") for c in candidates(graph.nodes[0], limits, options))
    assert found == (limits.features >= set(FEATURES))
