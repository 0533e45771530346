"""Work in a watched process: results, errors, crashes and calls that do not end."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import vknn
from vknn.cli.watched import DriverFault, watched, watched_on
from vknn.runtime import driver_watch, refusals

if not hasattr(os, "fork"):
    pytest.skip("needs forks", allow_module_level=True)


def forked(work: Callable[[], Any], seconds: float = 30.0) -> Any:
    """Work in another process in any case, though this one may have drivers in use."""
    return watched(work, seconds, {"VKNN_TEST_WATCHED": "1"})


def test_results_come_from_another_process() -> None:
    process, variable, array = forked(
        lambda: (os.getpid(), os.environ["VKNN_TEST_WATCHED"], b"\n" * 200_000)
    )
    assert process != os.getpid() and variable == "1" and len(array) == 200_000
    assert "VKNN_TEST_WATCHED" not in os.environ and driver_watch.watcher is None


def test_errors_are_raised_here() -> None:
    def fails() -> None:
        raise vknn.UnsupportedLayerError(["a", "b"], file="net.param")

    with pytest.raises(vknn.UnsupportedLayerError, match=r"net.param: 2 unsupported") as caught:
        forked(fails)
    assert caught.value.layers == ("a", "b") and caught.value.file == "net.param"


def test_errors_that_cannot_be_handed_over() -> None:
    class OwnError(Exception):
        pass

    def fails() -> None:
        raise OwnError("of one's own")

    with pytest.raises(vknn.VknnError, match="OwnError: of one's own"):
        forked(fails)


@pytest.mark.parametrize(
    ("end", "text"),
    [
        # No signal that the tests' own handler of crashes would write about.
        (lambda: os.kill(os.getpid(), signal.SIGSYS), r"the driver crashed \(SIGSYS\); update it"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "killed .SIGKILL., as systems do that are"),
        (lambda: os._exit(7), r"the driver ended the process \(exit code 7\)"),
        (lambda: time.sleep(60), "the driver gave no answer within 0.5 s"),
    ],
)
def test_ends_of_calls(end: Callable[[], None], text: str) -> None:
    """The innermost call is named, its name in one line."""

    def work() -> None:
        with driver_watch.at("GPU", "opening"), driver_watch.at("GPU", "compiling a\nb (l\x1b)"):
            end()

    seconds = 0.5 if "no answer" in text else 30.0
    with pytest.raises(DriverFault, match=rf"^GPU: compiling a.*b \(l.*\): .*{text}") as caught:
        forked(work, seconds)
    assert "\n" not in str(caught.value) and "\x1b" not in str(caught.value)


def test_threads_beside_each_other() -> None:
    """Which of them it was that crashed, nobody knows."""

    def work() -> None:
        begun = threading.Barrier(2)

        def compiling() -> None:
            with driver_watch.at("GPU", "compiling a"):
                begun.wait()
                time.sleep(60)

        threading.Thread(target=compiling, daemon=True).start()
        with driver_watch.at("GPU", "compiling b"):
            begun.wait()
            os._exit(3)

    with pytest.raises(DriverFault, match="^GPU: compiling [ab] or compiling [ab]: the driver"):
        forked(work)


def test_a_crash_between_calls() -> None:
    def work() -> None:
        with driver_watch.at("GPU", "opening"):
            pass
        os.kill(os.getpid(), signal.SIGSYS)

    said = r"^GPU: after opening: most likely its driver crashed \(SIGSYS\)"
    with pytest.raises(DriverFault, match=said):
        forked(work)


def test_work_of_ones_own_takes_what_it_takes() -> None:
    """The seconds are those of one call; what is counted and planned between them has no end."""

    def work() -> str:
        for _ in range(4):
            with driver_watch.at("GPU", "compiling"):
                time.sleep(0.2)
            time.sleep(0.4)
        return "done"

    assert forked(work, 0.5) == "done"


def test_all_drivers_are_tried_apart_elsewhere() -> None:
    def work() -> None:
        with driver_watch.at(driver_watch.ALL, "listing"):
            os._exit(1)

    with pytest.raises(DriverFault, match="; `vknn devices` tries each apart$"):
        forked(work)


def test_a_process_that_uses_drivers_does_it_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers do not work in the fork of a process that has them open."""
    monkeypatch.setattr("vknn.cli.watched.instance.in_use", lambda: True)
    assert watched(os.getpid, 1.0) == os.getpid()


def _compiled(*bad: str, beside: bool = False) -> list[str]:
    """Names of pipelines that are compiled one after the other, with a driver that crashes at the
    ``bad`` ones; ``beside``: while another thread compiles, too, where that is allowed."""
    left = []
    with contextlib.ExitStack() as stack:
        if beside and not refusals.one_at_a_time:
            begun, done = threading.Event(), threading.Event()

            def compile_beside() -> None:
                with driver_watch.at("GPU", "compiling beside"):
                    begun.set()
                    done.wait()

            threading.Thread(target=compile_beside, daemon=True).start()
            stack.callback(done.set)
            begun.wait()
        for name in ("a", "b", "c"):
            if f"compiling {name}" in refusals.refused:
                continue
            with driver_watch.at("GPU", f"compiling {name}"):
                if name in bad:
                    signal.raise_signal(signal.SIGSYS)
            left.append(name)
    return left


@pytest.mark.parametrize("beside", [False, True])
def test_it_goes_on_without_pipelines_that_a_driver_crashes_at(
    beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vknn.cli.watched.instance.in_use", lambda: False)
    left, faults = watched_on(lambda: _compiled("a", "c", beside=beside), 60)
    assert left == ["b"]
    assert [str(fault).split(";")[0] for fault in faults] == [
        "GPU: compiling a: the driver crashed (SIGSYS)",
        "GPU: compiling c: the driver crashed (SIGSYS)",
    ]
    assert not refusals.refused and not refusals.one_at_a_time  # of the forked processes


def test_it_does_not_go_on_where_that_does_not_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vknn.cli.watched.instance.in_use", lambda: False)

    def work() -> None:
        with driver_watch.at("GPU", "compiling a"):
            signal.raise_signal(signal.SIGSYS)

    with pytest.raises(DriverFault, match="^GPU: compiling a: the driver crashed"):
        watched_on(work, 60)

    def opening() -> None:
        with driver_watch.at("GPU", "opening the device"):
            signal.raise_signal(signal.SIGSYS)

    with pytest.raises(DriverFault, match="^GPU: opening the device: "):
        watched_on(opening, 60)
