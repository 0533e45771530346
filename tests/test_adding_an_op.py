"""docs/adding-an-op.md is followed to the letter in a copy of the checkout, for each of its examples.

Each code block is applied to the file that its first line names, each shell block is run.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "adding-an-op.md"
COPIED = ("src", "shaders", "tests", "tools", "docs", "pyproject.toml")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADER = re.compile(r"(?:#|//) (?P<path>[\w./-]+)(?:: add (?:at the (?P<end>end)|to (?P<name>\w+)))?")


@dataclass(frozen=True)
class Block:
    """A fenced block; ``text`` is without the line that names the file."""

    path: str | None
    name: str | None
    text: str


def section(letter: str) -> str:
    """The part of the page from a heading to the next one of the same level."""
    parts = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    (found,) = (part for part in parts if part.startswith(letter))
    return found


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a section in order; those without a path are commands."""
    for language, body in FENCE.findall(text):
        if language == "sh":
            yield Block(None, None, body)
            continue
        header, rest = body.split("\n", 1)
        found = HEADER.fullmatch(header)
        assert found, f"no file is named in {header!r}"
        yield Block(found["path"], found["name"] or found["end"], rest)


def apply(block: Block, root: Path) -> None:
    """Writes a block into its file."""
    assert block.path is not None
    path = root / block.path
    if block.name is None:
        assert not path.exists(), f"{block.path} is there already"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)
        return
    old = path.read_text()
    imports, added = ("", block.text)
    if path.suffix == ".py":
        imports, added = parted(block.text)
    if block.name == "end":
        new = f"{old}\n\n{added}"
    elif path.suffix == ".py":
        line = last_line(old, block.name)
        new = with_lines(old, line, added)
    else:
        start = old.index(f"#define {block.name}(")
        line = old.count("\n", 0, old.index("    }\n", start))
        new = with_lines(old, line, added)
    if imports:
        new = with_lines(new, first_import(new), imports)
    path.write_text(new)


def parted(text: str) -> tuple[str, str]:
    """The imports at the top of a block, and the rest."""
    lines = text.splitlines(keepends=True)
    count = sum(1 for line in lines if line.startswith("from "))
    assert all(line.startswith("from ") for line in lines[:count])
    return "".join(lines[:count]), "".join(lines[count:]).lstrip("\n")


def with_lines(text: str, number: int, added: str) -> str:
    """``added`` before line ``number``, counted from 0."""
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:number], added, *lines[number:]])


def last_line(text: str, name: str) -> int:
    """Where a Python function called ``name`` ends, or the line that closes the value of a name."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            assert node.end_lineno is not None
            return node.end_lineno
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(t, ast.Name) and t.id == name for t in targets):
            assert node.end_lineno is not None
            return node.end_lineno - 1
    raise AssertionError(f"there is no {name} to add to")


def first_import(text: str) -> int:
    """The line of the first import that is not from ``__future__``."""
    return next(
        node.lineno - 1
        for node in ast.parse(text).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        and getattr(node, "module", "") != "__future__"
    )


@dataclass(frozen=True)
class Checkout:
    """A copy of the checkout, and a folder with the programs that the page calls."""

    root: Path
    programs: Path

    def run(self, commands: str) -> subprocess.CompletedProcess[str]:
        """Runs shell commands in the copy."""
        paths = [str(self.root / "src"), str(self.root)]
        environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(self.programs), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=self.root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    def follow(self, text: str, *, but: str = "") -> None:
        """Applies and runs the blocks of a part of the page, but for commands with ``but``."""
        for block in blocks(text):
            if block.path is not None:
                apply(block, self.root)
            elif not but or but not in block.text:
                done = self.run(block.text)
                assert done.returncode == 0, f"{block.text}\n{done.stdout}\n{done.stderr}"


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    root, programs = tmp_path / "vknn", tmp_path / "bin"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "_spirv")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, root / name)
    compiled = ROOT / ".cache" / "spirv"
    if compiled.is_dir():  # names are hashes of what modules are made from
        shutil.copytree(compiled, root / ".cache" / "spirv", copy_function=_linked)
    programs.mkdir()
    for name, module in (("python", ""), ("vknn", "-m vknn"), ("ruff", "-m ruff")):
        script = programs / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        script.chmod(0o755)
    return Checkout(root, programs)


def _linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)


@pytest.mark.device
@pytest.mark.parametrize("letter", ["A.", "B.", "C."])
def test_example(letter: str, checkout: Checkout) -> None:
    checkout.follow(section(letter))
