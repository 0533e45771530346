"""Peaks of a device, measured on the smallest scale, and the plans that measure them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vknn.cli import main
from vknn.errors import NullDeviceError, VknnError
from vknn.plan import DeviceLimits, View
from vknn.profiling import Limits, limit_plans, limits, measure_limits
from vknn.runtime import Device, Executable, open_device


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with open_device() as opened:
        yield opened


@pytest.fixture(scope="module")
def measured(device: Device) -> Limits:
    return measure_limits(device, runs=1, seconds=1e-5, copy_bytes=1 << 16)


@pytest.mark.device
def test_every_figure_is_there(measured: Limits) -> None:
    assert len(measured.fma) == len(limit_plans.FMA_FORMS)
    assert min(measured.fma.values()) > 0
    assert limit_plans.TRANSFER in measured.copy
    assert min(measured.copy.values()) > 0
    assert measured.submit > 0
    assert min(measured.dispatch, measured.dispatch_barrier, measured.group) >= 0


@pytest.mark.device
def test_narrow_arithmetic_is_measured_where_there_is_some(
    measured: Limits, device: Device
) -> None:
    for feature, found in (
        ("fp16_arithmetic", measured.fp16),
        ("integer_dot", measured.integer_dot),
    ):
        expected = len(limit_plans.NARROW_CHAINS) if feature in device.limits.features else 0
        assert len(found) == expected
        assert all(speed > 0 for speed in found.values())


@pytest.mark.parametrize(("made", "each"), [(limit_plans.fma_half, 8), (limit_plans.dots, 32)])
def test_operations_of_narrow_arithmetic_are_those_of_its_loop(made: Any, each: int) -> None:
    plan = made(DeviceLimits(max_loop_rounds=100, kind="cpu"), 2, 3)
    lanes = limit_plans.lanes(DeviceLimits(kind="cpu"))
    assert plan.dispatches[0].flops == each * 2 * 16 * 100 * lanes * 3


def test_limits_of_older_files_lack_narrow_arithmetic() -> None:
    document = json.loads(Limits("d", "v", {"a": 1.0}).to_json())
    del document["fp16"], document["integer_dot"]
    assert Limits.from_json(json.dumps(document)) == Limits("d", "v", {"a": 1.0})
    document["fp16"] = {"form": "fast"}
    with pytest.raises(VknnError, match="fp16"):
        Limits.from_json(json.dumps(document))


@pytest.mark.device
def test_text_and_json(measured: Limits) -> None:
    text = str(measured)
    assert "GFLOP/s" in text
    assert "submit and wait" in text
    document = json.loads(measured.to_json())
    assert document["gflops"] == max(measured.fma.values())
    assert document["gbytes"] == max(measured.copy.values())


def test_the_peak_of_shaders_leaves_out_the_drivers_copy() -> None:
    found = Limits("d", "v", copy={"imageLoad": 12.0, limit_plans.TRANSFER: 30.0})
    assert (found.gbytes, found.shader_gbytes) == (30.0, 12.0)
    assert Limits("d", "v").gflops == 0.0


@pytest.mark.device
@pytest.mark.parametrize("view", list(View))
@pytest.mark.parametrize("items", limits.ITEMS)
def test_a_copy_copies_all(device: Device, view: View, items: int) -> None:
    plan = limit_plans.copy(device.limits, view, items, 1 << 14)
    assert plan.dispatches[0].nbytes == 2 << 14
    with Executable(device, plan) as executable:
        executable.run({})
        assert np.all(executable.read(limit_plans.TARGET).view(np.float32) == 1.0)


def test_plans_keep_within_the_smallest_device() -> None:
    least = DeviceLimits()
    plan = limit_plans.copy(least, View.STORAGE, 1, 100 << 20)
    (dispatch,) = plan.dispatches
    assert all(g <= m for g, m in zip(dispatch.groups, least.max_group_count, strict=True))
    assert (99 << 21) < dispatch.nbytes <= (100 << 21)
    (dispatch,) = limit_plans.fma(least, 4, 16, 64).dispatches
    assert dispatch.flops == 2 * 16 * limit_plans.FMA_LENGTH * limit_plans.lanes(least) * 64
    assert limit_plans.lanes(least) <= least.max_group_invocations


@pytest.mark.device
def test_texel_forms_are_left_out_where_the_buffers_are_too_long(device: Device) -> None:
    meter = limits._Meter(device, 1, None)
    meter.limits = DeviceLimits(max_texel_buffer_elements=16)
    found = limits._copies(meter, 1 << 14)
    assert {name.split(",")[0] for name in found} == {"storage buffer", limit_plans.TRANSFER}


def test_a_null_device_has_no_limits_to_measure() -> None:
    device = SimpleNamespace(name="GPU", snapshot=SimpleNamespace(is_null=True))
    with pytest.raises(NullDeviceError, match="GPU computes nothing"):
        measure_limits(device)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "option",
    [
        *(["--peer", "ncnn"], ["--empty-caches"], ["--random-weights"], ["--precision", "fp16"]),
        *(["--shape", "1,2"], ["--disable", "fusion"], ["--size", "2x2"]),
    ],
    ids=" ".join,
)
def test_options_of_models_are_refused(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "--device-limits", *option]) == 2
    assert f"measures the device: leave out {option[0]}" in capsys.readouterr().err


@pytest.mark.device
def test_command_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def measure(device: Device, **_: object) -> Limits:
        asked.append(device.name)
        return Limits(device.name, "driver", fma={"one": 2.0})

    monkeypatch.setattr("vknn.cli.bench.measure_limits", measure)
    assert main(["bench", "--device-limits", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["gflops"] == 2.0
    assert main(["bench", "--device-limits", "--device", "vulkan"]) == 0
    assert asked[0] in capsys.readouterr().out
    for wrong in (["x.param", "--device-limits"], ["--device-limits", "--device", "numpy"], []):
        assert main(["bench", *wrong]) == 2
        assert "vknn: error" in capsys.readouterr().err
