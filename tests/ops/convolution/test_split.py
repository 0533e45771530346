"""Convolutions whose input channels are shared out among the subgroups of a workgroup."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
from tests.helpers import (
    GUARD_BYTES,
    assert_close,
    check_op,
    run_graph,
    shared_device,
    single_op_graph,
)
from tests.lowering.plan_texts import MATRICES
from tests.ops.convolution.splits import PRECISIONS, made, random

from vknn.lowering import LoweringOptions, candidates, lower
from vknn.lowering.kernels.convolution import register_tiles
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Add, Fused, FusedStep, Relu
from vknn.plan import DeviceLimits

pytestmark = pytest.mark.long

#: Strides, pads, dilations, groups; shapes of input and weights.
CASES = {
    "3x3": (((1, 1), (1, 1, 1, 1), (1, 1), 1), (2, 67, 5, 7), (13, 67, 3, 3)),
    "1x1": (((1, 1), (0, 0, 0, 0), (1, 1), 1), (1, 71, 7, 13), (23, 71, 1, 1)),
    "strided": (((2, 2), (0, 1, 2, 1), (1, 1), 1), (1, 35, 17, 11), (37, 35, 5, 3)),
    "dilated": (((1, 2), (2, 2, 2, 2), (2, 3), 1), (1, 53, 13, 7), (5, 53, 3, 2)),
    "groups": (((1, 1), (1, 1, 1, 1), (1, 1), 3), (1, 204, 7, 5), (24, 68, 3, 3)),
    "3-D": (((1, 1, 1), (1,) * 6, (1, 1, 1), 1), (1, 37, 3, 5, 7), (7, 37, 3, 3, 3)),
}
#: Beginnings of the candidates' names, by the parts of the channels.
ONLY = ("split2", "split4")
#: Subgroups of llvmpipe are narrower than the lanes of a part, and so share one.
check = functools.partial(check_op, kind="discrete", access=("storage",), only=ONLY)


def is_split(name: str) -> bool:
    """Whether a candidate is of this kind; "splitk..." shares k out among workgroups."""
    return name.startswith(ONLY)


def case(name: str) -> tuple[Conv, np.ndarray, np.ndarray, np.ndarray]:
    return made(CASES[name])


@pytest.fixture
def written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dot products for devices without such an instruction."""
    monkeypatch.setattr(register_tiles, "FLOAT_DOTS", 2)


@pytest.mark.device
@pytest.mark.usefixtures("written_out")
@pytest.mark.parametrize(
    ("name", "form"),
    [
        pytest.param(name, form, marks=() if "fp32" in form or name == "3x3" else pytest.mark.slow)
        for name in CASES
        for form in PRECISIONS
    ],
)
def test_against_numpy(name: str, form: str) -> None:
    op, *arrays = case(name)
    check(op, *arrays, constants=(1, 2), **PRECISIONS[form])
    check(op, *arrays[:2], constants=(1,), **PRECISIONS[form])


@pytest.mark.device
@pytest.mark.usefixtures("written_out")
@pytest.mark.parametrize("form", PRECISIONS)
def test_with_an_epilogue(form: str) -> None:
    base, *arrays = case("3x3")
    (y,) = base.reference(*arrays)
    op = Fused(base, (FusedStep(Add(), 0), FusedStep(Relu(), None)))
    check(op, *arrays, random(*y.shape), constants=(1, 2), **PRECISIONS[form])


@pytest.mark.device
@pytest.mark.parametrize("name", CASES)
def test_where_parts_are_no_whole_subgroups(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(register_tiles, "lane_count", lambda limits: 13)
    monkeypatch.setattr(register_tiles, "has_whole_parts", lambda limits, tile: True)
    op, *arrays = case(name)
    check(op, *arrays, constants=(1, 2))


@pytest.mark.device
@pytest.mark.parametrize("name", CASES)
def test_arithmetic_in_float16(name: str) -> None:
    limits = dataclasses.replace(shared_device().limits, kind="discrete")
    if not {"fp16_storage", "fp16_arithmetic"} <= limits.features:
        pytest.skip(f"{shared_device().name} has no 16-bit arithmetic")
    op, x, w, _ = case(name)
    rng = np.random.default_rng(len(name))
    # Small integers: sums of 16 products are exact in float16.
    arrays = [rng.integers(-1, 2, a.shape).astype(np.float32) for a in (x, w)]
    graph = single_op_graph(op, arrays, (1,))
    options = LoweringOptions(guard=GUARD_BYTES, precision="fp16", arithmetic="fp16")
    tiles = [c for c in candidates(graph.nodes[0], limits, options) if is_split(c.name)]
    assert tiles
    for tile in tiles:
        wanted = dataclasses.replace(options, algorithm=tile.name, layout=tile.outputs[0])
        plan = lower(graph, limits, wanted)
        assert any("HALF_SUMS" in dict(d.variant) for d in plan.dispatches)
        found = run_graph(graph, limits, wanted, {"x0": arrays[0]})["y0"]
        assert_close(found, op.reference(*arrays)[0], 0.0, tile.name)


@pytest.mark.device
def test_padding_lets_no_nan_through() -> None:
    """What is not a number or infinite stays with the pixels that read it."""
    op, x, w, _ = case("3x3")
    x[0, 2, 0, 0], x[1, 66, 4, 6] = np.nan, np.inf
    check(op, x, w, constants=(1,))


def names(limits: DeviceLimits, *x: int, channels: int = 67) -> list[str]:
    op, arrays = Conv((1, 1), (0, 0, 0, 0), (1, 1)), [random(1, channels, *x)]
    graph = single_op_graph(op, [*arrays, random(5, channels, 1, 1)], (1,))
    found = candidates(graph.nodes[0], limits, LoweringOptions())
    return [c.name for c in found if is_split(c.name)]


@pytest.mark.host
def test_offered_for_idle_gpus_with_room() -> None:
    gpu = dataclasses.replace(MATRICES, kind="discrete", subgroup_size=32)
    assert {"split2-tile1x1", "split4-tile1x4"} <= set(names(gpu, 7, 5))
    assert not names(gpu, 7, 5, channels=13)  # too few channels
    assert not names(gpu, 1999, 1201)  # enough waves
    assert not names(dataclasses.replace(gpu, kind="cpu"), 7, 5)
    assert not names(dataclasses.replace(gpu, subgroup_size=128), 7, 5)
    small = dataclasses.replace(gpu, max_group_invocations=128)
    assert all(name.startswith("split2") for name in names(small, 7, 5))
    little = names(dataclasses.replace(gpu, shared_memory=1024), 7, 5)
    assert little == ["split2-tile1x1"]


@pytest.mark.host
def test_a_plan_of_every_candidate() -> None:
    op, *arrays = case("3x3")
    graph = single_op_graph(op, arrays, (1, 2))
    gpu = dataclasses.replace(MATRICES, kind="discrete", subgroup_size=32)
    for name in [c.name for c in candidates(graph.nodes[0], gpu, LoweringOptions())]:
        if is_split(name):
            plan = lower(graph, gpu, LoweringOptions(algorithm=name))
            (conv,) = [d for d in plan.dispatches if d.kernel == "convolution/conv"]
            assert dict(conv.variant)["SPLIT"] == "1"
