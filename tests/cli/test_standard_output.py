"""Standard output that takes nothing: a full disk, a reader that went away."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest
from tests.small_model import write_small_model

pytestmark = [
    pytest.mark.long,
    pytest.mark.parametrize("more", [(), ("--json",)], ids=["table", "json"]),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_model(tmp_path_factory.mktemp("model"))


def info(model: Path, more: tuple[str, ...], out: int | IO[str]) -> tuple[int, str]:
    """Exit code and standard error of `vknn info` that writes to ``out``."""
    command = [sys.executable, "-m", "vknn", "info", model, "--device", "numpy", *more]
    done = subprocess.run(
        command, stdout=out, stderr=subprocess.PIPE, text=True, timeout=100, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk(more: tuple[str, ...], model: Path) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        found = info(model, more, full)
    assert found == (2, "vknn: error: standard output: No space left on device\n")


def test_a_reader_that_went_away(more: tuple[str, ...], model: Path) -> None:
    """As with `vknn info MODEL | head -1`: no check failed, and nothing is said."""
    read, written = os.pipe()
    os.close(read)
    try:
        found = info(model, more, written)
    finally:
        os.close(written)
    assert found == (2, "")
