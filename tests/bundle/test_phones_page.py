"""docs/phones.md is true: its commands and its C program run, its options and calls exist."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.bundle import build, check_program
from tests.bundle.rebuilt import DIGITS, digits, rebuilt, with_example

import vknn
from vknn.bundle import Bundle, native, schema
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


def commands(heading: str) -> list[str]:
    """The lines of the first indented block below a heading."""
    text = PAGE.partition(f"\n## {heading}\n")[2]
    [block] = re.findall(r"(?:^    .*\n)+", text, re.MULTILINE)[:1]
    return [line.strip() for line in block.splitlines()]


def arrays(folder: Path) -> None:
    """The page's network by the page's names: net.vkb from data to prob, and cat.npy."""
    bundle = Bundle.of(digits("generic"))
    with vknn.Session(DIGITS, device="cpu") as session:
        image = np.zeros((1, 8, 8), np.float32)
        answer = session.run({"image": image})["probabilities"]
    [port] = bundle.plans[0].inputs
    inputs = {"image": image.reshape(port.shape)}
    whole = Bundle.of(with_example(bundle, inputs, {"probabilities": answer}))
    strings = whole.sections["strings"].tobytes()
    ports = whole.tables[schema.PORT].copy()
    ports["name"] = [len(strings) + (5 if row["direction"] else 0) for row in ports]
    changed = {"strings": strings + b"data\0prob\0", "port": ports.tobytes()}
    (folder / "net.vkb").write_bytes(rebuilt(whole, changed))
    np.save(folder / "cat.npy", inputs["image"])


def shell(line: str, folder: Path, path: Path | None = None) -> str:
    """What a line of the page prints, run in a folder; ``path``: where its programs are."""
    places = f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"]
    env = {**os.environ, "PATH": places, "NDK": str(folder / "ndk")}
    done = subprocess.run(
        ["bash", "-e", "-c", line], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.slow
@pytest.mark.device
def test_the_program_is_built_and_used_as_it_says(tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("needs cmake (Debian: apt install cmake)")
    (tmp_path / "runner").symlink_to(build.RUNNER)
    arrays(tmp_path)
    made, *uses = commands("The program")
    assert made.startswith("cmake ") and len(uses) == 4
    shell(made, tmp_path)
    told = [shell(line, tmp_path) for line in uses]
    assert np.load(tmp_path / "prob.npy").size == 10
    assert told[1].startswith("prob: 0 of 10") and json.loads(told[2])["ok"]
    assert json.loads((tmp_path / "run.json").read_text())["runs"] == 20


#: In place of Android's: files go to a folder, commands are run there.
ADB = """#!/bin/sh
set -e
case "$1" in
push) shift; for last; do :; done; while [ $# -gt 1 ]; do cp "$1" phone/; shift; done ;;
shell) shift; sh -c "$(echo "$*" | sed "s,/data/local/tmp,$PWD/phone,g")" ;;
pull) cp "phone/$(basename "$2")" . ;;
esac
"""


@pytest.mark.device
def test_five_lines_of_adb(tmp_path: Path) -> None:
    (tmp_path / "phone").mkdir()
    (tmp_path / "runner").symlink_to(build.RUNNER)
    arrays(tmp_path)
    lines = commands("Five lines of adb")
    assert len(lines) == 5
    clang = tmp_path / lines[0].split()[0].replace("$NDK", "ndk")
    clang.parent.mkdir(parents=True)
    found = check_program.compiler()
    clang.write_text(f'#!/bin/sh\nexec {found} -pthread -I{build._headers()} "$@"\n')
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "adb").write_text(ADB)
    for program in (clang, tmp_path / "bin" / "adb"):
        program.chmod(0o755)
    for line in lines:
        shell(line, tmp_path, tmp_path / "bin")
    answer = (tmp_path / "answer.txt").read_text()
    assert '"ok": true' in answer and "status 0" in answer
    assert json.loads((tmp_path / "run.json").read_text())["runs"] == 10


@pytest.mark.parametrize("name", ["vknn_run.h", "vknn_run.hpp"])
def test_the_headers_begin_with_a_program(tmp_path: Path, name: str) -> None:
    lines = (build.RUNNER / name).read_text().partition("*/")[0].splitlines()
    code = [line[7:] for line in lines if line.startswith(" *     ")]
    assert len(code) > 3
    declared = "float pixels[4] = {0}, scores[4];" if name.endswith(".h") else (
        "std::vector<float> pixels(4);"
    )  # fmt: skip
    text = [f'#include "{name}"', "#include <stdio.h>", "void use(void);", "void use(void) {"]
    source = tmp_path / ("use.c" if name.endswith(".h") else "use.cpp")
    source.write_text("\n".join([*text, declared, *code, "(void)scores;", "}"]) + "\n")
    compiler = shutil.which("gcc" if name.endswith(".h") else "g++")
    if compiler is None:
        pytest.skip("needs gcc and g++")
    command = [
        compiler,
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fsyntax-only",
        f"-I{build.RUNNER}",
        source,
    ]
    subprocess.run(command, check=True)


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
