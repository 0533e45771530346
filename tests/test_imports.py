"""The import contract of pyproject.toml holds, and importing vknn stays light."""

from __future__ import annotations

import ast
import re
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


#: Names of other packages that are theirs to keep, and that there is no other way to.
FOREIGN = {
    "_tab",
    "_exit",
    "_ActionsContainer",
    "_at_fork_reinit",
    "_shutdown",
    "_run_exitfuncs",
}


def private_uses(source: str) -> set[str]:
    """Underscored names that a module takes from other modules: imported, or of their objects."""
    tree = ast.parse(source)
    # What a module names itself (methods, attributes of self, constants) is its own.
    own = set(re.findall(r"(?:def |self\.|^|^    |cls\.)(_\w+)", source, re.MULTILINE))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names if re.match(r"_[^_]", alias.name)}
        elif isinstance(node, ast.Attribute) and re.match(r"_[^_]", node.attr):
            inherited = ast.unparse(node.value) in ("self", "cls", "super()")
            found |= set() if inherited or node.attr in own | FOREIGN else {node.attr}
    return found


def test_private_names_stay_in_their_modules() -> None:
    assert private_uses("from a import _b\nc._d(e._f)\nself._g\ndef _d(): ...") == {"_b", "_f"}
    uses = {}
    for path in (ROOT / "src").rglob("*.py"):
        if "generated" not in path.parts and not path.stem.endswith("_pb2"):
            uses[str(path.relative_to(ROOT))] = private_uses(path.read_text())
    assert {name: used for name, used in uses.items() if used} == {}


@pytest.mark.parametrize("heavy", ["PIL", "ncnn", "sklearn", "google.protobuf", "rich"])
def test_importing_vknn_leaves_out(heavy: str) -> None:
    code = f"import sys, vknn; sys.exit({heavy!r} in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
