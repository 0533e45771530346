"""First bytes of Core ML files and of other files."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.coreml_writer import layer, model

import vknn
from vknn.errors import ModelFormatError, VknnError
from vknn.formats import formats
from vknn.formats.coreml import FORMAT
from vknn.formats.coreml import coreml_pb2 as pb
from vknn.formats.coreml.signature import looks_like_model

NET = model([layer("copy")], {"x": (2, 3)})


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def onnx(producer: bytes, graph: bytes = b"x" * 300) -> bytes:
    """The start of an ONNX file: version, producer, its version, domain, a graph."""
    text = b"\x08\x08\x12" + varint(len(producer)) + producer
    return text + b"\x1a\x031.4\x3a" + varint(len(graph)) + graph


def test_a_model_is_recognized() -> None:
    described = pb.Model()
    described.CopyFrom(NET)
    for number in range(300):  # a description longer than what is looked at
        described.description.metadata.userDefined.add(key=f"key {number}", value="value")
    for message in (NET, described):
        data = message.SerializeToString()
        for length in range(3, min(len(data), 4096)):
            assert looks_like_model(data[:length]), length


def test_models_in_the_shared_folder(shared: Path) -> None:
    files = sorted((shared / "models" / "coreml").glob("*.mlmodel"))
    files += sorted((shared / "vectors" / "coreml").glob("*/model.mlmodel"))
    if not files:
        pytest.skip("no models in ../shared/models/coreml")
    for path in files:
        head = path.read_bytes()[:4096]
        assert [f.name for f in formats() if f.recognizes(head)] == ["coreml"], path


@pytest.mark.parametrize(
    "producer",
    [b"pytorch", b"backend-test", b"tf2onnx", b"onnx-example", b"", b"Z", b"CNTK", b"R\x01", b"\n"],
)
def test_onnx_is_not_taken_for_one(producer: bytes) -> None:
    if producer:
        assert not looks_like_model(onnx(producer))


@pytest.mark.parametrize(
    "head",
    [b"", b"\x08", b"7767517\n2 2\n", b"\x08\x00\x12\x00", b"\x08\xff\xff\x01\x12\x00", b"\x12\x08",
     b"\x00\x00\x00\x00TFL3", b"<?xml version='1.0'?>", b"\x08\x05\x1a\x00"],
)  # fmt: skip
def test_other_files_are_not(head: bytes) -> None:
    assert not looks_like_model(head)


@pytest.mark.parametrize("name", ["net.mlmodel", "net.bin", "NET.MLMODEL"])
def test_content_or_suffix_chooses(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(NET.SerializeToString())
    with vknn.Session(tmp_path / name, device="numpy") as session:
        assert [spec.name for spec in session.inputs] == ["x"]


@pytest.mark.parametrize("suffix", [".mlpackage", ".mlmodelc"])
def test_directories(suffix: str, tmp_path: Path) -> None:
    folder = tmp_path / f"net{suffix}"
    folder.mkdir()
    with pytest.raises(ModelFormatError, match=r"Core ML"):
        vknn.Session(folder)


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 40, b"hello, this is text", b"\x08\x05\x12\x40ab"]
)
def test_what_is_no_model(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "net.mlmodel"
    path.write_bytes(content)
    with pytest.raises(ModelFormatError, match=str(path)):
        vknn.Session(path)


def test_a_second_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.mlmodel"
    path.write_bytes(NET.SerializeToString())
    with pytest.raises(ModelFormatError, match=r"second file"):
        vknn.Session(path, weights=path)


@pytest.mark.parametrize(
    "kind, words",
    [("treeEnsembleClassifier", "tree ensemble"),
     ("mlProgram", "ML program.*convert_to=.neuralnetwork"),
     ("supportVectorRegressor", "support vector"), ("glmClassifier", "linear model"),
     ("normalizer", "normalizer")],
)  # fmt: skip
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_other_models_are_named(kind: str, words: str, depth: int, tmp_path: Path) -> None:
    message = pb.Model(specificationVersion=4)
    message.description.SetInParent()
    setattr(message, kind, b"\x08\x01")
    for _ in range(depth):
        outer = pb.Model(specificationVersion=4)
        outer.description.SetInParent()
        outer.pipelineClassifier.pipeline.models.append(message)
        message = outer
    path = tmp_path / "net.mlmodel"
    path.write_bytes(message.SerializeToString())
    with pytest.raises(VknnError, match=words) as caught:
        vknn.Session(path)
    assert kind in str(caught.value)
    assert ("model 0 of" in str(caught.value)) == bool(depth)


def test_truncated_files_say_so(tmp_path: Path) -> None:
    data = NET.SerializeToString()
    path = tmp_path / "net.mlmodel"
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(VknnError, match=str(path)):
            vknn.Session(path)


def test_the_format_has_no_layers_to_replace() -> None:
    assert not FORMAT.has_layer("Anything")
