"""Layouts: which columns are read, which types outputs get, and what errors hold."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.scale.jobs import (
    ANY_SQUARES,
    answers,
    fixed_net,
    job,
    picture_net,
    png,
    vectors,
    write_net,
)

from vknn.errors import InputError
from vknn.scale.layout import is_known
from vknn.scale.options import Predictor
from vknn.scale.records import record_of
from vknn.scale.worker import Worker

pa = pytest.importorskip("pyarrow")
pytest.importorskip("PIL")
pq = pytest.importorskip("pyarrow.parquet")


def write(path: Path, data: Any, **more: Any) -> None:
    pq.write_table(pa.table({"id": range(len(data)), "data": data, **more}), path)


class Owner:
    """Keeps what it made of a cell that is no record and of one that the model refuses."""

    def __init__(self, worker: Worker, cells: list[Any]) -> None:
        self.layout = worker.layout({"data": pa.list_(pa.float32())})
        self.records = [record_of(self.layout.inputs, [cell]) for cell in cells]
        for record, found in worker.results(self.records):
            self.row = worker.row(self.layout, record, found)


def type_of(folder: Path, name: str) -> Any:
    (path, *_) = folder.glob("*.parquet")
    return pq.read_schema(path).field(name).type


@pytest.mark.parametrize("shapes", [(4, 4), (4, 3)])
def test_outputs_of_several_arrays(shapes: tuple[int, int], tmp_path: Path) -> None:
    """They are tensors where all files have rows of one shape."""
    (tmp_path / "in").mkdir()
    for number, size in enumerate(shapes):
        np.save(tmp_path / "in" / f"{number}.npy", np.ones((2, size), np.float32))
    report = job(tmp_path / "in", write_net(tmp_path, ANY_SQUARES), tmp_path / "out")
    tensor = pa.fixed_shape_tensor(pa.float32(), (4,))
    same = shapes == (4, 4)
    assert type_of(tmp_path / "out", "out") == (tensor if same else pa.list_(pa.float32()))
    assert (report.rows, report.error_count) == (4, 0)


def test_files_in_tables_give_tensors(tmp_path: Path) -> None:
    files = pa.array([{"bytes": png(0), "path": "a"}, None])
    write(tmp_path / "t.parquet", files)
    job(tmp_path / "t.parquet", picture_net(tmp_path), tmp_path / "out", id="id")
    assert type_of(tmp_path / "out", "out") == pa.fixed_shape_tensor(pa.float32(), (5,))


def test_tensors_of_different_shapes_are_of_none(tmp_path: Path) -> None:
    with Worker(Predictor(write_net(tmp_path, ANY_SQUARES), device="numpy")) as worker:
        types = [SimpleNamespace(shape=shape) for shape in ((None,), (4,))]
        (column,) = worker.layout({"data": pa.list_(pa.float32())}).inputs
        source: Any = SimpleNamespace(mixed=())
        assert [is_known(column, {"data": type_}, source) for type_ in types] == [False, True]
        # In pipelines it is the type of the first rows, and the model takes others, too.
        assert [is_known(column, {"data": type_}, None) for type_ in types] == [False, False]


def test_columns_that_are_kept_are_read_as_well(tmp_path: Path) -> None:
    net = write_net(tmp_path)
    write(tmp_path / "t.parquet", list(vectors(2)), other=[1, 2])
    job(tmp_path / "t.parquet", net, tmp_path / "out", id="id", keep=["data", "other"])
    rows = answers(tmp_path / "out")
    np.testing.assert_array_equal(rows[1]["out"], np.square(np.float32(rows[1]["data"])))
    with Worker(Predictor(net, device="numpy", id="id", keep=["image"])) as worker:
        schema = {"id": pa.int64(), "image": pa.list_(pa.float32()), "width": pa.int64()}
        assert [i.column for i in worker.layout(schema).inputs] == ["image"], "no number is four"
    missing = pytest.raises(InputError, match="no column 'url'; it has id, x, y")
    with Worker(Predictor(net, device="numpy", id="url")) as worker, missing:
        worker.layout(dict.fromkeys(["id", "x", "y"]))


def test_labels_of_arrays(tmp_path: Path) -> None:
    """A model that ends with probabilities knows classes, whatever it is given."""
    values = np.random.default_rng(0).integers(0, 256, (3, 3, 8, 8)).astype(np.uint8)
    np.save(tmp_path / "a.npy", values)
    report = job(tmp_path / "a.npy", picture_net(tmp_path), tmp_path / "out", labels=[*"abcde"])
    rows = answers(tmp_path / "out")
    assert [r["label"] for r in rows] == ["abcde"[int(np.argmax(r["out"]))] for r in rows]
    assert all(r["probability"] == np.max(r["out"]) for r in rows) and report.rows == 3


def test_labels_that_nothing_takes_are_said(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", vectors(2))
    with pytest.warns(RuntimeWarning, match=r"labels are not used: .*a recipe does"):
        job(tmp_path / "a.npy", write_net(tmp_path), tmp_path / "out", labels=[*"abcd"])
    assert "label" not in answers(tmp_path / "out")[0]


def test_text_where_numbers_are_wanted(tmp_path: Path) -> None:
    write(tmp_path / "t.parquet", ["a/b.jpg"])
    job(tmp_path / "t.parquet", write_net(tmp_path), tmp_path / "out", id="id")
    (row,) = answers(tmp_path / "out")
    assert "column 'data' holds text, and input 'data' takes float32" in row["error"]["message"]


def test_errors_do_not_hold_who_met_them(tmp_path: Path) -> None:
    """Ray's workers tell what they did last when they are released."""
    with Worker(Predictor(fixed_net(tmp_path, 4), device="numpy")) as worker:
        gc.collect()
        gc.disable()
        try:
            owner = Owner(worker, [None, np.ones(3, np.float32)])
            assert [r.error is None for r in owner.records] == [False, True] and owner.row[1]
            there = weakref.ref(owner)
            del owner
            assert there() is None
        finally:
            gc.enable()


