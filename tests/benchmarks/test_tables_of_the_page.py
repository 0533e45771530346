"""Tables of docs/gpu.md are what the scripts that write them make of the results that are kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEVICES = ("navi21", "navi31", "nv172", "a740", "m1", "raven")


@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        ("reach", []),
        ("choices", [*DEVICES, "--read"]),
        ("modelled", ["navi21", "--precision", "fp32", "--read"]),
    ],
)
def test_the_page_has_what_is_kept(script: str, arguments: list[str]) -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / f"{script}.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    page = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8").splitlines()
    made = [line for line in done.stdout.splitlines() if line]
    stale = sorted(set(made) - set(page))
    assert len(made) > 10 and stale == [], f"{script}.py --update-docs writes them"
