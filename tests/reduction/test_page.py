"""The page about reduction is what its tool makes, but for times and versions."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def without_numbers(text: str) -> str:
    """The text without the lines that differ from machine to machine, and without numbers."""
    lines = [line for line in text.splitlines() if not re.match(r" *\| \w+ \| ", line)]
    return re.sub(r"[\d.,]+(e[+-]\d+)?", "#", "\n".join(lines))


@pytest.mark.device
@pytest.mark.slow
def test_the_page_is_current() -> None:
    code = "import sys; sys.path.insert(0, 'tools'); import reduce_page; print(reduce_page.page())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    page = (ROOT / "docs" / "reduce.md").read_text()
    assert without_numbers(done.stdout).strip() == without_numbers(page).strip()
