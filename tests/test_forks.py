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


@pytest.mark.long
@pytest.mark.device
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_while_another_thread_opens_sessions(tmp_path: Path) -> None:
    result = run_child(WHILE_OPENING, str(write_small_model(tmp_path)), "vulkan")
    assert result.stdout.splitlines() == ["8"], result.stdout + result.stderr
