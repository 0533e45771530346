"""Clocks of streams: the device's time by timestamps, the host's beside it."""

from __future__ import annotations

import time

import pytest
from tests.runtime.chains import WEIGHT
from tests.runtime.plans import chain_plan, shaders
from tests.runtime.test_plan_stream import KINDS, check_stream

from vknn.runtime import Executable
from vknn.runtime.stream_clock import StreamClock


@pytest.mark.device
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("submits", [None, (1, 4, 5)])
def test_runs_are_counted_and_timed(
    request: pytest.FixtureRequest, kind: str, submits: tuple[int, ...] | None
) -> None:
    device = request.getfixturevalue(kind)
    clock = device.time_streams()
    begin = time.perf_counter()
    runs = clock.runs
    before, upload, download = clock.device, clock.upload, clock.download
    with Executable(device, chain_plan(WEIGHT, submits=submits), shaders=shaders) as executable:
        check_stream(executable)
    taken = time.perf_counter() - begin
    assert clock.runs == runs + 7
    assert clock is device.time_streams()
    assert 0 < clock.upload - upload < taken
    assert 0 <= clock.download - download < taken
    if "timestamps" in device.limits.features:
        assert clock.device is not None
        assert before is not None
        assert 0 < clock.device - before <= taken
    else:
        assert clock.device is None


@pytest.mark.host
def test_runs_that_overlap_count_once() -> None:
    clock = StreamClock(True)
    for begin, end in ((100, 300), (200, 500), (700, 800)):
        clock.add(begin, end, 10.0)
    assert clock.device == pytest.approx(10e-9 * (400 + 100))


@pytest.mark.host
def test_a_counter_that_begins_anew_adds_no_time() -> None:
    clock = StreamClock(True)
    clock.add(900, 1000, 1.0)
    clock.add(990, 5, 1.0)
    clock.add(10, 20, 1.0)
    assert clock.device == pytest.approx(110e-9)


@pytest.mark.host
def test_a_device_without_timestamps() -> None:
    clock = StreamClock(False)
    clock.add(1, 2, 1.0)
    assert clock.device is None
