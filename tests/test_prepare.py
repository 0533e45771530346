"""What tools/test and tools/demo set up, and what they say where they may not."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TOOLS = Path(__file__).resolve().parents[1] / "tools"


@pytest.fixture
def prepare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """tools/prepare.py with its virtual environment in a folder of the test."""
    monkeypatch.syspath_prepend(str(TOOLS))
    monkeypatch.delitem(sys.modules, "prepare", raising=False)
    import prepare

    monkeypatch.setattr(prepare, "VENV", tmp_path)
    monkeypatch.setattr(prepare, "PYTHON", tmp_path / "bin/python")
    return prepare


@pytest.fixture
def commands(prepare: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that would have been run."""
    run: list[list[str]] = []
    monkeypatch.setattr(prepare, "run", lambda c, **options: run.append([str(p) for p in c]))
    return run


def bare_machine(prepare: ModuleType, monkeypatch: pytest.MonkeyPatch, user: int) -> None:
    for check in ("has_loader", "has_driver", "has_layer", "has_compiler", "has_headers"):
        monkeypatch.setattr(prepare, check, lambda: False)
    found = {"apt-get": "/usr/bin/apt-get"}
    monkeypatch.setattr(shutil, "which", lambda name: found.get(name))
    monkeypatch.setattr(os, "geteuid", lambda: user)


