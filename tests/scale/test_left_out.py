"""Records of archives and arrays that have rows already: readers on Ray leave them out."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("PIL")
from tests.scale.jobs import png

from scale import ray_jobs
from scale.ray_jobs import LLVMPIPE
from vknn import scale
from vknn.scale import archives, ray_sources
from vknn.scale.ray_sources import Undone, undone_of
from vknn.scale.sources import RecordSource, find_source


class Store:
    """Ray's store in this process."""

    def __init__(self) -> None:
        self.held: list[Any] = []

    def put(self, value: Any) -> int:
        self.held.append(value)
        return len(self.held) - 1

    def get(self, reference: int) -> Any:
        return self.held[reference]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    found = Store()
    monkeypatch.setattr(ray_sources, "ray_module", lambda: found)
    return found


def names(source: RecordSource, column: str, wanted: Undone | None) -> list[Any]:
    """Names of the records that a reader on Ray gives."""
    reader = ray_sources._Reader(source, (column,), 4, None, wanted)
    return [
        name for rows in pickle.loads(pickle.dumps(reader))() for name in rows[column].to_pylist()
    ]


def write_npz(path: Path, count: int) -> Path:
    np.savez(path, data=np.zeros((count, 3), np.float32), more=np.arange(count))
    return path


def write_npy(path: Path, count: int) -> Path:
    np.save(path, np.zeros((count, 3), np.float32))
    return path


@pytest.mark.parametrize(
    "write, ending, column",
    [
        (ray_jobs.write_tar, "tar", "__key__"),
        (write_npy, "npy", "row"),
        (write_npz, "npz", "row"),
    ],
)
def test_what_is_left(store: Store, tmp_path: Path, write: Any, ending: str, column: str) -> None:
    """Of nothing done, of some, of what is in no file any more, of all."""
    source = find_source([write(tmp_path / f"{name}.{ending}", 9) for name in "ab"])
    every = names(source, column, undone_of(source, set()))
    assert len(every) == 18 and len(set(every)) == 18
    for done in (every[3:11], every[:1], every[-1:], [*every[5:7], "zzz", "\x01gone"], every):
        left = names(source, column, undone_of(source, set(done)))
        assert left == [name for name in every if name not in done]


def test_contents_of_records_that_are_done_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = find_source(ray_jobs.write_tar(tmp_path / "a.tar", 5))
    read: list[str] = []
    contents = archives._contents

    def noted(archive: Any, member: Any, path: str) -> bytes | None:
        read.append(member.name)
        return contents(archive, member, path)

    monkeypatch.setattr(archives, "_contents", noted)
    (row,) = archives.archive_records(source, lambda name: name == "a/003")
    assert row == {"__key__": "a/003", "png": ray_jobs.picture(3), "cls": b"3"}
    assert read == ["a/003.png", "a/003.cls"]


def test_pictures_and_tables_are_left_out_elsewhere(store: Store, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(0))
    ray_jobs.write_numbers(tmp_path / "tables", [1.0, 2.0])
    assert undone_of(find_source(tmp_path / "a.png"), {"a.png"}) is None
    assert undone_of(find_source(tmp_path / "tables"), {0}) is None
    assert store.held == []


@pytest.mark.device
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tar", "npy"])
def test_a_job_that_is_taken_up_again(ray: Any, model: Path, tmp_path: Path, kind: str) -> None:
    """One process writes some rows, Ray the others, and both together are those of one job."""
    if kind == "tar":
        source, name = ray_jobs.write_tar(tmp_path / "a.tar", 24), "__key__"
    else:
        source, name = tmp_path / "rows.npy", "row"
        np.save(source, np.random.default_rng(0).random((24, 3, 8, 8), np.float32))
    # Nobody counts the records of archives: runs of several would be measured, and may round.
    options = {"device": "llvmpipe", "stacked": 1} | (LLVMPIPE if kind == "tar" else {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vknn.scale.parts.PART_ROWS", 6)
        for output in ("out", "whole"):
            scale.run(source, model, tmp_path / output, engine="local", batch_size=3, **options)
    parts = sorted((tmp_path / "out").glob("*.parquet"))
    assert len(parts) == 4
    for part in parts[1:3]:
        part.unlink()
    report = scale.run(source, model, tmp_path / "out", engine="ray", batch_size=3, **options)
    assert (report.rows, report.new_rows, report.error_count) == (24, 12, 0)
    ray_jobs.assert_same(tmp_path / "out", tmp_path / "whole", name, ["out"])
