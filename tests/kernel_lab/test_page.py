"""The page of the kernel lab: its output is that of its commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers import shared_device

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.device
@pytest.mark.slow
def test_the_words_of_the_page() -> None:
    if shared_device().snapshot.driver_name != "llvmpipe":
        pytest.skip("the page was made on llvmpipe")
    command = [sys.executable, str(ROOT / "tools" / "kernel_lab_page.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
