"""Machines by the kind of device, and what convolutions take by their times."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from tests.lowering.limits import DEVICES, DISCRETE, offers
from tests.lowering.plan_texts import SHUFFLING

from vknn.graph import Graph, GraphBuilder, TensorType
from vknn.lowering import LoweringOptions, candidates
from vknn.lowering.kit.machine import machine_of
from vknn.ops.convolution.conv import Conv
from vknn.ops.matmul import MatMul
from vknn.plan import ComputeUnits, DeviceLimits, MeasuredSpeeds

INTEGRATED = dataclasses.replace(DISCRETE, name="integrated", kind="integrated")


def of_kind(kind: str) -> DeviceLimits:
    return DeviceLimits(kind=kind)


def with_vendor(limits: DeviceLimits, vendor: int) -> DeviceLimits:
    return dataclasses.replace(limits, vendor_id=vendor)


def with_units(*units: Any) -> DeviceLimits:
    return dataclasses.replace(DISCRETE, compute_units=ComputeUnits(*units))


def convolution(channels: int, size: int) -> Graph:
    """A 3x3 convolution that keeps channels and size."""
    g = GraphBuilder()
    x = g.input("x", TensorType((1, channels, size, size)))
    w = g.constant(np.zeros((channels, channels, 3, 3), "f"), "w")
    conv = Conv(strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1))
    return g.finish({"y": g.add(conv, x, w)})


def cheapest(graph: Graph, limits: DeviceLimits) -> str:
    return min(offers(graph, limits), key=lambda c: c.cost).name


def test_cpus_and_discrete_devices_have_machines_of_their_own():
    cpu, discrete, other = (machine_of(of_kind(k)) for k in ("cpu", "discrete", "other"))
    assert len({cpu, discrete, other}) == 3
    assert all(machine_of(of_kind(k)) is other for k in ("integrated", "virtual", "unheard of"))
    assert cpu.dispatch > other.dispatch > discrete.dispatch
    assert cpu.group > 0 == discrete.group == other.group


def test_a_machine_depends_on_the_kind_where_nothing_else_is_known():
    assert machine_of(DISCRETE) is machine_of(of_kind("discrete"))
    assert machine_of(DEVICES["minimum, cpu"]) is machine_of(SHUFFLING)


def test_processors_that_are_known_set_lanes_and_steps():
    """An RX 6800, to which the fitted machine of discrete devices is close."""
    fitted, told = machine_of(DISCRETE), machine_of(with_units(60, 64, 2.1))
    assert told.lanes == 15360
    assert told.step == pytest.approx(fitted.step, rel=0.1)
    assert (told.dispatch, told.byte) == (fitted.dispatch, fitted.byte)
    half = machine_of(with_units(30, 64, 2.1))
    assert half.in_waves(1 << 20, 100) == pytest.approx(2 * told.in_waves(1 << 20, 100))


def test_makers_of_integrated_devices_differ_in_what_a_dispatch_costs():
    """As times of real GPUs say (docs/gpu.md); discrete ones are alike."""
    apple, qualcomm = (with_vendor(INTEGRATED, vendor) for vendor in (0x106B, 0x5143))
    assert machine_of(apple).dispatch < machine_of(INTEGRATED).dispatch
    assert machine_of(qualcomm).dispatch > machine_of(INTEGRATED).dispatch
    assert machine_of(with_vendor(DISCRETE, 0x1002)) == machine_of(DISCRETE)


def test_measured_speeds_outdo_what_is_told():
    speeds = MeasuredSpeeds(gflops=10000.0, gbytes=250.0, dispatch=3e-6)
    limits = dataclasses.replace(with_units(60, 64, 2.1), speeds=speeds)
    machine = machine_of(limits)
    assert machine.dispatch == pytest.approx(3.0)
    products = 1e9  # multiply-adds on all lanes, at 60 % of the peak
    took = machine.in_waves(machine.lanes, products / machine.lanes)
    assert took == pytest.approx(2 * products / (0.6 * 10000e9) * 1e6)
    assert machine.byte * 0.6 * 250e9 == pytest.approx(1e6)


def test_cpus_are_taken_as_measured_on_llvmpipe_whatever_they_tell():
    speeds = MeasuredSpeeds(gflops=1.0, gbytes=1.0, dispatch=1.0)
    limits = dataclasses.replace(of_kind("cpu"), speeds=speeds)
    assert machine_of(limits) is machine_of(of_kind("cpu"))


def test_lanes_wait_where_there_are_too_few_to_hide_it():
    machine = machine_of(DISCRETE)
    assert machine.in_rounds(1, 100, 3) == pytest.approx(50 * machine.step + 3 * machine.latency)
    many = 10 * machine.lanes
    assert machine.in_rounds(many, 100, 3) == machine.in_waves(many, 100)


def test_lanes_that_run_side_by_side_take_as_long_as_one():
    machine = machine_of(DISCRETE)
    assert machine.in_waves(1, 100) == machine.in_waves(machine.lanes, 100) == 100 * machine.step
    assert machine.in_waves(3 * machine.lanes, 100) == pytest.approx(300 * machine.step)


def test_last_waves_of_a_simd_are_as_few_as_there_are():
    """Nine waves where eight are held: eight beside each other, then one alone."""
    machine = machine_of(with_units(60, 64, 2.1))
    full = 8 * machine.simds * machine.wave
    eight, one = machine.on_simds(full, 1000, 1), machine.on_simds(1, 1000, 1)
    assert eight == pytest.approx(8000 * machine.issue)
    assert one == pytest.approx(1000 * machine.issue + machine.wait)
    assert machine.on_simds(full + full // 8, 1000, 1) == pytest.approx(eight + one)
    assert machine.on_simds(2 * full, 1000, 1) == pytest.approx(2 * eight)


def test_workgroups_of_a_cpu_take_their_time_each():
    machine = machine_of(of_kind("cpu"))
    assert machine.in_groups(6, 1000) == pytest.approx(3 * machine.in_groups(2, 1000))
    assert machine.in_groups(2, 1000) == pytest.approx(machine.group + 1000 * machine.step)


@pytest.mark.parametrize(
    ("limits", "channels", "size", "name"),
    [
        (DISCRETE, 256, 56, "winograd43"),
        (INTEGRATED, 256, 56, "winograd43"),
        (INTEGRATED, 256, 14, "winograd23"),
        # Too small to gain what two more dispatches cost.
        (DISCRETE, 16, 14, "tile1x1"),
        (INTEGRATED, 16, 14, "tile1x1"),
    ],
)
def test_gpus_take_winograd_where_there_is_much_to_multiply(limits, channels, size, name):
    assert cheapest(convolution(channels, size), limits) == name


@pytest.mark.parametrize(("channels", "size"), [(256, 14), (512, 7)])
def test_fast_gpus_share_out_the_channels_of_few_pixels(channels, size):
    """Winograd's products would keep few of their processors busy, in two dispatches more."""
    assert cheapest(convolution(channels, size), DISCRETE).startswith("split")


