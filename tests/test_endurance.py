"""Endurance: thousands of sessions, runs and shapes leave no native object and no memory behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.device, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[1]
#: What VKNN_TEST_ENDURANCE says in this form: sessions, runs, shapes.
FULL = "10000,1000000,5000"
MOST_MIB = 16


@pytest.mark.timeout(6 * 3600)
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
def test_nothing_grows(tmp_path: Path) -> None:
    counts = os.environ.get("VKNN_TEST_ENDURANCE", FULL).split(",")
    # The validation layer keeps memory of its own, and is no part of what is measured.
    variables = {
        **os.environ,
        "VKNN_VALIDATE": "0",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    command = [sys.executable, str(ROOT / "tests" / "endurance_run.py"), str(tmp_path), *counts]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)  # the figures, with pytest -s
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["left"] == {}
    assert last["grown"] < MOST_MIB, done.stdout
