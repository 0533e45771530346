"""Convolutions whose k several workgroups share out, the last of which adds the parts up."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

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
from tests.lowering.limits import DISCRETE
from tests.lowering.plan_texts import MATRICES
from tests.ops.convolution.splits import PRECISIONS, made, random

from vknn.graph import Graph, GraphBuilder, TensorType
from vknn.lowering import LoweringOptions, candidates, check_plan, lower
from vknn.lowering.choose.layout_assignment import assign
from vknn.lowering.kernels.convolution import rule
from vknn.lowering.kernels.matmul import shared_memory_tiles, split_k, workgroup_tiles
from vknn.lowering.kernels.matmul.shared_memory_tiles import SharedMemoryTile
from vknn.lowering.kit.machine import machine_of
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Add, Fused, FusedStep, Relu
from vknn.plan import ComputeUnits, DeviceLimits, Fill, Role
from vknn.reference import run
from vknn.runtime.device import open_device
from vknn.runtime.executor import Executable

pytestmark = pytest.mark.long

#: Strides, pads, dilations, groups; shapes of input and weights.
CASES = {
    "3x3": (((1, 1), (1, 1, 1, 1), (1, 1), 1), (2, 67, 5, 7), (13, 67, 3, 3)),
    "1x1": (((1, 1), (0, 0, 0, 0), (1, 1), 1), (1, 131, 7, 5), (23, 131, 1, 1)),
    "whole rounds": (((1, 1), (1, 1, 1, 1), (1, 1), 1), (1, 48, 5, 7), (37, 48, 3, 3)),
    "whole rounds of 1x1": (((1, 1), (0, 0, 0, 0), (1, 1), 1), (2, 160, 3, 7), (5, 160, 1, 1)),
    "dilated": (((1, 2), (2, 2, 2, 2), (2, 3), 1), (1, 53, 13, 7), (5, 53, 3, 2)),
    "groups": (((1, 1), (1, 1, 1, 1), (1, 1), 3), (1, 204, 7, 5), (24, 68, 3, 3)),
    "3-D": (((1, 1, 1), (1,) * 6, (1, 1, 1), 1), (1, 37, 3, 5, 7), (7, 37, 3, 3, 3)),
    "whole rounds of 3-D": (
        ((1, 1, 2), (1,) * 6, (2, 1, 1), 1),
        (1, 16, 5, 5, 7),
        (7, 16, 3, 3, 3),
    ),
    "a round a tap": (((1, 2), (1, 2, 1, 0), (2, 1), 1), (1, 16, 7, 11), (13, 16, 3, 2)),
    "counted taps": (((7, 7), (0, 0, 0, 0), (1, 2), 1), (2, 3, 21, 27), (19, 3, 7, 7)),
    "rows of taps": (((7, 7), (0, 0, 0, 0), (1, 1), 1), (2, 3, 21, 14), (19, 3, 7, 7)),
    "long rows of taps": (((1, 5), (0, 7, 1, 2), (1, 1), 1), (1, 3, 5, 37), (7, 3, 3, 31)),
}
check = functools.partial(check_op, kind="discrete", access=("storage",), only="splitk")
GPU = dataclasses.replace(
    MATRICES,
    max_storage_buffers=8,
    subgroup_size=32,
    compute_units=ComputeUnits(82, 128, 1.7),
)


def case(name: str) -> tuple[Conv, np.ndarray, np.ndarray, np.ndarray]:
    return made(CASES[name])


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Splits for small problems, too, by a small tile and by one with several lanes of a pixel."""
    monkeypatch.setattr(split_k, "_WAVES_WANTED", 1 << 20)
    monkeypatch.setattr(split_k, "_MOST_WAVES", 1 << 20)
    monkeypatch.setattr(split_k, "LEAST_ROUNDS", 1)
    # Dot products for devices without such an instruction.
    monkeypatch.setattr(shared_memory_tiles, "FLOAT_DOTS", 2)
    tiles = (SharedMemoryTile(4, 1, 8, 8), SharedMemoryTile(2, 1, 8, 8, depth=4))
    monkeypatch.setattr(workgroup_tiles, "TILES", tiles)
    monkeypatch.setattr(rule, "_known", {})


@pytest.mark.device
@pytest.mark.usefixtures("tiny")
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


@pytest.mark.device
@pytest.mark.usefixtures("tiny")
def test_without_bias_and_with_weights_of_run_time() -> None:
    op, x, w, bias = case("3x3")
    check(op, x, w, constants=(1,))
    check(op, x, w, bias)


@pytest.mark.device
@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("form", PRECISIONS)
def test_with_an_epilogue(form: str) -> None:
    base, *arrays = case("3x3")
    (y,) = base.reference(*arrays)
    op = Fused(base, (FusedStep(Add(), 0), FusedStep(Relu(), None)))
    check(op, *arrays, random(*y.shape), constants=(1, 2), **PRECISIONS[form])


