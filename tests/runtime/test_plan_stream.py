"""Streams of runs of a plan: order, errors, threads, closing; memory of every kind."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.runtime.chains import WEIGHT, check_chain, random_input
from tests.runtime.plans import chain_plan, moving_plan, one_output_plan, shaders

from vknn.errors import DeviceError, DeviceTimeoutError, InputError, OutOfMemoryError
from vknn.graph.types import DType, TensorType
from vknn.plan import Barrier, Copy, Fill
from vknn.runtime import Device, Executable, live_objects
from vknn.runtime.plan_stream import PlanStream

pytestmark = [pytest.mark.usefixtures("nothing_forgotten"), pytest.mark.long]

#: Fixtures: memory that the host works in, staging, inputs written behind a BAR; with a second
#: queue, staging for both and for outputs alone.
KINDS = ("device", "staged_device", "bar_device", "copying_device", "copying_bar_device")


def check_stream(executable: Executable, count: int = 7, first: int = 0) -> None:
    """Runs of random inputs through a stream, each against what its own inputs give."""
    inputs = [random_input(first + i) for i in range(count)]
    outputs = []
    with executable.stream() as stream:
        for x in inputs:
            stream.push({"x": x})
            if stream.full:
                outputs.append(stream.pop()["y"])
        while stream.pending:
            outputs.append(stream.pop()["y"])
    assert len(outputs) == count
    for x, y in zip(inputs, outputs, strict=True):
        np.testing.assert_allclose(y, x + 3 * WEIGHT, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("submits", [None, (1, 4, 5)])
def test_results_in_order(
    request: pytest.FixtureRequest, kind: str, submits: tuple[int, ...] | None
) -> None:
    device = request.getfixturevalue(kind)
    with Executable(device, chain_plan(WEIGHT, submits=submits), shaders=shaders) as executable:
        check_stream(executable)
        check_chain(executable)
        check_stream(executable, count=1)
        check_stream(executable, count=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "type_", [TensorType((7,), DType.FLOAT16), TensorType((2, 3), DType.INT8), TensorType((13,))]
)
def test_dtypes(request: pytest.FixtureRequest, kind: str, type_: TensorType) -> None:
    device = request.getfixturevalue(kind)
    nbytes = max(16, -(-4 * type_.size // 16) * 16)
    plan = moving_plan(type_, (Copy(0, 2, nbytes), Barrier(()), Copy(2, 1, nbytes)))
    arrays = [np.full(type_.dims, i, type_.dtype.numpy) for i in range(2)]
    with Executable(device, plan) as executable, executable.stream() as stream:
        for x in arrays:
            stream.push({"x": x})
        for x in arrays:
            np.testing.assert_array_equal(stream.pop()["y"], x)


def test_counts_are_each_runs_own(device: Device) -> None:
    plan = moving_plan(TensorType((4, 2)), (Copy(0, 1, 32), Fill(2, 3)), count=2)
    with Executable(device, plan) as executable, executable.stream() as stream:
        x = np.arange(8, dtype=np.float32).reshape(4, 2)
        stream.push({"x": x})
        stream.push({"x": x + 1})
        np.testing.assert_array_equal(stream.pop()["y"], x[:3])
        np.testing.assert_array_equal(stream.pop()["y"], x[:3] + 1)


@pytest.mark.parametrize("kind", KINDS)
def test_unfit_inputs_leave_the_others_alone(request: pytest.FixtureRequest, kind: str) -> None:
    device = request.getfixturevalue(kind)
    with (
        Executable(device, chain_plan(WEIGHT), shaders=shaders) as executable,
        executable.stream() as stream,
    ):
        x = random_input()
        stream.push({"x": x})
        with pytest.raises(InputError, match="missing input 'x'"):
            stream.push({})
        assert stream.pending == 1
        stream.push({"x": 2 * x})
        for factor in (1, 2):
            y = stream.pop()["y"]
            np.testing.assert_allclose(y, factor * x + 3 * WEIGHT, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_closing_early_frees_everything(request: pytest.FixtureRequest, kind: str) -> None:
    device = request.getfixturevalue(kind)
    with Executable(device, chain_plan(WEIGHT), shaders=shaders) as executable:
        before, bytes_before = live_objects(), device.memory_allocated
        stream = executable.stream()
        stream.push({"x": random_input()})
        stream.push({"x": random_input()})
        assert stream.full
        assert live_objects() != before
        stream.close()
        stream.close()
        assert live_objects() == before
        assert device.memory_allocated == bytes_before
        with pytest.raises(DeviceError, match="was closed"):
            stream.pop()
        check_chain(executable)


def test_the_executable_closes_its_streams(device: Device) -> None:
    before = live_objects()
    executable = Executable(device, chain_plan(WEIGHT), shaders=shaders)
    stream = executable.stream()
    stream.push({"x": random_input()})
    executable.close()
    for use in (stream.pop, lambda: stream.push({"x": random_input()}), executable.stream):
        with pytest.raises(DeviceError, match="was closed"):
            use()
    stream.close()
    after = live_objects()
    kept = ("buffer", "memory", "fence", "command pool", "descriptor pool")
    assert {k: after.get(k) for k in kept} == {k: before.get(k) for k in kept}


def test_timeout_and_recovery(device: Device) -> None:
    plan = one_output_plan("spin", 60_000, groups=2000)
    with Executable(device, plan, shaders=shaders, timeout=0.001) as executable:
        stream = executable.stream()
        stream.push({})
        with pytest.raises(DeviceTimeoutError, match=r"'spin' did not finish within 0.001 s"):
            stream.pop()
        stream._timeout = executable.timeout = 120.0
        assert stream.pop()["y"].shape == (16,)
        stream.push({})
        stream.close()
        assert executable.run({})["y"].shape == (16,)


def test_an_interrupt_between_submit_and_bookkeeping(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Executable(device, chain_plan(WEIGHT), shaders=shaders) as executable:
        before = live_objects()
        with executable.stream() as stream:
            run = stream._runs[0]
            submit = run.submit

            def interrupted() -> None:
                submit()
                raise KeyboardInterrupt

            monkeypatch.setattr(run, "submit", interrupted)
            with pytest.raises(KeyboardInterrupt):
                stream.push({"x": random_input()})
        assert live_objects() == before
        check_chain(executable)


@pytest.mark.parametrize("kind", KINDS)
def test_streams_and_runs_of_several_threads(request: pytest.FixtureRequest, kind: str) -> None:
    device = request.getfixturevalue(kind)
    plan = chain_plan(WEIGHT, submits=(1, 4, 5))
    with Executable(device, plan, shaders=shaders) as executable:

        def work(seed: int) -> None:
            if seed % 2:
                check_stream(executable, count=11, first=100 * seed)
            else:
                for turn in range(11):
                    check_chain(executable, 100 * seed + turn)

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(work, range(4)))


def test_closing_while_another_thread_streams(device: Device) -> None:
    executable = Executable(device, chain_plan(WEIGHT), shaders=shaders)
    begun, ended = threading.Event(), threading.Event()

    def work() -> None:
        with executable.stream() as stream:
            try:
                while True:
                    stream.push({"x": random_input()})
                    stream.pop()
                    begun.set()
            except DeviceError:
                ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    assert begun.wait(60)
    executable.close()
    thread.join(60)
    assert ended.is_set()


@pytest.mark.parametrize("staged", ["copying_device", "copying_bar_device"])
def test_inputs_are_copied_before_older_outputs(
    request: pytest.FixtureRequest, staged: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = request.getfixturevalue(staged)
    with Executable(device, chain_plan(WEIGHT), shaders=shaders) as executable:
        stream, calls = executable.stream(), []
        for number, run in enumerate(stream._runs):
            assert run._copies is not None
            for name in ("submit_in", "submit_out"):
                call = getattr(run._copies, name)
                monkeypatch.setattr(run._copies, name, _noted(calls, name, number, call))
        for seed in range(2):
            stream.push({"x": random_input(seed)})
        # Until the second run's inputs are under way, the first one's outputs hold up nothing.
        assert calls == [("submit_in", 0), ("submit_in", 1), ("submit_out", 0)]
        for seed in range(2):
            expected = random_input(seed) + 3 * WEIGHT
            np.testing.assert_allclose(stream.pop()["y"], expected, rtol=1e-6, atol=1e-5)
        assert calls[3:] == [("submit_out", 1)]
        stream.close()


def _noted(
    calls: list[tuple[str, int]], name: str, number: int, call: Callable[..., None]
) -> Callable[..., None]:
    def noted(*args: object) -> None:
        calls.append((name, number))
        call(*args)

    return noted


def _pushed_and_popped(stream: PlanStream, x: np.ndarray) -> np.ndarray:
    stream.push({"x": x})
    return stream.pop()["y"]


@pytest.mark.parametrize("broken", range(3))
def test_a_submit_that_fails(
    copying_device: Device, broken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of a run's submits fails, its error is told and the runs after it are right."""
    core = copying_device.shared.core
    with Executable(copying_device, chain_plan(WEIGHT), shaders=shaders) as executable:
        before = live_objects()
        with executable.stream() as stream:
            submit, count = core.submit, itertools.count()

            def failing(*args: object) -> None:
                if next(count) == broken:
                    raise OutOfMemoryError("no room for a submit")
                submit(*args)

            monkeypatch.setattr(core, "submit", failing)
            with pytest.raises(OutOfMemoryError, match="no room"):
                _pushed_and_popped(stream, random_input())
            monkeypatch.setattr(core, "submit", submit)
            for seed in range(3):
                x = random_input(seed)
                y = _pushed_and_popped(stream, x)
                np.testing.assert_allclose(y, x + 3 * WEIGHT, rtol=1e-6, atol=1e-5)
        assert live_objects() == before
        check_stream(executable)
