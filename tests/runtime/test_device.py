"""Opening, losing and missing devices; the pipeline cache; the validation layer."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.runtime.plans import chain_plan, shaders

from vknn.errors import (
    DeviceError,
    DeviceLostError,
    OutOfMemoryError,
    ShaderError,
    ValidationError,
)
from vknn.plan import DeviceLimits
from vknn.runtime import Device, Executable, devices, live_objects, open_device
from vknn.runtime.vulkan import core, messages
from vknn.runtime.vulkan.vk_result import check, result_error

pytestmark = pytest.mark.usefixtures("nothing_forgotten")

WEIGHT = np.arange(16, dtype=np.float32).reshape(1, 4, 4)
FEEDS = {"x": np.ones((1, 4, 4), np.float32)}


@pytest.mark.device
def test_snapshot_and_limits(device: Device) -> None:
    found = devices()[device.snapshot.index]
    assert found == device.snapshot
    minimum = DeviceLimits()
    limits = device.limits
    assert limits.max_storage_buffer_range >= minimum.max_storage_buffer_range
    assert limits.max_texel_buffer_elements >= minimum.max_texel_buffer_elements
    assert limits.max_group_invocations >= minimum.max_group_invocations
    assert limits.alignment <= 256
    assert limits.subgroup_size >= 1
    assert sum(device.snapshot.heaps) > 0


@pytest.mark.device
def test_two_who_open_share(device: Device) -> None:
    with open_device() as first, open_device(f"vulkan:{first.snapshot.index}") as second:
        assert first.shared is second.shared
        with Executable(first, chain_plan(WEIGHT), shaders=shaders) as one:
            count = live_objects()["pipeline"]
            with Executable(second, chain_plan(WEIGHT), shaders=shaders) as two:
                assert live_objects()["pipeline"] == count
                np.testing.assert_array_equal(one.run(FEEDS)["y"], two.run(FEEDS)["y"])
            first.close()
        with Executable(second, chain_plan(WEIGHT), shaders=shaders) as three:
            three.run(FEEDS)
        with pytest.raises(DeviceError, match="was closed"):
            _ = first.shared


@pytest.mark.device
def test_env_names_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKNN_DEVICE", "vulkan:77")
    with pytest.raises(DeviceError, match="no device vulkan:77"):
        open_device()


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (-1, OutOfMemoryError),
        (-2, OutOfMemoryError),
        (-4, DeviceLostError),
        (-13, DeviceError),
        (-4711, DeviceError),
    ],
)
def test_results_become_errors(code: int, error: type[DeviceError]) -> None:
    with pytest.raises(error, match=r"making tea failed: .*; \w+"):
        check(code, "making tea")
    assert type(result_error(code, "x")) is error


class _Failing:
    """The Vulkan library, except that some functions give a VkResult of the test's choice."""

    def __init__(self, real: Any) -> None:
        self.real, self.codes = real, dict[str, int]()

    def __getattr__(self, name: str) -> Any:
        if name in self.codes:
            return lambda *_: self.codes[name]
        return getattr(self.real, name)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    proxy = _Failing(core.lib)
    monkeypatch.setattr(core, "lib", proxy)
    yield proxy.codes
    proxy.codes.clear()


@pytest.mark.device
@pytest.mark.parametrize("function", ["vkQueueSubmit", "vkWaitForFences"])
def test_lost_device(function: str, failing: dict[str, int]) -> None:
    before = live_objects()
    with open_device() as device:
        executable = Executable(device, chain_plan(WEIGHT), shaders=shaders)
        failing[function] = -4
        with pytest.raises(DeviceLostError, match="VK_ERROR_DEVICE_LOST; close the session"):
            executable.run(FEEDS)
        failing.clear()
        core.lib.vkDeviceWaitIdle(device.shared.core.device)  # it is not really lost
        with pytest.raises(DeviceLostError, match="lost earlier"):
            executable.run(FEEDS)
        with pytest.raises(DeviceLostError, match="lost earlier"):
            Executable(device, chain_plan(WEIGHT), shaders=shaders)
        with open_device() as fresh, Executable(fresh, chain_plan(WEIGHT), shaders=shaders) as new:
            np.testing.assert_allclose(new.run(FEEDS)["y"], 1 + 3 * WEIGHT)
    assert live_objects() == before


