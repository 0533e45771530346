"""What tells processes of this machine, by the kernel, Windows or ps."""

from __future__ import annotations

import os
import subprocess
import sys

from vknn.scale.processes import start_of, this_machine


def test_own_process() -> None:
    assert start_of(os.getpid()) == start_of(os.getpid()) != ""
    assert this_machine() == this_machine()


def test_processes_that_end() -> None:
    command = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert start_of(other.pid) not in ("", start_of(os.getpid()))
        other.kill()
        other.wait()
        assert start_of(other.pid) == ""
