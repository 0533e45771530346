"""A depthwise convolution and one of a tap in one dispatch, as on a GPU, in both orders."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.helpers import single_op_graph
from tests.lowering.limits import DEVICES, check_limits
from tests.ops.chain.pairs import CASES, KINDS, RELU, RELU6, SWISH, case, check, floats, offered

from vknn.lowering import LoweringOptions, lower
from vknn.ops.elementwise import Add, FusedStep, Log, Mul


@pytest.mark.device
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("name", CASES)
def test_against_numpy(kind: str, name: str, precision: str) -> None:
    op, arrays = case(kind, name, (RELU,), (RELU6,))
    # float16 rounds between both, too.
    more = {"tolerance": 2e-3} if precision == "fp16" else {}
    check(kind, op, *arrays, constants=(1, 2, 3, 4), precision=precision, **more)


@pytest.mark.device
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["3x3", "wide"])
def test_without_bias_and_epilogues(kind: str, name: str) -> None:
    op, (x, first, _, second, _) = case(kind, name)
    op = dataclasses.replace(op, counts=(2, 1))
    check(kind, op, x, first, second, constants=(1, 2))


@pytest.mark.device
@pytest.mark.parametrize("kind", KINDS)
def test_three_steps_each(kind: str) -> None:
    steps = (FusedStep(Mul(), scalar=0.25), SWISH, FusedStep(Add(), scalar=0.5))
    op, arrays = case(kind, "3x3", steps, steps)
    check(kind, op, *arrays, constants=(1, 2, 3, 4))


@pytest.mark.device
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("whole", [True, False], ids=["tensor", "channels"])
def test_a_sum_with_another_tensor(kind: str, whole: bool) -> None:
    op, arrays = case(kind, "wide", (RELU,), (FusedStep(Add(), 0), RELU))
    shape = (1, 131, 11, 13) if whole else (1, 131, 1, 1)
    op = dataclasses.replace(op, counts=(3, 3))
    other = floats(*shape)
    for constants in ((1, 2, 3, 4), (1, 2, 3, 4, 5)):
        check(kind, op, *arrays, other, constants=constants)


@pytest.mark.device
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_leaks_from_padding_and_neighbours(kind: str) -> None:
    """Infinities of pixels outside of a window, of a channel's neighbours, of padding lanes."""
    op, arrays = case(kind, "3x3", (FusedStep(Log(), None),))  # of padding lanes: -inf
    arrays[:4] = (np.abs(a) + 0.5 for a in arrays[:4])
    arrays[0][0, :, 3, 2] = np.inf
    check(kind, op, *arrays, constants=(1, 2, 3, 4))


@pytest.mark.host
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("device", [name for name in DEVICES if DEVICES[name].kind != "cpu"])
@pytest.mark.parametrize("name", ["3x3", "wide", "row"])
def test_it_fits_the_device(kind: str, device: str, name: str) -> None:
    op, arrays = case(kind, name)
    graph = single_op_graph(op, arrays, range(1, len(arrays)))
    for algorithm in offered(op, arrays, DEVICES[device]):
        plan = lower(graph, DEVICES[device], LoweringOptions(algorithm=algorithm))
        check_limits(plan, DEVICES[device])