def test_the_only_column_of_bytes_is_the_picture(tmp_path: Path) -> None:
    found = pa.table({"url": ["a", "b"], "photo": [png(0), png(1)], "width": [8, 8]})
    pq.write_table(found, tmp_path / "t.parquet")
    report = job(tmp_path / "t.parquet", picture_net(tmp_path), tmp_path / "out", id="url")
    assert (report.rows, report.errors) == (2, {})


@pytest.mark.parametrize("kind", ["list", "tensor"])
def test_the_only_column_of_arrays_is_meant(kind: str, tmp_path: Path) -> None:
    """Beside text and numbers, whatever it is called."""
    values = vectors(2)
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(values)
    columns = {
        "id": [0, 1],
        "url": ["a", "b"],
        "numbers": list(values) if kind == "list" else tensors,
    }
    pq.write_table(pa.table({**columns, "width": [1, 2]}), tmp_path / "t.parquet")
    job(tmp_path / "t.parquet", write_net(tmp_path), tmp_path / "out", id="id", keep=["width"])
    found = [row["out"] for row in answers(tmp_path / "out")]
    np.testing.assert_array_equal(found, values * values)


def test_outputs_that_are_known_only_later(tmp_path: Path) -> None:
    """Readers take the columns of the first file for those of all: it gets them as well."""
    net, source = picture_net(tmp_path), tmp_path / "in"
    source.mkdir()
    (source / "a.png").write_bytes(b"no picture")
    assert job(source, net, tmp_path / "out").errors == {"UnreadableFileError": 1}
    (source / "b.png").write_bytes(png())
    assert job(source, net, tmp_path / "out").rows == 2
    first, second = (pq.read_table(path) for path in sorted((tmp_path / "out").glob("*.parquet")))
    assert first.schema == second.schema
    found = pq.read_table(tmp_path / "out")
    assert found.column("path").to_pylist() == [f"{source}/a.png", f"{source}/b.png"]
    assert found.column("out").null_count == 1 and found.column("error").null_count == 1
    assert "" not in found.column("batch").to_pylist()
