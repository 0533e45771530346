"""Swept modules on disk: read again as they were, and swept again where they cannot be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.runtime.test_sweep import SOURCE

from vknn.runtime.spirv import kept_sweeps, modules, sweep
from vknn.runtime.spirv.kept_sweeps import kept_sweep
from vknn.runtime.spirv.modules import compile_glsl
from vknn.runtime.spirv.specialize import specialized

pytestmark = pytest.mark.glsl


@pytest.fixture
def folded() -> bytes:
    return specialized(compile_glsl(SOURCE), [(7, 1), (8, False)])


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


def test_once(folded: bytes, folder: Path, swept_modules: list[bytes]) -> None:
    first = kept_sweep(folded)
    assert len(first) < len(folded)
    assert kept_sweep(folded) == kept_sweep(folded) == first
    assert swept_modules == [folded]
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize("damage", [b"", b"x", b"x" * 40])
def test_a_damaged_file(
    damage: bytes, folded: bytes, folder: Path, swept_modules: list[bytes]
) -> None:
    first = kept_sweep(folded)
    [path] = folder.iterdir()
    path.write_bytes(damage or path.read_bytes()[:-1])
    assert kept_sweep(folded) == first
    assert kept_sweep(folded) == first  # it was written anew
    assert len(swept_modules) == 2


def test_a_file_of_other_code(
    folded: bytes, folder: Path, swept_modules: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_sweep(folded)
    monkeypatch.setattr(kept_sweeps, "_version", lambda: b"another")
    kept_sweep(folded)
    assert len(swept_modules) == 2 and len(list(folder.iterdir())) == 2
    monkeypatch.setattr(kept_sweeps, "_version", lambda: None)  # a package without its sources
    kept_sweep(folded)
    assert len(swept_modules) == 3 and len(list(folder.iterdir())) == 2


def test_a_folder_that_cannot_be_written(
    folded: bytes, folder: Path, swept_modules: list[bytes]
) -> None:
    folder.write_bytes(b"no folder")
    assert kept_sweep(folded) == kept_sweep(folded)
    assert len(swept_modules) == 2


def test_the_oldest_go(folded: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_sweeps, "MOST_KEPT", 4)
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.spv").write_bytes(b"old")
        os.utime(folder / f"{number}.spv", (number, number))
    kept_sweep(folded)
    left = {path.name for path in folder.iterdir()}
    assert len(left) == 3 and {"2.spv", "3.spv"} < left


def test_the_version_is_that_of_the_code() -> None:
    first = kept_sweeps._version()
    assert first is not None and len(first) == 32 and kept_sweeps._version() == first