def test_a_user_is_told_what_to_install(
    prepare: ModuleType, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    bare_machine(prepare, monkeypatch, user=1000)
    with pytest.raises(SystemExit) as stopped:
        prepare.system_packages(testing=True)
    packages = "libvulkan1 mesa-vulkan-drivers glslc vulkan-validationlayers gcc libc6-dev"
    assert f"sudo apt-get install {packages}" in str(stopped.value)
    assert commands == []


def test_root_installs_what_is_missing(
    prepare: ModuleType, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    bare_machine(prepare, monkeypatch, user=0)
    prepare.system_packages(testing=False)
    assert commands[0] == ["apt-get", "update"]
    assert commands[1][-3:] == ["libvulkan1", "mesa-vulkan-drivers", "glslc"]


def test_nothing_is_done_twice(prepare: ModuleType, commands: list[list[str]]) -> None:
    prepare.virtual_environment(["dev"])
    assert [c[2] for c in commands] == ["venv", "pip"]
    commands.clear()
    prepare.virtual_environment(["dev"])
    prepare.virtual_environment(["image"])
    assert commands == []


def test_what_an_extra_brings_along_is_known(prepare: ModuleType) -> None:
    """INCLUDED says the same as pyproject.toml, where extras name others."""
    tomllib = pytest.importorskip("tomllib", reason="Python 3.11 or newer reads TOML")
    project = tomllib.loads((TOOLS.parent / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]

    def included(extra: str) -> set[str]:
        named = [re.match(r"vknn\[(.*)\]", requirement) for requirement in extras[extra]]
        direct = {name for match in named if match for name in match[1].split(",")}
        return direct.union(*(included(name) for name in direct))

    assert {e: included(e) for e in extras if included(e)} == prepare.INCLUDED


def test_a_changed_project_is_installed_anew(
    prepare: ModuleType, commands: list[list[str]], tmp_path: Path
) -> None:
    prepare.virtual_environment(["image"])
    stamp = tmp_path / "prepared.json"
    stamp.write_text(json.dumps({**json.loads(stamp.read_text()), "project": "another"}))
    commands.clear()
    prepare.virtual_environment(["image"])
    assert commands[-1][-1].endswith("[image]")


def test_more_extras_are_added(prepare: ModuleType, commands: list[list[str]]) -> None:
    prepare.virtual_environment(["image"])
    prepare.virtual_environment(["test"])
    assert commands[-1][-1].endswith("[image,test]")


@pytest.fixture
def tool(prepare: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Any:
    """tool(*arguments): what tools/test prepares, and each stage's command and environment."""

    def called(*arguments: str, broken: str = "") -> tuple[int, list[str], dict[str, Any]]:
        prepared: list[str] = []
        stages: dict[str, Any] = {}
        done = {
            "system_packages": lambda *, testing: prepared.append("packages"),
            "virtual_environment": lambda extras: prepared.append(f"environment {extras}"),
        }
        for name, call in done.items():
            monkeypatch.setattr(prepare, name, call)
        monkeypatch.setattr(sys, "argv", ["test", *arguments])
        main = runpy.run_path(str(TOOLS / "test"))["main"]
        main.__globals__["stage"] = lambda name, command, environment, driver: (
            stages.update({name: (command, environment)}) or name != broken
        )
        return main(), prepared, stages

    return called


def test_the_whole_suite_must_find_a_device(tool: Any) -> None:
    code, prepared, stages = tool("-k", "name")
    assert code == 0
    assert prepared == ["packages", "environment ['dev']"]
    assert list(stages) == [
        "ruff",
        "format",
        "mypy",
        "mypy of the examples",
        "imports",
        "docs",
        "pytest",
    ]
    command, environment = stages["pytest"]
    assert command[0] == "pytest"
    assert command[-2:] == ["-k", "name"]
    assert "-m" not in command
    assert environment["VKNN_TEST_REQUIRE_DEVICE"] == "1"


def test_quick_prepares_python_only_and_hides_devices(tool: Any) -> None:
    code, prepared, stages = tool("--quick", "-x")
    assert code == 0
    assert prepared == ["environment ['dev']"]
    assert list(stages) == ["ruff", "format", "imports", "pytest"]
    command, environment = stages["pytest"]
    assert command[command.index("-m") + 1] == "not (device or glsl or slow or long)"
    assert command[-1] == "-x"
    assert environment["VKNN_TEST_REQUIRE_DEVICE"] == "0"
    assert not Path(environment["VK_DRIVER_FILES"]).exists()
    assert environment["VK_ICD_FILENAMES"] == environment["VK_DRIVER_FILES"]


def test_slow_tests_are_not_quick(tool: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--quick", "--slow"], ["--quick", "--driver", "swiftshader"]):
        with pytest.raises(SystemExit):
            tool(*arguments)
        assert "--quick" in capsys.readouterr().err
    assert "--slow" in tool("--slow")[2]["pytest"][0]


@pytest.mark.parametrize("name", ["ruff", "pytest"])
def test_a_stage_that_fails_is_told(
    tool: Any, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    code, _, stages = tool("--quick", broken=name)
    assert code == 1
    assert f"FAILED: {name}" in capsys.readouterr().out
    assert "pytest" in stages


MARKED = """
import pytest
from tests.helpers import shared_device

@pytest.mark.device
def test_on_a_device(): pass

@pytest.mark.glsl
def test_with_a_compiler(): pass

def test_that_opens_a_device(): shared_device()

def test_on_the_host(): pass
"""


@pytest.mark.long
@pytest.mark.parametrize(("required", "outcome"), [("", "1 passed, 3 skipped"), ("1", "2 errors")])
def test_without_device_and_compiler(tmp_path: Path, required: str, outcome: str) -> None:
    """Skips with a reason; errors where the machine has been prepared for all of the tests."""
    (tmp_path / "test_marked.py").write_text(MARKED)
    (tmp_path / "conftest.py").write_text(
        "from vknn.runtime.spirv import shaderc\n"
        "shaderc._LIBRARIES = ()\n"
        "from tests.conftest import pytest_runtest_setup\n"
    )
    options = [
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-rsfE",
        "-W",
        "ignore",
        "--import-mode=importlib",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-c", os.devnull, f"--rootdir={tmp_path}", "."],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(str(TOOLS.parent / p) for p in ("src", ".", "tests")),
            "PATH": str(tmp_path),
            "VK_DRIVER_FILES": str(tmp_path / "none"),
            "VK_ICD_FILENAMES": str(tmp_path / "none"),
            "VKNN_TEST_REQUIRE_DEVICE": required,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome in done.stdout, done.stdout + done.stderr
    assert "needs a Vulkan device: " in done.stdout
    assert "needs a GLSL compiler: " in done.stdout
