"""Swept modules on disk: read again as they were, and swept again where they cannot be."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from tests.runtime.test_sweep import SOURCE

from vknn.runtime.spirv import kept_sweeps, modules, sweep
from vknn.runtime.spirv.kept_sweeps import integers_of, kept_sweep
from vknn.runtime.spirv.modules import compile_glsl
from vknn.runtime.spirv.specialize import specialized

pytestmark = pytest.mark.glsl


CONSTANTS = ((7, 1), (8, 0))


@pytest.fixture
def module() -> bytes:
    return compile_glsl(SOURCE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(modules, "cache_folder", lambda: tmp_path)
    return tmp_path / "swept"


@pytest.fixture
def swept_modules(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Those that are swept."""
    found: list[bytes] = []

    def noted(spirv: bytes) -> bytes:
        found.append(spirv)
        return swept(spirv)

    swept = sweep.swept
    monkeypatch.setattr(sweep, "swept", noted)
    return found


def test_once(module: bytes, folder: Path, swept_modules: list[bytes]) -> None:
    first = kept_sweep(module, CONSTANTS)
    assert first == sweep.swept(specialized(module, CONSTANTS)) and len(first) < len(module)
    assert kept_sweep(module, CONSTANTS) == kept_sweep(module, CONSTANTS) == first
    assert len(swept_modules) == 2
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize("damage", [b"", b"x", b"x" * 40])
def test_a_damaged_file(
    damage: bytes, module: bytes, folder: Path, swept_modules: list[bytes]
) -> None:
    first = kept_sweep(module, CONSTANTS)
    [path] = folder.iterdir()
    path.write_bytes(damage or path.read_bytes()[:-1])
    assert kept_sweep(module, CONSTANTS) == first
    assert kept_sweep(module, CONSTANTS) == first  # it was written anew
    assert len(swept_modules) == 2


def test_a_file_of_other_code(
    module: bytes, folder: Path, swept_modules: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_sweep(module, CONSTANTS)
    monkeypatch.setattr(kept_sweeps, "_version", lambda: b"another")
    kept_sweep(module, CONSTANTS)
    assert len(swept_modules) == 2 and len(list(folder.iterdir())) == 2
    monkeypatch.setattr(kept_sweeps, "_version", lambda: None)  # a package without its sources
    kept_sweep(module, CONSTANTS)
    assert len(swept_modules) == 3 and len(list(folder.iterdir())) == 2


def test_a_folder_that_cannot_be_written(
    module: bytes, folder: Path, swept_modules: list[bytes]
) -> None:
    folder.write_bytes(b"no folder")
    assert kept_sweep(module, CONSTANTS) == kept_sweep(module, CONSTANTS)
    assert len(swept_modules) == 2


def test_the_oldest_go(module: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_sweeps, "MOST_KEPT", 4)
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.spv").write_bytes(b"old")
        os.utime(folder / f"{number}.spv", (number, number))
    kept_sweep(module, CONSTANTS)
    left = {path.name for path in folder.iterdir()}
    assert len(left) == 3 and {"2.spv", "3.spv"} < left


def test_the_version_is_that_of_the_code() -> None:
    first = kept_sweeps._version()
    assert first is not None and len(first) == 32 and kept_sweeps._version() == first


def test_other_constants_and_modules(module: bytes, folder: Path) -> None:
    first, second = kept_sweep(module, CONSTANTS), kept_sweep(module, ((7, 2), (8, 0)))
    assert first != second and len(list(folder.iterdir())) == 2
    kept_sweep(compile_glsl(SOURCE.replace("main() {", "main() { int other = 3;")), CONSTANTS)
    assert kept_sweep(module, CONSTANTS) == first


def test_floats_decide_nothing(module: bytes) -> None:
    assert integers_of([(0, 8), (7, True), (9, 0.5), (3, np.float64(2))]) == ((0, 8), (7, 1))
