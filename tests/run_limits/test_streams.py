"""Streams that end before they are done: by a timeout, by another thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.formats.tflite.test_enums import deciding
from tests.run_limits.slow_runs import (
    SLOW_SHAPE,
    cancelled,
    feeds_of,
    numbers,
)

import vknn
from vknn.run_limits import current


def repeated(x: dict[str, np.ndarray], count: int = 1000) -> Iterator[dict[str, np.ndarray]]:
    return (x for _ in range(count))


def test_a_stream_ends_in_time(endless: vknn.Session) -> None:
    given = iter([feeds_of(False), feeds_of(False), feeds_of(True), feeds_of(False)])
    found = []
    start = time.monotonic()
    with pytest.raises(vknn.RunTimeoutError, match=r"not done within 0\.3 s"):
        found.extend(endless.stream(given, timeout=0.3))
    assert time.monotonic() - start < 10
    assert [list(each["y"]) for each in found] == [[1, 2], [1, 2]]
    assert current.limit is None
    assert np.array_equal(endless.run(feeds_of(False))["y"], [1, 2])


def test_a_stream_on_the_device_ends_in_time(slow: vknn.Session) -> None:
    x = {"data": numbers(*SLOW_SHAPE)}
    small = {"data": x["data"][:, :7, :7].copy()}
    if slow.device is not None:  # all is compiled, and what the runs take is known
        expected = slow.run(x)["out"]
        start = time.monotonic()
        slow.run(x)
        whole = time.monotonic() - start
    for _ in range(2):  # the second is begun while the device is at work on the first's run
        start = time.monotonic()
        with pytest.raises(vknn.RunTimeoutError):
            list(slow.stream(repeated(x), timeout=0.02))
        if slow.device is not None:
            assert time.monotonic() - start < 0.02 + 2.5 * whole
    assert slow.run(small)["out"].shape == (64,)
    if slow.device is not None:
        assert [np.array_equal(y["out"], expected) for y in slow.stream([x, x])] == [True, True]


@pytest.mark.long
def test_a_stream_is_not_timed_while_it_waits_for_inputs(endless: vknn.Session) -> None:
    def slowly() -> Iterator[dict[str, np.ndarray]]:
        for _ in range(3):
            time.sleep(0.4)
            yield feeds_of(False)

    found = []
    for results in endless.stream(slowly(), timeout=0.35):
        time.sleep(0.2)
        found.append(list(results["y"]))
    assert found == [[1, 2]] * 3


def test_the_switch_holds_for_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "endless.tflite"
    path.write_bytes(deciding("WHILE", "bool").file())
    monkeypatch.setenv("VKNN_TIMEOUT", "0.2")
    with (
        vknn.Session(path, device="numpy") as session,
        pytest.raises(vknn.RunTimeoutError, match=r"0\.2 s.*raise VKNN_TIMEOUT"),
    ):
        list(session.stream([feeds_of(True)]))


@pytest.mark.parametrize("go_on", [True, False])
def test_cancel_of_a_stream(endless: vknn.Session, go_on: bool) -> None:
    with cancelled(endless, 0.3):
        for _ in endless.stream(repeated(feeds_of(go_on), 10**6)):
            pass
    waiting = endless.stream(repeated(feeds_of(False)))
    next(waiting)
    endless.cancel()
    with pytest.raises(vknn.RunCancelledError):
        next(waiting)
    assert np.array_equal(endless.run(feeds_of(False))["y"], [1, 2])
    assert len(list(endless.stream(repeated(feeds_of(False), 3)))) == 3


@pytest.mark.device
def test_cancel_of_a_stream_while_the_device_computes(slow_on_device: vknn.Session) -> None:
    x = {"data": numbers(*SLOW_SHAPE)}
    expected = slow_on_device.run(x)["out"]
    with cancelled(slow_on_device, 0.05):
        list(slow_on_device.stream(repeated(x)))
    for results in slow_on_device.stream([x] * 3):
        assert np.array_equal(results["out"], expected)


@pytest.mark.device
def test_a_stream_does_not_wait_for_another_run(tmp_path: Path) -> None:
    """The wait for a run of another thread is the stream's time, too."""
    path = tmp_path / "endless.tflite"
    path.write_bytes(deciding("WHILE", "bool").file())
    with vknn.Session(path, device="vulkan") as session:
        ended: list[type[BaseException]] = []

        def first() -> None:
            try:
                session.run(feeds_of(True))
            except vknn.VknnError as error:
                ended.append(type(error))

        thread = threading.Thread(target=first)
        thread.start()
        time.sleep(0.2)
        with pytest.raises(vknn.RunTimeoutError):
            list(session.stream([feeds_of(False)], timeout=0.1))
        session.cancel()
        thread.join()
        assert ended == [vknn.RunCancelledError]
