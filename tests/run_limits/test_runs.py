"""Runs that end before they are done: by a timeout, by another thread, by Ctrl-C."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import model, session
from tests.formats.coreml.test_control_flow import copy, loop
from tests.formats.tflite.test_enums import deciding
from tests.formats.tflite.test_recurrent import X, rnn
from tests.run_limits.slow_runs import (
    BACKENDS,
    SLOW_SHAPE,
    cancelled,
    feeds_of,
    numbers,
)
from tests.small_model import SHAPE, write_small_model

import vknn
from vknn.ops.detection.non_max_suppression import NonMaxSuppression
from vknn.ops.recurrent.rnn import LSTM
from vknn.run_limits import RunLimit, current, within
from vknn.runtime.vulkan.core import Core


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
            for _ in session.stream(({"data": x} for _ in range(50)), errors="raise"):
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
