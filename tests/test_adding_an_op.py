"""docs/adding-an-op.md, followed to the letter in a copy of the checkout.

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
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "adding-an-op.md"
COPIED = ("src", "shaders", "tests", "tools", "docs", "pyproject.toml")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: "<path>", "<path>: add at the end" or "<path>: add to <name>", as a comment.
HEADER = re.compile(r"(?:#|//) (?P<path>[\w./-]+)(?:: add (?:at the|to) (?P<name>\w+))?")

#: Seconds: in a fresh checkout, all shaders are compiled on the way.
LONGEST = 600
pytestmark = pytest.mark.timeout(LONGEST)

#: Tests that a change which follows the page has to pass, beyond those that it names.
CHECKS = "python -m pytest -q tests/test_families.py tests/test_ncnn_table.py -k 'not page'"
#: Prints the errors that one sees where a step was left out, after B and A.
FORGOTTEN = """
from vknn.lowering.generated.kernel_parameters import KERNELS
from vknn.lowering.kit.parameters import parameters_of
from vknn.runtime.spirv.modules import spirv

def show(make):
    try:
        make()
    except Exception as error:
        print(error)
    print('----')

center, rows = 'normalization/center', dict(rows=1, width=1, chunk=1)
push, constants = KERNELS.pop(center)
show(lambda: parameters_of(center))
KERNELS[center] = push.replace('rows', 'lines'), constants
show(lambda: parameters_of(center).pack(rows))
show(lambda: spirv(center, (('ACCESS', '1'), ('HALF', '2'))))
show(lambda: spirv('elementwise/unary', (('ACCESS', '0'), ('ELEM', '0'))))
"""


@dataclass(frozen=True)
class Block:
    """A fenced block without the line that names the file.

    ``path``: None for commands. ``name``: what of an existing file it is added to ("end": its end).
    """

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
        yield Block(found["path"], found["name"], rest)


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
            "COLUMNS": "160",  # tables are as wide as they need
        }
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=self.root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
        )

    def follow(self, text: str, *, but: str | None = None) -> str:
        """Applies and runs the blocks of a part of the page, but for those that contain ``but``.

        Returns what the commands printed.
        """
        printed = []
        for block in blocks(text):
            if but is not None and but in block.text:
                continue
            if block.path is not None:
                apply(block, self.root)
                continue
            done = self.run(block.text)
            assert done.returncode == 0, f"{block.text}\n{done.stdout}\n{done.stderr}"
            if "vknn verify" in block.text:
                said = re.search(
                    r"^all (\d+) operators agree \((\d+) ran on", done.stdout, re.MULTILINE
                )
                assert said and said[1] == said[2], done.stdout
            printed.append(done.stdout)
        return "".join(printed)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    top = tmp_path_factory.mktemp("adding-an-op")
    root, programs = top / "vknn", top / "bin"
    for name in tracked():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    # Compiled shaders: named by the hash of all that they are made from, so they may be shared.
    compiled = ROOT / ".cache" / "spirv"
    compiled.mkdir(parents=True, exist_ok=True)
    (root / ".cache").mkdir()
    (root / ".cache" / "spirv").symlink_to(compiled)
    programs.mkdir()
    for name, module in (("python", ""), ("vknn", "-m vknn"), ("ruff", "-m ruff")):
        script = programs / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        script.chmod(0o755)
    return Checkout(root, programs)


def tracked() -> list[str]:
    """The files of the checkout, as git or else the folders know them."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *COPIED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0:
        return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]
    paths = [p for name in COPIED for p in [ROOT / name, *(ROOT / name).rglob("*")]]
    return [p.relative_to(ROOT).as_posix() for p in paths if p.is_file()]


# The order matters: B and C write the table of parameters, which needs every shader compiled again
# once A has changed what most of them include; the last test is about all of the examples.


@pytest.mark.device
def test_a_kernel_of_its_own(checkout: Checkout) -> None:
    checkout.follow(section("B."))


@pytest.mark.device
def test_a_new_family(checkout: Checkout) -> None:
    checkout.follow(section("C."))


@pytest.mark.device
def test_an_elementwise_op(checkout: Checkout) -> None:
    printed = checkout.follow(section("A."))
    assert "Conv+ThresholdedRelu" in printed


@pytest.mark.long
def test_the_rest(checkout: Checkout) -> None:
    """Tables, imports and format of what has been added; the tests that hold them."""
    checkout.follow(section("The rest"), but=None if find_spec("ruff") else "ruff")
    done = checkout.run(CHECKS)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.device
def test_what_one_sees(checkout: Checkout) -> None:
    """The messages that the page quotes, after the steps that they are about were undone."""
    if not (checkout.root / "shaders/normalization/center.comp").exists():  # run by itself
        checkout.follow(section("B."))
        checkout.follow(section("A."))
    numbers = "shaders/common/opcode_numbers.glsl"
    shutil.copy(ROOT / numbers, checkout.root / numbers)
    done = checkout.run(f'python -c "{FORGOTTEN}"')
    assert done.returncode == 0, done.stderr
    quoted = [q for q in re.findall(r"`(.+?)`", section("What one sees")) if " " in q]
    patterns = [".*".join(map(re.escape, text.split("..."))) for text in quoted]
    for message in done.stdout.split("----\n")[:-1]:
        assert any(re.search(pattern, message) for pattern in patterns), message


def test_named_tests_exist() -> None:
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text()))
    assert named
    assert {name for name in named if f"def {name}(" not in tests} == set()
