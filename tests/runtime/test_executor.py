"""Plans on a device, under the validation layer."""

from __future__ import annotations

import dataclasses
import gc
import threading

import numpy as np
import pytest
from tests.runtime.plans import chain_plan, moving_plan, one_output_plan, shaders

from vknn.errors import (
    DeviceError,
    DeviceTimeoutError,
    InputError,
    OutOfMemoryError,
    ShaderError,
    ValidationError,
)
from vknn.graph.types import DType, TensorType
from vknn.plan import Barrier, Copy, Fill, Guard, Plan, Role, View
from vknn.runtime import Device, Executable, WeightPool, live_objects, open_device
from vknn.runtime.weights import LEAST_BYTES, MOST_BYTES, block_bytes

WEIGHT = np.arange(52, dtype=np.float32).reshape(1, 13, 4)


def random_input(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(WEIGHT.shape).astype(np.float32)


def check_chain(executable: Executable, seed: int = 0, steps: int = 3) -> None:
    x = random_input(seed)
    y = executable.run({"x": x})["y"]
    np.testing.assert_allclose(y, x + steps * WEIGHT, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("view", View)
def test_views(device: Device, view: View) -> None:
    with Executable(device, chain_plan(WEIGHT, view=view), shaders=shaders) as executable:
        for seed in range(3):
            check_chain(executable, seed)


@pytest.mark.parametrize("view", View)
def test_staged_memory(staged_device: Device, view: View) -> None:
    with Executable(staged_device, chain_plan(WEIGHT, view=view), shaders=shaders) as executable:
        for seed in range(3):
            check_chain(executable, seed)


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
@pytest.mark.parametrize("staged", [False, True])
def test_dtypes_survive_the_way(
    request: pytest.FixtureRequest, type_: TensorType, staged: bool
) -> None:
    device = request.getfixturevalue("staged_device" if staged else "device")
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


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize(("count", "rows"), [(0, 0), (2, 2), (99, 4), (-1, 0)])
def test_count_cuts_the_open_axis(
    request: pytest.FixtureRequest, staged: bool, count: int, rows: int
) -> None:
    device = request.getfixturevalue("staged_device" if staged else "device")
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


@pytest.mark.parametrize("staged", [False, True])
def test_guards(request: pytest.FixtureRequest, staged: bool) -> None:
    device = request.getfixturevalue("staged_device" if staged else "device")
    guards = (Guard(Role.OUTPUT, 64, 64),)
    with Executable(device, one_output_plan("overrun", 16, guards=guards), shaders=shaders) as fine:
        np.testing.assert_array_equal(fine.run({})["y"], np.ones(16))
        fine.check_guards()
    with Executable(device, one_output_plan("overrun", 18, guards=guards), shaders=shaders) as bad:
        bad.check_guards()
        bad.run({})
        with pytest.raises(ValidationError, match="output byte 64, behind 'y'"):
            bad.check_guards()


@pytest.mark.parametrize("staged", [False, True])
def test_read_back_any_buffer(request: pytest.FixtureRequest, staged: bool) -> None:
    device = request.getfixturevalue("staged_device" if staged else "device")
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


def test_weights_are_shared_and_freed(device: Device) -> None:
    with WeightPool(device) as pool:
        first = Executable(device, chain_plan(WEIGHT), pool, shaders=shaders)
        size = pool.used
        second = Executable(device, chain_plan(WEIGHT, steps=2), pool, shaders=shaders)
        assert pool.used == size
        other = Executable(device, chain_plan(WEIGHT.copy()), pool, shaders=shaders)
        assert pool.used == 2 * size
        other.close()
        assert pool.used == size
        first.close()
        check_chain(second, steps=2)
        second.close()
        assert (pool.used, pool.nbytes) == (0, 0)


def test_weights_of_a_plan_leave_no_room_over(device: Device) -> None:
    arrays = [np.zeros(n, np.float32) for n in (300_000, 5, 4_000_000, 12_000_000, 1_000_000)]
    with WeightPool(device) as pool:
        held = pool.acquire([(a, a.nbytes) for a in arrays])
        assert pool.nbytes - pool.used <= len(arrays) * device.limits.alignment
        assert len({id(w.block) for w in held}) == 2
        few = pool.acquire([(np.zeros(4, np.float32), 16)])
        assert few[0].block not in {w.block for w in held}
        more = pool.acquire([(np.zeros(4, np.float32), 16)])
        assert more[0].block is few[0].block


@pytest.mark.parametrize(
    ("coming", "size"),
    [
        ([16], LEAST_BYTES),
        ([LEAST_BYTES, 16], LEAST_BYTES + 64),
        ([MOST_BYTES + 1], MOST_BYTES + 64),
        ([MOST_BYTES - 64, 1, 1], MOST_BYTES),
        ([MOST_BYTES // 2 + 64] * 3, MOST_BYTES // 2 + 64),
        ([LEAST_BYTES] * 9, 9 * LEAST_BYTES),
    ],
)
def test_blocks_hold_what_is_coming(coming: list[int], size: int) -> None:
    assert block_bytes(coming, 64) == size


def test_reused_id_is_not_the_same_weight(device: Device) -> None:
    with WeightPool(device) as pool:
        for turn in range(20):
            weight = np.full((1, 1, 4), turn, np.float32)
            executable = Executable(device, chain_plan(weight, steps=1), pool, shaders=shaders)
            executable.plan = Plan("", (), {}, (), (), {"x": executable.plan.inputs["x"]}, {})
            del weight  # the executable still holds its copy while the array is gone
            gc.collect()
            y = executable.run({"x": np.zeros((1, 1, 4), np.float32)})["y"]
            np.testing.assert_array_equal(y, np.full((1, 1, 4), turn))


@pytest.mark.parametrize("size", [3, 4 << 20, (9 << 20) + 12])
def test_large_weights_go_through_the_ring(staged_device: Device, size: int) -> None:
    weight = np.arange(-(-size // 16) * 4, dtype=np.float32).reshape(1, -1, 4)
    plan = dataclasses.replace(chain_plan(weight, steps=1), steps=(), submits=())
    with Executable(staged_device, plan) as executable:
        np.testing.assert_array_equal(executable.read(1).view(np.float32), weight.ravel())


def test_no_live_objects_after_many_cycles(device: Device) -> None:
    def cycle() -> None:
        with (
            open_device() as opened,
            WeightPool(opened) as pool,
            Executable(opened, chain_plan(WEIGHT), pool, shaders=shaders) as executable,
        ):
            check_chain(executable)
            executable.profile({"x": random_input()})

    before = live_objects()
    for _ in range(100):
        cycle()
    assert live_objects() == before


def test_forgotten_objects_are_swept(device: Device) -> None:
    opened = open_device()
    before = live_objects()
    for _ in range(3):
        pool = WeightPool(opened)
        executable = Executable(opened, chain_plan(WEIGHT), pool, shaders=shaders)
        check_chain(executable)
        del executable, pool
        gc.collect()
    opened.close()
    after = live_objects()
    assert after.get("buffer") == before.get("buffer")
    assert after["device"] == before["device"] - 1


def test_closing_the_device_closes_its_children(device: Device) -> None:
    before = live_objects()
    opened = open_device()
    pool = WeightPool(opened)
    executable = Executable(opened, chain_plan(WEIGHT), pool, shaders=shaders)
    opened.close()
    assert live_objects() == before
    with pytest.raises(DeviceError, match="was closed"):
        executable.run({"x": random_input()})
    with pytest.raises(DeviceError, match="closed"):
        Executable(opened, chain_plan(WEIGHT), shaders=shaders)
    executable.close()
    pool.close()
    opened.close()


def test_memory_is_counted(device: Device) -> None:
    before = device.memory_allocated
    with Executable(device, chain_plan(WEIGHT), shaders=shaders) as executable:
        assert executable.memory[Role.WEIGHT] == WEIGHT.nbytes
        assert executable.memory[Role.ACTIVATION] >= 2 * WEIGHT.nbytes
        assert device.memory_allocated > before
        assert device.memory_peak >= device.memory_allocated
    assert device.memory_allocated == before
    device.reset_peak()
    assert device.memory_peak == before


def test_a_failed_build_leaves_nothing(device: Device) -> None:
    before = live_objects()
    plan = chain_plan(WEIGHT)
    plan.constants.clear()
    with pytest.raises(DeviceError, match="weight 'w' has no data"):
        Executable(device, plan, shaders=shaders)
    with pytest.raises(ShaderError, match="not SPIR-V"):
        Executable(device, chain_plan(WEIGHT), shaders=lambda *_: b"12345678")
    huge = moving_plan(TensorType((4,)), ())
    huge.arenas[Role.ACTIVATION] = 1 << 40
    with pytest.raises(OutOfMemoryError, match="1099511627776 bytes"):
        Executable(device, huge)
    kept = ("pipeline", "pipeline layout", "set layout", "shader module", "pipeline cache")
    after = {k: v for k, v in live_objects().items() if k not in kept}
    assert after == {k: v for k, v in before.items() if k not in kept}
