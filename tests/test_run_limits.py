"""Runs that end before they are done: by a timeout, by another thread, by Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import model, session
from tests.formats.coreml.test_control_flow import copy, loop
from tests.formats.tflite.test_enums import deciding
from tests.formats.tflite.test_recurrent import X, rnn
from tests.small_model import SHAPE, write_small_model

import vknn
from vknn.formats.ncnn.random_weights import write_random_weights
from vknn.ops.detection.non_max_suppression import NonMaxSuppression
from vknn.ops.recurrent.rnn import LSTM
from vknn.run_limits import RunLimit, current, within
from vknn.runtime.vulkan.core import Core

BACKENDS = [pytest.param("vulkan", marks=pytest.mark.device), "numpy"]
#: About ten seconds of NumPy and one of a CPU driver.
SLOW = """7767517
5 5
Input       data 0 1 data 0=256 1=256 2=64
Convolution c1   1 1 data c1 0=64 1=3 4=1 5=0 6=36864
Convolution c2   1 1 c1   c2 0=64 1=3 4=1 5=0 6=36864
Convolution c3   1 1 c2   c3 0=64 1=3 4=1 5=0 6=36864
Pooling     out  1 1 c3   out 0=1 4=1
"""
SLOW_SHAPE = (64, 256, 256)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


@pytest.fixture(params=BACKENDS)
def endless(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[vknn.Session]:
    """A session of a WHILE that goes on while its first input is True."""
    path = tmp_path / "endless.tflite"
    path.write_bytes(deciding("WHILE", "bool").file())
    with vknn.Session(path, device=request.param) as session:
        yield session


def slow_session(folder: Path, device: str) -> vknn.Session:
    path = folder / "slow.param"
    path.write_text(SLOW)
    write_random_weights(path, path.with_suffix(".bin"))
    return vknn.Session(path, device=device)


@pytest.fixture(params=BACKENDS)
def slow(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[vknn.Session]:
    with slow_session(tmp_path, request.param) as session:
        yield session


@pytest.fixture
def slow_on_device(tmp_path: Path) -> Iterator[vknn.Session]:
    with slow_session(tmp_path, "vulkan") as session:
        yield session


@contextlib.contextmanager
def cancelled(session: vknn.Session, seconds: float) -> Iterator[None]:
    """Cancels the session's run from another thread; what goes on within has to end by that."""
    timer = threading.Timer(seconds, session.cancel)
    timer.start()
    with pytest.raises(vknn.RunCancelledError, match="the run was cancelled"):
        yield
    timer.join()


def feeds_of(go_on: bool) -> dict[str, np.ndarray]:
    return {"c": np.array([go_on]), "x": np.float32([1, 2])}


def test_a_loop_ends_in_time(endless: vknn.Session) -> None:
    start = time.monotonic()
    with pytest.raises(vknn.RunTimeoutError, match=r"not done within 0\.3 s; give it a longer"):
        endless.run(feeds_of(True), timeout=0.3)
    assert time.monotonic() - start < 10
    assert np.array_equal(endless.run(feeds_of(False))["y"], [1, 2])
    assert current.limit is None


@pytest.mark.parametrize("rounds", [30, 3000])
def test_loops_without_layers_end_in_time(rounds: int) -> None:
    """No graph runs in these: they are moves of control flow alone, or unrolled as such."""
    body: list[Any] = []
    for _ in range(5):
        body = [loop(body, most=rounds)]
    with session(model([copy("x", "y"), *body], {"x": (1,)})) as made:
        start = time.monotonic()
        with pytest.raises(vknn.RunTimeoutError):
            made.run({"x": np.float32([3])}, timeout=0.3)
        assert time.monotonic() - start < 10
        timer = threading.Timer(0.2, made.cancel)
        timer.start()
        with pytest.raises(vknn.RunCancelledError):
            made.run({"x": np.float32([3])})
        timer.join()


def lstm() -> None:
    numbers = [np.zeros(d, np.float32) for d in ((50_000, 1, 1), (1, 4, 1), (1, 4, 1))]
    LSTM().reference(*numbers, None, None, None, None, None)


def boxes() -> None:
    corners = np.float32([[[3 * n, 0, 3 * n + 1, 1] for n in range(5_000)]])
    op = NonMaxSuppression(max_output=5_000, iou_threshold=0.5, score_threshold=0.0)
    op.reference(corners, np.ones((1, 1, 5_000), np.float32))


@pytest.mark.parametrize("compute", [lstm, boxes])
def test_long_operators_of_the_host_end_in_time(compute: Callable[[], None]) -> None:
    limit = RunLimit()
    limit.start(0.05)
    with pytest.raises(vknn.RunTimeoutError), within(limit):
        compute()


def test_layers_and_submits_end_in_time(slow: vknn.Session) -> None:
    x = {"data": numbers(*SLOW_SHAPE)}
    with pytest.raises(vknn.RunTimeoutError):
        slow.run(x, timeout=0.02)
    with pytest.raises(vknn.RunTimeoutError):  # the run before is still going on
        slow.run(x, timeout=0.02)
    small = {"data": x["data"][:, :7, :7].copy()}
    assert slow.run(small)["out"].shape == (64,)
    if slow.device is not None:
        assert slow.run(x)["out"].shape == (64,)


@pytest.mark.parametrize("device", BACKENDS)
def test_a_quick_run_whose_time_is_over(device: str, tmp_path: Path) -> None:
    """It ends in time even where the device is done before anybody looks at the time."""
    feeds = {"data": numbers(*SHAPE)}
    with vknn.Session(write_small_model(tmp_path), device=device) as session:
        expected = session.run(feeds)["out"]
        for on_device in [False, True] * 20:
            with pytest.raises(vknn.RunTimeoutError):
                session.run(feeds, timeout=1e-9, on_device=on_device)
        assert np.array_equal(session.run(feeds, timeout=60)["out"], expected)


