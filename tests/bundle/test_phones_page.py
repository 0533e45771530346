"""docs/phones.md is true: its commands and its C program run, its options and calls exist."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.bundle import build
from tests.bundle.rebuilt import DIGITS

import vknn
from vknn.bundle import native
from vknn.cli.main import main

PAGE = (build.ROOT / "docs" / "phones.md").read_text()


def block(language: str) -> str:
    [text] = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(text)


def test_it_says_first_what_was_not_seen() -> None:
    first = PAGE.split("\n\n")[1]
    assert first.startswith("**Android and iOS are untested.**") and "--test" in first


@pytest.mark.device
def test_its_commands_and_its_program_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(DIGITS.parent, tmp_path / "tools" / "demo_model")
    monkeypatch.chdir(tmp_path)
    # vknn-run compiled there has a test of its own.
    monkeypatch.setattr(native, "missing_compiler", lambda: "not here")
    for line in block("sh").splitlines():
        command, *arguments = line.split()
        assert command == "vknn" and main(arguments) == 0, line
    (tmp_path / "page.c").write_text(block("c"))
    program = build.program(tmp_path / "page.c")
    done = subprocess.run([program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    image = np.zeros((1, 8, 8), np.float32)
    image[0, :, 4] = 1
    with vknn.Session(DIGITS, device="cpu") as session:
        best = session.run({"image": image})["probabilities"].argmax()
    assert done.stdout == f"{best}\n"


def test_options_and_calls_that_it_names_exist() -> None:
    usage = (build.RUNNER / "main.c").read_text()
    lines = [line for line in PAGE.splitlines() if "vknn-run" in line and "vknn bundle" not in line]
    options = set(re.findall(r"(--[a-z0-9-]+)", "\n".join(lines))) - {"--trace", "--build"}
    assert options and options <= set(re.findall(r'"(--[a-z0-9-]+)"', usage)), options
    java = (build.RUNNER / "android" / "vknn" / "Net.java").read_text()
    for name in re.findall(r"(?:net|Net)\.(\w+)\(", block("kotlin")):
        assert re.search(rf"\b(?:public|static)[\w\[\]. ]* {name}\(", java) or name == "Options", (
            name
        )
    swift = (build.RUNNER / "swift" / "Vknn" / "Net.swift").read_text()
    for name in re.findall(r"net\.(\w+)\(", block("swift")):
        assert f"public func {name}" in swift, name


def test_targets_that_it_names_exist() -> None:
    section = PAGE.partition("### Which target")[2].partition("##")[0]
    named = set(re.findall(r"`([a-z0-9]+(?:-[0-9a-z]+)?)`", section))
    assert named and named <= set(vknn.bundle.TARGETS), named - set(vknn.bundle.TARGETS)
