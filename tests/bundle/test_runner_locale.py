"""Numbers that the runner writes: the same, JSON above all, whatever locale an app has set."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.bundle import build
from tests.bundle.rebuilt import digits_with_example

pytestmark = pytest.mark.device


def made(language: str, folder: Path) -> Path:
    """A folder with a locale; skips the test where it cannot be made."""
    if shutil.which("localedef") is None:
        pytest.skip("needs localedef (Debian: libc-bin)")
    target = folder / f"{language}.UTF-8"
    done = subprocess.run(
        ["localedef", "--no-archive", "-i", language, "-f", "UTF-8", str(target)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if not (target / "LC_NUMERIC").exists():
        pytest.skip(f"localedef makes no {language} (Debian: locales): {done.stderr[:200]}")
    return folder


# The decimal point of Pashto has two bytes.
@pytest.mark.parametrize(("language", "point"), [("de_DE", ","), ("ps_AF", "\u066b")])
def test_numbers_have_a_point(tmp_path: Path, language: str, point: str) -> None:
    net = digits_with_example(tmp_path)
    script = Path(__file__).with_name("locale_run.py")
    command = [sys.executable, str(script), f"{language}.UTF-8", str(build.library()), str(net)]
    env = {
        **os.environ, "PYTHONPATH": f"{build.ROOT}/src:{build.ROOT}", "PYTHONUTF8": "1",
        "LOCPATH": str(made(language, tmp_path)), "VKNN_VALIDATE": "0",
    }  # fmt: skip
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr[-3000:]
    texts: dict[str, Any] = json.loads(done.stdout)
    assert texts.pop("point") == point
    for text in texts.values():
        assert not re.search(rf": \d+{point}\d| \d+{point}\d+ s ", text), text
    [row] = json.loads(texts["json"])["outputs"]
    assert (row["absolute"], row["relative"]) == (1e-6, 1e-4)
    profile = json.loads(texts["profile"])
    assert profile["steps"]
    assert profile["microseconds"] > 0
    assert re.search(r'"microseconds": \d+\.\d+[,}]', texts["profile"])
    assert "allowed: 1e-06 + 0.0001 of the value" in texts["test"]
    assert not texts["late"] or "within 1.5e-06 s" in texts["late"]
