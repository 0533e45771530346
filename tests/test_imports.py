"""The import contract of pyproject.toml holds, and importing vknn stays light."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.long  # tools/test --quick has a stage for it
def test_imports_go_down_only() -> None:
    pytest.importorskip("importlinter")
    code = "from importlinter.cli import lint_imports; import sys; sys.exit(lint_imports())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_modules_are_small() -> None:
    """No module over 400 lines: it would be doing two things."""
    sources = [p for p in (ROOT / "src").rglob("*.py") if "generated" not in p.parts]
    sizes = {p.relative_to(ROOT): len(p.read_text().splitlines()) for p in sources}
    assert {p: n for p, n in sizes.items() if n > 400 and not p.stem.endswith("_pb2")} == {}


@pytest.mark.parametrize("heavy", ["PIL", "ncnn", "sklearn", "google.protobuf", "rich"])
def test_importing_vknn_leaves_out(heavy: str) -> None:
    code = f"import sys, vknn; sys.exit({heavy!r} in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
