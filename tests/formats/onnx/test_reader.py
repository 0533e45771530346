"""Reading of ONNX files: what they hold, and errors that name file, node and remedy."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.onnx_writer import graph, model, node, save, simple, tensor, value

from vknn import Session
from vknn.errors import ModelFormatError, UnsupportedLayerError, VknnError
from vknn.formats.onnx import onnx_pb2 as pb
from vknn.formats.onnx.element_types import ELEMENT_TYPES
from vknn.formats.onnx.external import ExternalData
from vknn.formats.onnx.reader import parse_model
from vknn.formats.onnx.signature import looks_like_model
from vknn.formats.onnx.tensors import BadTensor, read_sparse, read_tensor
from vknn.graph import DType

X = np.arange(6, dtype=np.float32).reshape(2, 3)
EXTERNAL = ExternalData(None)


def run(message: Any, folder: Path, **feeds: Any) -> dict[str, Any]:
    with Session(save(message, folder), device="numpy") as session:
        return session.run(feeds or {"x": X})


def _samples(dtype: DType) -> np.ndarray:
    """Three elements of a type."""
    if dtype is DType.STRING:
        return np.array([b"a", b"", "é".encode()], object)
    if dtype.is_small_integer:
        return np.array([1, 0, 1], np.int8).astype(dtype.numpy)
    return np.array([1, 4, 2]).astype(dtype.numpy)


@pytest.mark.parametrize("number", sorted(ELEMENT_TYPES))
def test_raw_and_typed_data_agree(number: int) -> None:
    type_ = ELEMENT_TYPES[number]
    array = _samples(type_.dtype)
    typed = pb.Tensor(dims=[3], data_type=number)
    entries = getattr(typed, type_.field)
    if type_.dtype is DType.STRING:
        entries.extend(array.tolist())
    elif 0 < type_.bits < 8:
        codes = array.view(np.uint8) if type_.pattern else array.astype(np.int8).view(np.uint8)
        bits = [int(code) & ((1 << type_.bits) - 1) for code in codes]
        packed = sum(code << (i * type_.bits) for i, code in enumerate(bits))
        count = -(-3 * type_.bits // 8)
        whole = 8 % type_.bits == 0
        entries.extend(((packed >> (8 * i)) & 255 for i in range(count)) if whole else bits)
        raw = pb.Tensor(dims=[3], data_type=number)
        raw.raw_data = bytes((packed >> (8 * i)) & 255 for i in range(count))
        assert read_tensor(raw, EXTERNAL).array.tolist() == array.tolist()
    elif type_.pattern:
        entries.extend(array.view(np.uint16 if type_.bits == 16 else np.uint8).tolist())
    elif type_.dtype in (DType.COMPLEX64, DType.COMPLEX128):
        entries.extend([part for v in array.tolist() for part in (v.real, v.imag)])
    else:
        entries.extend([int(v) for v in array] if type_.dtype is DType.BOOL else array.tolist())
    found = read_tensor(typed, EXTERNAL)
    assert found.array.dtype == array.dtype
    assert found.array.tolist() == array.tolist()
    if type_.bits >= 8:
        whole = pb.Tensor(dims=[3], data_type=number, raw_data=array.tobytes())
        assert read_tensor(whole, EXTERNAL).array.tolist() == array.tolist()


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (
            pb.Tensor(dims=[2], data_type=1, raw_data=bytes(7)),
            "needs 8 bytes of raw_data, it has 7",
        ),
        (pb.Tensor(dims=[2], data_type=1, float_data=[1.0]), "needs 2 entries"),
        (pb.Tensor(dims=[2], data_type=1, int32_data=[1, 2]), "has its data in int32_data"),
        (pb.Tensor(dims=[2], data_type=99), "element type number 99"),
        (pb.Tensor(dims=[-1], data_type=1), "impossible shape"),
        (pb.Tensor(dims=[1 << 40, 1 << 40], data_type=1), "impossible shape"),
        (pb.Tensor(dims=[1] * 99, data_type=1), "99 axes"),
        (pb.Tensor(dims=[1], data_type=3, int32_data=[256]), "outside of -128..255"),
        (pb.Tensor(dims=[1], data_type=2, int32_data=[-129]), "outside of -128..255"),
        (pb.Tensor(dims=[1], data_type=8, string_data=[b"\xff"]), "no UTF-8"),
        (pb.Tensor(dims=[1], data_type=1, data_location=7), "unknown location 7"),
        (pb.Tensor(dims=[1], data_type=1, raw_data=bytes(4), float_data=[1]), "raw_data and"),
    ],
)
def test_bad_tensors(message: Any, text: str) -> None:
    with pytest.raises(BadTensor, match=text):
        read_tensor(message, EXTERNAL)


def test_bits_of_another_sign() -> None:
    """int32_data holds bit patterns, which some writers take from the signed type, some not."""
    for number, given, wanted in ((3, 200, -56), (2, -1, 255), (5, 65535, -1), (4, -2, 65534)):
        found = read_tensor(pb.Tensor(dims=[1], data_type=number, int32_data=[given]), EXTERNAL)
        assert found.array.tolist() == [wanted]


def test_sparse_tensors_become_dense() -> None:
    values, places = tensor("s", np.float32([5, 7])), np.int64([[0, 1], [1, 2]])
    wanted = [[0, 5, 0], [0, 0, 7]]
    for indices in (places, np.int64([1, 5])):
        sparse = pb.SparseTensor(values=values, indices=tensor("", indices), dims=[2, 3])
        assert read_sparse(sparse, EXTERNAL).array.tolist() == wanted
    for indices, dims in ((np.int64([1, 6]), [2, 3]), (np.int64([1, 1]), [2, 3])):
        with pytest.raises(BadTensor):
            read_sparse(
                pb.SparseTensor(values=values, indices=tensor("", indices), dims=dims), EXTERNAL
            )
    huge = pb.SparseTensor(values=values, indices=tensor("", np.int64([0, 1])), dims=[1 << 31])
    with pytest.raises(BadTensor, match="impossible shape"):
        read_sparse(huge, EXTERNAL)


def _external(folder: Path, **entries: str) -> Any:
    message = simple(node("Add", "x w"))
    weight = pb.Tensor(name="w", dims=[3], data_type=1, data_location=1)
    for key, text in entries.items():
        weight.external_data.add(key=key.encode(), value=text.encode())
    message.graph.initializer.append(weight)
    return message


def test_external_data(tmp_path: Path) -> None:
    data = np.arange(5, dtype=np.float32)
    (tmp_path / "sub dir").mkdir()
    (tmp_path / "sub dir" / "odd näme.bin").write_bytes(data.tobytes())
    message = _external(tmp_path, location="sub dir/odd näme.bin", offset="8", length="12")
    assert np.array_equal(run(message, tmp_path)["y"], X + data[2:5])


def test_external_data_are_mapped_and_not_read(tmp_path: Path) -> None:
    """Rows of a table of 256 MiB, and numbers in a second file."""
    with (tmp_path / "table.bin").open("wb") as file:
        file.truncate(1 << 28)
    (tmp_path / "row.bin").write_bytes(np.arange(7, dtype=np.float32).tobytes())
    made = [node("Gather", "table places", "rows"), node("Add", "rows row")]
    body = graph(made, [value("places", (2,), DType.INT64)], [value("y", None)])
    for name, dims, offset in (("table", [(1 << 26) // 4, 4], "0"), ("row", [4], "12")):
        tensor_ = body.initializer.add(name=name, dims=dims, data_type=1, data_location=1)
        for key, text in (("location", f"{name}.bin"), ("offset", offset)):
            tensor_.external_data.add(key=key.encode(), value=text.encode())
    places = np.array([1, (1 << 24) - 1])
    tracemalloc.start()
    try:
        found = run(model(body), tmp_path, places=places)["y"]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.tolist() == [[3, 4, 5, 6]] * 2
    assert peak < 16 << 20


def test_external_data_of_another_model(tmp_path: Path) -> None:
    """Bytes behind the last tensor are warned of, as in ncnn's and OpenVINO's .bin."""
    (tmp_path / "w.bin").write_bytes(bytes(24))
    message = _external(tmp_path, location="w.bin", offset="8", length="12")
    text = r"w\.bin: 4 of 24 bytes are left over behind the last tensor .* another model"
    with pytest.warns(RuntimeWarning, match=text):
        run(message, tmp_path)


def test_external_data_and_models_in_memory(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(12))
    message = _external(tmp_path, location="w.bin")
    data = message.SerializeToString()
    with pytest.raises(ModelFormatError, match="^a model in memory: .*open the model by its path"):
        Session(data, device="numpy")
    with pytest.raises(ModelFormatError, match="^a model in memory: .*opened by its path"):
        Session(data, bytes(12), device="numpy")
    assert np.array_equal(run(message, tmp_path)["y"], X)
    with Session(simple(node("Neg", "x")).SerializeToString(), device="numpy") as session:
        assert np.array_equal(session.run({"x": X})["y"], -X)


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ({"location": "../out.bin"}, "out of the model's folder"),
        ({"location": "/etc/passwd"}, "is absolute"),
        ({"location": "link.bin"}, "out of the model's folder"),
        ({"location": "pipe"}, "no ordinary file"),
        ({"location": "none.bin"}, "cannot be read"),
        ({"location": ""}, "no location"),
        ({"location": "in.bin", "offset": "40"}, "do not lie inside"),
        ({"location": "in.bin", "offset": "-4"}, "as offset"),
        ({"location": "in.bin", "length": "13"}, "needs 12 bytes"),
        ({"location": "in.bin", "length": "9" * 30}, "as length"),
    ],
)
def test_external_data_that_are_refused(entries: dict[str, str], text: str, tmp_path: Path) -> None:
    import os

    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "out.bin").write_bytes(bytes(40))
    (folder / "in.bin").write_bytes(bytes(40))
    (folder / "link.bin").symlink_to(tmp_path / "out.bin")
    os.mkfifo(folder / "pipe")
    with pytest.raises(ModelFormatError, match=text) as caught:
        run(_external(folder, **entries), folder)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ([node("Add", "x nothing")], "reads the value 'nothing', which nothing makes"),
        ([node("Relu", "x"), node("Abs", "x")], "'y' is made twice"),
        ([node("Add", "x b", "a"), node("Relu", "a", "b"), node("Relu", "b")], "in a circle"),
        ([node("", "x")], "without an operator"),
        ([node("Relu", "x", "z")], "nothing makes the output 'y'"),
        ([node("Relu", "x y")], "takes 1 inputs, not 2|circle"),
    ],
)
def test_graphs_that_contradict_themselves(nodes: Any, text: str, tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match=text) as caught:
        run(simple(*nodes), tmp_path)
    assert caught.value.file == str(tmp_path / "model.onnx")


def test_nodes_in_another_order_run(tmp_path: Path) -> None:
    found = run(simple(node("Abs", "a"), node("Neg", "x", "a")), tmp_path)
    assert np.array_equal(found["y"], X)


def test_versions_that_are_too_new_or_old(tmp_path: Path) -> None:
    body = graph([node("Relu", "x")], [value("x")], [value("y")])
    for given, text in (({"ir": 2}, "IR version 2"), ({"ir": 15}, "IR version 15")):
        with pytest.raises(ModelFormatError, match=text):
            run(model(body, **given), tmp_path)
    with pytest.raises(ModelFormatError, match=r"opset 29 .* 1 to 28"):
        run(model(body, opset=29), tmp_path)


def test_unknown_operators_are_listed_together(tmp_path: Path) -> None:
    message = simple(
        node("Strange", "x", "a", domain="my.own"), node("Odd", "a", "b"), node("Gelu", "b", "c"),
        node("TreeEnsemble", "c", "d", domain="ai.onnx.ml"),
        node("Conv", "d", "y", domain="com.microsoft.nchwc"), opset=13,
    )  # fmt: skip
    message.opset_import.add(domain="com.microsoft.nchwc", version=1)
    message.opset_import.add(domain="my.own", version=3)
    message.opset_import.add(domain="ai.onnx.ml", version=5)
    with pytest.raises(UnsupportedLayerError) as caught:
        run(message, tmp_path)
    text = "; ".join(caught.value.layers)
    assert len(caught.value.layers) == 5
    assert "my.own::Strange (domain my.own, opset 3)" in text
    assert "Odd (domain ai.onnx, opset 13)" in text
    assert "Gelu (domain ai.onnx, opset 13) is known from opset 20 on" in text
    assert "ai.onnx.ml, opset 5) is out of scope" in text
    assert "without the optimizations of level 3" in text


def _field(number: int, data: bytes) -> bytes:
    """A field of protobuf that holds bytes."""
    size, length = len(data), b""
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + data


def test_deep_subgraphs_and_absurd_sizes_end_soon(tmp_path: Path) -> None:
    data = graph([node("Relu", "x", "z")]).SerializeToString()
    for _ in range(300):  # a graph in an attribute of a node of a graph, and so on
        data = _field(1, _field(4, b"If") + _field(5, _field(1, b"g") + _field(6, data)))
    start = time.process_time()
    with pytest.raises(ModelFormatError, match="damaged or truncated"):
        parse_model(b"\x08\x07" + _field(7, data), "file")
    dims = np.int64([1 << 20, 1 << 20])
    with pytest.raises(VknnError, match="absurdly large"):
        run(simple(node("ConstantOfShape", "s"), s=dims), tmp_path)
    numbers = {"a": np.float32(0), "b": np.float32(1e30), "d": np.float32(1e-3)}
    with pytest.raises(VknnError, match="elements"):
        run(simple(node("Range", "a b d"), **numbers), tmp_path)
    assert time.process_time() - start < 10


def test_recognition() -> None:
    message = simple(node("Relu", "x"))
    assert looks_like_model(message.SerializeToString())
    assert looks_like_model(b"\x08\x07\x12\x07pytorch")
    for other in (b"", b"\x08\x07", b"\x08\x07\x12\x02\x0a\x00\xc2\x0c", b"{}", bytes(40)):
        assert not looks_like_model(other)


def test_bytes_that_are_no_model(tmp_path: Path) -> None:
    for data in (b"", b"\xff" * 9, b"\x08\x07"):
        with pytest.raises(ModelFormatError) as caught:
            parse_model(data, "file")
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None or caught.value.__suppress_context__
