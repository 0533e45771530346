"""What tools/test and tools/demo set up, and what they say where they may not."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType

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
    for check in ("has_loader", "has_driver", "has_layer"):
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
    packages = "libvulkan1 mesa-vulkan-drivers glslc vulkan-validationlayers"
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
