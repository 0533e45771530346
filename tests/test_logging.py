"""Records of the logger "vknn": what sessions open and compile."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.small_model import SHAPE, write_small_model

import vknn

BACKENDS = [pytest.param("vulkan", marks=pytest.mark.device), "numpy"]


def run(path: Path, device: str, runs: int = 2) -> None:
    x = {"data": np.ones(SHAPE, np.float32)}
    with vknn.Session(path, device=device) as session:
        for _ in range(runs):
            session.run(x)


@pytest.mark.parametrize("device", BACKENDS)
def test_records(device: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write_small_model(tmp_path)
    with caplog.at_level(logging.DEBUG, logger="vknn"):
        run(path, device)
    opened, compiled = (record for record in caplog.records if record.name == "vknn")
    assert opened.levelno == logging.INFO and "small.param in fp32 on " in opened.getMessage()
    assert compiled.levelno == logging.DEBUG
    words = r"compiled 'small' for data .*: 0 nodes in 0 dispatches" if device == "numpy" else "in"
    assert re.search(words, compiled.getMessage())


def test_a_run_leaves_no_record(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write_small_model(tmp_path)
    with caplog.at_level(logging.DEBUG, logger="vknn"):
        run(path, "numpy", runs=1)
        first = len(caplog.records)
        run(path, "numpy", runs=5)
    assert len(caplog.records) == 2 * first


def test_programs_that_are_closed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.DEBUG, logger="vknn"),
        vknn.Session(write_small_model(tmp_path), device="numpy") as session,
    ):
        for side in range(3, 13):
            session.run({"data": np.ones((3, side, side), np.float32)})
    closed = [r for r in caplog.records if "closing the program" in r.getMessage()]
    assert len(closed) == 2


@pytest.mark.long
def test_without_handlers_nothing_is_written(tmp_path: Path) -> None:
    path = write_small_model(tmp_path)
    program = (
        "import sys, vknn, numpy as np\n"
        "with vknn.Session(sys.argv[1], device='numpy') as s:\n"
        "    s.run({'data': np.ones((3, 8, 8), np.float32)})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == done.stderr == ""
