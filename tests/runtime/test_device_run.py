"""Runs between arrays on a device: which bytes, which copies, whose memory, and when it is free."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest
from tests.runtime.chains import WEIGHT, check_chain, random_input
from tests.runtime.plans import chain_plan, moving_plan, one_output_plan, shaders

from vknn.errors import DeviceError, DeviceTimeoutError, InputError, OutOfMemoryError
from vknn.graph.types import DType, TensorType
from vknn.plan import Barrier, Copy, Fill
from vknn.runtime import (
    Device,
    DeviceArray,
    DeviceTensor,
    Executable,
    TensorAccount,
    live_objects,
    open_device,
)
from vknn.runtime.host_io import HostIO
from vknn.runtime.vulkan import commands
from vknn.runtime.vulkan.transfer import Transfer

#: Fixtures: memory that the host works in, staging, inputs written behind a BAR.
KINDS = ("device", "staged_device", "bar_device")


def moved(type_: TensorType) -> Executable:
    """A plan that gives its input back."""
    nbytes = max(16, -(-4 * type_.size // 16) * 16)
    return moving_plan(type_, (Copy(0, 2, nbytes), Barrier(()), Copy(2, 1, nbytes)))


@pytest.fixture(autouse=True)
def _nothing_left() -> None:
    """An end of what other tests left behind: some of these count what is alive."""
    gc.collect()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("submits", [None, (1, 4, 5)])
def test_an_output_as_the_next_input(
    request: pytest.FixtureRequest, kind: str, submits: tuple[int, ...] | None
) -> None:
    device = request.getfixturevalue(kind)
    with Executable(device, chain_plan(WEIGHT, submits=submits), shaders=shaders) as executable:
        x = random_input()
        expected = x
        for _ in range(3):
            expected = executable.run({"x": expected})["y"]
        first = executable.run({"x": x}, ["y"])["y"]
        assert isinstance(first, DeviceArray)
        second = executable.run({"x": first}, ["y"])["y"]
        check_chain(executable, 1)
        third = executable.run({"x": second})["y"]
        np.testing.assert_array_equal(third, expected)
        # Each has memory of its own.
        np.testing.assert_array_equal(first.numpy(), executable.run({"x": x})["y"])
        np.testing.assert_array_equal(second.numpy(), executable.run({"x": first})["y"])


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_downloaded(
    request: pytest.FixtureRequest, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = request.getfixturevalue(kind)

    def refused(*_: Any, **__: Any) -> Any:
        raise AssertionError("the host reads or writes")

    staged: list[int] = []
    copy = commands.copy

    def watched(target: Any, source: Any, goal: Any, regions: Any) -> None:
        staged.append(len(regions))
        copy(target, source, goal, regions)

    with Executable(device, chain_plan(WEIGHT), shaders=shaders) as executable:
        y = executable.run({"x": random_input()}, ["y"])["y"]
        with monkeypatch.context() as patch:
            patch.setattr(Transfer, "download", refused)
            patch.setattr(DeviceArray, "numpy", refused)
            patch.setattr(commands, "copy", watched)
            patch.setattr(HostIO, "load", lambda self, without: {} if "y" in without else refused())
            z = executable.run({"x": y}, ["y"])["y"]
        assert staged == [1, 1]  # tensor to input, output to tensor; none to or from staging memory
        np.testing.assert_array_equal(z.numpy(), executable.run({"x": y.numpy()})["y"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.INT8, DType.UINT8, DType.BOOL, DType.INT32])
@pytest.mark.parametrize("shape", [(13,), (), (2, 3, 1), (3, 0, 2)])
def test_dtypes_and_shapes(
    request: pytest.FixtureRequest, kind: str, dtype: DType, shape: tuple[int, ...]
) -> None:
    device = request.getfixturevalue(kind)
    type_ = TensorType(shape, dtype)
    x = (np.arange(type_.size) % 5 % 2 + (dtype is not DType.BOOL)).astype(dtype.numpy)
    with Executable(device, moved(type_)) as executable:
        array = executable.run({"x": x.reshape(shape)}, ["y"])["y"]
        assert (array.shape, array.dtype) == (shape, dtype.numpy)
        found = executable.run({"x": array})["y"]
    for y in (array.numpy(), found):
        assert y.dtype == dtype.numpy
        np.testing.assert_array_equal(y, x.reshape(shape))


def test_float16_that_is_stored_as_float32_is_rounded(device: Device) -> None:
    """Its bytes are not those that the host would write."""
    type_ = TensorType((7,), DType.FLOAT16)
    plan = moving_plan(type_, (Fill(1, int(np.float32(1.0001).view(np.int32))),))
    with Executable(device, plan) as made, Executable(device, moved(type_)) as read:
        x = np.zeros(7, np.float16)
        array = made.run({"x": x}, ["y"])["y"]
        assert array.unfit(device.shared.core, read.plan.inputs["x"]) is not None
        np.testing.assert_array_equal(array.numpy(), made.run({"x": x})["y"])
        np.testing.assert_array_equal(read.run({"x": array})["y"], np.ones(7, np.float16))


@pytest.mark.parametrize("kind", KINDS)
def test_counts(request: pytest.FixtureRequest, kind: str) -> None:
    device = request.getfixturevalue(kind)
    plan = moving_plan(TensorType((4, 2)), (Copy(0, 1, 32), Fill(2, 3)), count=2)
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    with Executable(device, plan) as executable:
        array = executable.run({"x": x}, ["y"])["y"]
        assert array.shape == (3, 2)
        np.testing.assert_array_equal(array.numpy(), x[:3])
        with pytest.raises(InputError, match=r"float32\[3, 2\], expected float32\[4, 2\]"):
            executable.run({"x": array})


def test_what_does_not_fit_is_refused_as_an_array_is(device: Device) -> None:
    with (
        Executable(device, moved(TensorType((3, 2)))) as executable,
        Executable(device, moved(TensorType((2, 3)))) as other,
    ):
        x = np.zeros((3, 2), np.float32)
        array = executable.run({"x": x}, ["y"])["y"]
        texts = []
        for given in (x, array):
            with pytest.raises(InputError) as caught:
                other.run({"x": given})
            texts.append(str(caught.value))
        assert texts[0] == texts[1]
        with pytest.raises(InputError, match="is a list"):
            other.run({"x": [0.0] * 6})  # type: ignore[dict-item]


def test_another_device_takes_a_copy(
    device: Device, staged_device: Device, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "vknn")
    x = random_input()
    with (
        Executable(device, chain_plan(WEIGHT), shaders=shaders) as here,
        Executable(staged_device, chain_plan(WEIGHT), shaders=shaders) as there,
    ):
        array = there.run({"x": x}, ["y"])["y"]
        expected = here.run({"x": here.run({"x": x})["y"]})["y"]
        caplog.clear()
        np.testing.assert_array_equal(here.run({"x": array})["y"], expected)
        assert "'x' is copied from the device: it lies on another device" in caplog.text


def test_memory_is_freed(device: Device) -> None:
    with Executable(device, chain_plan(WEIGHT), shaders=shaders) as executable:
        executable.run({"x": random_input()}, ["y"])
        device.shared.tensors.collect()
        before, objects = device.memory_allocated, live_objects()
        arrays = [executable.run({"x": random_input(i)}, ["y"])["y"] for i in range(7)]
        assert device.shared.tensors.nbytes > 0
        assert live_objects() != objects
        for i, array in enumerate(arrays):
            np.testing.assert_array_equal(
                array.numpy(), executable.run({"x": random_input(i)})["y"]
            )
        del arrays, array
        device.shared.tensors.collect()
        assert device.memory_allocated == before
        assert live_objects() == objects
        tensors = [
            DeviceTensor("y", executable.run({"x": random_input()}, ["y"])["y"], device)
            for _ in range(3)
        ]
        tensors[0].close()
        tensors[0].close()
        tensors.clear()  # dropped without being closed
        gc.collect()
        executable.run({"x": random_input()}, ["y"])
        device.shared.tensors.collect()
        assert device.memory_allocated == before
        assert live_objects() == objects


def test_an_account_that_allows_no_more(device: Device) -> None:
    asked: list[tuple[int, int]] = []

    def allow(needed: int, growth: int) -> None:
        asked.append((needed, growth))
        if len(asked) > 3:
            raise OutOfMemoryError("no more")

    account = TensorAccount(allow)
    plan = chain_plan(WEIGHT)
    with Executable(device, plan, shaders=shaders, tensors=account) as executable:
        arena = sum(plan.arenas.values())
        first = executable.run({"x": random_input()}, ["y"])["y"]
        second = executable.run({"x": random_input()}, ["y"])["y"]
        assert [needed for needed, _ in asked] == [arena + n * WEIGHT.nbytes for n in (1, 1, 2)]
        assert asked[1][1] > 0 and not asked[0][1] and not asked[2][1]
        assert account.nbytes == first.nbytes + second.nbytes
        with pytest.raises(OutOfMemoryError, match="no more"):
            executable.run({"x": random_input()}, ["y"])
        check_chain(executable)
        del first
        device.shared.tensors.collect()
        assert account.nbytes == second.nbytes


def test_a_run_that_is_late_keeps_its_arrays(device: Device) -> None:
    plan = one_output_plan("spin", 60_000, groups=2000)
    pool = device.shared.tensors
    with Executable(device, plan, shaders=shaders, timeout=0.001) as executable:
        with pytest.raises(DeviceTimeoutError, match=r"'spin' did not finish within 0.001 s"):
            executable.run({}, ["y"])
        pool.collect()
        assert pool.nbytes > 0  # the device writes there yet
        executable.timeout = 120.0
        array = executable.run({}, ["y"])["y"]
        np.testing.assert_array_equal(array.numpy(), executable.run({})["y"])
        executable.timeout = 0.001
        with pytest.raises(DeviceTimeoutError):
            executable.run({}, ["y"])
        del array
        executable.timeout = 120.0
    pool.collect()
    assert pool.nbytes == 0


def test_closing_and_reading_from_several_threads(device: Device) -> None:
    with Executable(device, chain_plan(WEIGHT), shaders=shaders) as executable:
        x = random_input()
        expected = executable.run({"x": executable.run({"x": x})["y"]})["y"]
        errors: list[BaseException] = []

        def use(tensor: DeviceTensor) -> None:
            y = executable.run({"x": tensor.stored()}, ["y"])["y"]
            np.testing.assert_array_equal(y.numpy(), expected)
            tensor.close()
            y = executable.run({"x": tensor.stored()}, ["y"])["y"]

        def work(tensor: DeviceTensor) -> None:
            try:
                with pytest.raises(DeviceError, match="'y' was closed"):
                    use(tensor)
            except BaseException as error:
                errors.append(error)

        for _ in range(5):
            tensor = DeviceTensor("y", executable.run({"x": x}, ["y"])["y"], device)
            threads = [threading.Thread(target=work, args=(tensor,)) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert not errors
    device.shared.tensors.collect()
    assert device.shared.tensors.nbytes == 0


@pytest.mark.device
@pytest.mark.usefixtures("nothing_forgotten")
def test_a_device_closes_its_tensors() -> None:
    before = live_objects()
    with open_device() as device:
        with Executable(device, chain_plan(WEIGHT), shaders=shaders) as executable:
            array = executable.run({"x": random_input()}, ["y"])["y"]
            tensor = DeviceTensor("y", array, device)
        assert np.isfinite(tensor.numpy()).all()  # the executable is gone
    assert tensor.closed
    with pytest.raises(DeviceError, match="'y' was closed, or its device was"):
        tensor.numpy()
    assert live_objects() == before


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_runs(request: pytest.FixtureRequest, kind: str) -> None:
    device = request.getfixturevalue(kind)
    with Executable(device, chain_plan(WEIGHT), shaders=shaders) as executable:
        array: Any = np.zeros_like(WEIGHT)
        for number in range(10_000):
            array = executable.run({"x": array}, ["y"])["y"]
            if number == 10:
                held, objects = device.memory_allocated, live_objects()
        assert device.memory_allocated == held
        assert live_objects() == objects
        np.testing.assert_allclose(array.numpy(), 30_000 * WEIGHT, rtol=1e-5)