@pytest.mark.parametrize(
    ("limits", "channels", "size", "name"),
    [
        (SHUFFLING, 64, 56, "winograd43"),
        (SHUFFLING, 256, 14, "winograd43"),
        (SHUFFLING, 16, 14, "tile4x4-shuffle"),
        (DEVICES["minimum, cpu"], 64, 56, "winograd43"),
        (DEVICES["minimum, cpu"], 16, 14, "tile4x4"),
    ],
)
def test_cpus_take_what_was_measured_to_be_fast(limits, channels, size, name):
    assert cheapest(convolution(channels, size), limits) == name


@pytest.mark.parametrize("factor", [1, 0.5])
def test_a_row_times_a_large_matrix_takes_as_long_as_its_bytes(factor):
    """A fully connected layer, as a convolution and as a product."""
    precision = "fp32" if factor == 1 else "fp16"
    limits = dataclasses.replace(with_units(60, 64, 2.1), features=DISCRETE.features)
    machine, k, n = machine_of(limits), 4096, 1024
    w, moved = np.zeros((n, k), "f"), 4 * factor * (k + n + k * n)
    for op, shape, weights in (
        (MatMul(False, True), (1, k), w),
        (Conv((1, 1), (0,) * 4, (1, 1)), (1, k, 1, 1), w.reshape(n, k, 1, 1)),
    ):
        g = GraphBuilder()
        x = g.input("x", TensorType(shape))
        graph = g.finish({"y": g.add(op, x, g.constant(weights, "w"))})
        options = LoweringOptions(precision=precision)
        (row,) = (c for c in candidates(graph.nodes[0], limits, options) if c.name == "row")
        assert row.cost - machine.dispatch == pytest.approx(moved * machine.stream, rel=0.05)


@pytest.mark.parametrize("limits", [DISCRETE, INTEGRATED, DeviceLimits()])
def test_one_pixel_is_no_reason_for_the_general_form(limits):
    """Its estimate counts lanes as the others' do, not operations of a whole device."""
    assert cheapest(convolution(512, 1), limits) != "general"


def test_a_workgroup_alone_does_not_draw_the_memory():
    """One compute unit takes longer for bytes than all do, and a gate's image is read by one."""
    machine = machine_of(DISCRETE)
    nbytes = 1 << 21
    assert machine.drawn(nbytes) > 4 * nbytes * machine.stream
    assert machine.drawn(2 * nbytes) == 2 * machine.drawn(nbytes)
