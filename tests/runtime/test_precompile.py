"""Compiling ahead: workers take part, agree with the run, and never disturb it."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.runtime.chains import WEIGHT, random_input
from tests.runtime.plans import chain_plan, shaders

from vknn.errors import DeviceError
from vknn.plan import Plan, View
from vknn.runtime import Device, Executable, live_objects, open_device, precompile
from vknn.runtime.quirks import compiles_late, is_llvmpipe
from vknn.runtime.snapshot import Snapshot

FACTORS = (0.5, 1.5, 2.0, 0.25, 3.0, -1.0)


def factors_plan(view: View = View.IMAGE, factors: tuple[float, ...] = FACTORS) -> Plan:
    """A pipeline for each factor: x becomes factor * x + WEIGHT in turn."""
    base = chain_plan(WEIGHT, steps=len(factors), view=view)
    steps = [
        dataclasses.replace(
            step,
            specialization=tuple((n, factor if n == 10 else v) for n, v in step.specialization),
        )
        for step, factor in zip(base.dispatches, factors, strict=True)
    ]
    listed = [part for step in steps for part in (step, base.steps[1])]
    return dataclasses.replace(base, steps=tuple(listed), submits=(len(listed),))


def check_factors(executable: Executable) -> None:
    x = random_input()
    expected = x
    for factor in FACTORS:
        expected = factor * expected + WEIGHT
    np.testing.assert_allclose(executable.run({"x": x})["y"], expected, rtol=1e-5, atol=1e-5)


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    """A device of its own, taken for one that compiles late, on a machine with three cores."""
    monkeypatch.setattr(precompile, "compiles_late", lambda snapshot: True)
    monkeypatch.setattr(precompile, "_cores", lambda: 3)
    with open_device() as opened:
        yield opened
    assert not workers()


def workers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "vknn precompile"]


def wait_for_workers() -> None:
    for thread in workers():
        thread.join(60)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[precompile.CompileTask]:
    """What workers have compiled; each finds everything in the cache."""
    tasks: list[precompile.CompileTask] = []
    dispatch = precompile._CompileWorker._seconds

    def seconds(
        self: precompile._CompileWorker,
        task: precompile.CompileTask,
        pipelines: precompile.Pipelines,
    ) -> float:
        dispatch(self, task, pipelines)
        tasks.append(task)
        return 0.0 if sum(t is task for t in tasks) > 1 else 1.0

    monkeypatch.setattr(precompile._CompileWorker, "_seconds", seconds)
    return tasks


@pytest.mark.device
@pytest.mark.parametrize("view", View)
def test_workers_compile_every_pipeline(
    late: Device, compiled: list[precompile.CompileTask], view: View
) -> None:
    with Executable(late, factors_plan(view), shaders=shaders) as executable:
        wait_for_workers()
        assert len({task.digest for task in compiled}) == len(FACTORS)
        check_factors(executable)
        check_factors(executable)


@pytest.mark.device
def test_the_run_compiles_what_nobody_began(late: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    dispatched = []
    dispatch = precompile._DryDispatcher.dispatch
    monkeypatch.setattr(precompile._CompileWorker, "__enter__", lambda self: 1 / 0)
    monkeypatch.setattr(
        precompile._DryDispatcher,
        "dispatch",
        lambda *args: dispatched.append(args) or dispatch(*args),
    )
    with Executable(late, factors_plan(), shaders=shaders) as executable:
        check_factors(executable)
        assert len(dispatched) == len(FACTORS)
        check_factors(executable)
    assert len(dispatched) == len(FACTORS)


@pytest.mark.device
def test_a_worker_gives_up_where_nothing_is_found_again(
    late: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precompile, "_cores", lambda: 2)
    timed = []
    monkeypatch.setattr(
        precompile._CompileWorker, "_seconds", lambda *args: timed.append(args) or 1.0
    )
    with Executable(late, factors_plan(), shaders=shaders) as executable:
        wait_for_workers()
        assert len(timed) == 3  # two, and the first again
        check_factors(executable)


@pytest.mark.device
@pytest.mark.parametrize("error", [DeviceError("no"), ZeroDivisionError()])
def test_errors_of_workers_are_none(
    late: Device, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def broken(*args: object) -> bool:
        raise error

    monkeypatch.setattr(precompile._CompileWorker, "compile", broken)
    with Executable(late, factors_plan(), shaders=shaders) as executable:
        check_factors(executable)


@pytest.mark.device
def test_a_process_without_room_for_threads(late: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(precompile, "threading", types.SimpleNamespace(**vars(threading)))
    monkeypatch.setattr(
        precompile.threading, "Thread", lambda **_: types.SimpleNamespace(start=full)
    )
    with Executable(late, factors_plan(), shaders=shaders) as executable:
        check_factors(executable)


@pytest.mark.device
def test_errors_of_the_runs_own_part_are_none(
    late: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object) -> None:
        raise DeviceError("no")

    monkeypatch.setattr(precompile._DryDispatcher, "dispatch", broken)
    with Executable(late, factors_plan(), shaders=shaders) as executable:
        check_factors(executable)


@pytest.mark.device
def test_what_was_compiled_once_is_left_alone(
    late: Device, compiled: list[precompile.CompileTask]
) -> None:
    with Executable(late, factors_plan(), shaders=shaders) as executable:
        check_factors(executable)
    late.close()
    compiled.clear()
    with open_device() as again, Executable(again, factors_plan(), shaders=shaders) as executable:
        assert not workers()
        check_factors(executable)
    more = factors_plan(factors=(*FACTORS, 7.0, 8.0, 9.0, 10.0))
    with open_device() as again, Executable(again, more, shaders=shaders):
        wait_for_workers()
        assert len({task.digest for task in compiled}) == 4


@pytest.mark.device
def test_closing_does_not_wait_for_the_rest(late: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    held, began = threading.Event(), threading.Event()
    begun = []

    def slow(self: precompile._CompileWorker, task: precompile.CompileTask) -> bool:
        begun.append(task)
        began.set()
        return held.wait(60)

    monkeypatch.setattr(precompile._CompileWorker, "compile", slow)
    with Executable(late, factors_plan(), shaders=shaders):
        assert began.wait(60)
    closer = threading.Thread(target=late.close)
    closer.start()
    time.sleep(0.05)
    assert closer.is_alive()  # a worker is still at work
    held.set()
    closer.join(60)
    assert not closer.is_alive()
    assert len(begun) <= 2
    assert not workers()


@pytest.mark.device
def test_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precompile, "compiles_late", lambda snapshot: True)
    for cores, disable in ((1, ""), (4, "precompile"), (4, "pipeline-cache")):
        monkeypatch.setattr(precompile, "_cores", lambda cores=cores: cores)
        monkeypatch.setenv("VKNN_DISABLE", disable)
        with open_device() as opened, Executable(opened, factors_plan(), shaders=shaders) as e:
            assert not workers()
            check_factors(e)


def test_which_drivers_compile_late() -> None:
    assert compiles_late(Snapshot(name="llvmpipe (LLVM 15)", driver=13))
    assert not compiles_late(Snapshot(name="SwiftShader Device", driver=10))
    assert not compiles_late(Snapshot(name="GeForce RTX"))


EVERY_VIEW = """
from tests.runtime.test_precompile import check_factors, factors_plan, shaders, wait_for_workers
from vknn.plan import View
from vknn.runtime import Executable, live_objects, open_device, precompile
precompile._cores = lambda: 2
for view in View:
    with open_device() as device, Executable(device, factors_plan(view), shaders=shaders) as e:
        print("helped:", e._batch is not None)
        wait_for_workers()
        check_factors(e)
