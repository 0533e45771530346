"""Convolutions of one tap that multiply their input by a gate, as on a GPU."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from tests.helpers import run_graph, shared_device, single_op_graph, skip_without_half, variants
from tests.lowering import limits as given
from tests.lowering.limits import DEVICES, check_limits
from tests.lowering.plan_texts import MATRICES
from tests.ops.chain.pairs import POINTWISE, RELU, RELU6, SWISH, check, floats, offered

from vknn.crosscheck.storage import rounded
from vknn.lowering import LoweringOptions, lower
from vknn.lowering.kernels.convolution import register_tiles
from vknn.lowering.kernels.matmul import shared_memory_tiles
from vknn.ops.chain import Chain
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Add, Fused, FusedStep, HardSigmoid, Log, Mul

KIND = "scaled"
#: With room for the scale: the least that Vulkan asks for is four buffers.
DISCRETE = dataclasses.replace(given.DISCRETE, max_storage_buffers=8)
#: Batch and size of x; channels of x and y. The last has more rounds of channels than one, and few
#: enough pixels that parts of the channels are tried.
CASES = {
    "one vec4": ((2, 5, 7), (3, 5)),
    "few": ((1, 7, 11), (13, 11)),
    "wide": ((1, 11, 13), (67, 131)),
    "images": ((3, 3, 5), (37, 29)),
    "deep": ((1, 5, 3), (149, 17)),
}
STEPS = (FusedStep(Mul(), scalar=0.25), SWISH, FusedStep(Add(), scalar=0.5))


def case(
    name: str, first: tuple[FusedStep, ...] = (), second: tuple[FusedStep, ...] = ()
) -> tuple[Chain, list[Any]]:
    """The chain with epilogues, and x, gate, weights and bias."""
    (n, h, w), (c, m) = CASES[name]
    ends = zip((Mul(), POINTWISE), (first, second), strict=True)
    links = tuple(Fused(op, steps) if steps else op for op, steps in ends)
    arrays = [floats(n, c, h, w), floats(n, c, 1, 1), floats(m, c, 1, 1), floats(m)]
    return Chain(links, (2, 2)), arrays


@pytest.mark.device
@pytest.mark.parametrize("name", CASES)
def test_against_numpy(name: str) -> None:
    op, arrays = case(name, (), (RELU6,))
    check(KIND, op, *arrays, constants=(2, 3))


@pytest.mark.device
@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_stored_in_16_bits(precision: str) -> None:
    """Products with the gate are float32, which are not rounded but as factors of matrices."""
    op, arrays = case("images", (), (RELU6,))
    own = ("scaled-tile", "scaled-split", "scaled-shared", "scaled-dot")
    check(KIND, op, *arrays, constants=(2, 3), precision=precision, only=own)


@pytest.mark.device
def test_three_steps_each() -> None:
    op, arrays = case("few", STEPS, STEPS)
    check(KIND, op, *arrays, constants=(2, 3))


@pytest.mark.device
def test_the_gate_may_come_first() -> None:
    op, (x, gate, w, bias) = case("images", (RELU,))
    check(KIND, op, gate, x, w, bias, constants=(2, 3))
    check(KIND, dataclasses.replace(op, counts=(2, 1)), gate, x, w, constants=(0, 2))


@pytest.mark.device
@pytest.mark.parametrize(
    "whole",
    [pytest.param(True, id="tensor"), pytest.param(False, id="channels", marks=pytest.mark.slow)],
)
def test_a_sum_with_another_tensor(whole: bool) -> None:
    op, arrays = case("wide", (), (FusedStep(Add(), 0), RELU))
    op = dataclasses.replace(op, counts=(2, 3))
    other = floats(*(1, 131, 11, 13) if whole else (1, 131, 1, 1))
    check(KIND, op, *arrays, other, constants=(2, 3))


@pytest.mark.device
@pytest.mark.parametrize("features", [("float_dot",), ()], ids=["dots", "sums"])
def test_products_in_float16(features: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Dot products written out in float32, and sums in float16."""
    skip_without_half()
    for module in (register_tiles, shared_memory_tiles):
        monkeypatch.setattr(module, "FLOAT_DOTS", 2)
    limits = shared_device().limits
    features = ("fp16_storage", "fp16_arithmetic", *features)
    limits = dataclasses.replace(limits, kind="discrete", features=limits.features | set(features))
    for name, steps in (("few", (RELU,)), ("deep", ())):
        op, arrays = case(name, steps)
        arrays = [rounded(a) for a in arrays]
        graph = single_op_graph(op, arrays, (2, 3))
        (expected,) = op.reference(*arrays)
        tried = 0
        for options in variants(graph, limits, "fp16"):
            options = dataclasses.replace(options, arithmetic="fp16")
            feeds = {"x0": arrays[0], "x1": arrays[1]}
            (y,) = run_graph(graph, limits, options, feeds).values()
            worst = np.abs(y - expected).max() / np.abs(expected).max()
            assert worst < (2e-3 if features[2:] else 1e-2), options.algorithm
            tried += 1
        assert tried >= 6


