"""Inputs and outputs of float16 plans that the device's repacks convert, on GPUs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.helpers import ACCESS_MODES, run_graph, shared_device, single_op_graph, skip_without_half

from vknn.graph import Graph
from vknn.lowering import LoweringOptions, lower
from vknn.ops import elementwise as ew
from vknn.ops.convolution.conv import Conv
from vknn.plan import DeviceLimits, Dispatch, Plan

HALF = LoweringOptions(precision="fp16")


def conv_graph(spatial: tuple[int, int], channels: int = 3, filters: int = 5) -> Graph:
    rng = np.random.default_rng(0)
    x = np.zeros((2, channels, *spatial), np.float32)
    w = rng.integers(-2, 3, (filters, channels, 1, 1)).astype(np.float32)
    return single_op_graph(Conv((1, 1), (0, 0, 0, 0), (1, 1), 1), [x, w], constants=(1,))


def limits_of(kind: str, access: str = "storage") -> DeviceLimits:
    limits = shared_device().limits
    return dataclasses.replace(limits, kind=kind, preferred_access=access)


def singles(plan: Plan) -> list[str]:
    steps = [s for s in plan.steps if isinstance(s, Dispatch)]
    return [s.kernel for s in steps if ("SINGLE", "1") in s.variant]


@pytest.mark.device
@pytest.mark.parametrize(
    ("kind", "width"), [("cpu", 2), ("discrete", 4), ("integrated", 4)], ids=str
)
def test_which_devices_convert(kind: str, width: int) -> None:
    skip_without_half()
    plan = lower(conv_graph((7, 11)), limits_of(kind), HALF)
    assert [p.width for p in (*plan.inputs.values(), *plan.outputs.values())] == [width] * 2
    expected = ["movement/pack", "movement/unpack"] if width == 4 else []
    assert singles(plan) == expected
    single = lower(conv_graph((7, 11)), limits_of(kind), LoweringOptions())
    assert len(single.commands) == len(plan.commands)
    assert not singles(single)


@pytest.mark.device
@pytest.mark.parametrize("access", ACCESS_MODES)
@pytest.mark.parametrize("spatial", [(7, 11), (1, 1), (4, 7), (13, 1)], ids=str)
def test_values(spatial: tuple[int, int], access: str) -> None:
    """Exact: numbers that float16 holds, and others that are rounded once on the way in."""
    skip_without_half()
    graph = conv_graph(spatial)
    rng = np.random.default_rng(1)
    x = rng.integers(-64, 65, (2, 3, *spatial)).astype(np.float32)
    weights = next(v.constant for v in graph.nodes[0].inputs if v and v.constant is not None)
    assert weights is not None
    expected = np.einsum("ncyx,fc->nfyx", x, weights[:, :, 0, 0])
    found = run_graph(graph, limits_of("discrete", access), HALF, {"x0": x})["y0"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, expected)
    noise = rng.standard_normal(x.shape).astype(np.float32)
    rounded = noise.astype(np.float16).astype(np.float32)
    limits = limits_of("discrete", access)
    np.testing.assert_array_equal(
        run_graph(graph, limits, HALF, {"x0": noise})["y0"],
        run_graph(graph, limits, HALF, {"x0": rounded})["y0"],
    )


@pytest.mark.device
def test_beyond_float16_lies_infinity() -> None:
    skip_without_half()
    graph = conv_graph((3, 5), channels=1, filters=1)
    x = np.full((2, 1, 3, 5), 1e6, np.float32)
    found = run_graph(graph, limits_of("discrete"), HALF, {"x0": x})["y0"]
    weight = next(v.constant for v in graph.nodes[0].inputs if v and v.constant is not None)
    assert weight is not None
    assert np.isinf(found).all() or not weight.any()


@pytest.mark.device
def test_an_input_that_others_read_too_is_converted_by_the_host() -> None:
    skip_without_half()
    graph = single_op_graph(ew.Relu(), [np.zeros((2, 3, 5, 7), np.float32)])
    plan = lower(graph, limits_of("discrete"), HALF)
    x = np.random.default_rng(2).integers(-9, 9, (2, 3, 5, 7)).astype(np.float32)
    assert not singles(plan)
    assert plan.inputs["x0"].width == 2
    found = run_graph(graph, limits_of("discrete"), HALF, {"x0": x})["y0"]
    np.testing.assert_array_equal(found, np.maximum(x, 0))
