"""docs/profiles.md is what its tool writes, and its commands are ones that there are."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from vknn.cli.main import _parsed
from vknn.profiling.comparison import ProfileComparison, Row

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_current() -> None:
    command = [sys.executable, str(ROOT / "tools" / "profiles_page.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_its_commands_are_understood(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "profiles.md").read_text(encoding="utf-8")
    commands = re.findall(r"^(?:\$ )?(vknn .*)$", text, re.MULTILINE)
    assert len(commands) >= 5
    for command in commands:
        _parsed(shlex.split(command)[1:])


def test_every_recorded_output_is_shown() -> None:
    recorded = json.loads((ROOT / "tools" / "profiles_page.json").read_text(encoding="utf-8"))
    text = (ROOT / "docs" / "profiles.md").read_text(encoding="utf-8")
    assert all(output in text for output in recorded.values())


def test_the_page_of_files_names_the_fields_of_a_comparison() -> None:
    named = set(re.findall(r"`(\w+)`", (ROOT / "docs" / "files.md").read_text(encoding="utf-8")))
    assert {f.name for kind in (ProfileComparison, Row) for f in fields(kind)} <= named