@pytest.mark.device
@pytest.mark.parametrize("name", ["wide", "deep", "images"])
def test_by_cooperative_matrices(name: str) -> None:
    if not {"cooperative_matrix", "fp16_arithmetic"} <= shared_device().limits.features:
        pytest.skip("the device has no cooperative matrices of float16")
    op, arrays = case(name, (RELU,), (RELU6,))
    more = {"tolerance": 2e-3, "precision": "fp16", "only": "scaled-cooperative"}
    check(KIND, op, *arrays, constants=(2, 3), **more)


@pytest.mark.device
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("name", ["few", "deep"])
def test_special_values(name: str, precision: str) -> None:
    """Gates of 0 on infinities; of NaN, infinity in the last channel, which padding is beside."""
    if precision == "fp16":
        skip_without_half()
    op, (x, gate, w, bias) = case(name, (RELU,))
    limits = dataclasses.replace(shared_device().limits, kind="discrete")
    for place, factor, value in ((0, 0.0, np.inf), (-1, np.inf, 1.5), (-1, np.nan, 1.5)):
        held, gates = rounded(x), rounded(gate)
        held[0, place, 2, 1], gates[0, place] = value, factor
        arrays = [held, gates, w, bias]
        with np.errstate(invalid="ignore"):
            (expected,) = op.reference(*arrays)
        plain = np.isfinite(expected)
        assert not plain.all()
        graph = single_op_graph(op, arrays, (2, 3))
        for options in variants(graph, limits, precision):
            if not str(options.algorithm).startswith(KIND):
                continue
            (y,) = run_graph(graph, limits, options, {"x0": held, "x1": gates}).values()
            seen, meant = np.where(plain, 0, y), np.where(plain, 0, expected)
            np.testing.assert_array_equal(seen, meant, str(options.algorithm))
            assert np.isfinite(y[plain]).all(), options.algorithm


@pytest.mark.host
def test_chains_that_it_is_offered() -> None:
    op, arrays = case("wide")
    names = offered(op, arrays, DISCRETE)
    assert {"scaled-tile1x1", "scaled-shared32x32"} <= set(names)
    assert not offered(op, arrays, dataclasses.replace(DISCRETE, kind="cpu"))
    assert not offered(op, arrays, given.DISCRETE)
    assert any("split" in name for name in offered(*case("deep"), DISCRETE))
    matrices = dataclasses.replace(MATRICES, kind="discrete", max_storage_buffers=8)
    assert any("cooperative" in name for name in offered(op, arrays, matrices, precision="fp16"))
    x, _, w, bias = arrays
    for other in (x, floats(1, 1, 11, 13), floats(1, 1, 1, 1), floats(1, 67, 1, 13)):
        assert not offered(op, [x, other, w, bias], DISCRETE)
    strided = Chain((Mul(), Conv((2, 2), (0,) * 4, (1, 1))), (2, 2))
    assert not offered(strided, arrays, DISCRETE)
    added = Chain((Add(), POINTWISE), (2, 2))
    assert not offered(added, arrays, DISCRETE)


@pytest.mark.host
def test_steps_that_make_infinities_of_padding_are_none() -> None:
    hard = FusedStep(HardSigmoid(), None)
    for steps, fits in (((hard,), True), ((FusedStep(Log(), None),), False)):
        assert bool(offered(*case("few", steps), DISCRETE)) is fits


@pytest.mark.host
@pytest.mark.parametrize("device", [name for name in DEVICES if DEVICES[name].kind != "cpu"])
@pytest.mark.parametrize("name", CASES)
def test_it_fits_the_device(device: str, name: str) -> None:
    op, arrays = case(name)
    graph = single_op_graph(op, arrays, (2, 3))
    limits = dataclasses.replace(DEVICES[device], max_storage_buffers=5)
    for algorithm in offered(op, arrays, limits):
        plan = lower(graph, limits, LoweringOptions(algorithm=algorithm))
        check_limits(plan, limits)
