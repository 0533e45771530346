"""Reading: Parquet and arrays of every type; ids; what does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import onnx_writer as onnx
from tests.scale.jobs import (
    ANY_SQUARES,
    answers,
    by_id,
    fixed_net,
    job,
    picture_net,
    pictures,
    png,
    table,
    vectors,
    write_net,
)

from vknn.errors import InputError, VknnError
from vknn.formats import TensorSpec
from vknn.scale.ray_sources import block_rows
from vknn.scale.records import fitted

pa = pytest.importorskip("pyarrow")
pytest.importorskip("PIL")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def net(tmp_path: Path) -> Path:
    return write_net(tmp_path)


def squares(folder: Path, name: str = "id") -> dict[Any, Any]:
    return {key: row["out"] for key, row in by_id(folder, name).items()}


def check_squares(folder: Path, values: np.ndarray, ids: list[Any], name: str = "id") -> None:
    found = squares(folder, name)
    assert list(found) == ids
    for key, row in zip(ids, values, strict=True):
        np.testing.assert_array_equal(found[key], np.square(row))


def write(path: Path, data: Any, ids: Any = None, **more: Any) -> Path:
    count = len(data)
    names = list(range(count)) if ids is None else ids
    pq.write_table(pa.table({"id": names, "data": data, **more}), path)
    return path


def forms(values: np.ndarray) -> dict[str, Any]:
    """The same rows as Arrow columns of many types."""
    flat = pa.array(values.reshape(-1))
    fixed = pa.FixedSizeListArray.from_arrays(flat, 4)
    tensor = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float32(), (4,)), fixed)
    return {
        "list": pa.array(list(values), pa.list_(pa.float32())),
        "large list": pa.array(list(values), pa.large_list(pa.float32())),
        "fixed list": fixed,
        "tensor": tensor,
        "slice of a tensor": pa.concat_arrays([tensor.slice(0, 1), tensor]).slice(1),
        "nested list": pa.array(values[:, None].tolist(), pa.list_(pa.list_(pa.float32()))),
        "doubles": pa.array([r.tolist() for r in values], pa.list_(pa.float64())),
    }  # fmt: skip


@pytest.mark.parametrize("form", list(forms(vectors(1))))
def test_columns_of_numbers(form: str, net: Path, tmp_path: Path) -> None:
    values = vectors(5)
    model = write_net(tmp_path, ANY_SQUARES) if form == "nested list" else net
    job(write(tmp_path / "t.parquet", forms(values)[form]), model, tmp_path / "out", id="id")
    expected = values[:, None] if form == "nested list" else values
    check_squares(tmp_path / "out", expected, list(range(5)))


def test_a_tensor_whose_axes_are_permuted(tmp_path: Path) -> None:
    values = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    storage = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), 6)
    type_ = pa.fixed_shape_tensor(pa.float32(), (2, 3), permutation=[1, 0])
    source = write(tmp_path / "t.parquet", pa.ExtensionArray.from_storage(type_, storage))
    job(source, write_net(tmp_path, ANY_SQUARES), tmp_path / "out", id="id")
    found = squares(tmp_path / "out")
    np.testing.assert_array_equal(found[1], np.square(values[1].T))


def test_numbers_and_integers(tmp_path: Path) -> None:
    """A column of plain numbers feeds an input of one element."""
    for name, data in (("a", pa.array([1.5, 2.0])), ("b", pa.array([3, 4], pa.int16()))):
        source = write(tmp_path / f"{name}.parquet", data)
        job(source, fixed_net(tmp_path, 1), tmp_path / name, id="id")
        found = [row["y"] for row in answers(tmp_path / name)]
        np.testing.assert_array_equal(np.ravel(found), np.abs(data.to_numpy()))


def test_encoded_pictures_in_parquet(tmp_path: Path) -> None:
    model = picture_net(tmp_path)
    pictures(tmp_path / "files", 3)
    data = [png(number) for number in range(3)]
    for type_ in (pa.binary(), pa.large_binary(), pa.binary(len(data[0]))):
        own = [png(0)] * 3 if pa.types.is_fixed_size_binary(type_) else data
        write(tmp_path / "t.parquet", pa.array(own, type_))
        job(tmp_path / "t.parquet", model, tmp_path / "out", id="id", restart=True)
        job(tmp_path / "files", model, tmp_path / "of-files", restart=True)
        files = [row["out"] for row in answers(tmp_path / "of-files")]
        tables = [row["out"] for row in answers(tmp_path / "out")]
        np.testing.assert_array_equal(tables[0], files[0])
        if own is data:
            np.testing.assert_array_equal(tables, files)
    held = [{"bytes": one, "path": "a.png"} for one in data]  # as Hugging Face's tables have them
    write(tmp_path / "t.parquet", pa.array([*held, {"bytes": None, "path": "b.png"}, None]))
    report = job(tmp_path / "t.parquet", model, tmp_path / "out", id="id", restart=True)
    assert report.rows == 5 and report.errors == {"InputError": 2}
    np.testing.assert_array_equal([row["out"] for row in answers(tmp_path / "out")][:3], files)


def test_rows_that_do_not_fit(tmp_path: Path) -> None:
    """Each has an error, and its neighbours are computed."""
    good = [1.0, 2.0, 3.0, 4.0]
    data = [good, None, [1.0], [1.0, None, 3.0, 4.0], [], good]
    write(tmp_path / "t.parquet", pa.array(data, pa.list_(pa.float32())))
    report = job(tmp_path / "t.parquet", fixed_net(tmp_path, 4), tmp_path / "out", id="id")
    rows = by_id(tmp_path / "out")
    errors = {key: None if r["error"] is None else r["error"]["message"] for key, r in rows.items()}
    assert [key for key, text in errors.items() if text is None] == [0, 5]
    assert "column 'data' is null" in errors[1]
    assert "nulls in it" in errors[3]
    assert "[1]" in errors[2] and "[4]" in errors[2], errors[2]
    assert report.error_count == 4 and all(rows[k]["y"] is None for k in (1, 2, 3, 4))
    np.testing.assert_array_equal(rows[5]["y"], good)


def test_lists_of_different_lengths(tmp_path: Path) -> None:
    data = [[[1.0, 2.0], [3.0]], [[1.0, 2.0], [3.0, 4.0]], None, [[5.0]]]
    write(tmp_path / "t.parquet", pa.array(data, pa.list_(pa.list_(pa.float32()))))
    job(tmp_path / "t.parquet", write_net(tmp_path, ANY_SQUARES), tmp_path / "out", id="id")
    rows = by_id(tmp_path / "out")
    assert "different lengths" in rows[0]["error"]["message"]
    assert rows[1]["out"] == [[1.0, 4.0], [9.0, 16.0]] and rows[3]["out"] == [[25.0]]
    assert rows[2]["out"] is None


def test_numbers_that_the_input_cannot_hold(tmp_path: Path, net: Path) -> None:
    write(tmp_path / "t.parquet", pa.array([["a"] * 4] * 2))
    report = job(tmp_path / "t.parquet", net, tmp_path / "out", id="id")
    assert report.errors == {"InputError": 2}
    assert "encoded pictures, lists of numbers" in answers(tmp_path / "out")[0]["error"]["message"]


@pytest.mark.parametrize("type_", [pa.null(), pa.list_(pa.float32()), pa.binary()])
def test_a_column_that_is_all_null(type_: Any, tmp_path: Path, net: Path) -> None:
    write(tmp_path / "t.parquet", pa.nulls(3, type_))
    report = job(tmp_path / "t.parquet", net, tmp_path / "out", id="id")
    assert report.rows == report.error_count == 3
    assert "no record could be computed" in report.notes[0]
    assert [row["error"]["message"] for row in answers(tmp_path / "out")] == [
        "column 'data' is null"
    ] * 3


def test_ids(tmp_path: Path, net: Path) -> None:
    values = vectors(4)
    for bad, text in (
        (["a", None, "b", "c"], "has nulls"),
        ([1.0, float("nan"), 2.0, float("nan")], "has nulls"),
        (["a", "b", "a", "c"], r"occur twice, such as 'a'"),
        ([["a"], ["b"], ["c"], ["d"]], "text or numbers name records"),
    ):
        table(tmp_path / "t.parquet", values, bad)
        with pytest.raises(InputError, match=text):
            job(tmp_path / "t.parquet", net, tmp_path / "out", id="id")
    for name in ("nothing", "key"):
        with pytest.raises(
            InputError, match=rf"the source has no column '{name}'; it has id, data"
        ):
            job(tmp_path / "t.parquet", net, tmp_path / "out", id=name)
    assert not (tmp_path / "out").exists(), "nothing is written before that is known"


def test_an_id_twice_in_two_files(tmp_path: Path, net: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(2):
        table(tmp_path / "in" / f"{number}.parquet", vectors(3))
    with pytest.raises(InputError, match="'r0', 'r1', 'r2'"):
        job(tmp_path / "in", net, tmp_path / "out", id="id")


@pytest.mark.parametrize(
    "ids",
    [
        pa.array([3, 1, 2], pa.int8()),
        pa.array([b"\xff", b"b", b"c"]),
        pa.array([1, 2, 3], pa.timestamp("us")),
        pa.array([0.5, 1.5, float("inf")]),
        pa.array(["x", "y", "z"]).dictionary_encode(),
    ],
)
def test_types_of_ids(ids: Any, tmp_path: Path, net: Path) -> None:
    write(tmp_path / "t.parquet", forms(vectors(3))["list"], ids)
    report = job(tmp_path / "t.parquet", net, tmp_path / "out", id="id")
    assert report.rows == 3 and not report.errors
    again = job(tmp_path / "t.parquet", net, tmp_path / "out", id="id")
    assert again.new_rows == 0 and list(by_id(tmp_path / "out")) == ids.to_pylist()


def test_several_files_and_their_columns(tmp_path: Path, net: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        table(
            tmp_path / "in" / f"{number}.parquet", vectors(3), [f"{number}-{i}" for i in range(3)]
        )
    report = job(tmp_path / "in", net, tmp_path / "out", id="id")
    assert report.rows == 9
    pq.write_table(pa.table({"id": ["x"], "other": [1]}), tmp_path / "in" / "3.parquet")
    with pytest.raises(InputError, match=r"3.parquet has no column 'data', which .*: a pattern"):
        job(tmp_path / "in", net, tmp_path / "other", id="id")


def test_a_kept_column_of_two_types(tmp_path: Path, net: Path) -> None:
    """Files that another program wrote in turn: one type holds all, or nothing is begun."""
    (tmp_path / "in").mkdir()
    for number, numbers in enumerate((pa.array([1], pa.int32()), pa.array([2], pa.int64()))):
        path = tmp_path / "in" / f"{number}.parquet"
        table(path, vectors(1), [number], kept=numbers)
    job(tmp_path / "in", net, tmp_path / "out", id="id", keep=["kept"])
    (part,) = (tmp_path / "out").glob("*.parquet")
    assert pq.read_table(part).column("kept").type == pa.int64()
    table(tmp_path / "in" / "2.parquet", vectors(1), [2], kept=pa.array(["x"]))
    with pytest.raises(
        InputError, match=r"2.parquet: column 'kept' is string, and int64 in .*: write it alike"
    ):
        job(tmp_path / "in", net, tmp_path / "out", id="id", keep=["kept"])
    assert len(answers(tmp_path / "out")) == 2


def test_columns_of_views(tmp_path: Path, net: Path) -> None:
    """Arrow has no way to take rows of them; written as the error says, they are read."""
    views = pa.array(["a", "b"]).cast(pa.string_view())
    for ids, fails in ((views, True), (views.cast(pa.string()), False)):
        table(tmp_path / "t.parquet", vectors(2), ids)
        if fails:
            with pytest.raises(InputError, match=r"column 'id' is string_view, .* write it as str"):
                job(tmp_path / "t.parquet", net, tmp_path / "out", id="id")
        else:
            assert job(tmp_path / "t.parquet", net, tmp_path / "out", id="id").rows == 2


def test_the_column_of_an_input(tmp_path: Path, net: Path) -> None:
    values = vectors(2)
    columns = {"a": list(values), "b": list(values + 1)}
    pq.write_table(pa.table({"id": [0, 1], **columns}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="nothing says which column input 'data' is read from"):
        job(tmp_path / "t.parquet", net, tmp_path / "out", id="id")
    with pytest.raises(InputError, match="there is no input 'x'; the inputs are data"):
        job(tmp_path / "t.parquet", net, tmp_path / "out", id="id", columns={"x": "a"})
    with pytest.raises(InputError, match="has no column 'c'; it has id, a, b"):
        job(tmp_path / "t.parquet", net, tmp_path / "out", id="id", columns={"data": "c"})
    with pytest.raises(InputError, match="has no column 'more'"):
        job(
            tmp_path / "t.parquet", net, tmp_path / "out", id="id", columns={"data": "b"},
            keep=["more"],
        )  # fmt: skip
    job(tmp_path / "t.parquet", net, tmp_path / "out", id="id", columns={"data": "b"})
    check_squares(tmp_path / "out", values + 1, [0, 1])


def test_two_columns_of_one_name(tmp_path: Path, net: Path) -> None:
    """Be it in a later file only."""
    found = pa.table({"id": [1], "data": [[1.0, 2.0, 3.0, 4.0]]})
    pq.write_table(found, tmp_path / "a.parquet")
    pq.write_table(found.append_column("id", pa.array([2])), tmp_path / "b.parquet")
    with pytest.raises(InputError, match="b.parquet has two columns of the name 'id'"):
        job(str(tmp_path / "*.parquet"), net, tmp_path / "out", id="id")


def test_a_table_without_rows(tmp_path: Path, net: Path) -> None:
    table(tmp_path / "t.parquet", vectors(0))
    report = job(tmp_path / "t.parquet", net, tmp_path / "out", id="id")
    assert (report.rows, report.state) == (0, "done")
    assert "the source has no records" in report.notes[0]


@pytest.mark.parametrize("kind", ["npy", "npz", "fortran", "big-endian", "half", "integers"])
def test_arrays(kind: str, tmp_path: Path, net: Path) -> None:
    values = vectors(70)
    path = tmp_path / ("a.npz" if kind == "npz" else "a.npy")
    if kind == "npz":
        np.savez(path, data=values, other=np.zeros(70))
    elif kind == "fortran":
        np.save(path, np.asfortranarray(values))
    elif kind == "big-endian":
        np.save(path, values.astype(">f4"))
    elif kind == "half":
        values = values.astype(np.float16).astype(np.float32)
        np.save(path, values.astype(np.float16))
    elif kind == "integers":
        values = values.astype(np.int64)
        np.save(path, values)
    else:
        np.save(path, values)
    job(path, net, tmp_path / "out")
    check_squares(tmp_path / "out", values, [f"{path}#{number}" for number in range(70)], "row")


def test_arrays_of_truth_values(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 2, (3, 2, 2)).astype(bool)
    np.save(tmp_path / "a.npy", values)
    job(tmp_path / "a.npy", write_net(tmp_path, ANY_SQUARES), tmp_path / "out")
    found = [row["out"] for row in answers(tmp_path / "out")]
    np.testing.assert_array_equal(found, values.astype(np.float32))


@pytest.mark.parametrize(
    "array, text",
    [
        (np.float32(1), "array 'data' is a single number: its first axis has rows"),
        (np.array(["a"]), "holds <U1: numbers are read"),
        (np.zeros(1, [("a", "f4")]), "numbers are read"),
        (np.array([{}]), "is no NumPy file"),
        (np.zeros((2, 4), np.complex64), "holds complex64: numbers are read"),
        pytest.param(
            np.zeros((2, 4), np.longdouble),
            "numbers are read",
            marks=pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="a double"),
        ),
    ],
)
def test_arrays_that_are_refused(array: Any, text: str, tmp_path: Path, net: Path) -> None:
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    with pytest.raises(VknnError, match=text):
        job(tmp_path / "a.npy", net, tmp_path / "out")


def test_archives_of_arrays_that_are_refused(tmp_path: Path, net: Path) -> None:
    np.savez(tmp_path / "a.npz", data=vectors(3), other=vectors(2))
    np.savez(tmp_path / "none.npz")
    with pytest.raises(InputError, match="none.npz has no arrays in it"):
        job(tmp_path / "none.npz", net, tmp_path / "out")
    with pytest.raises(InputError, match=r"first axes count rows and differ: data \[3, 4\], other"):
        job(tmp_path / "a.npz", net, tmp_path / "out")
    (tmp_path / "in").mkdir()
    np.savez(tmp_path / "in" / "a.npz", data=vectors(3))
    np.savez(tmp_path / "in" / "b.npz", date=vectors(3))
    with pytest.raises(InputError, match="b.npz has no column 'data', which"):
        job(tmp_path / "in", net, tmp_path / "out")


@pytest.mark.parametrize("kind", ["numbers", "npy"])
def test_numbers_for_an_input_with_a_free_batch(kind: str, tmp_path: Path) -> None:
    """A plain number is a record of an input [any, 1], a flat list one of [any, 2, 3]."""
    values = np.arange(5, dtype=np.float32)
    spec = TensorSpec("x", (None, 1), np.dtype(np.float32))
    assert fitted(values[3], spec, "c").tolist() == [[3.0]]
    assert fitted(values[:2], spec, "c").shape == (1, 2), "which the model refuses"
    wide = TensorSpec("x", ("N", 2, 3), np.dtype(np.float32))
    assert fitted(np.zeros(6, np.float32), wide, "c").shape == (1, 2, 3)
    assert fitted(np.zeros((2, 3), np.float32), wide, "c").shape == (1, 2, 3)
    source = tmp_path / f"rows.{'npy' if kind == 'npy' else 'parquet'}"
    if kind == "npy":
        np.save(source, values)
    else:
        pq.write_table(pa.table({"id": range(5), "x": values}), source)
    made = onnx.graph([onnx.node("Neg", "x")], [onnx.value("x", ("N", 1))], [onnx.value("y", None)])
    net = onnx.save(onnx.model(made), tmp_path)
    report = job(source, net, tmp_path / "out", id=None if kind == "npy" else "id")
    assert report.errors == {}
    assert [np.ravel(row["y"]).tolist() for row in answers(tmp_path / "out")] == [
        [-v] for v in values
    ]


@pytest.mark.parametrize(
    ("shape", "batch", "rows"),
    [
        ((3, 227, 227), 32, 32),  # 20 MB, which Ray leaves as it is
        ((3, 227, 227), 5, 25),
        ((3, 600, 600), 32, 3),
        ((1, 28, 28), 1000, 1000),
        ((1, 28, 28), 300, 900),
        ((1, 28, 28), 5000, 1024),
        ((9000, 9000), 1, 1),
        ((), 32, 1024),
    ],
)
def test_blocks_are_whole_batches(shape: tuple[int, ...], batch: int, rows: int) -> None:
    type_ = pa.fixed_shape_tensor(pa.float32(), shape) if shape else None
    assert block_rows([pa.string(), type_], batch) == rows
