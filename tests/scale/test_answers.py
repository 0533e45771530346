"""Answers: types of columns, values, what is kept, names that collide, and other formats."""

from __future__ import annotations

import base64
import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import layer, model
from tests.scale.jobs import (
    ANY_SQUARES,
    answers,
    by_id,
    document,
    job,
    picture_net,
    pictures,
    read_picture,
    table,
    vectors,
    write_net,
)

import vknn
from vknn import scale
from vknn.errors import InputError, UnsupportedLayerError, VknnError
from vknn.scale.columns import OutputColumn, output_columns
from vknn.scale.convert import convert

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def whole(folder: Path) -> Any:
    return pa.concat_tables([pq.read_table(p) for p in sorted(folder.glob("*.parquet"))])


@pytest.mark.parametrize("device", ["numpy", pytest.param("vulkan", marks=pytest.mark.device)])
def test_values_are_those_of_sessions(device: str, tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    paths = pictures(tmp_path / "in", 70)  # more than two batches
    net = picture_net(tmp_path)
    # A run of several records may round otherwise than that of one: test_stacked.py.
    report = job(tmp_path / "in", net, tmp_path / "out", device=device, stacked=1)
    found = whole(tmp_path / "out")
    assert found.schema.field("out").type == pa.fixed_shape_tensor(pa.float32(), (5,))
    assert found.column("path").to_pylist() == [str(path) for path in paths]
    assert found.column("error").null_count == 70
    with vknn.Session(net, device=device) as session:
        for path, row in zip(paths, answers(tmp_path / "out"), strict=True):
            right = session.run({"data": read_picture(path)})["out"]
            assert np.float32(row["out"]).tobytes() == right.tobytes()
            assert row["label"] == str(int(np.argmax(right)))
            assert row["probability"] == float(np.max(right))
    (used,) = report.devices
    assert set(found.column("device").to_pylist()) == {used}
    assert len(set(found.column("batch").to_pylist())) == 3
    assert (used == "numpy") == (device == "numpy")
    assert report.devices[used].checks == (device != "numpy")


def test_shapes_that_differ_are_nested_lists(tmp_path: Path) -> None:
    data = [[1.0], [1.0, 2.0, 3.0], [2.0, 2.0]]
    pq.write_table(pa.table({"id": [0, 1, 2], "data": data}), tmp_path / "t.parquet")
    job(tmp_path / "t.parquet", write_net(tmp_path, ANY_SQUARES), tmp_path / "out", id="id")
    found = whole(tmp_path / "out")
    assert found.schema.field("out").type == pa.list_(pa.float32())
    assert found.column("out").to_pylist() == [[v * v for v in row] for row in data]


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8", "bool", "text"])
def test_nested_lists_of_all_types(rank: int, dtype: str) -> None:
    rng = np.random.default_rng(rank)
    shapes = [(2, 3, 1), (0, 2, 2), (3, 1, 2), (1, 0, 2)]
    arrays: list[Any] = []
    for shape in shapes:
        values = rng.integers(0, 2, shape[:rank])
        arrays.append(
            values.astype(str).astype(object) if dtype == "text" else values.astype(dtype)
        )
    column = OutputColumn("y", "y", dtype, (None,) * rank)
    found = column.array([arrays[0], None, *arrays[1:], None]).to_pylist()
    assert found == [arrays[0].tolist(), None, *(a.tolist() for a in arrays[1:]), None]
    assert column.array([None, None]).to_pylist() == [None, None]
    assert column.array([]).to_pylist() == []


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint16", "float16"])
def test_tensors_and_numbers(dtype: str) -> None:
    values = np.arange(6).reshape(2, 3).astype(dtype)
    column = OutputColumn("y", "y", dtype, (2, 3))
    made = column.array([None, values, None])
    assert made.type == pa.fixed_shape_tensor(pa.from_numpy_dtype(np.dtype(dtype)), (2, 3))
    assert made.null_count == 2 and made.storage.to_pylist()[1] == values.reshape(-1).tolist()
    number = OutputColumn("n", "n", dtype, ())
    assert number.array([np.dtype(dtype).type(2), None]).to_pylist() == [2, None]


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
def test_tensors_without_nulls(dtype: str) -> None:
    """What Ray can give to others: NaN in place of null, or 0 where there is none."""
    column = OutputColumn("c", "c", dtype, (2,))
    array = column.array([np.ones(2, dtype), None], True)
    assert array.null_count == 0 and array.type == column.type()
    good, bad = array.to_numpy_ndarray()
    assert good.tolist() == [1, 1]
    assert not bad.any() if dtype == "int64" else np.isnan(bad).all()
    assert column.array([np.ones(2, dtype), None]).null_count == 1


def test_types_that_arrow_lacks() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = {
        "b": np.ones(2, ml_dtypes.bfloat16), "c": np.array([1 + 2j], np.complex64),
        "t": np.array(["x", "y"], object), "r": np.array([b"\xff"], object),
    }  # fmt: skip
    columns = output_columns(values, {}, None, ())
    assert [c.dtype for c in columns] == ["float32", "float32", "text", "bytes"]
    found = {c.name: c.array([values[c.output]]).to_pylist()[0] for c in columns}
    assert found == {"b": [1.0, 1.0], "c": [[1.0, 2.0]], "t": ["x", "y"], "r": [b"\xff"]}


def test_values_that_do_not_fit_their_column() -> None:
    column = OutputColumn("y", "y", "float32", (2, None))
    assert column.problem(np.zeros((2, 7))) is None
    assert "its shape is [3, 1]" in str(column.problem(np.zeros((3, 1))))
    assert "its shape is [2]" in str(column.problem(np.zeros(2)))
    scores = OutputColumn("s", "s", "float64", None)
    assert (
        scores.problem({"a": 1.0}) is None and scores.problem(np.zeros(2)) == "it is no dictionary"
    )


def test_dictionaries_and_labels(tmp_path: Path) -> None:
    made = model([layer("copy")], {"x": (3,)}, [], kind="neuralNetworkClassifier")
    made.description.predictedFeatureName = "classLabel"
    made.description.predictedProbabilitiesName = "scores"
    made.neuralNetworkClassifier.stringClassLabels.vector.extend(["cat", "dog", "fox"])
    for name in ("classLabel", "scores"):
        made.description.output.add(name=name).type.SetInParent()
    path = tmp_path / "net.mlmodel"
    path.write_bytes(made.SerializeToString())
    values = vectors(4)[:, :3]
    table(tmp_path / "t.parquet", values)
    job(tmp_path / "t.parquet", path, tmp_path / "out", id="id")
    found = whole(tmp_path / "out")
    with vknn.Session(path, device="numpy") as session:
        names = session.run({"x": values[0]})
        for row, x in zip(found.to_pylist(maps_as_pydicts="strict"), values, strict=True):
            right = session.run({"x": x})
            for name, value in right.items():
                column = name if name in row else f"{name}_output"
                expected = (
                    {k: float(v) for k, v in value.items()} if isinstance(value, dict) else value
                )
                assert row[column] == expected
    assert any(isinstance(value, dict) for value in names.values())
    scores = found.schema.field("scores").type
    assert pa.types.is_map(scores) and scores.item_type == pa.float64()


def test_kept_columns_keep_their_types(tmp_path: Path) -> None:
    more = {
        "when": pa.array([1, 2, None], pa.timestamp("ms", "UTC")),
        "tags": pa.array([["a"], [], None]),
        "kind": pa.array(["x", "y", "x"]).dictionary_encode(),
        "deep": pa.array([{"a": 1}, None, {"a": 3}]),
    }
    table(tmp_path / "t.parquet", vectors(3), **more)
    job(tmp_path / "t.parquet", write_net(tmp_path), tmp_path / "out", id="id", keep=["id", *more])
    found = whole(tmp_path / "out")
    assert found.column_names == ["id", *more, "out", "device", "batch", "error"]
    for name, column in more.items():
        assert found.column(name).type == column.type
        assert found.column(name).to_pylist() == column.to_pylist()


def test_names_that_collide(tmp_path: Path) -> None:
    text = write_net(tmp_path).read_text()
    for name in ("label", "device", "own"):
        net = write_net(tmp_path, text.replace("data out", f"data {name}"))
        table(tmp_path / "t.parquet", vectors(2), own=pa.array(["a", "b"]))
        out = tmp_path / name
        job(tmp_path / "t.parquet", net, out, id="id", keep=["own"], columns={"data": "data"})
        rows = answers(out)
        np.testing.assert_array_equal(rows[1][f"{name}_output"], np.square(vectors(2)[1]))
        assert rows[1]["own"] == "b" and rows[1]["device"] == "numpy"
    values = {name: np.zeros(1) for name in ("label", "label_output", "error", "x")}
    columns = [c.name for c in output_columns(values, {}, None, ("x", "id"))]
    assert len(set(columns)) == 4 and not {"label", "error", "x"} & set(columns)
    for reserved in ("device", "error"):
        with pytest.raises(InputError, match=f"column '{reserved}' cannot be kept"):
            scale.Predictor("net.param", keep=[reserved])
    for hidden in ({"keep": ["__vknn_error"]}, {"columns": {"data": "__vknn_error"}}):
        with pytest.raises(InputError, match="column '__vknn_error': names that begin with"):
            scale.Predictor("net.param", **hidden)


TWO = """7767517
3 4
Input   data 0 1 data 0=4
Split   two  1 2 data a b
UnaryOp one  1 1 a square 0=4
"""


def test_outputs_that_are_wanted(tmp_path: Path) -> None:
    net = write_net(tmp_path, TWO)
    table(tmp_path / "t.parquet", vectors(2))
    job(tmp_path / "t.parquet", net, tmp_path / "all", id="id")
    job(tmp_path / "t.parquet", net, tmp_path / "one", id="id", outputs=["square"])
    assert {"b", "square"} <= set(answers(tmp_path / "all")[0])
    assert set(answers(tmp_path / "one")[0]) == {"id", "square", "device", "batch", "error"}
    with pytest.raises(VknnError, match="there is no output 'circle'; there are b, square"):
        job(tmp_path / "t.parquet", net, tmp_path / "none", id="id", outputs=["circle"])
    with pytest.raises(InputError, match="expected a list of names"):
        scale.Predictor(net, outputs="square")


def test_sequences_have_no_column() -> None:
    with pytest.raises(UnsupportedLayerError, match="is a sequence"):
        output_columns({"s": [np.zeros(2)]}, {}, None, ())


def test_what_is_found(tmp_path: Path) -> None:
    """A detector's answers, as its recipe says: boxes in pixels of each picture."""
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "in").mkdir()
    for number, values in enumerate(([255, 128], [0, 0])):  # a row of a detection; nothing is found
        row = np.uint8([1 * (number == 0), values[0], 0, 0, values[1], 64])  # class, score, box
        image.fromarray(row[None]).save(tmp_path / "in" / f"{number}.png")
    net = write_net(
        tmp_path,
        "7767517\n3 3\nInput data 0 1 data 0=6 1=1 2=1\n"
        "BinaryOp scale 1 1 data scaled 0=2 1=1 2=1\n"
        "Reshape out 1 1 scaled out 0=6 1=1\n",
    )
    recipe = {
        "task": "detection", "input": {"name": "data"}, "decode": {"kind": "rows", "rows": "out"},
        "labels": ["a", "b"],
    }  # fmt: skip
    (tmp_path / "r.json").write_text(json.dumps(recipe))
    job(
        tmp_path / "in", net, tmp_path / "out", recipe=tmp_path / "r.json", channels="gray",
        std=[255.0], threshold=0.5,
    )  # fmt: skip
    with pytest.raises(VknnError, match="holds another job: threshold=0.5, not 0.25"):
        job(
            tmp_path / "in", net, tmp_path / "out", recipe=tmp_path / "r.json", channels="gray",
            std=[255.0], threshold=0.25,
        )  # fmt: skip
    first, second = by_id(tmp_path / "out", "path").values()
    (thing,) = first["found"]
    assert (thing["class"], thing["score"], thing["points"]) == (0, 1.0, None)
    np.testing.assert_allclose(thing["box"], [0, 0, 6 * 128 / 255, 64 / 255], atol=0.005)
    assert second["found"] == [] and second["error"] is None


