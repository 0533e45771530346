"""Graphs with their inputs as folders: what is written is read again, and damage is refused."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.small_model import write_small_model

import vknn
from vknn.errors import ModelFormatError, UnsupportedLayerError, VknnError
from vknn.formats import load
from vknn.formats.graph_folder.attributes import BadAttribute, op_document, op_of, operators
from vknn.formats.graph_folder.writer import save
from vknn.graph import DType, GraphBuilder, TensorType
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Add, Relu
from vknn.session import engine_of
from vknn.tool_inputs import complete_feeds

MIXED = ("ncnn", "onnx", "tflite", "coreml", "openvino")


def written(folder: Path) -> Path:
    """A folder with a small convolution in it."""
    builder = GraphBuilder("small")
    x = builder.input("x", TensorType((1, 3, 5, 4)))
    random_ = np.random.default_rng(3)
    w = builder.constant(random_.standard_normal((2, 3, 3, 3)).astype(np.float32), "w")
    y = builder.add(Conv(strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1), group=1), x, w)
    z = builder.add(Relu(), y)
    feeds = {"x": random_.standard_normal((1, 3, 5, 4)).astype(np.float32)}
    folder.mkdir(exist_ok=True)
    save(folder, builder.finish({"z": z, "y": y}), feeds)
    return folder


def test_a_network_gives_the_same_results_from_its_folder(tmp_path: Path) -> None:
    model = write_small_model(tmp_path)
    data = np.random.default_rng(1).standard_normal((3, 8, 8)).astype(np.float32)
    folder = tmp_path / "folder"
    folder.mkdir()
    with vknn.Session(model, device="numpy") as session:
        expected = session.run({"data": data})
        engine = engine_of(session)
        save(folder, engine.graph({"data": data}), engine.encode({"data": data}))
    with vknn.Session(folder, device="numpy") as session:
        found = session.run({})
        assert [spec.fixed for spec in session.inputs] == [(1, 3, 8, 8)]
        changed = session.run({"data": np.zeros((1, 3, 8, 8), np.float32)})
    np.testing.assert_array_equal(found["out"].reshape(-1), expected["out"].reshape(-1))
    assert not np.array_equal(found["out"], changed["out"])


@pytest.mark.device
def test_every_command_opens_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from vknn.cli.main import main

    folder = written(tmp_path / "case")
    for command in (["verify"], ["run"], ["info"], ["bench", "--runs", "1"]):
        assert main([command[0], str(folder), *command[1:]]) == 0, capsys.readouterr()
    assert "Conv" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("kind", MIXED)
def test_models_of_all_formats_are_written(kind: str, shared: Path, tmp_path: Path) -> None:
    suffixes = {"ncnn": ".param", "coreml": ".mlmodel", "openvino": ".xml"}
    files = sorted((shared / "models" / kind).rglob(f"*{suffixes.get(kind, f'.{kind}')}"))
    small = [f for f in files if f.stat().st_size < 100_000]
    done = 0
    for path in random.Random(7).sample(small, min(len(small), 12)):
        folder = tmp_path / str(done)
        folder.mkdir(exist_ok=True)
        try:
            with vknn.Session(path, device="numpy") as session:
                feeds = complete_feeds(session)
                engine = engine_of(session)
                graph, arrays = engine.graph(feeds), engine.encode(feeds)
                if graph.continuation is not None or not graph.nodes:
                    continue
                expected = engine.program(feeds).run({v.name: arrays[v.name] for v in graph.inputs})
        except VknnError:  # inputs of a shape that the file leaves open, weights that lie elsewhere
            continue
        save(folder, graph, arrays)
        with vknn.Session(folder, device="numpy") as session:
            found = session.run({})
        for name, array in expected.items():
            assert found[name].dtype == array.dtype, path
            np.testing.assert_array_equal(found[name], array, err_msg=str(path))
        done += 1
    assert done >= 1


def test_small_and_special_values_come_back(tmp_path: Path) -> None:
    builder = GraphBuilder()
    arrays = {
        "bfloat16": np.array([1.5, -2, np.inf], DType.BFLOAT16.numpy),
        "int4": np.array([[-8, 7]], DType.INT4.numpy),
        "string": np.array([b"a\0b", "ä".encode()], object),
        "complex64": np.array([1 + 2j, np.nan], np.complex64),
        "bool": np.array([True, False]),
        "empty": np.zeros((0, 3), np.float32),
        "scalar": np.array(7, np.int64),
    }
    values = {n: builder.input(n, TensorType.of(a)) for n, a in arrays.items()}
    save(tmp_path, builder.finish(values), arrays)
    found = load(tmp_path).recorded
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        assert [*map(str, found[name].reshape(-1))] == [*map(str, array.reshape(-1))]


def test_every_operator_with_attributes_comes_back() -> None:
    assert len(operators()) > 150
    conv = Conv(strides=(2, 1), pads=(0, 1, 2, 3), dilations=(1, 1), group=3)
    assert op_of(json.loads(json.dumps(op_document(conv)))) == conv


@pytest.mark.parametrize(
    "document",
    [
        {"type": "NoSuchOperator"},
        {"type": "Conv", "strides": "1"},
        {"type": "Conv", "strides": [1, 1.5]},
        {"type": "Conv", "color": 1},
        {"type": "Relu", "x": 1},
        {"type": "Fused", "base": {"type": "object"}},
        {"type": "Custom", "layer": {"format": "ncnn", "layer": "nobody's"}},
        [],
    ],
)
def test_attributes_that_make_no_sense_are_refused(document: Any) -> None:
    with pytest.raises(BadAttribute):
        op_of(document)


def test_a_layer_of_ones_own_is_asked_for(tmp_path: Path) -> None:
    folder = written(tmp_path / "case")
    text = (folder / "graph.json").read_text()
    custom = '{"type": "Custom", "layer": {"format": "ncnn", "layer": "Mine"}}'
    (folder / "graph.json").write_text(text.replace('{"type": "Relu"}', custom))
    with pytest.raises(UnsupportedLayerError, match="--layers"):
        load(folder)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros((1, 3, 5, 3), np.float32), "not float32"),
        (np.zeros((1, 3, 5, 4), np.float64), "not float32"),
        (np.array([{}], object), "object"),
    ],
    ids=["shape", "dtype", "pickle"],
)
def test_arrays_that_are_others_are_refused(array: np.ndarray, words: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "case")
    with np.load(folder / "arrays.npz") as archive:
        arrays = dict(archive)
    np.savez(folder / "arrays.npz", **{**arrays, "a0": array})
    with pytest.raises(ModelFormatError, match=words) as caught:
        load(folder)
    assert "arrays.npz" in str(caught.value)


def test_a_shape_beyond_memory_is_refused_before_it_is_allocated(tmp_path: Path) -> None:
    folder = written(tmp_path / "case")
    text = (folder / "graph.json").read_text()
    (folder / "graph.json").write_text(text.replace("[1, 3, 5, 4]", f"[{1 << 40}, 3, 5, 4]"))
    with pytest.raises(vknn.OutOfMemoryError):
        load(folder)


def test_files_cut_off_and_of_newer_versions_are_refused(tmp_path: Path) -> None:
    folder = written(tmp_path / "case")
    text, data = (folder / "graph.json").read_text(), (folder / "arrays.npz").read_bytes()
    for end in (0, 1, 14, 40, len(text) // 2, len(text) - 3):
        (folder / "graph.json").write_text(text[:end])
        with pytest.raises(ModelFormatError):
            load(folder)
    (folder / "graph.json").write_text(text.replace('"vknn graph": 1', '"vknn graph": 2'))
    with pytest.raises(ModelFormatError, match="version 2"):
        load(folder)
    (folder / "graph.json").write_text(text)
    for end in (0, 10, len(data) // 2, len(data) - 5):
        (folder / "arrays.npz").write_bytes(data[:end])
        with pytest.raises(ModelFormatError):
            load(folder)
    (folder / "arrays.npz").unlink()
    with pytest.raises(ModelFormatError, match=r"arrays\.npz"):
        load(folder)


def _mutated(document: Any, rng: random.Random) -> Any:
    """The document with one value, anywhere in it, changed."""
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        items = node.items() if isinstance(node, dict) else enumerate(node)
        for key, value in items:
            places.append((node, key))
            if isinstance(value, dict | list):
                walk(value)

    walk(document)
    node, key = rng.choice(places)
    others = [None, -1, 0, 1, 2, 99, 1 << 70, 1.5, "", "x", [], {}, True, [1], {"float": "nan"}]
    node[key] = rng.choice(others)
    return document


def test_changed_documents_give_errors_or_results(tmp_path: Path) -> None:
    folder = written(tmp_path / "case")
    text, rng = (folder / "graph.json").read_text(), random.Random(11)
    opened, unnamed = 0, []
    for _ in range(300):
        (folder / "graph.json").write_text(json.dumps(_mutated(json.loads(text), rng)))
        try:
            with vknn.Session(folder, device="numpy") as session:
                session.run({})
            opened += 1
        except VknnError as error:
            if "graph.json" not in str(error) and "arrays.npz" not in str(error):
                unnamed.append(str(error))
    assert not unnamed
    assert 20 < opened < 280


def test_folders_without_a_graph_are_called_so(tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match="directory"):
        load(tmp_path)
    shutil.copytree(written(tmp_path / "case"), tmp_path / "copy")
    assert load(tmp_path / "copy" / "graph.json").outputs[0].name == "z"


def test_a_graph_that_data_decide_about_is_not_written(tmp_path: Path) -> None:
    builder = GraphBuilder()
    x = builder.input("x", TensorType((2,)))
    graph = builder.finish({"y": builder.add(Add(), x, x)}, continuation=object())  # type: ignore[arg-type]
    with pytest.raises(VknnError, match="loops"):
        save(tmp_path, graph, {"x": np.zeros(2, np.float32)})