def wanted(graph: Graph, limits: DeviceLimits, **more: Any) -> list[LoweringOptions]:
    """Options by which each split candidate of the only node is taken."""
    options = LoweringOptions(guard=GUARD_BYTES, **more)
    found = [c for c in candidates(graph.nodes[0], limits, options) if c.name.startswith("splitk")]
    return [dataclasses.replace(options, algorithm=c.name, layout=c.outputs[0]) for c in found]


@pytest.mark.device
@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("name", ["3x3", "1x1", "whole rounds"])
def test_arithmetic_in_float16(name: str) -> None:
    limits = dataclasses.replace(shared_device().limits, kind="discrete")
    if not {"fp16_storage", "fp16_arithmetic"} <= limits.features:
        pytest.skip(f"{shared_device().name} has no 16-bit arithmetic")
    op, x, w, _ = case(name)
    rng = np.random.default_rng(len(name))
    # Small integers: sums of 16 products are exact in float16.
    arrays = [rng.integers(-1, 2, a.shape).astype(np.float32) for a in (x, w)]
    graph = single_op_graph(op, arrays, (1,))
    every = wanted(graph, limits, precision="fp16", arithmetic="fp16")
    assert every
    for options in every:
        plan = lower(graph, limits, options)
        variants = [dict(d.variant).keys() for d in plan.dispatches]
        own = {"SPLIT_K"} if "cooperative" in str(options.algorithm) else {"HALF_SUMS", "SPLIT_K"}
        assert any(own <= variant for variant in variants), options.algorithm
        found = run_graph(graph, limits, options, {"x0": arrays[0]})["y0"]
        assert_close(found, op.reference(*arrays)[0], 0.0, str(options.algorithm))


@pytest.mark.device
@pytest.mark.usefixtures("tiny")
def test_cooperative_matrices() -> None:
    limits = dataclasses.replace(shared_device().limits, kind="discrete")
    op, *arrays = case("whole rounds")
    graph = single_op_graph(op, arrays, (1, 2))
    names = [str(o.algorithm) for o in wanted(graph, limits, precision="fp16")]
    if not any("cooperative" in name for name in names):
        pytest.skip(f"{shared_device().name} has no cooperative matrices of float16")
    for name in ("whole rounds", "1x1", "3-D", "whole rounds of 1x1", "rows of taps"):
        op, *arrays = case(name)
        only = ("splitk2-cooperative", "splitk4-cooperative")  # few rounds have two parts alone
        check(op, *arrays, constants=(1, 2), precision="fp16", only=only)


@pytest.mark.device
@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_what_is_no_number_stays_with_the_pixels_that_read_it(precision: str) -> None:
    op, x, w, _ = case("3x3")
    x[0, 2, 0, 0], x[1, 66, 4, 6] = np.nan, np.inf
    check(op, x, w, constants=(1,), precision=precision)


@pytest.mark.device
@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_the_same_bits_in_every_run(precision: str) -> None:
    """Whichever workgroup is done last: the order of the sums is that of k."""
    limits = dataclasses.replace(shared_device().limits, kind="discrete")
    if precision == "fp16" and "fp16_storage" not in limits.features:
        pytest.skip(f"{shared_device().name} has no 16-bit storage")
    op, *arrays = case("3x3")
    graph = single_op_graph(op, arrays, (1, 2))
    for options in wanted(graph, limits, precision=precision):
        plan = lower(graph, limits, options)
        with open_device(shared_device().name) as device, Executable(device, plan) as executable:
            first, *others = (executable.run({"x0": arrays[0]})["y0"].copy() for _ in range(20))
            executable.check_guards()
        assert np.isfinite(first).all() and first.any()
        assert all(first.tobytes() == other.tobytes() for other in others), options.algorithm


def two_layers() -> Graph:
    builder = GraphBuilder()
    x = builder.input("x", TensorType((1, 67, 5, 7)))
    for _ in range(2):
        w, bias = (builder.constant(a) for a in (random(67, 67, 3, 3) / 16, random(67)))
        x = builder.add(Conv((1, 1), (1, 1, 1, 1), (1, 1)), x, w, bias)
    return builder.finish({"y": x})


