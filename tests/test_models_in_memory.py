"""Models that are no files: bytes, and files open for reading."""

from __future__ import annotations

import io
import os
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
from tests.small_model import SHAPE, write_small_model
from tests.tflite_writer import Net

import vknn

BACKENDS = [pytest.param("vulkan", marks=pytest.mark.device), "numpy"]
X = {"data": np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)}


@pytest.fixture(autouse=True)
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for temporary files."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.parametrize("device", BACKENDS)
def test_two_files(device: str, tmp_path: Path, temporary: Path) -> None:
    path = write_small_model(tmp_path)
    with vknn.Session(path, device=device) as session:
        expected = session.run(X)["out"]
    param, weights = path.read_bytes(), path.with_suffix(".bin").read_bytes()
    with vknn.Session(param, weights, device=device) as session:
        assert "a model in memory" in repr(session)
        assert np.array_equal(session.run(X)["out"], expected)
    with vknn.Session(path, io.BytesIO(weights), device=device) as session:
        assert "small.param" in repr(session)
        assert np.array_equal(session.run(X)["out"], expected)
    with (
        path.open("rb") as file,
        path.with_suffix(".bin").open("rb") as other,
        vknn.Session(file, weights=other, device=device) as session,
    ):
        assert np.array_equal(session.run(X)["out"], expected)
    assert os.listdir(temporary) == []


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, io.BytesIO])
def test_one_file(kind: type, temporary: Path) -> None:
    net = Net()
    net.inputs, net.outputs = [net.tensor("x", (3,))], [net.tensor("y", (3,))]
    net.add("NEG", net.inputs, net.outputs)
    with vknn.Session(kind(net.file()), device="numpy") as session:
        assert np.array_equal(session.run({"x": np.float32([1, 2, 3])})["y"], [-1, -2, -3])
    assert os.listdir(temporary) == []


def test_bytes_with_gaps(temporary: Path) -> None:
    net = Net()
    net.inputs, net.outputs = [net.tensor("x", (3,))], [net.tensor("y", (3,))]
    net.add("NEG", net.inputs, net.outputs)
    spread = memoryview(np.repeat(np.frombuffer(net.file(), np.uint8), 2))[::2]
    with vknn.Session(spread, device="numpy") as session:
        assert np.array_equal(session.run({"x": np.float32([1, 2, 3])})["y"], [-1, -2, -3])
    assert os.listdir(temporary) == []


@pytest.mark.parametrize("given", [b"", b"no model at all", b"\x00" * 100])
def test_what_is_no_model(given: bytes, temporary: Path) -> None:
    with pytest.raises(vknn.ModelFormatError, match="^a model in memory: ") as caught:
        vknn.Session(given, device="numpy")
    assert caught.value.file == "a model in memory"
    assert os.listdir(temporary) == []


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = write_small_model(tmp_path)
    with path.open(encoding="utf-8") as file, pytest.raises(vknn.ModelFormatError, match="'rb'"):
        vknn.Session(file, device="numpy")  # type: ignore[arg-type]
    file = path.open("rb")  # type: ignore[assignment]
    file.close()
    with pytest.raises(vknn.ModelFormatError, match="an open file cannot be read: .*closed"):
        vknn.Session(file, device="numpy")  # type: ignore[arg-type]


def test_weights_that_are_left_out(tmp_path: Path) -> None:
    data = write_small_model(tmp_path).read_bytes()
    with pytest.raises(
        vknn.ModelFormatError, match="^a model in memory: no such weights file.*weights="
    ):
        vknn.Session(data, device="numpy")


def test_errors_do_not_speak_of_files_that_nobody_wrote(tmp_path: Path, temporary: Path) -> None:
    path = write_small_model(tmp_path)
    weights = path.with_suffix(".bin").read_bytes()
    with pytest.raises(vknn.ModelFormatError, match="^weights in memory, .*truncated"):
        vknn.Session(path, weights[:40], device="numpy")
    with vknn.Session(path.read_bytes(), weights, device="numpy") as session:
        with pytest.raises(vknn.ShapeError, match="^a model in memory: ") as caught:
            session.run(np.zeros((2, 8, 8), np.float32))
        assert str(temporary) not in str(caught.value)


def test_errors_of_a_tflite_graph_neither(temporary: Path) -> None:
    """What is found when the graph is built, long after the file was read."""
    net = Net()
    net.inputs, net.outputs = [net.tensor("x", (2,))], [net.tensor("y", (2,))]
    net.add("ADD", [*net.inputs, net.tensor("nobody", (2,))], net.outputs, {})
    with vknn.Session(net.file(), device="numpy") as session:
        with pytest.raises(vknn.VknnError, match="a model in memory: .*has no value") as caught:
            session.run({"x": np.zeros(2, np.float32)})
        assert str(temporary) not in str(caught.value)


def test_warnings_do_not_either(tmp_path: Path, temporary: Path) -> None:
    path = write_small_model(tmp_path)
    weights = path.with_suffix(".bin").read_bytes() + bytes(4)
    with pytest.warns(RuntimeWarning, match="^weights in memory: 4 of .* left over"):
        vknn.Session(path.read_bytes(), weights, device="numpy").close()


def test_it_is_not_pickled() -> None:
    net = Net()
    net.inputs = net.outputs = [net.tensor("x", (3,))]
    with (
        vknn.Session(net.file(), device="numpy") as session,
        pytest.raises(vknn.VknnError, match="a model in memory cannot be pickled"),
    ):
        pickle.dumps(session)


class Foreign:
    """An array of another library: DLPack is all that it has."""

    def __init__(self, array: np.ndarray, fails: bool = False) -> None:
        self.array, self.fails = array, fails

    def __dlpack__(self, **options: object) -> object:
        if self.fails:
            raise BufferError("it lies on a GPU")
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("device", BACKENDS)
def test_arrays_of_other_libraries(device: str, tmp_path: Path) -> None:
    with vknn.Session(write_small_model(tmp_path), device=device) as session:
        expected = session.run(X)["out"]
        for _ in range(2):
            found = session.run({"data": Foreign(X["data"])})["out"]
            assert np.array_equal(found, expected)
        found = session.run(Foreign(X["data"]))["out"]
        assert np.array_equal(np.from_dlpack(found), expected)
        with pytest.raises(vknn.InputError, match="input 'data': NumPy cannot read this Foreign"):
            session.run({"data": Foreign(X["data"], fails=True)})
