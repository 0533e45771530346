"""What executables hold: weights, memory, Vulkan objects, and that they give it all back."""

from __future__ import annotations

import dataclasses
import gc
import itertools
from typing import Any

import numpy as np
import pytest
from tests.runtime.chains import WEIGHT, check_chain, random_input
from tests.runtime.plans import chain_plan, moving_plan, shaders

from vknn.errors import DeviceError, OutOfMemoryError, ShaderError
from vknn.graph.types import TensorType
from vknn.plan import Plan, Role
from vknn.runtime import Device, Executable, WeightPool, live_objects, open_device
from vknn.runtime.memory_blocks import LEAST_BYTES, MOST_BYTES, block_bytes
from vknn.runtime.vulkan.commands import CommandPool

pytestmark = pytest.mark.usefixtures("nothing_forgotten")


@pytest.mark.device
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


@pytest.mark.device
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


@pytest.mark.device
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


@pytest.mark.device
@pytest.mark.parametrize("size", [3, 4 << 20, (9 << 20) + 12])
def test_large_weights_go_through_the_ring(staged_device: Device, size: int) -> None:
    weight = np.arange(-(-size // 16) * 4, dtype=np.float32).reshape(1, -1, 4)
    plan = dataclasses.replace(chain_plan(weight, steps=1), steps=(), submits=())
    with Executable(staged_device, plan) as executable:
        np.testing.assert_array_equal(executable.read(1).view(np.float32), weight.ravel())


def _arrays(count: int, size: int) -> list[np.ndarray]:
    return [np.full(size, number % 255 + 1, np.uint8) for number in range(count)]


@pytest.mark.device
@pytest.mark.parametrize(
    ("count", "size", "wanted", "submits"),
    [(1, 7, 8, 1), (300, 100, 112, 1), (11, 1 << 20, (1 << 20) + 4, 3), (3, 0, 16, 1)],
)
def test_weights_share_submits(
    staged_device: Device,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    size: int,
    wanted: int,
    submits: int,
) -> None:
    core, transfer = staged_device.shared.core, staged_device.shared.transfer
    arrays, done = _arrays(count, size), []
    with WeightPool(staged_device) as pool:
        submit = core.submit
        monkeypatch.setattr(core, "submit", lambda *args: (done.append(1), submit(*args)))
        held = pool.acquire([(array, wanted) for array in arrays])
        assert len(done) == submits
        for array, weight in zip(arrays, held, strict=True):
            found = transfer.download(weight.memory, weight.offset, wanted)
            np.testing.assert_array_equal(found[:size], array)
            assert not found[size:].any()
        pool.release(held)
        assert pool.used == 0


@pytest.mark.device
@pytest.mark.parametrize("broken", range(3))
def test_an_upload_that_fails_takes_nothing(
    staged_device: Device, monkeypatch: pytest.MonkeyPatch, broken: int
) -> None:
    core, transfer = staged_device.shared.core, staged_device.shared.transfer
    arrays = _arrays(11, 1 << 20)
    with WeightPool(staged_device) as pool:
        (kept,) = pool.acquire([(arrays[0], 16)])
        submit, count = core.submit, itertools.count()

        def failing(*args: object) -> None:
            if next(count) == broken:
                raise OutOfMemoryError("no room for a submit")
            submit(*args)

        wanted = [(array, array.nbytes) for array in arrays]
        with monkeypatch.context() as patch:
            patch.setattr(core, "submit", failing)
            with pytest.raises(OutOfMemoryError, match="no room"):
                pool.acquire(wanted)
        assert pool.used == kept.nbytes
        for array, weight in zip(arrays, pool.acquire(wanted), strict=True):
            found = transfer.download(weight.memory, weight.offset, array.nbytes)
            np.testing.assert_array_equal(found, array)


@pytest.mark.device
@pytest.mark.parametrize("broken", ["command pool", "buffer", "memory", "fence", "commands"])
def test_a_staging_slot_that_cannot_be_made_leaks_nothing(
    staged_device: Device, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    core, transfer = staged_device.shared.core, staged_device.shared.transfer
    before, create = live_objects(), core.create

    def failing(kind: str, *rest: Any) -> Any:
        return _refused() if kind == broken else create(kind, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(core, "create", failing)
        if broken == "commands":
            patch.setattr(CommandPool, "allocate", _refused)
        with pytest.raises(OutOfMemoryError, match="no room"):
            transfer._slot(0)
    new = {kind for kind, count in live_objects().items() if count != before.get(kind, 0)}
    assert new <= {"command pool"}
    transfer._slot(0)


def _refused(*_: object) -> None:
    raise OutOfMemoryError("no room for it")


@pytest.mark.device
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


@pytest.mark.device
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


@pytest.mark.device
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


@pytest.mark.device
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


@pytest.mark.device
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
    kept = ("pipeline", "pipeline layout", "set layout", "pipeline cache")
    after = {k: v for k, v in live_objects().items() if k not in kept}
    assert after == {k: v for k, v in before.items() if k not in kept}
