"""The three forms of a batch job on Ray give what the local engine gives, bit for bit."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scale import jobs, ray_jobs
from scale.ray_jobs import LLVMPIPE
from vknn import scale
from vknn.errors import InputError
from vknn.scale.stages import FIRST_ROWS

pytestmark = pytest.mark.device

#: A layer that gives the number of the thread that computes it; two at once are an error.
THREADS = """
import threading, time
import numpy as np
import vknn

TURN = threading.Lock()

def compute(arrays, weights, options):
    if not TURN.acquire(blocking=False):
        raise RuntimeError("two threads compute at once")
    time.sleep(0.01)
    TURN.release()
    return np.full_like(arrays[0], threading.get_native_id())

vknn.register_layer("ncnn", "Threads", shape=lambda s, o: s[0], compute=compute)
"""


@pytest.mark.slow
def test_arrays(ray: Any, model: Path, tmp_path: Path) -> None:
    arrays = np.random.default_rng(0).random((20, 3, 8, 8), np.float32)
    np.save(tmp_path / "rows.npy", arrays)
    for engine in ("local", "ray"):
        report = scale.run(
            tmp_path / "rows.npy", model, tmp_path / engine, engine=engine, device="llvmpipe"
        )
        assert (report.rows, report.error_count) == (20, 0)
    ray_jobs.assert_same(tmp_path / "ray", tmp_path / "local", "row", ["out"])


@pytest.mark.slow
def test_archives(ray: Any, model: Path, tmp_path: Path) -> None:
    archives = [str(ray_jobs.write_tar(tmp_path / f"{name}.tar", 9)) for name in "ab"]
    options = {**LLVMPIPE, "keep": ["cls"], "stacked": 1}  # which is measured, of archives
    for engine in ("local", "ray"):
        report = scale.run(archives, model, tmp_path / engine, engine=engine, **options)
        assert (report.rows, report.error_count) == (18, 0)
    ray_jobs.assert_same(tmp_path / "ray", tmp_path / "local", "__key__", ["cls", "out"])


@pytest.mark.slow
def test_archives_with_a_key_twice(ray: Any, model: Path, tmp_path: Path) -> None:
    one = ray_jobs.write_tar(tmp_path / "a.tar", 3)
    (tmp_path / "more").mkdir()
    other = tmp_path / "more" / "a.tar"
    other.write_bytes(one.read_bytes())
    with pytest.raises(InputError, match="a/000"):
        scale.run([one, other], model, tmp_path / "ray", engine="ray", **LLVMPIPE)


@pytest.mark.slow
def test_relative_names(
    ray: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster was begun in another folder, in which its workers work."""
    monkeypatch.chdir(tmp_path)
    ray_jobs.write_pictures(Path("pictures"), 5)
    for engine in ("local", "ray"):
        report = scale.run("pictures/", model, engine, engine=engine, **LLVMPIPE)
        assert (report.rows, report.error_count) == (5, 0)
    ray_jobs.assert_same(tmp_path / "ray", tmp_path / "local", "path", ["out"])