def test_the_switch_holds_for_whole_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "endless.tflite"
    path.write_bytes(deciding("WHILE", "bool").file())
    monkeypatch.setenv("VKNN_TIMEOUT", "0.2")
    with vknn.Session(path, device="numpy") as session:
        with pytest.raises(vknn.RunTimeoutError, match=r"0\.2 s.*raise VKNN_TIMEOUT"):
            session.run(feeds_of(True))
        assert np.array_equal(session.run(feeds_of(False), timeout=60)["y"], [1, 2])


def test_cancel_from_another_thread(endless: vknn.Session) -> None:
    endless.cancel()  # nothing is under way
    assert np.array_equal(endless.run(feeds_of(False))["y"], [1, 2])
    with cancelled(endless, 0.3):
        endless.run(feeds_of(True), timeout=60)
    assert np.array_equal(endless.run(feeds_of(False))["y"], [1, 2])


@pytest.mark.device
def test_cancel_while_the_device_computes(slow_on_device: vknn.Session) -> None:
    x = {"data": numbers(*SLOW_SHAPE)}
    expected = slow_on_device.run(x)["out"]
    with cancelled(slow_on_device, 0.05):
        [slow_on_device.run(x) for _ in range(100)]
    assert np.array_equal(slow_on_device.run(x)["out"], expected)


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


def test_the_wait_for_another_run_counts(endless: vknn.Session) -> None:
    found: list[BaseException] = []

    def first() -> None:
        try:
            endless.run(feeds_of(True))
        except vknn.VknnError as error:
            found.append(error)

    thread = threading.Thread(target=first)
    thread.start()
    time.sleep(0.2)
    with pytest.raises(vknn.RunTimeoutError, match="another run of the session was not done"):
        endless.run(feeds_of(False), timeout=0.1)
    endless.cancel()
    thread.join()
    assert [type(error) for error in found] == [vknn.RunCancelledError]


@pytest.mark.parametrize("device", BACKENDS)
def test_state_is_as_before(device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object) -> bool:
        """A wait that ends too late, whatever the device had done by then."""
        raise vknn.RunTimeoutError("late")

    path = tmp_path / "rnn.tflite"
    path.write_bytes(rnn(6).file())
    with vknn.Session(path, device=device) as session:
        first, second = (session.run({"x": X})["y"] for _ in range(2))
        session.reset_state()
        for expected in (first, second):
            with monkeypatch.context() as patch:
                patch.setattr(RunLimit, "check", late)
                patch.setattr(Core, "wait", late)
                with pytest.raises(vknn.RunTimeoutError, match="late"):
                    session.run({"x": X}, timeout=60)
            assert np.array_equal(session.run({"x": X})["y"], expected)


@pytest.mark.parametrize("given", [0, -1, float("nan"), float("inf"), "soon", True])
def test_what_is_no_timeout(given: object, tmp_path: Path) -> None:
    with (
        vknn.Session(write_small_model(tmp_path), device="numpy") as session,
        pytest.raises(vknn.VknnError, match="timeout=.*: expected a number of seconds above 0"),
    ):
        session.run({"data": numbers(*SHAPE)}, timeout=given)  # type: ignore[arg-type]
    with (
        vknn.Session(write_small_model(tmp_path), device="numpy") as session,
        pytest.raises(vknn.VknnError, match="timeout=.*: expected a number of seconds above 0"),
    ):
        list(session.stream([{"data": numbers(*SHAPE)}], timeout=given))  # type: ignore[arg-type]


def test_timeouts_of_submits_are_timeouts_of_runs() -> None:
    assert issubclass(vknn.DeviceTimeoutError, vknn.RunTimeoutError)
    assert issubclass(vknn.RunTimeoutError, TimeoutError)


CHILD = """
import signal, sys, time
import numpy as np
import vknn

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it

path, device = sys.argv[1:]
x = np.random.default_rng(1).standard_normal((3, 8, 8)).astype(np.float32)
with vknn.Session(path, device=device) as session:
    expected = session.run({"data": x})["out"]
    print("ready", flush=True)
    interrupts = 0
    while interrupts < 12:
        try:
            for number in range(1000):
                size = 8 + number % 3  # new shapes: plans are made, programs closed
                session.run({"data": np.resize(x, (3, size, size))})
            for _ in session.stream({"data": x} for _ in range(50)):
                pass
        except KeyboardInterrupt:
            interrupts += 1
            assert np.array_equal(session.run({"data": x})["out"], expected)
            if interrupts < 12:
                print("again", flush=True)
print("done", flush=True)
"""


def _next_line(child: subprocess.Popen[str]) -> str:
    """What the child says next. Python drops an interrupt that comes within the callback of a weak
    reference: where nothing is said for long, another one is sent."""
    assert child.stdout is not None
    while not select.select([child.stdout], [], [], 20)[0]:
        child.send_signal(signal.SIGINT)
    return child.stdout.readline().strip()


@pytest.mark.long
@pytest.mark.parametrize("device", BACKENDS)
def test_ctrl_c_at_any_moment(device: str, tmp_path: Path) -> None:
    """Interrupts in runs, plans and streams: the session gives the same results afterwards."""
    command = [
        sys.executable,
        "-c",
        textwrap.dedent(CHILD),
        str(write_small_model(tmp_path)),
        device,
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    moments = np.random.default_rng(4)
    try:
        while (line := _next_line(child)) != "done":
            assert line in ("ready", "again")
            time.sleep(float(moments.uniform(0.001, 0.15)))
            child.send_signal(signal.SIGINT)
        assert child.wait(60) == 0
    finally:
        child.kill()
        child.stdout.close()
