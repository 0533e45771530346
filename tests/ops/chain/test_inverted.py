"""Inverted residual blocks in one dispatch, as on a GPU."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from tests.helpers import single_op_graph
from tests.lowering.limits import DEVICES, DISCRETE, check_limits
from tests.ops.chain.pairs import (
    POINTWISE,
    RELU,
    RELU6,
    SWISH,
    check,
    check_sums_in_float16,
    floats,
    offered,
)

from vknn.lowering import LoweringOptions, lower
from vknn.lowering.kernels.chain import inverted, inverted_registers
from vknn.ops.chain import Chain
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Add, Fused, FusedStep, Log, Mul

KIND = "inverted"
Steps = tuple[FusedStep, ...]
#: Strides, pads, dilations; kernel; batch and size of x; channels of x, between and of y.
CASES = {
    "3x3": (((1, 1), (1, 1, 1, 1), (1, 1)), (3, 3), (2, 7, 5), (5, 13, 11)),
    "wide": (((1, 1), (1, 1, 1, 1), (1, 1)), (3, 3), (1, 11, 13), (19, 101, 67)),
    "strided": (((2, 2), (0, 1, 1, 0), (1, 1)), (3, 3), (1, 17, 11), (7, 37, 29)),
    "5x5": (((1, 2), (2, 2, 2, 2), (1, 1)), (5, 5), (1, 13, 9), (11, 23, 3)),
    "dilated": (((1, 1), (2, 3, 2, 3), (2, 3)), (3, 3), (1, 9, 7), (3, 6, 5)),
    "row": (((1, 1), (0, 1, 0, 1), (1, 1)), (1, 3), (3, 1, 37), (71, 9, 131)),
    "slices of 24": (((2, 1), (1, 1, 1, 1), (1, 1)), (3, 3), (1, 9, 7), (10, 189, 14)),
}
CONSTANTS = (1, 2, 3, 4, 5, 6)


def case(
    name: str, first: Steps = (), second: Steps = (), third: Steps = ()
) -> tuple[Chain, list[np.ndarray]]:
    """The chain with epilogues, and x and each convolution's weights and bias."""
    (strides, pads, dilations), kernel, (n, h, w), (c, e, m) = CASES[name]
    ops = (POINTWISE, Conv(strides, pads, dilations, e), POINTWISE)
    ends = zip(ops, (first, second, third), strict=True)
    links = tuple(Fused(op, steps) if steps else op for op, steps in ends)
    arrays = [floats(n, c, h, w), floats(e, c, 1, 1), floats(e), floats(e, 1, *kernel), floats(e)]
    return Chain(links, (3, 2, 2)), [*arrays, floats(m, e, 1, 1), floats(m)]


def loose(precision: str) -> dict[str, Any]:
    """Options of comparisons: 16 bits round between the convolutions, too."""
    return {"tolerance": 3e-3} if precision == "fp16" else {}


@pytest.mark.device
@pytest.mark.parametrize(
    ("name", "precision"),
    [
        *((name, "fp32") for name in CASES),
        *(
            pytest.param(name, "fp16", marks=() if name == "3x3" else pytest.mark.slow)
            for name in CASES
        ),
    ],
)
def test_against_numpy(name: str, precision: str) -> None:
    op, arrays = case(name, (RELU,), (RELU6,))
    check(KIND, op, *arrays, constants=CONSTANTS, precision=precision, **loose(precision))


@pytest.mark.device
@pytest.mark.parametrize(
    ("name", "most"), [("wide", 0), ("strided", 0), ("dilated", 0), ("5x5", 25)]
)
def test_taps_by_rows_and_together(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inverted_registers, "MANY_TAPS", most)
    op, arrays = case(name, (RELU,), (RELU6,))
    check(KIND, op, *arrays, constants=CONSTANTS)


@pytest.mark.device
def test_bfloat16() -> None:
    """Stored in it, x and weights; sums in float32."""
    op, arrays = case("strided", (RELU,), (RELU6,))
    check(KIND, op, *arrays, constants=CONSTANTS, precision="bf16")


