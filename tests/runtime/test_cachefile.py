"""The pipeline cache's file: what is damaged is not used."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from vknn.runtime import cachefile
from vknn.runtime.snapshot import Snapshot

DATA = bytes(range(256)) * 3


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "cache.bin"
    cachefile.write(path, DATA)
    assert cachefile.read(path) == DATA
    assert [p.name for p in path.parent.iterdir()] == ["cache.bin"]


def test_absent_is_empty(tmp_path: Path) -> None:
    assert cachefile.read(tmp_path / "none") == b""


@pytest.mark.parametrize("cut", [0, 1, 47, 48, 49, 500])
def test_truncated_is_rejected(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "cache"
    path.write_bytes(cachefile.pack(DATA)[:cut])
    assert cachefile.read(path) == b""


@pytest.mark.parametrize("place", [0, 7, 8, 20, 48, 300, -1])
def test_a_flipped_bit_is_rejected(tmp_path: Path, place: int) -> None:
    raw = bytearray(cachefile.pack(DATA))
    raw[place] ^= 1
    path = tmp_path / "cache"
    path.write_bytes(raw)
    assert cachefile.read(path) == b""


def test_appended_bytes_are_rejected() -> None:
    assert cachefile.unpack(cachefile.pack(DATA) + b"x") is None


def test_an_unwritable_folder_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cachefile.write(tmp_path / "file" / "cache", DATA)


@pytest.mark.parametrize(
    "change", [{"driver_version": 2}, {"uuid": b"x" * 16}, {"driver_info": "other"}]
)
def test_another_driver_has_another_file(change: dict[str, object]) -> None:
    base = Snapshot()
    other = dataclasses.replace(base, **change)  # type: ignore[arg-type]
    folder = Path("cache")
    assert cachefile.cache_file(folder, base) == cachefile.cache_file(folder, Snapshot())
    assert cachefile.cache_file(folder, base) != cachefile.cache_file(folder, other)
