"""Convolutions of one tap and depthwise ones behind them in one dispatch, as on a GPU."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
from tests.helpers import check_op, run_graph, shared_device, single_op_graph, skip_without_half
from tests.lowering.limits import DEVICES, DISCRETE, check_limits

from vknn.crosscheck.storage import rounded
from vknn.graph import Op
from vknn.lowering import LoweringOptions, candidates, lower
from vknn.lowering.kernels.chain import expanded
from vknn.ops.chain import Chain
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Add, Clip, Fused, FusedStep, HardSwish, Log, Mul, Relu
from vknn.plan import DeviceLimits

RNG = np.random.default_rng(17)
check = functools.partial(check_op, kind="discrete", only="expanded", access=("storage",))
POINTWISE = Conv((1, 1), (0,) * 4, (1, 1))
RELU, RELU6, SWISH = (FusedStep(op, None) for op in (Relu(), Clip(0.0, 6.0), HardSwish()))
#: Strides, pads, dilations; kernel; batch and size of x; channels of x and y.
CASES = {
    "3x3": (((1, 1), (1, 1, 1, 1), (1, 1)), (3, 3), (2, 7, 5), (13, 11)),
    "wide": (((1, 1), (1, 1, 1, 1), (1, 1)), (3, 3), (1, 11, 13), (67, 131)),
    "strided": (((2, 2), (0, 1, 1, 0), (1, 1)), (3, 3), (1, 17, 11), (5, 37)),
    "5x5": (((1, 2), (2, 2, 2, 2), (1, 1)), (5, 5), (1, 13, 9), (23, 7)),
    "dilated": (((1, 1), (2, 3, 2, 3), (2, 3)), (3, 3), (1, 9, 7), (6, 5)),
    "row": (((1, 1), (0, 1, 0, 1), (1, 1)), (1, 3), (3, 1, 37), (9, 257)),
}


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def case(name: str, first: tuple = (), second: tuple = ()) -> tuple[Chain, list[np.ndarray]]:  # type: ignore[type-arg]
    """The chain with epilogues, and x, weights, bias, weights and bias."""
    (strides, pads, dilations), kernel, (n, h, w), (c, m) = CASES[name]
    links: list[Op] = [POINTWISE, Conv(strides, pads, dilations, m)]
    links = [
        Fused(op, steps) if steps else op for op, steps in zip(links, (first, second), strict=True)
    ]
    arrays = [floats(n, c, h, w), floats(m, c, 1, 1), floats(m), floats(m, 1, *kernel), floats(m)]
    return Chain(tuple(links), (3, 2)), arrays


@pytest.mark.device
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("name", CASES)
def test_against_numpy(name: str, precision: str) -> None:
    op, arrays = case(name, (RELU,), (RELU6,))
    # float16 rounds between both, too.
    more = {"tolerance": 2e-3} if precision == "fp16" else {}
    check(op, *arrays, constants=(1, 2, 3, 4), precision=precision, **more)


@pytest.mark.device
@pytest.mark.parametrize("name", ["3x3", "wide"])
def test_without_bias_and_epilogues(name: str) -> None:
    op, (x, b, _, a, _) = case(name)
    check(dataclasses.replace(op, counts=(2, 1)), x, b, a, constants=(1, 2))


@pytest.mark.device
def test_three_steps_each() -> None:
    steps = (FusedStep(Mul(), scalar=0.25), SWISH, FusedStep(Add(), scalar=0.5))
    op, arrays = case("3x3", steps, steps)
    check(op, *arrays, constants=(1, 2, 3, 4))


@pytest.mark.device
@pytest.mark.parametrize("whole", [True, False], ids=["tensor", "channels"])
def test_a_sum_with_another_tensor(whole: bool) -> None:
    op, arrays = case("wide", (RELU,), (FusedStep(Add(), 0), RELU))
    shape = (1, 131, 11, 13) if whole else (1, 131, 1, 1)
    op = dataclasses.replace(op, counts=(3, 3))
    other = floats(*shape)
    for constants in ((1, 2, 3, 4), (1, 2, 3, 4, 5)):
        check(op, *arrays, other, constants=constants)


@pytest.mark.device
def test_nothing_leaks_from_padding_and_neighbours() -> None:
    """Infinities of pixels outside of a window, of a channel's neighbours, of padding lanes."""
    op, arrays = case("3x3", (FusedStep(Log(), None),))  # of padding lanes: -inf
    arrays[:4] = (np.abs(a) + 0.5 for a in arrays[:4])
    arrays[0][0, :, 3, 2] = np.inf
    check(op, *arrays, constants=(1, 2, 3, 4))


@pytest.mark.device
def test_sums_in_float16() -> None:
    skip_without_half()
    op, arrays = case("3x3", (RELU,), (RELU6,))
    arrays = [rounded(a) for a in arrays]
    limits = dataclasses.replace(shared_device().limits, kind="discrete")
    options = LoweringOptions(precision="fp16", arithmetic="fp16", algorithm="expanded-tile2x2x64")
    graph = single_op_graph(op, arrays, range(1, len(arrays)))
    (y,) = run_graph(graph, limits, options, {"x0": arrays[0]}).values()
    (expected,) = op.reference(*arrays)
    assert np.abs(y - expected).max() < 1e-2 * np.abs(expected).max()


@pytest.mark.device
def test_by_dot_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expanded, "FLOAT_DOTS", 2)  # written out in float32
    features = ("float_dot", "fp16_storage", "fp16_arithmetic")
    for name in ("3x3", "row"):
        op, arrays = case(name, (RELU,))
        more = {"tolerance": 2e-3, "precision": "fp16", "features": features}
        check(op, *arrays, constants=(1, 2, 3, 4), **more)


def offered(op: Op, arrays: list[np.ndarray], limits: DeviceLimits, **options: str) -> list[str]:
    graph = single_op_graph(op, arrays, tuple(range(1, len(arrays))))
    found = candidates(graph.nodes[0], limits, LoweringOptions(**options))  # type: ignore[arg-type]
    return [c.name for c in found]


@pytest.mark.host
def test_chains_that_it_is_offered() -> None:
    op, arrays = case("wide")
    names = offered(op, arrays, DISCRETE)
    assert "expanded-tile2x2x64" in names
    assert not offered(op, arrays, dataclasses.replace(DISCRETE, kind="cpu"))
    strided = Chain((Conv((2, 2), (0,) * 4, (1, 1)), op.links[1]), (2, 1))
    assert not offered(strided, [arrays[0], arrays[1], arrays[3]], DISCRETE)
    grouped = Chain((POINTWISE, Conv((1, 1), (1,) * 4, (1, 1), 2)), (2, 1))
    few = [floats(1, 8, 5, 5), floats(8, 8, 1, 1), floats(8, 4, 3, 3)]
    assert not offered(grouped, few, DISCRETE)


@pytest.mark.host
@pytest.mark.parametrize("device", [name for name in DEVICES if DEVICES[name].kind != "cpu"])
@pytest.mark.parametrize("name", ["3x3", "wide", "row"])
def test_it_fits_the_device(device: str, name: str) -> None:
    op, arrays = case(name)
    graph = single_op_graph(op, arrays, range(1, len(arrays)))
    for algorithm in offered(op, arrays, DEVICES[device]):
        plan = lower(graph, DEVICES[device], LoweringOptions(algorithm=algorithm))
        check_limits(plan, DEVICES[device])
