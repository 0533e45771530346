"""Ctrl-C at any moment: the same process opens sessions afterwards, and nothing is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.small_model import write_small_model

from vknn import interrupts
from vknn.errors import RunTimeoutError
from vknn.run_limits import RunLimit, held

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """Python's own handler of SIGINT, which a shell's background jobs are started without."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def attack(tmp_path: Path, seed: int, count: int, seconds: int) -> dict[str, object]:
    """What comes of so many interrupts, or as many as there is time for."""
    model = write_small_model(tmp_path)
    script = str(ROOT / "tests" / "interrupt_run.py")
    variables = {
        **os.environ,
        "VKNN_VALIDATE": "0",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    command = [sys.executable, script, str(model), "vulkan", *map(str, (seed, count, seconds))]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.device
@pytest.mark.long
def test_some_moments(tmp_path: Path) -> None:
    assert attack(tmp_path, seed=11, count=40, seconds=60)["wrong"] == []


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_moments(tmp_path: Path) -> None:
    found = attack(tmp_path, seed=12, count=2000, seconds=1200)
    print(found)
    assert found["wrong"] == []


def test_an_interrupt_comes_at_the_end_of_a_block() -> None:
    done = []

    def blocks() -> None:
        with interrupts.put_off():
            with interrupts.put_off():
                signal.raise_signal(signal.SIGINT)
            done.append("outer")
        done.append("behind")

    with pytest.raises(KeyboardInterrupt):
        blocks()
    assert done == ["outer"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_comes_at_a_point() -> None:
    done = []

    @interrupts.uninterrupted
    def block() -> None:
        interrupts.point()
        signal.raise_signal(signal.SIGINT)
        done.append("before")
        interrupts.point()
        done.append("behind")

    with pytest.raises(KeyboardInterrupt):
        block()
    assert done == ["before"]
    with interrupts.put_off():  # it came once, not twice
        interrupts.point()


def test_a_handler_of_the_application_is_told_at_once() -> None:
    told = []
    before = signal.signal(signal.SIGINT, lambda number, frame: told.append(number))
    try:
        with interrupts.put_off():
            signal.raise_signal(signal.SIGINT)
            assert told == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_are_left_alone() -> None:
    found = []

    def work() -> None:
        with interrupts.put_off():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]


def test_a_wait_for_a_lock_is_interrupted() -> None:
    lock = threading.Lock()
    lock.acquire()
    timer = threading.Timer(0.1, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt), held(lock):
        pass
    timer.join()
    lock.release()
    with held(lock):
        limit = RunLimit("the other run")
        limit.start(0.1)
        with pytest.raises(RunTimeoutError, match="the other run was not done"), held(lock, limit):
            pass
    assert not lock.locked()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_can_be_interrupted() -> None:
    """Also one that another thread made while this one was in a block."""
    ended = []

    def fork() -> None:
        pid = os.fork()
        if pid == 0:
            is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
            os._exit(0 if is_default else 1)
        ended.append(os.waitpid(pid, 0)[1])

    with interrupts.put_off():
        thread = threading.Thread(target=fork)
        thread.start()
        thread.join()
    assert ended == [0]
