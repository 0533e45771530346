"""docs/verification.md: its commands print what it says, but for numbers; its program runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from tests.helpers import skip_without_half

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import verification_page  # noqa: E402


def words(text: str) -> list[str]:
    """Lines without numbers, rules of tables, and names of devices and of random steps."""
    plain = re.sub(r"on [^\n]*?\(.*?\)", "on DEVICE", text)
    plain = re.sub(r"step \d+ \([a-z ]+\)", "STEP", plain)
    plain = re.sub(r"-?\d[\d.e+-]*|\binf\b|\bnan\b", "#", plain)
    return [re.sub(r"\s+", " ", line) for line in plain.splitlines() if "━" not in line]


@pytest.mark.device
@pytest.mark.slow
def test_the_page_is_current() -> None:
    text = verification_page.PAGE.read_text()
    assert [line for line in words(verification_page.page(text)) if "───" not in line] == [
        line for line in words(text) if "───" not in line
    ]


@pytest.mark.device
def test_the_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without_half()
    monkeypatch.chdir(tmp_path)
    program = ""
    for language, block in verification_page.BLOCK.findall(verification_page.PAGE.read_text()):
        named = re.match(r"# (\w+\.py)\n", block)
        if language == "python" and named:
            Path(named[1]).write_text(block, encoding="utf-8")
        elif language == "python":
            program = block
    exec(Path("networks.py").read_text(encoding="utf-8"), {})
    exec(program, {})
    assert (tmp_path / "found" / "worst.json").exists()