@pytest.mark.slow
def test_archives_cut_off(
    ray: Any, model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Both engines compute what stands before the damage and in other files, and say the rest."""
    folder = tmp_path / "in"
    folder.mkdir()
    whole = {}
    for number in range(4):
        archive = ray_jobs.write_tar(folder / f"{number}.tar", 40)
        whole[archive] = archive.read_bytes()
    for number, share in ((1, 0.66), (3, 0.01)):
        archive = folder / f"{number}.tar"
        archive.write_bytes(whole[archive][: int(len(whole[archive]) * share)])
    texts, counts = [], []
    for again in range(2):  # taken up again, it says the same, and computes nothing twice
        for engine in ("local", "ray"):
            with pytest.raises(scale.JobError) as caught:
                scale.run(folder, model, tmp_path / engine, engine=engine, **LLVMPIPE)
            texts.append(str(caught.value))
            assert caught.value.report is not None and caught.value.report.state == "stopped"
            counts.append(caught.value.report.rows)
            assert (caught.value.report.new_rows == 0) == bool(again)
        ray_jobs.assert_same(tmp_path / "ray", tmp_path / "local", "__key__", ["out"])
    assert len(set(texts)) == 1 and "1.tar cannot be read as an archive behind its" in texts[0]
    assert "3.tar cannot be read as an archive: " in texts[0]
    assert len(set(counts)) == 1 and 80 + 20 < counts[0] < 80 + 30
    for archive, data in whole.items():
        archive.write_bytes(data)
    with tarfile.open(folder / "1.tar") as opened:
        end = opened.getmembers()[-1].offset_data + 512  # a number of a few digits
    (folder / "1.tar").write_bytes(whole[folder / "1.tar"][:end])
    note = f"{folder / '1.tar'} has no mark at its end: it may be cut off behind its 40 records"
    for engine in ("local", "ray"):
        report = scale.run(folder, model, tmp_path / engine, engine=engine, **LLVMPIPE)
        assert (report.rows, report.new_rows) == (160, 160 - counts[0])
        assert report.notes == [note]
    ray_jobs.assert_same(tmp_path / "ray", tmp_path / "local", "__key__", ["out"])
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.slow
def test_a_pipeline_of_ones_own(ray: Any, model: Path, tmp_path: Path) -> None:
    """predict() and the callable class give the rows that run() gives; without an id, too."""
    table = ray_jobs.write_table(tmp_path / "table.parquet", 30, broken=(4,))
    options = {**LLVMPIPE, "columns": {"data": "image"}, "batch_size": 8, "stacked": 1}
    scale.run(table, model, tmp_path / "local", engine="local", **options, id="url")
    expected = ray_jobs.by_id(ray_jobs.answers(tmp_path / "local"), "url", ["out", "error"])
    dataset = ray.data.read_parquet(str(table))

    stage = scale.predict(dataset, model, **options, id="url")
    del options["columns"]  # beside text and numbers the only column of bytes is meant
    config = scale.Predictor(model, **options, keep=["url"])
    own = dataset.map_batches(config.actor, **config.map_batches_options(dataset))
    for number, made in enumerate((stage, own)):
        made.write_parquet(str(tmp_path / f"own{number}"))
        found = ray_jobs.answers(tmp_path / f"own{number}")
        rows = ray_jobs.by_id(found, "url", ["out", "error"])
        out, error = rows.pop("u4")
        assert rows == {name: row for name, row in expected.items() if name != "u4"}
        assert np.isnan(np.frombuffer(out, np.float32)).all(), "Ray has no null tensors"
        assert error == expected["u4"][1]
    taken = {row["url"]: row for row in stage.take_all()}
    assert np.isnan(taken["u4"]["out"]).all() and taken["u4"]["error"]["attempts"] == 1
    assert taken["u5"]["out"].tobytes() == expected["u5"][0] and taken["u5"]["error"] is None


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
    ray_jobs.assert_same(tmp_path / "ray", tmp_path / "local", "id", ["out"])


@pytest.mark.slow
def test_tensors_behind_the_first_rows_are_of_another_shape(ray: Any, tmp_path: Path) -> None:
    """The model takes both: answers are lists, and no row is an error."""
    shapes = [(4,)] * (FIRST_ROWS + 1) + [(3,)]
    rows = [{"id": number, "data": np.ones(shape)} for number, shape in enumerate(shapes)]
    net = jobs.write_net(tmp_path, jobs.ANY_SQUARES)
    made = scale.predict(ray.data.from_items(rows), net, id="id", device="numpy", workers=1)
    found = {row["id"]: (np.shape(row["out"]), row["error"]) for row in made.take_all()}
    assert found == {number: (shape, None) for number, shape in enumerate(shapes)}


@pytest.mark.slow
def test_two_threads_of_a_worker_take_turns(ray: Any, tmp_path: Path) -> None:
    """One reads while the other computes, which takes an option of Ray's."""
    model, layers = ray_jobs.write_model(tmp_path, "Threads", THREADS)
    numbers = ray.data.range(200, override_num_blocks=20).map_batches(
        lambda batch: {"id": batch["id"], "data": np.ones((len(batch["id"]), 8), np.float32)}
    )
    config = scale.Predictor(
        model, layers=[layers], id="id", device="numpy", workers=1, batch_size=5
    )
    rows = scale.predict(numbers, config).take_all()
    assert [row["error"] for row in rows] == [None] * 200
    assert len({row["id"] for row in rows}) == 200
    threads = {float(np.ravel(row["out"])[0]) for row in rows}
    assert len(threads) == 2, threads
    names = [row["batch"] for row in rows]
    assert {names.count(name) for name in names} == {5}
