"""Portions of work on Ray: bounded by time, bytes and records."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("PIL")
from tests.scale.jobs import pictures, table, vectors, write_net

from vknn import scale
from vknn.errors import InputError
from vknn.scale import cluster
from vknn.scale.first_record import FirstRecord
from vknn.scale.layout import JobLayout
from vknn.scale.options import Predictor
from vknn.scale.portions import BLOCK_BYTES, USUAL, Portions, most_bytes, portions_of
from vknn.scale.ray_sources import block_rows, left_of
from vknn.scale.reading import Rows
from vknn.scale.records import Record
from vknn.scale.sources import find_source

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def first(row: int = 4000, answer: int = 4000, kept: bool = False, read: int = 0) -> FirstRecord:
    """A record of so many bytes and an answer. ``read``: bytes of its inputs."""
    held = pa.table({"id": pa.array([1], pa.int64()), "data": [b"x" * (row - 12)]})
    layout = JobLayout((), ("id", "data") if kept else ("id",))
    outputs: dict[str, Any] = {"out": np.zeros(answer, np.uint8)}
    record = Record({"data": np.zeros(read, np.uint8)}) if read else Record()
    return FirstRecord(layout, Rows(held), record, outputs)


@pytest.mark.parametrize(
    "record, seconds, on_host, block, rows, together",
    [
        (first(), 0.1, False, int(0.9 * 1024 * 4000), 512, 1024),
        (first(), 1.0, False, int(0.9 * 576 * 4000), 512, 576),
        (first(), 10.0, False, 32 * 4000, 60, 32),
        (first(), 1.0, True, 32 * 4000, 60, 32),
        (first(), 100.0, True, 32 * 4000, 32, 32),  # a batch at least
        (first(), 0.0, True, int(0.9 * 1024 * 4000), 8192, 1024),  # a file of these takes a moment
        (first(row=40), 0.1, False, 32 * 4000, 512, 1024),  # small rows, and a batch of answers
        (first(row=20, answer=8), 0.1, False, int(0.9 * 1024 * 20), 512, 1024),
        (first(row=200_000), 0.1, False, int(0.9 * 64 * 200_000), 512, 64),  # whole batches
        (first(row=600_000), 0.1, False, BLOCK_BYTES, 512, 32),
        (first(row=200_000, read=600_000), 0.1, False, BLOCK_BYTES, 512, 64),  # of what is decoded
        (first(answer=22 << 20), 0.1, False, BLOCK_BYTES, 2, 1024),  # no file of gigabytes
        (first(row=1 << 20, kept=True), 0.1, False, BLOCK_BYTES, 63, 32),
    ],
)
def test_portions(
    record: FirstRecord, seconds: float, on_host: bool, block: int, rows: int, together: int
) -> None:
    assert portions_of(record, seconds, 32, on_host) == Portions(block, rows, together)


@pytest.mark.parametrize("workers, batch, row", [(2, 16, 618_348), (1, 32, 50_000), (16, 1, 4000)])
def test_all_workers_find_portions_in_a_small_store(workers: int, batch: int, row: int) -> None:
    """One worker had all of two blocks of two batches, of which no more found a place, and where
    its process ended the other had nothing to do until another one was there.
    """
    store = 200 << 20
    found = portions_of(first(row=row), 0.1, batch, False, most_bytes(store, workers))
    own = found.block_rows * row
    # Ray hands on what readers give: it is as much as it waits for, and no more than it parts.
    assert found.block_bytes <= own <= 1.5 * found.block_bytes
    assert found.block_rows % batch == 0
    # What readers hold, and for each worker two portions at least, are in the half that Ray takes.
    assert own == batch * row or (4 * workers + 4) * own <= store / 2
    assert (2 * workers + 4) * own <= store / 2
    type_ = pa.fixed_shape_tensor(pa.uint8(), [row])
    assert block_rows([pa.string(), type_], batch, found.block_rows) == found.block_rows


def test_a_store_that_is_not_known() -> None:
    assert most_bytes(0.0, 8) == BLOCK_BYTES == most_bytes(64 << 30, 8)


def test_where_nothing_is_known() -> None:
    assert portions_of(None, 0.0, 32, True) == USUAL


def test_pictures_that_have_rows_are_not_read_again(tmp_path: Path) -> None:
    """Ray filters behind the read: a night's pictures would all be read to be left out."""
    source = find_source(pictures(tmp_path / "in", 4))
    left = left_of(source, "path", set(source.paths[:3]))
    assert left.paths == source.paths[3:] and left.sizes == source.sizes[3:]
    assert left_of(source, "path", set()) is source


def test_a_folder_that_ray_cannot_read_back(tmp_path: Path) -> None:
    """The job could not be taken up again, which is said before it begins."""
    source = table(tmp_path / "t.parquet", vectors(2))
    options: dict[str, Any] = {"device": "numpy", "id": "id"}
    with pytest.raises(
        InputError, match=r"with '\?' in their names: give another .* --engine local"
    ):
        scale.run(source, write_net(tmp_path), tmp_path / "a?", engine="ray", **options)
    report = scale.run(source, write_net(tmp_path), tmp_path / "a?", engine="local", **options)
    assert report.rows == 2


def test_as_many_workers_when_a_job_is_taken_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's filter of what is done needs processors: the same command finds them."""
    started: list[int] = []
    fake = SimpleNamespace(
        is_initialized=lambda: False, shutdown=lambda: None,
        init=lambda **options: started.append(options["num_cpus"]),
    )  # fmt: skip
    monkeypatch.setattr(cluster, "ray_module", lambda: fake)
    monkeypatch.setattr(cluster, "local_resources", dict)
    for is_resumed in (False, True):
        with cluster.joined(None, is_resumed):
            most = Predictor("net.param", device="numpy", workers=started[0] - 1)
            pool = cluster.pool_for(most, {"CPU": started[-1]})
            cluster.check_schedulable(pool, {"CPU": started[-1]}, is_resumed)
    assert started[1] > started[0]


@pytest.mark.slow
def test_small_rows_of_one_file_are_work_for_all_workers(ray: Any, tmp_path: Path) -> None:
    """They were one block, which one worker had, and one file at the very end."""
    source = table(tmp_path / "t.parquet", vectors(20_000))
    report = scale.run(
        source, write_net(tmp_path), tmp_path / "out", engine="ray", device="numpy", id="id",
        workers=2, address=None,
    )  # fmt: skip
    assert report.rows == 20_000 and not report.errors
    files = list((tmp_path / "out").glob("*.parquet"))
    workers = {
        name.rpartition("-")[0]
        for path in files
        for name in pq.read_table(path, columns=["batch"]).column("batch").to_pylist()
    }
    assert len(workers) == 2 and len(files) > 1


def test_files_that_are_done_are_not_read_again(tmp_path: Path) -> None:
    """Of tables those of which every record has a row; one that is damaged is somebody else's."""
    for number in range(3):
        ids = list(range(4 * number, 4 * number + 4))
        pq.write_table(pa.table({"id": ids, "data": ids}), tmp_path / f"{number}.parquet")
    source = find_source(tmp_path)
    names = [tmp_path / f"{number}.parquet" for number in range(3)]
    assert left_of(source, "id", set(range(5))).paths == tuple(map(str, names[1:]))
    assert left_of(source, "id", set()) is source
    assert left_of(source, None, set(range(5))) is source
    names[0].write_bytes(b"damaged")
    assert left_of(source, "id", set(range(8))).paths == (str(names[0]), str(names[2]))
