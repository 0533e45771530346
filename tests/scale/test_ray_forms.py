"""The three forms of a batch job on Ray give what the local engine gives, bit for bit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scale import ray_jobs
from small_model import write_small_model
from vknn import scale
from vknn.errors import InputError

pytestmark = pytest.mark.device
#: One kind of device: answers are then equal bit for bit.
LLVMPIPE = {"device": "llvmpipe", "size": (8, 8)}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_model(tmp_path_factory.mktemp("model"))


def assert_same(ray_folder: Path, local_folder: Path, id_column: str, names: list[str]) -> None:
    """Columns, types and rows of two jobs are the same, apart from the names of batches."""
    found, expected = ray_jobs.answers(ray_folder), ray_jobs.answers(local_folder)
    assert found.schema.equals(expected.schema), (found.schema, expected.schema)
    names = [*names, "device", "error"]
    assert ray_jobs.by_id(found, id_column, names) == ray_jobs.by_id(expected, id_column, names)


def test_pictures(ray: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken pictures and one that vanishes have a row each: Ray's reader would end the job."""
    pictures = ray_jobs.write_pictures(tmp_path / "pictures", 40, broken=(3, 17))
    (pictures / "0005.png").write_bytes(b"")
    found = scale.job.find_source(pictures)
    os.remove(pictures / "0008.png")
    monkeypatch.setattr(scale.job, "find_source", lambda given: found)
    options = {**LLVMPIPE, "batch_size": 8}
    local = scale.run(pictures, model, tmp_path / "local", engine="local", **options)
    report = scale.run(pictures, model, tmp_path / "ray", engine="ray", **options)
    assert report.rows == 40
    assert report.errors == local.errors
    assert report.error_count == 4
    assert_same(tmp_path / "ray", tmp_path / "local", "path", ["out"])
    rows = {os.path.basename(r["path"]): r for r in ray_jobs.rows(tmp_path / "ray")}
    assert "cannot be read" in rows["0008.png"]["error"]["message"]
    assert not Path(f"{tmp_path / 'ray'}.checkpoint").exists()


def test_a_table(ray: Any, model: Path, tmp_path: Path) -> None:
    table = ray_jobs.write_table(tmp_path / "table.parquet", 30, broken=(4,))
    options = {**LLVMPIPE, "columns": {"data": "image"}, "id": "url", "keep": ["width"]}
    for engine in ("local", "ray"):
        report = scale.run(table, model, tmp_path / engine, engine=engine, **options)
        assert (report.rows, report.error_count) == (30, 1)
    assert_same(tmp_path / "ray", tmp_path / "local", "url", ["width", "out"])


@pytest.mark.slow
def test_arrays(ray: Any, model: Path, tmp_path: Path) -> None:
    arrays = np.random.default_rng(0).random((20, 3, 8, 8), np.float32)
    np.save(tmp_path / "rows.npy", arrays)
    for engine in ("local", "ray"):
        report = scale.run(
            tmp_path / "rows.npy", model, tmp_path / engine, engine=engine, device="llvmpipe"
        )
        assert (report.rows, report.error_count) == (20, 0)
    assert_same(tmp_path / "ray", tmp_path / "local", "row", ["out"])


@pytest.mark.slow
def test_archives(ray: Any, model: Path, tmp_path: Path) -> None:
    archives = [str(ray_jobs.write_tar(tmp_path / f"{name}.tar", 9)) for name in "ab"]
    options = {**LLVMPIPE, "keep": ["cls"]}
    for engine in ("local", "ray"):
        report = scale.run(archives, model, tmp_path / engine, engine=engine, **options)
        assert (report.rows, report.error_count) == (18, 0)
    assert_same(tmp_path / "ray", tmp_path / "local", "__key__", ["cls", "out"])


@pytest.mark.slow
def test_archives_with_a_key_twice(ray: Any, model: Path, tmp_path: Path) -> None:
    one = ray_jobs.write_tar(tmp_path / "a.tar", 3)
    (tmp_path / "more").mkdir()
    other = tmp_path / "more" / "a.tar"
    other.write_bytes(one.read_bytes())
    with pytest.raises(InputError, match="a/000"):
        scale.run([one, other], model, tmp_path / "ray", engine="ray", **LLVMPIPE)


@pytest.mark.slow
def test_a_pipeline_of_ones_own(ray: Any, model: Path, tmp_path: Path) -> None:
    """predict() and the callable class give the rows that run() gives; without an id, too."""
    table = ray_jobs.write_table(tmp_path / "table.parquet", 30, broken=(4,))
    options = {**LLVMPIPE, "columns": {"data": "image"}, "batch_size": 8}
    scale.run(table, model, tmp_path / "local", engine="local", **options, id="url")
    expected = ray_jobs.by_id(ray_jobs.answers(tmp_path / "local"), "url", ["out", "error"])
    dataset = ray.data.read_parquet(str(table))

    stage = scale.predict(dataset, model, **options, id="url")
    config = scale.Predictor(model, **options, keep=["url"])
    own = dataset.map_batches(config.actor, **config.map_batches_options(dataset))
    for number, made in enumerate((stage, own)):
        made.write_parquet(str(tmp_path / f"own{number}"))
        found = ray_jobs.answers(tmp_path / f"own{number}")
        assert ray_jobs.by_id(found, "url", ["out", "error"]) == expected


@pytest.mark.slow
def test_tensors_of_arrow(ray: Any, model: Path, tmp_path: Path) -> None:
    """A column of Arrow's own tensors is read by Ray as pyarrow reads it."""
    arrays = np.random.default_rng(1).random((12, 3, 8, 8), np.float32)
    column = pa.FixedShapeTensorArray.from_numpy_ndarray(arrays)
    pq.write_table(pa.table({"id": range(12), "data": column}), tmp_path / "t.parquet")
    for engine in ("local", "ray"):
        scale.run(
            tmp_path / "t.parquet", model, tmp_path / engine, engine=engine, id="id",
            device="llvmpipe",
        )  # fmt: skip
    assert_same(tmp_path / "ray", tmp_path / "local", "id", ["out"])
