"""Forks: a child opens sessions of its own, whatever other threads did at that moment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.small_model import write_small_model

WHILE_OPENING = """
import os, sys, threading, time
import numpy as np
import vknn
path, device = sys.argv[1:]
feeds = {"data": np.ones((3, 8, 8), np.float32)}
done = threading.Event()

def open_sessions():
    while not done.is_set():
        with vknn.Session(path, device=device) as session:
            session.run(feeds)

def child():
    with vknn.Session(path, device=device) as session:
        session.run(feeds)

def ended(pid):
    for _ in range(400):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status == 0
        time.sleep(0.05)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return False

thread = threading.Thread(target=open_sessions)
thread.start()
good = 0
for number in range(8):
    time.sleep(0.011 * number)
    pid = os.fork()
    if pid == 0:
        try:
            child()
        except vknn.DeviceError as error:
            os._exit(0 if "was open when this process was forked" in str(error) else 1)
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    good += ended(pid)
done.set()
thread.join()
print(good)
"""


def run_child(text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "VKNN_VALIDATE": "0"}
    command = [sys.executable, "-c", text, *arguments]
    return subprocess.run(
        command, env=variables, capture_output=True, text=True, timeout=250, check=False
    )


WHILE_RUNNING = """
import os, sys, threading, time
import numpy as np
import vknn
from vknn import forks
from vknn.runtime import device as devices
path = sys.argv[1]
feeds = {"data": np.ones((3, 8, 8), np.float32)}
with vknn.Session(path, device="vulkan") as session:
    submitted, seen = [], []
    core = session.device.shared.core
    submit = core.submit
    def noted(*given):
        submit(*given)
        submitted.append(time.monotonic())
    core.submit = noted
    def before(deadline):
        time.sleep(0.1)  # what was submitted before is noted by now
        count = len(submitted)
        time.sleep(0.1)
        seen.append(len(submitted) - count)
    forks.pause(before, lambda: None)  # after the device's own: nobody submits now
    done = threading.Event()
    def run():
        while not done.is_set():
            session.run(feeds)
    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.1)
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        time.sleep(0.05)
    done.set()
    thread.join()
    print(seen, len(submitted) > 10)
print(vknn.runtime.live_objects())
"""


@pytest.mark.device
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_nothing_runs_while_the_process_forks(tmp_path: Path) -> None:
    result = run_child(WHILE_RUNNING, str(write_small_model(tmp_path)))
    assert result.stdout.splitlines() == ["[0, 0, 0] True", "{}"], result.stdout + result.stderr


@pytest.mark.long
@pytest.mark.device
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_while_another_thread_opens_sessions(tmp_path: Path) -> None:
    result = run_child(WHILE_OPENING, str(write_small_model(tmp_path)), "vulkan")
    assert result.stdout.splitlines() == ["8"], result.stdout + result.stderr


WITH_A_DEVICE = """
import os, sys
import vknn
path, device = sys.argv[1:]

def child():
    pid = os.fork()
    if pid == 0:
        try:
            vknn.Session(path, device=device).close()
        except vknn.DeviceError as error:
            print(error, flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1]

with vknn.Session(path, device=device) as session:
    print(session.device.name, flush=True)
    while_open = child()
print(while_open, child(), flush=True)
"""


@pytest.mark.device
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_driver_whose_threads_stay_behind(tmp_path: Path) -> None:
    """SwiftShader would wait for ever in a child; that is an error. Others go on."""
    result = run_child(WITH_A_DEVICE, str(write_small_model(tmp_path)), "vulkan")
    name, *said, codes = result.stdout.splitlines()
    if "SwiftShader" in name:
        assert codes == "256 0" and "threads stayed behind" in said[-1], result.stderr
    else:
        assert (said, codes) == ([], "0 0"), result.stdout + result.stderr
