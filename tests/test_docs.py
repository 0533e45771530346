"""The documentation is true: its code runs, its generated pages are current, its links lead on."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import vknn
from vknn.cli.main import COMMANDS, FAILED, INTERNAL_ERROR, STOPPED, USER_ERROR
from vknn.profiling import bench
from vknn.tuning import TuneReport, TuneRow

ROOT = Path(__file__).resolve().parents[1]
TOP = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
PAGES = [*(ROOT / name for name in TOP), *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: As FENCE, in lists too.
BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)


def blocks(page: Path, language: str) -> list[str]:
    return [m[2] for m in FENCE.finditer(page.read_text(encoding="utf-8")) if m[1] == language]


LAYER_EXAMPLE = """
import numpy as np, pathlib, vknn
folder = pathlib.Path({folder!r})
(folder / "net.param").write_text(
    "7767517\\n2 2\\nInput i 0 1 data\\nSwitch s 1 1 data y 0=3 1=0.5\\n"
)
(folder / "net.bin").write_bytes(np.array([1, 2, 3], np.float32).tobytes())
image = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)
{code}
report = vknn.verify("net.param", {{"data": image}})
assert report.ok and {{row.placement for row in report.rows}} == {{"vulkan"}}, report
assert outputs["y"].shape == image.shape
"""


@pytest.mark.device
def test_the_layer_of_ones_own_runs(tmp_path: Path) -> None:
    code = "\n".join(blocks(ROOT / "docs" / "custom-layers.md", "python"))
    done = subprocess.run(
        [sys.executable, "-c", LAYER_EXAMPLE.format(folder=str(tmp_path), code=code)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/src"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_readmes_snippet_runs() -> None:
    (snippet,) = blocks(ROOT / "README.md", "python")
    done = subprocess.run(
        [sys.executable, "-c", snippet],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/src"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    label = np.load(ROOT / "tools/demo_model/held_out.npz")["labels"][0]
    assert done.stdout.splitlines()[-1] == str(label)


TUTORIALS = [
    ROOT / "docs" / "quickstart.md",
    *(p for p in sorted((ROOT / "docs" / "tutorials").glob("*.md"))),
]


def commands(block: str) -> Iterator[tuple[str, int]]:
    """The command lines of a block of shell and the exit codes stated behind them."""
    for line in block.splitlines():
        command, _, code = line.partition("  # exits with ")
        yield command, int(code or 0)


def run_in(folder: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs a command as a reader would whose checkout has nothing but the demo model in it."""
    scripts = folder / "bin"
    path = f"{scripts}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONPATH": f"{ROOT}/src"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.device
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda p: p.stem)
def test_the_tutorial_runs(page: Path, tmp_path: Path) -> None:
    """Its blocks in their order: Python whose first line names a file becomes that file, lines of
    shell are run, and all other Python is one program, which runs at the end."""
    shutil.copytree(ROOT / "tools" / "demo_model", tmp_path / "tools" / "demo_model")
    scripts = tmp_path / "bin"
    scripts.mkdir()
    for name, arguments in {"python": "", "vknn": "-m vknn "}.items():
        script = scripts / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments}"$@"\n')
        script.chmod(0o755)
    program = []
    for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
        language, text = match["language"], textwrap.dedent(match["text"])
        if language == "python":
            named = re.match(r"# (\w+\.py)\n", text)
            if named:
                (tmp_path / named[1]).write_text(text)
            else:
                program.append(text)
        elif language == "sh":
            for command, code in commands(text):
                done = run_in(tmp_path, ["sh", "-c", command])
                assert done.returncode == code, (command, done.stdout, done.stderr)
    if program:
        (tmp_path / "program.py").write_text("\n".join(program))
        done = run_in(tmp_path, [sys.executable, "program.py"])
        assert done.returncode == 0, done.stderr


def test_the_api_pages_hold_every_public_name() -> None:
    text = "\n".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.md"))
    documented = set(
        re.findall(r"^\.\. auto(?!mod)\w+:: vknn\.(\w+)(?:\(\))?$", text, re.MULTILINE)
    )
    assert documented == set(vknn.__all__)


def test_the_page_of_files_holds_every_field() -> None:
    """Whatever the reports write as JSON for the demo model is named on the page."""
    model = ROOT / "tools" / "demo_model" / "digits.param"
    with vknn.Session(model, device="numpy") as session:
        reports = [vknn.verify(session), vknn.profile(session, runs=1)]
    reports.append(bench(model, device="numpy", runs=1))
    row = TuneRow("", ("x",), "", "", {}, {}, None, "")
    reports.append(TuneReport("", "", "", (row,)))
    named = set(re.findall(r"`(\w+)`", (ROOT / "docs" / "files.md").read_text()))
    for report in reports:
        document = json.loads(report.to_json())
        lists = [part for part in document.values() if isinstance(part, list)]
        rows = [row for part in lists for row in part]
        rows += [row["cumulative"] for row in rows if "cumulative" in row]
        assert {*document, *(key for row in rows for key in row)} <= named, type(report)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_and_paths_exist(page: Path) -> None:
    """Relative links, and paths in code marks that start like one of ours."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    found = re.findall(r"\]\(([^)#]+)", text)
    links = [link for link in found if "://" not in link]
    missing = [link for link in links if not (page.parent / link).exists()]
    named = re.findall(r"`((?:src|shaders|tools|docs|tests)/[\w./-]+)`", text)
    missing += [n for n in named if not (ROOT / n).exists()]
    assert missing == []


def test_the_page_of_the_command_line_has_every_command_and_exit_code() -> None:
    text = (ROOT / "docs" / "command-line.md").read_text()
    assert set(re.findall(r"^\| `vknn ([\w-]+)", text, re.MULTILINE)) == set(COMMANDS)
    codes = {0, FAILED, USER_ERROR, INTERNAL_ERROR, STOPPED}
    assert set(map(int, re.findall(r"^\| (\d+) \|", text, re.MULTILINE))) == codes
    options = set(re.findall(r"`(--[a-z-]+)", text))
    for command in COMMANDS:
        parser = argparse.ArgumentParser()
        importlib.import_module(f"vknn.cli.{command.replace('-', '_')}").add(parser)
        options -= set(parser._option_string_actions)
    assert not options, "options that no command has"
