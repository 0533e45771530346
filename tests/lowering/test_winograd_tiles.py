"""Workgroups of Winograd's dispatches on GPUs, and what its estimates count."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.lowering.limits import DEVICES, DISCRETE, offers
from tests.lowering.test_machine import INTEGRATED, convolution

from vknn.graph import Graph, GraphBuilder, TensorType
from vknn.lowering import LoweringOptions, candidates, lower
from vknn.lowering.kit.machine import machine_of
from vknn.lowering.kit.parameters import parameters_of
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Add, Fused, FusedStep
from vknn.plan import DeviceLimits, Dispatch


def costs(graph: Graph, limits: DeviceLimits, precision: str = "fp32") -> dict[str, float]:
    found = candidates(graph.nodes[0], limits, LoweringOptions(precision=precision))
    return {c.name: c.cost for c in found if c.name.startswith("winograd")}


def steps(graph: Graph, limits: DeviceLimits, size: int) -> dict[str, Dispatch]:
    options = LoweringOptions(algorithm=f"winograd{size}3")
    found = (d for d in lower(graph, limits, options).dispatches if "winograd" in d.kernel)
    return {d.kernel.rpartition("_")[2]: d for d in found}


def lanes(dispatch: Dispatch) -> int | float:
    return dict(dispatch.specialization)[0]


def spec(dispatch: Dispatch) -> dict[str, int | float]:
    return parameters_of(dispatch.kernel).named(dict(dispatch.specialization))


def test_transforms_have_a_lane_for_each_line_on_gpus_alone() -> None:
    graph = convolution(8, 14)
    found = steps(graph, DISCRETE, 4)
    assert (lanes(found["input"]), spec(found["input"])["HELD"]) == (96, 16)
    assert found["input"].groups == found["output"].groups == (2, 1, 1)  # of 2 x 16 tiles
    assert lanes(steps(graph, DISCRETE, 2)["output"]) == 64
    found = steps(graph, DEVICES["cpu"], 4)
    assert lanes(found["input"]) == 8 and "HELD" not in spec(found["input"])
    assert not any("LINES" in dict(d.variant) or "AHEAD" in dict(d.variant) for d in found.values())


@pytest.mark.parametrize(
    ("size", "subgroup", "expected"), [(14, 32, 32), (14, 64, 64), (28, 32, 64)]
)
def test_few_tiles_have_few_lanes(size: int, subgroup: int, expected: int) -> None:
    """14x14 pixels are 16 tiles, 28x28 are 49."""
    limits = dataclasses.replace(DISCRETE, subgroup_size=subgroup)
    assert lanes(steps(convolution(16, size), limits, 4)["product"]) == expected


@pytest.mark.parametrize(("channels", "ahead"), [(4, 0), (8, 1), (12, 0), (16, 2), (24, 1)])
def test_rounds_go_in_pairs(channels: int, ahead: int) -> None:
    product = steps(convolution(channels, 14), DISCRETE, 4)["product"]
    assert spec(product)["TN"] == 1
    assert spec(product).get("ROUND", 0) == ahead
    assert dict(product.variant).get("AHEAD", "0") == str(int(ahead > 0))


def test_workgroups_that_a_device_does_not_allow() -> None:
    graph = convolution(8, 14)
    few = dataclasses.replace(DISCRETE, max_group_invocations=64)
    assert set(costs(graph, few)) == {"winograd23"}
    small = dataclasses.replace(DISCRETE, shared_memory=8192)
    assert set(costs(graph, small)) == {"winograd23"}
    on_cpu = dataclasses.replace(DEVICES["cpu"], shared_memory=0)
    assert set(costs(graph, on_cpu)) == {"winograd23", "winograd43"}


def test_what_is_moved_costs() -> None:
    large, deep = convolution(64, 224), convolution(512, 7)
    for limits in (DISCRETE, INTEGRATED):
        for graph in (large, deep):
            half, single = costs(graph, limits, "fp16"), costs(graph, limits)
            assert all(half[name] <= single[name] for name in single)
        # Tiles of 2x2 have more of transformed tiles, those of 4x4 of weights.
        assert costs(large, limits)["winograd43"] < costs(large, limits)["winograd23"]
        assert costs(deep, limits)["winograd43"] > costs(deep, limits)["winograd23"]
    weights = 16 * 512 * 512 * 4
    assert costs(deep, INTEGRATED)["winograd23"] > 0.25 * machine_of(INTEGRATED).byte * weights


def test_three_channels_are_left_to_the_direct_form() -> None:
    """Their products would be few for what the transforms move."""
    for limits in (DISCRETE, INTEGRATED):
        found = offers(convolution(3, 224), limits)
        assert not min(found, key=lambda c: c.cost).name.startswith("winograd")


def test_an_operand_that_no_step_reads_counts_no_bytes() -> None:
    """Its binding has the input in its place, which the output transform leaves alone."""
    graph = convolution(64, 28)
    (node,) = graph.nodes
    output = steps(graph, DISCRETE, 4)["output"]
    tiles, vectors = 7 * 7, 64 // 4
    products = 16 * 36 * (-(-(tiles * vectors - 4) // 8) * 8 + 4)
    assert output.nbytes == products + 4 * 64 + 4 * node.outputs[0].type.size


def test_an_operand_that_a_step_reads_costs_its_bytes() -> None:
    shape = TensorType((1, 64, 112, 112))
    conv = Conv(strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1))
    builder = GraphBuilder()
    x, operand = builder.input("x", shape), builder.input("operand", shape)
    w = builder.constant(np.zeros((64, 64, 3, 3), "f"), "w")
    added = builder.finish({"y": builder.add(Fused(conv, (FusedStep(Add(), 0),)), x, w, operand)})
    more = costs(added, INTEGRATED)["winograd43"]
    more -= costs(convolution(64, 112), INTEGRATED)["winograd43"]
    assert more == pytest.approx(4 * shape.size * machine_of(INTEGRATED).stream, rel=0.05)