@pytest.mark.device
@pytest.mark.parametrize("name", ["3x3", "wide"])
def test_without_bias_and_epilogues(name: str) -> None:
    op, (x, first, _, second, _, third, _) = case(name)
    check(
        KIND,
        dataclasses.replace(op, counts=(2, 1, 1)),
        x,
        first,
        second,
        third,
        constants=(1, 2, 3),
    )


@pytest.mark.device
def test_two_steps_each() -> None:
    steps = (FusedStep(Mul(), scalar=0.25), SWISH)
    op, arrays = case("3x3", steps, steps, steps)
    check(KIND, op, *arrays, constants=CONSTANTS)


@pytest.mark.device
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("whole", [True, False], ids=["tensor", "channels"])
def test_a_sum_with_another_tensor(whole: bool, precision: str) -> None:
    op, arrays = case("wide", (RELU,), (RELU,), (FusedStep(Add(), 0), RELU))
    other = floats(*((1, 67, 11, 13) if whole else (1, 67, 1, 1)))
    op = dataclasses.replace(op, counts=(3, 2, 3))
    for constants in (CONSTANTS, (*CONSTANTS, 7)):
        more = {"precision": precision, **loose(precision)}
        check(KIND, op, *arrays, other, constants=constants, **more)


@pytest.mark.device
@pytest.mark.parametrize("place", [(0, slice(None), 3, 2), (0, 2), (0, 1, 0, 0)])
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_nothing_leaks_from_padding_and_neighbours(value: float, place: Any) -> None:
    """What is not finite in a pixel, a channel, at an edge; of padding lanes steps make -inf."""
    op, arrays = case("3x3", (FusedStep(Log(), None),), (FusedStep(Log(), None),))
    arrays = [np.abs(a) + 0.5 for a in arrays]
    arrays[0][place] = value
    check(KIND, op, *arrays, constants=CONSTANTS)


@pytest.mark.device
@pytest.mark.parametrize("number", [1, 3, 5])
def test_weights_that_are_not_finite(number: int) -> None:
    """An infinite weight is in no other channel than its own."""
    op, arrays = case("3x3")
    arrays[number][-1] = np.inf
    check(KIND, op, *arrays, constants=CONSTANTS)


@pytest.mark.device
def test_sums_in_float16() -> None:
    op, arrays = case("3x3", (RELU,), (RELU6,))
    check_sums_in_float16(op, arrays, "inverted-half64x8")


@pytest.mark.device
def test_by_dot_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inverted, "FLOAT_DOTS", 2)  # written out in float32
    features = ("float_dot", "fp16_storage", "fp16_arithmetic")
    for name in ("3x3", "wide", "row"):
        op, arrays = case(name, (RELU,))
        more = {"tolerance": 3e-3, "precision": "fp16", "features": features}
        check(KIND, op, *arrays, constants=CONSTANTS, **more)


@pytest.mark.host
def test_chains_that_it_is_offered() -> None:
    op, arrays = case("wide")
    assert "inverted-tile64x8" in offered(op, arrays, DISCRETE)
    assert "inverted-tile384x24" not in offered(op, arrays, DISCRETE)
    assert "inverted-tile384x24" in offered(*case("slices of 24"), DISCRETE)
    assert not offered(op, arrays, dataclasses.replace(DISCRETE, kind="cpu"))
    strided = Conv((2, 2), (0,) * 4, (1, 1))
    other = dataclasses.replace(op, links=(strided, *op.links[1:]))
    assert not offered(other, arrays, DISCRETE)
    long, arrays = case("wide", (RELU, SWISH, RELU))
    assert not offered(long, arrays, DISCRETE)


@pytest.mark.host
@pytest.mark.parametrize("device", [name for name in DEVICES if DEVICES[name].kind != "cpu"])
@pytest.mark.parametrize("name", ["3x3", "wide", "row"])
def test_it_fits_the_device(device: str, name: str) -> None:
    op, arrays = case(name)
    graph = single_op_graph(op, arrays, range(1, len(arrays)))
    for algorithm in offered(op, arrays, DEVICES[device]):
        plan = lower(graph, DEVICES[device], LoweringOptions(algorithm=algorithm))
        check_limits(plan, DEVICES[device])