@pytest.mark.device
@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("disabled", ["", "unified"])
def test_every_run_counts_anew(disabled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All counters of a plan are cleared by one fill, which stands before everything."""
    monkeypatch.setenv("VKNN_DISABLE", disabled)
    limits = dataclasses.replace(shared_device().limits, kind="discrete")
    graph = two_layers()
    options = LoweringOptions(algorithm="splitk4-shared32x32", guard=GUARD_BYTES)
    plan = lower(graph, limits, options)
    check_plan(plan)
    assert len([step for step in plan.steps if isinstance(step, Fill)]) == 1
    assert isinstance(plan.steps[0], Fill)
    with open_device(shared_device().name) as device, Executable(device, plan) as executable:
        for factor in (1, -2, 3):
            feeds = {"x": np.float32(factor) * random(1, 67, 5, 7)}
            assert_close(executable.run(feeds)["y"], run(graph, feeds)["y"], 1e-5, str(factor))
            executable.check_guards()


def names(
    limits: DeviceLimits,
    *x: int,
    channels: int = 512,
    precision: str = "fp32",
    disabled: str = "",
) -> list[str]:
    """Names of the candidates of a 3x3 convolution, the lowest estimate first."""
    op, arrays = Conv((1, 1), (1, 1, 1, 1), (1, 1)), [random(1, channels, *x)]
    weights = np.ones((channels, channels, 3, 3), np.float32)
    graph = single_op_graph(op, [*arrays, weights], (1,))
    options = LoweringOptions(frozenset({disabled}), precision=precision)
    found = candidates(graph.nodes[0], limits, options)
    return [c.name for c in sorted(found, key=lambda c: c.cost)]


def splits(*args: Any, **more: Any) -> list[str]:
    return [name for name in names(*args, **more) if name.startswith("splitk")]


@pytest.mark.host
def test_offered_for_idle_gpus_with_room() -> None:
    assert {"splitk2-shared32x32", "splitk8-shared64x64"} <= set(splits(GPU, 7, 7))
    assert not splits(dataclasses.replace(GPU, kind="cpu"), 7, 7)
    assert not splits(dataclasses.replace(GPU, max_storage_buffers=5), 7, 7)
    assert not splits(GPU, 7, 7, disabled="split-k")
    assert splits(GPU, 7, 7, channels=3) == ["splitk2-shared32x32"]  # three rounds of k
    assert not splits(GPU, 299, 297, channels=32)  # enough waves
    few = dataclasses.replace(GPU, compute_units=ComputeUnits(2, 64, 1.0))
    assert not splits(few, 7, 7)
    raven = dataclasses.replace(GPU, vendor_id=0x1002, name="RAVEN", subgroup_size=64)
    assert set(splits(raven, 7, 7)) <= {
        f"splitk{n}-shared{s}" for n in (2, 4, 8) for s in ("32x32", "128x32")
    }


@pytest.mark.host
def test_tiles_that_a_compiler_has_no_place_for() -> None:
    """Registers of Apple's GPUs, and code of NVIDIA's under taps in float32."""
    large = {f"splitk{n}-shared64x64" for n in (2, 4, 8)}
    apple = dataclasses.replace(GPU, kind="integrated", vendor_id=0x106B, name="Apple M1")
    nvidia = dataclasses.replace(GPU, vendor_id=0x10DE, name="NVIDIA")
    assert large & set(splits(GPU, 7, 7))
    for precision in ("fp32", "fp16"):
        found = set(splits(apple, 7, 7, precision=precision))
        assert "splitk2-shared32x32" in found and not large & found
    assert not large & set(splits(nvidia, 7, 7))
    assert large & set(splits(nvidia, 7, 7, precision="fp16"))


@pytest.mark.host
def test_layers_of_few_pixels_take_them() -> None:
    assert names(GPU, 7, 7, precision="fp16")[0].startswith("splitk")
    assert not names(GPU, 56, 56, channels=64, precision="fp16")[0].startswith("splitk")


@pytest.mark.host
def test_the_sums_of_the_parts_are_memory_of_the_plan() -> None:
    op, *arrays = case("3x3")
    graph = single_op_graph(op, arrays, (1, 2))
    limits = dataclasses.replace(GPU, compute_units=ComputeUnits(82, 128, 1.7))
    split, whole = (
        lower(graph, limits, LoweringOptions(algorithm=name)).arenas[Role.ACTIVATION]
        for name in ("splitk2-shared32x32", "shared32x32")
    )
    tiles, results = 2 * 2, 32 * 32  # of two images of 35 pixels and 13 channels each
    assert split - whole >= 2 * tiles * results * 4


@pytest.mark.host
def test_counters_have_to_pay_for_their_fill() -> None:
    """A plan takes candidates that count only where these save more together than a fill costs."""
    builder = GraphBuilder()
    x = builder.input("x", TensorType((1, 8, 4, 4)))
    for _ in range(2):
        x = builder.add(Relu(), x)
    graph = builder.finish({"y": x})
    offers = candidates(graph.nodes[0], DISCRETE, LoweringOptions())
    plain = min(offers, key=lambda c: c.cost)
    machine = machine_of(DISCRETE)
    for saved, counts in ((0.4, False), (0.6, True)):
        cost = plain.cost - saved * machine.fill
        counting = dataclasses.replace(plain, name="counting", cost=cost, counts=True)
        chosen = assign(graph, {node: [plain, counting] for node in graph.nodes}, machine)
        assert [chosen[node].counts for node in graph.nodes] == [counts, counts]
