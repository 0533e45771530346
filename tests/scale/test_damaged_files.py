"""Damaged files among others, whose records are all computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")
from tests.scale.jobs import answers, by_id, job, table, vectors, write_net

from vknn.errors import VknnError
from vknn.scale import JobError

pq = pytest.importorskip("pyarrow.parquet")


def damaged_tables(folder: Path) -> Path:
    """Writes three Parquet files of ten records and gives the second one, which is damaged."""
    folder.mkdir()
    for number in range(3):
        table(folder / f"{number}.parquet", vectors(10), [f"{number}-{i}" for i in range(10)])
    path = folder / "1.parquet"
    held = bytearray(path.read_bytes())
    place = pq.ParquetFile(path).metadata.row_group(0).column(1).data_page_offset
    held[place : place + 40] = b"\xff" * 40
    path.write_bytes(held)
    return path


def test_a_damaged_table_among_others(tmp_path: Path) -> None:
    """It does not end a night's job; mended, the same command computes what it lacked."""
    path = damaged_tables(tmp_path / "in")
    with pytest.raises(JobError, match=r"1\.parquet cannot be read") as e:
        job(tmp_path / "in", write_net(tmp_path), tmp_path / "out", id="id")
    report = e.value.report
    assert report is not None and (report.state, report.rows) == ("stopped", 20)
    table(path, vectors(10), [f"1-{i}" for i in range(10)])
    again = job(tmp_path / "in", write_net(tmp_path), tmp_path / "out", id="id")
    assert (again.rows, again.new_rows, again.state) == (30, 10, "done")


def test_a_damaged_array_among_others(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    values = vectors(2000)
    for number in range(3):
        np.savez(tmp_path / "in" / f"{number}.npz", data=values)
    path = tmp_path / "in" / "1.npz"
    held = bytearray(path.read_bytes())
    held[-1000:-900] = bytes(100)
    path.write_bytes(held)
    with pytest.raises(JobError, match=r"1\.npz is no NumPy file: Bad CRC") as e:
        job(tmp_path / "in", write_net(tmp_path), tmp_path / "out", batch_size=1000)
    assert e.value.report is not None and e.value.report.rows == 4000


def test_all_files_that_cannot_be_opened_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(6):
        path = table(
            tmp_path / "in" / f"{number}.parquet", vectors(2), [2 * number, 2 * number + 1]
        )
        if number:
            path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(VknnError, match=r"1\.parquet cannot .*; .*3\.parq.*; and 2 more files$"):
        job(tmp_path / "in", write_net(tmp_path), tmp_path / "out", id="id")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_damaged_file_among_others_with_ray(ray: Any, tmp_path: Path) -> None:
    path = damaged_tables(tmp_path / "in")
    options: dict[str, Any] = {"id": "id", "engine": "ray", "workers": 1}
    with pytest.raises(JobError, match=r"1\.parquet cannot be read") as e:
        job(tmp_path / "in", write_net(tmp_path), tmp_path / "out", **options)
    assert (
        e.value.report is not None and e.value.report.rows == len(answers(tmp_path / "out")) == 20
    )
    table(path, vectors(10), [f"1-{i}" for i in range(10)])
    again = job(tmp_path / "in", write_net(tmp_path), tmp_path / "out", **options)
    assert (again.rows, again.new_rows) == (30, 10)
    assert len(by_id(tmp_path / "out")) == 30
