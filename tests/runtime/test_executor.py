"""Plans on a device, under the validation layer."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from tests.runtime.chains import WEIGHT, check_chain, random_input
from tests.runtime.plans import chain_plan, moving_plan, one_output_plan, shaders

from vknn.errors import (
    DeviceError,
    DeviceTimeoutError,
    InputError,
    OutOfMemoryError,
    ValidationError,
)
from vknn.graph.types import DType, TensorType
from vknn.plan import Barrier, Copy, Fill, Guard, Role, View
from vknn.runtime import Device, Executable, WeightPool, live_objects, open_device
from vknn.runtime.vulkan.memory import Allocation

pytestmark = pytest.mark.usefixtures("nothing_forgotten")

#: Fixtures: memory that the host works in, staging, inputs written behind a BAR.
KINDS = ("device", "staged_device", "bar_device")


@pytest.mark.parametrize("view", View)
def test_views(device: Device, view: View) -> None:
    with Executable(device, chain_plan(WEIGHT, view=view), shaders=shaders) as executable:
        for seed in range(3):
            check_chain(executable, seed)


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("view", View)
def test_memory_beyond_the_host(request: pytest.FixtureRequest, kind: str, view: View) -> None:
    device = request.getfixturevalue(kind)
    with Executable(device, chain_plan(WEIGHT, view=view), shaders=shaders) as executable:
        for seed in range(3):
            check_chain(executable, seed)


@pytest.mark.parametrize(
    ("kind", "staged"),
    [("device", (False, False)), ("staged_device", (True, True)), ("bar_device", (False, True))],
)
def test_which_way_inputs_and_outputs_go(
    request: pytest.FixtureRequest, kind: str, staged: tuple[bool, bool]
) -> None:
    device = request.getfixturevalue(kind)
    with Executable(device, chain_plan(WEIGHT), shaders=shaders) as executable:
        host_io = executable._host_io
        assert (host_io._into.staged, host_io._out.staged) == staged


def test_a_full_bar_is_no_error(bar_device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_window(self: Allocation, purpose: str) -> None:
        if purpose == "input":
            raise OutOfMemoryError("the window is full")
        bind(self, purpose)

    bind = Allocation._bind
    monkeypatch.setattr(Allocation, "_bind", no_window)
    with Executable(bar_device, chain_plan(WEIGHT), shaders=shaders) as executable:
        check_chain(executable)


def test_several_submits(device: Device) -> None:
    with Executable(device, chain_plan(WEIGHT, submits=(1, 4, 5)), shaders=shaders) as executable:
        check_chain(executable)
        profile = executable.profile({"x": random_input()})
        assert profile.submits.shape == (3, 2)


def test_outputs_belong_to_the_caller(device: Device) -> None:
    with Executable(device, chain_plan(WEIGHT), shaders=shaders) as executable:
        first = executable.run({"x": random_input(1)})["y"]
        kept = first.copy()
        executable.run({"x": random_input(2)})
        np.testing.assert_array_equal(first, kept)


def test_strided_input(device: Device) -> None:
    wide = np.random.default_rng(0).standard_normal((1, 4, 13)).astype(np.float32)
    x = wide.transpose(0, 2, 1)
    with Executable(device, chain_plan(WEIGHT), shaders=shaders) as executable:
        y = executable.run({"x": x})["y"]
    np.testing.assert_allclose(y, x + 3 * WEIGHT, rtol=1e-6, atol=1e-5)


BARRIER = Barrier(())
TYPES = [
    TensorType((3, 5)),
    TensorType((7,), DType.FLOAT16),
    TensorType((2, 3), DType.INT8),
    TensorType((5,), DType.UINT8),
    TensorType((1, 1, 3), DType.INT16),
    TensorType((4,), DType.INT32),
    TensorType((3, 3), DType.BOOL),
    TensorType((), DType.FLOAT32),
]


@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_dtypes_survive_the_way(
    request: pytest.FixtureRequest, type_: TensorType, kind: str
) -> None:
    device = request.getfixturevalue(kind)
    nbytes = max(16, -(-4 * type_.size // 16) * 16)
    plan = moving_plan(type_, (Copy(0, 2, nbytes), BARRIER, Copy(2, 1, nbytes)))
    rng = np.random.default_rng(0)
    x = rng.integers(-100, 100, type_.dims).astype(type_.dtype.numpy)
    with Executable(device, plan) as executable:
        y = executable.run({"x": x})["y"]
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x)


def test_copy_offsets_and_fill(device: Device) -> None:
    type_ = TensorType((8,), DType.INT32)
    steps = (Fill(1, 7), BARRIER, Copy(0, 1, 8, source_offset=4, target_offset=16))
    with Executable(device, moving_plan(type_, steps)) as executable:
        y = executable.run({"x": np.arange(8, dtype=np.int32)})["y"]
    np.testing.assert_array_equal(y, [7, 7, 7, 7, 1, 2, 7, 7])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("count", "rows"), [(0, 0), (2, 2), (99, 4), (-1, 0)])
def test_count_cuts_the_open_axis(
    request: pytest.FixtureRequest, kind: str, count: int, rows: int
) -> None:
    device = request.getfixturevalue(kind)
    type_ = TensorType((4, 2))
    steps = (Copy(0, 1, 32), Fill(2, count))
    with Executable(device, moving_plan(type_, steps, count=2)) as executable:
        x = np.arange(8, dtype=np.float32).reshape(4, 2)
        np.testing.assert_array_equal(executable.run({"x": x})["y"], x[:rows])


def test_plan_without_steps(device: Device) -> None:
    with Executable(device, moving_plan(TensorType((3,)), ())) as executable:
        assert executable.run({"x": np.zeros(3, np.float32)})["y"].shape == (3,)
        assert executable.profile({"x": np.zeros(3, np.float32)}).spans.shape == (0, 2)


GOOD = np.zeros(WEIGHT.shape, np.float32)


@pytest.mark.parametrize(
    ("feeds", "text"),
    [
        ({}, r"missing input 'x' \(expected x: float32\[1, 13, 4\]\)"),
        ({"x": GOOD, "z": GOOD}, "unknown input 'z'"),
        ({"z": GOOD}, "missing input 'x'; unknown input 'z'"),
        ({"x": GOOD[0]}, r"is float32\[13, 4\], expected float32\[1, 13, 4\]"),
        ({"x": GOOD.astype(np.float64)}, r"is float64\[1, 13, 4\], expected"),
        ({"x": GOOD.astype(">f4")}, "is >f4"),
        ({"x": GOOD.tolist()}, "is a list, not a NumPy array"),
    ],
)
def test_unfit_inputs(device: Device, feeds: dict[str, np.ndarray], text: str) -> None:
    with Executable(device, chain_plan(WEIGHT), shaders=shaders) as executable:
        with pytest.raises(InputError, match=text):
            executable.run(feeds)
        check_chain(executable)


def test_profile(device: Device) -> None:
    with Executable(device, chain_plan(WEIGHT), shaders=shaders) as executable:
        x = random_input()
        for _ in range(2):
            profile = executable.profile({"x": x})
            np.testing.assert_allclose(profile.outputs["y"], x + 3 * WEIGHT, rtol=1e-6, atol=1e-5)
            assert profile.spans.shape == (3, 2)
            assert profile.spans[0, 0] == 0
            assert (np.diff(profile.spans.ravel()) >= 0).all()
            busy = profile.spans.max() * 1e-9
            assert busy <= profile.wall < 60
        check_chain(executable)


def test_profile_needs_timestamps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKNN_DISABLE", "timestamps")
    with (
        open_device() as device,
        Executable(device, chain_plan(WEIGHT), shaders=shaders) as executable,
        pytest.raises(DeviceError, match="timestamps"),
    ):
        executable.profile({"x": random_input()})


@pytest.mark.parametrize("kind", KINDS)
def test_guards(request: pytest.FixtureRequest, kind: str) -> None:
    device = request.getfixturevalue(kind)
    guards = (Guard(Role.OUTPUT, 64, 64),)
    with Executable(device, one_output_plan("overrun", 16, guards=guards), shaders=shaders) as fine:
        np.testing.assert_array_equal(fine.run({})["y"], np.ones(16))
        fine.check_guards()
    with Executable(device, one_output_plan("overrun", 18, guards=guards), shaders=shaders) as bad:
        bad.check_guards()
        bad.run({})
        with pytest.raises(ValidationError, match="output byte 64, behind 'y'"):
            bad.check_guards()


@pytest.mark.parametrize("kind", KINDS)
def test_read_back_any_buffer(request: pytest.FixtureRequest, kind: str) -> None:
    device = request.getfixturevalue(kind)
    with Executable(device, chain_plan(WEIGHT), shaders=shaders) as executable:
        x = random_input()
        executable.run({"x": x})
        found = {
            b.name: executable.read(i).view(np.float32).reshape(WEIGHT.shape)
            for i, b in enumerate(executable.plan.buffers)
        }
    np.testing.assert_array_equal(found["x"], x)
    np.testing.assert_array_equal(found["w"], WEIGHT)
    np.testing.assert_allclose(found["t0"], x + WEIGHT, rtol=1e-6, atol=1e-5)


def test_unwritten_output_is_nan_under_validation(device: Device) -> None:
    with Executable(device, moving_plan(TensorType((3,)), ())) as executable:
        assert np.isnan(executable.run({"x": np.zeros(3, np.float32)})["y"]).all()


LONG = 2000  # workgroups of "spin": a good part of a second


def test_timeout_and_recovery(device: Device) -> None:
    plan = one_output_plan("spin", 60_000, groups=LONG)
    with Executable(device, plan, shaders=shaders, timeout=0.001) as executable:
        with pytest.raises(DeviceTimeoutError, match=r"'spin' did not finish within 0.001 s"):
            executable.run({})
        executable.timeout = 120.0
        assert executable.run({})["y"].shape == (16,)


def test_closing_waits_for_a_run_given_up_on(device: Device) -> None:
    before = live_objects()
    executable = Executable(
        device, one_output_plan("spin", 60_000, groups=LONG), shaders=shaders, timeout=0.001
    )
    with pytest.raises(DeviceTimeoutError):
        executable.run({})
    executable.timeout = 120.0
    executable.close()
    after = live_objects()
    assert {k: after.get(k) for k in ("buffer", "memory", "fence")} == {
        k: before.get(k) for k in ("buffer", "memory", "fence")
    }


def test_closed_executable(device: Device) -> None:
    executable = Executable(device, chain_plan(WEIGHT), shaders=shaders)
    executable.close()
    executable.close()
    with pytest.raises(DeviceError, match="was closed"):
        executable.run({"x": random_input()})


def test_threads(device: Device) -> None:
    with (
        WeightPool(device) as pool,
        Executable(device, chain_plan(WEIGHT), pool, shaders=shaders) as first,
        Executable(device, chain_plan(WEIGHT, steps=5), pool, shaders=shaders) as second,
    ):
        errors: list[BaseException] = []

        def work(seed: int) -> None:
            try:
                for turn in range(10):
                    check_chain(first, seed + turn)
                    check_chain(second, seed + turn, steps=5)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(100 * n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
