"""The part of Vulkan's headers that lies in runner/, for builds where they are not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.bundle import build
from tests.bundle.check_program import compiler
from tests.bundle.networks import small

TOOL = build.ROOT / "tools" / "vulkan_header.py"
OWN = build.RUNNER / "headers" / "vulkan" / "vulkan_core.h"


def test_it_is_that_of_the_headers() -> None:
    if build._headers() == OWN.parents[1]:
        pytest.skip("needs Vulkan's headers (Debian: libvulkan-dev)")
    done = subprocess.run(
        [sys.executable, str(TOOL), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.device
def test_a_program_is_built_with_it_alone(tmp_path: Path) -> None:
    sources = [str(build.RUNNER / name) for name in ("main.c", "vknn_run.c")]
    place = f"-I{OWN.parents[1]}"  # which goes before those that are installed
    command = [compiler(), *build.STRICT, "-O1", "-pthread", place, *sources, "-ldl", "-lm"]
    program = tmp_path / "vknn-run"
    made = subprocess.run([*command, "-o", str(program)], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    run = [str(program), str(small(tmp_path).path), "--test"]
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
