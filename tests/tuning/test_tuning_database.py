"""The tuning database: what is damaged is not used, and does not stay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vknn.errors import VknnError
from vknn.runtime.snapshot import Snapshot
from vknn.runtime.tuning_database import TuningEntry, database_file, load, store, tuning_choices

ENTRIES = {
    "Conv | c4 -> c4": TuningEntry("fast", 12.5, {"fast": 12.5, "slow": 80, "bad": "failed"})
}


def document(**changes: Any) -> bytes:
    entry = {"candidate": "fast", "microseconds": 1.5, "tried": {"fast": 1.5}}
    whole = {"format": "vknn tuning", "version": 1, "entries": {"key": {**entry, **changes}}}
    return json.dumps(whole).encode()


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "database.json"
    store(path, ENTRIES)
    assert load(path) == ENTRIES
    assert [p.name for p in path.parent.iterdir()] == ["database.json"]


def test_new_entries_join_the_old_ones(tmp_path: Path) -> None:
    path = tmp_path / "database.json"
    store(path, ENTRIES)
    other = {"other": TuningEntry("one", 1.0, {})}
    store(path, other)
    again = {"other": TuningEntry("two", 2.0, {"two": 2.0})}
    store(path, again)
    assert load(path) == {**ENTRIES, **again}


def test_absent_is_empty(tmp_path: Path) -> None:
    assert load(tmp_path / "none") == {}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff\x00",
        b"[]",
        b"{",
        b"[" * 100_000,
        document()[:-3],
        b'{"format": "vknn tuning", "version": 2, "entries": {}}',
        b'{"format": "other", "version": 1, "entries": {}}',
        b'{"format": "vknn tuning", "version": 1}',
        document(candidate=3),
        document(microseconds=-1),
        document(microseconds=True),
        document(microseconds=float("nan")),
        document(microseconds=float("inf")),
        document(tried={"fast": "slow"}),
        document(tried=[]),
        document(more=1),
    ],
)
def test_a_damaged_file_is_ignored_with_a_warning_and_replaced(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "database.json"
    path.write_bytes(raw)
    with pytest.warns(RuntimeWarning, match=r"database\.json is damaged"):
        assert load(path) == {}
    store(path, ENTRIES)
    assert load(path) == ENTRIES


def test_what_is_not_damaged_is_read(tmp_path: Path) -> None:
    path = tmp_path / "database.json"
    path.write_bytes(document())
    assert load(path) == {"key": TuningEntry("fast", 1.5, {"fast": 1.5})}


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(VknnError, match="VKNN_CACHE_DIR"):
        store(tmp_path / "file" / "database.json", ENTRIES)


def test_another_driver_has_another_database(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("VKNN_CACHE_DIR", str(tmp_path))
    one, other = Snapshot(driver_version=1), Snapshot(driver_version=2)
    store(database_file(tmp_path, one), ENTRIES)
    assert tuning_choices(one) == {"Conv | c4 -> c4": "fast"}
    assert tuning_choices(other) == {}