@pytest.mark.device
@pytest.mark.parametrize(
    "function",
    [
        "vkCreateBuffer",
        "vkAllocateMemory",
        "vkCreateBufferView",
        "vkCreateDescriptorPool",
        "vkCreateCommandPool",
        "vkCreateFence",
        "vkCreateDevice",
        "vkCreateShaderModule",
        "vkCreatePipelineLayout",
    ],
)
def test_memory_exhausted_while_building(function: str, failing: dict[str, int]) -> None:
    from vknn.plan import View

    before = live_objects()
    plan = chain_plan(WEIGHT, view=View.TEXEL)
    failing[function] = -2
    with pytest.raises(OutOfMemoryError, match="close other sessions"), open_device() as device:
        Executable(device, plan, shaders=shaders)
    failing.clear()
    assert live_objects() == before
    with open_device() as device, Executable(device, plan, shaders=shaders) as executable:
        np.testing.assert_allclose(executable.run(FEEDS)["y"], 1 + 3 * WEIGHT)


@pytest.mark.device
def test_failing_submit_can_be_retried(failing: dict[str, int]) -> None:
    with open_device() as device:
        plan = chain_plan(WEIGHT, submits=(2, 5))
        with Executable(device, plan, shaders=shaders) as executable:
            failing["vkQueueSubmit"] = -2
            with pytest.raises(OutOfMemoryError):
                executable.run(FEEDS)
            failing.clear()
            np.testing.assert_allclose(executable.run(FEEDS)["y"], 1 + 3 * WEIGHT)


def cache_files(folder: Path) -> list[Path]:
    return list((folder / "pipelines").glob("*"))