def test_json_lines_and_arrays(tmp_path: Path) -> None:
    values = vectors(3)
    data = pa.array([list(values[0]), None, list(values[2])], pa.list_(pa.float32()))
    pq.write_table(pa.table({"file": ["x", "y", "z"], "data": data}), tmp_path / "t.parquet")
    job(tmp_path / "t.parquet", write_net(tmp_path), tmp_path / "out", id="file")
    lines = Path(convert(tmp_path / "out", "jsonl")).read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["file"] for row in rows] == ["x", "y", "z"]
    np.testing.assert_array_equal(rows[2]["out"], np.square(values[2]))
    assert rows[1]["out"] is None and rows[1]["error"]["type"] == "InputError"
    assert convert(tmp_path / "out", "npz") == str(tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as arrays:
        assert arrays["file"].tolist() == ["x", "y", "z"]
        np.testing.assert_array_equal(arrays["out"][[0, 2]], np.square(values[[0, 2]]))
        assert np.isnan(arrays["out"][1]).all(), "no zeros that look like an answer"
        assert json.loads(arrays["error"][1])["type"] == "InputError" and arrays["error"][0] == ""
        assert arrays["out"].dtype == np.float32


def test_kept_columns_that_are_converted(tmp_path: Path) -> None:
    pairs = pa.array([[("a", 1), ("a", 2)], [("b", 3)]], pa.map_(pa.string(), pa.int32()))
    for name, column in (("map", pairs), ("text", pa.array(["x", None], pa.large_string()))):
        table(tmp_path / "t.parquet", vectors(2), kept=column)
        out = tmp_path / name
        job(tmp_path / "t.parquet", write_net(tmp_path), out, id="id", keep=["kept"])
        lines = [
            json.loads(line)
            for line in Path(convert(out, "jsonl")).read_text(encoding="utf-8").splitlines()
        ]
        assert [line["kept"] for line in lines] == {
            "map": [[["a", 1], ["a", 2]], [["b", 3]]],
            "text": ["x", None],
        }[name]
        made = np.load(convert(out, "npz"))["kept"]
        if name == "map":
            assert json.loads(made[0]) == [["a", 1], ["a", 2]]
    assert list(made) == ["x", ""]


def test_kept_columns_that_json_and_numpy_have_no_type_for(tmp_path: Path) -> None:
    """Each is text from which it can be had back; what is alike to a reader is not made so."""
    raw = [b"\xff\x00", b"\xfe\x00"]
    tensors = pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.int8(), [2, 3], permutation=[1, 0]),
        pa.array([[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]], pa.list_(pa.int8(), 6)),
    )
    kept = {
        "raw": raw, "file": [{"bytes": one, "path": None} for one in raw],
        "day": [date(2026, 1, 2)] * 2, "price": [Decimal("1.25")] * 2, "turned": tensors,
        "things": [[{"score": 0.5}], []], "words": [["a", "bc"], None],
    }  # fmt: skip
    table(tmp_path / "t.parquet", vectors(2), **kept)
    job(tmp_path / "t.parquet", write_net(tmp_path), tmp_path / "out", id="id", keep=[*kept])
    text = Path(convert(tmp_path / "out", "jsonl")).read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    arrays = np.load(convert(tmp_path / "out", "npz"))
    for number, one in enumerate(raw):
        assert base64.b64decode(lines[number]["raw"]) == one
        assert base64.b64decode(arrays["raw"][number]) == one
        for file in (lines[number]["file"], json.loads(arrays["file"][number])):
            assert base64.b64decode(file["bytes"]) == one and file["path"] is None
    assert lines[0]["day"] == arrays["day"][0] == "2026-01-02"
    assert lines[0]["price"] == arrays["price"][0] == "1.25"
    assert arrays["turned"][0].tolist() == lines[0]["turned"] == [[1, 4], [2, 5], [3, 6]]
    assert [json.loads(one) for one in arrays["things"]] == kept["things"]
    assert arrays["words"].tolist() == [["a", "bc"], ["", ""]]