print(live_objects())
"""


@pytest.mark.device
def test_the_run_finds_what_workers_compiled(
    device: Device, alone: dict[str, str], tmp_path: Path
) -> None:
    """The driver's cache holds nothing more than without workers: it is the same code."""
    if not is_llvmpipe(device.snapshot):
        pytest.skip("llvmpipe's cache")
    entries = []
    for disable in ("precompile", ""):
        cache = tmp_path / f"without {disable}"
        paths = [alone["PYTHONPATH"], str(Path(__file__).parents[2])]
        env = {**alone, "PYTHONPATH": os.pathsep.join(paths), "VKNN_DISABLE": disable}
        env |= {"MESA_SHADER_CACHE_DIR": str(cache), "VKNN_CACHE_DIR": str(tmp_path / "vknn")}
        command = [sys.executable, "-c", EVERY_VIEW]
        result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
        assert result.stdout.splitlines() == [f"helped: {not disable}"] * 3 + ["{}"], result.stderr
        entries.append(sum(path.is_file() for path in cache.rglob("*")))
    assert entries[0] == entries[1] >= 3 * len(FACTORS)


def counted() -> dict[str, int]:
    """Native objects but those that a device keeps: its pipelines and what they are made of."""
    kept = ("pipeline", "pipeline layout", "set layout", "pipeline cache")
    return {kind: count for kind, count in live_objects().items() if kind not in kept}


@pytest.mark.device
def test_nothing_is_left(late: Device) -> None:
    before = counted()
    with Executable(late, factors_plan(), shaders=shaders) as executable:
        check_factors(executable)
    wait_for_workers()
    assert counted() == before