@pytest.mark.device
@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "folder"])
def test_damaged_pipeline_cache(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VKNN_CACHE_DIR", str(tmp_path))

    def once() -> None:
        with open_device() as device, Executable(device, chain_plan(WEIGHT), shaders=shaders) as e:
            np.testing.assert_allclose(e.run(FEEDS)["y"], 1 + 3 * WEIGHT)

    once()
    (path,) = cache_files(tmp_path)
    good = path.read_bytes()
    if damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        flipped = good[:60] + bytes([good[60] ^ 1]) + good[61:]
        path.write_bytes({"truncated": good[:-1], "flipped": flipped, "empty": b""}[damage])
    once()
    once()
    assert len(cache_files(tmp_path)) == 1
    if damage != "folder":
        assert len(path.read_bytes()) > 48


@pytest.mark.device
def test_cache_can_be_disabled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKNN_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("VKNN_DISABLE", "pipeline-cache")
    with open_device() as device, Executable(device, chain_plan(WEIGHT), shaders=shaders) as e:
        e.run(FEEDS)
    assert not cache_files(tmp_path)


@pytest.mark.device
def test_missing_kernel_is_named(device: Device) -> None:
    with pytest.raises(ShaderError, match="scale"):
        Executable(device, chain_plan(WEIGHT))  # the package has no such kernel


def run_alone(code: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)


OPEN = """
from vknn.errors import DeviceError
from vknn.runtime import open_device, devices, live_objects
for function in (open_device, devices):
    try:
        print(function())
    except DeviceError as error:
        print("DeviceError:", error)
print(live_objects())
"""


def test_no_driver(alone: dict[str, str]) -> None:
    result = run_alone(OPEN, {**alone, "VK_DRIVER_FILES": "/nonexistent", "VKNN_VALIDATE": "0"})
    assert result.returncode == 0, result.stderr
    first, *_, last = result.stdout.splitlines()
    assert first.startswith("DeviceError: ")
    assert "mesa-vulkan-drivers" in first
    assert last == "{}"


def test_no_loader(alone: dict[str, str], tmp_path: Path) -> None:
    fake = "raise OSError('Cannot find Vulkan SDK version')"
    (tmp_path / "vulkan.py").write_text(fake)
    path = os.pathsep.join((str(tmp_path), alone["PYTHONPATH"]))
    result = run_alone(OPEN, {**alone, "PYTHONPATH": path})
    assert result.returncode == 0, result.stderr
    first, second, last = result.stdout.splitlines()
    assert "DeviceError: no Vulkan loader" in first
    assert "libvulkan1" in first
    assert (second, last) == (first, "{}")


BARRIERS = """
import sys
import numpy as np
from plans import chain_plan, shaders
from vknn.errors import ValidationError
from vknn.runtime import Executable, open_device
weight = np.ones((1, 4, 4), np.float32)
with open_device() as device:
    for barriers in (True, False):
        try:
            with Executable(device, chain_plan(weight, barriers=barriers), shaders=shaders) as e:
                e.run({"x": weight})
            print(barriers, "fine")
        except ValidationError as error:
            print(barriers, "SYNC-HAZARD" in str(error))
"""


@pytest.mark.device
def test_synchronization_validation_finds_a_missing_barrier(alone: dict[str, str]) -> None:
    result = run_alone(BARRIERS, {**alone, "VKNN_VALIDATE": "2"})
    assert result.stdout.splitlines() == ["True fine", "False True"], result.stderr


@pytest.mark.device
def test_validation_messages_are_raised(device: Device) -> None:
    plan = chain_plan(WEIGHT, steps=1)
    groups = (device.limits.max_group_count[0] + 1, 1, 1)
    broken = dataclasses.replace(
        plan, steps=(dataclasses.replace(plan.dispatches[0], groups=groups),)
    )
    before = live_objects()
    with pytest.raises(ValidationError, match="maxComputeWorkGroupCount"):
        Executable(device, broken, shaders=shaders)
    assert live_objects().get("buffer") == before.get("buffer")


FORK = """
import os
import numpy as np
from plans import chain_plan, shaders
from vknn.errors import DeviceLostError
from vknn.runtime import Executable, open_device
weight = np.ones((1, 4, 4), np.float32)
with open_device() as device, Executable(device, chain_plan(weight), shaders=shaders) as e:
    e.run({"x": weight})
    child = os.fork()
    if child == 0:
        try:
            e.run({"x": weight})
        except DeviceLostError as error:
            print("child:", "forked" in str(error), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    print("parent:", e.run({"x": weight})["y"].max())
"""


@pytest.mark.device
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_leaves_the_device_alone(alone: dict[str, str]) -> None:
    result = run_alone(FORK, {**alone, "VKNN_VALIDATE": "0"})
    assert result.stdout.splitlines() == ["child: True", "parent: 4.0"], result.stderr


UNCLOSED = """
import numpy as np
from plans import chain_plan, shaders
from vknn.runtime import Executable, open_device
device = open_device()
weight = np.ones((1, 4, 4), np.float32)
executable = Executable(device, chain_plan(weight), shaders=shaders)
print(executable.run({"x": weight})["y"].max())
"""


@pytest.mark.device
def test_the_end_of_the_process_closes_what_is_open(alone: dict[str, str]) -> None:
    result = run_alone(UNCLOSED, {**alone, "VKNN_VALIDATE": "1"})
    assert (result.returncode, result.stdout, result.stderr) == (0, "4.0\n", "")


@pytest.mark.device
def test_many_pipelines_in_threads(device: Device) -> None:
    """Each with its own factor: a handle at the wrong place would show."""
    factors = [0.5 * n for n in range(1, 14)]
    base = chain_plan(WEIGHT, steps=len(factors))
    steps = [
        dataclasses.replace(
            step,
            specialization=tuple(
                (number, factor if number == 10 else value) for number, value in step.specialization
            ),
        )
        for step, factor in zip(base.dispatches, factors, strict=True)
    ]
    barrier = base.steps[1]
    listed = [part for step in steps for part in (step, barrier)]
    plan = dataclasses.replace(base, steps=tuple(listed), submits=(len(listed),))
    expected = FEEDS["x"].astype(np.float64)
    for factor in factors:
        expected = factor * expected + WEIGHT
    with Executable(device, plan, shaders=shaders) as executable:
        np.testing.assert_allclose(executable.run(FEEDS)["y"], expected, rtol=1e-5)


@pytest.mark.device
def test_an_interrupted_close_can_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> bool:
        raise KeyboardInterrupt

    before = live_objects()
    device = open_device()
    executable = Executable(device, chain_plan(WEIGHT), shaders=shaders)
    executable._run.submit()
    with monkeypatch.context() as patch:
        patch.setattr(core.Core, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            device.close()
    device.close()
    assert live_objects() == before


@pytest.mark.device
def test_an_error_while_closing_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        raise ValidationError("a message")

    before = live_objects()
    device = open_device()
    made = [Executable(device, chain_plan(WEIGHT), shaders=shaders) for _ in range(2)]
    with monkeypatch.context() as patch:
        patch.setattr(messages, "raise_pending", refused)
        with pytest.raises(ValidationError):
            device.close()
    device.close()
    assert live_objects() == before
    del made