def test_what_is_not_finite_is_null_in_json(tmp_path: Path) -> None:
    values = np.array([[np.nan, np.inf, -np.inf, 2.0]], np.float32)
    source = table(tmp_path / "t.parquet", values)
    job(source, write_net(tmp_path), tmp_path / "out", id="id")
    (line,) = Path(convert(tmp_path / "out", "jsonl")).read_text(encoding="utf-8").splitlines()
    assert json.loads(line, parse_constant=pytest.fail)["out"] == [None, None, None, 4.0]


def test_integers_that_are_null(tmp_path: Path) -> None:
    data = pa.array([[1.0] * 4, None], pa.list_(pa.float32()))
    number = pa.array([None, 7], pa.int64())
    pq.write_table(pa.table({"id": [0, 1], "data": data, "n": number}), tmp_path / "t.parquet")
    job(tmp_path / "t.parquet", write_net(tmp_path), tmp_path / "out", id="id", keep=["n"])
    with pytest.raises(VknnError, match="column 'n' has nulls, and .npz has no integers for these"):
        convert(tmp_path / "out", "npz")


def test_conversions_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(VknnError, match="has no answers"):
        convert(tmp_path / "nowhere", "npz")
    data = [[1.0], [1.0, 2.0]]
    pq.write_table(pa.table({"id": [0, 1], "data": data}), tmp_path / "t.parquet")
    job(tmp_path / "t.parquet", write_net(tmp_path, ANY_SQUARES), tmp_path / "out", id="id")
    with pytest.raises(VknnError, match="rows of different shapes"):
        convert(tmp_path / "out", "npz")
    assert not (tmp_path / "out.npz").exists()
    assert convert(tmp_path / "out", "jsonl") == str(tmp_path / "out.jsonl")


def test_job_json(tmp_path: Path) -> None:
    table(tmp_path / "t.parquet", vectors(3))
    net = write_net(tmp_path)
    report = job(
        tmp_path / "t.parquet", net, tmp_path / "out", id="id", mean=np.ones(3, np.float32)
    )
    found = document(tmp_path / "out")
    assert found["state"] == "done" and found["versions"]["vknn"] == vknn.__version__
    assert found["versions"]["pyarrow"] == pa.__version__
    assert found["model"]["name"] == "net.param" and len(found["model"]["sha256"]) == 64
    assert found["options"]["id"] == "id" and found["options"]["mean"] == [1.0, 1.0, 1.0]
    assert found["report"]["rows"] == report.rows == 3
    assert json.loads(report.to_json())["devices"]["numpy"]["rows"] == 3
    assert "3 rows" in str(report) and "(local)" in str(report)
    from vknn.scale.report import report_of

    assert report_of(json.loads(report.to_json())) == report
    job(tmp_path / "t.parquet", net, tmp_path / "out", id="id", mean=[1.0] * 3)
    again = document(tmp_path / "out")  # of a run that had nothing to do
    assert again["report"]["devices"] == {} and again["devices"] == {"numpy": "NumPy"}
