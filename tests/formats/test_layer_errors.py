"""Errors of a layer: whatever its converter raises names the file and the layer."""

from __future__ import annotations

import dataclasses
import importlib
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import coreml_writer
from tests.formats.ncnn import nets as ncnn
from tests.formats.tflite import nets as tflite
from tests.openvino_writer import Net

from vknn.errors import InputError, ModelFormatError, ShapeError, UnsupportedLayerError, VknnError
from vknn.formats.layer_errors import Malformed, Unsupported, errors_of
from vknn.session import Session

X = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    ("raised", "error", "text"),
    [
        (Malformed("bad"), ShapeError, "layer 'a' (B): bad"),
        (ShapeError("bad"), ShapeError, "layer 'a' (B): bad"),
        (ShapeError("layer 'b' (C): bad"), ShapeError, "layer 'b' (C): bad"),
        (InputError("layer 'b' (C): bad"), InputError, "layer 'b' (C): bad"),
        (Unsupported("no"), UnsupportedLayerError, "f: 1 unsupported layer(s): layer 'a' (B): no"),
        (ModelFormatError("cut off", file="g"), ModelFormatError, "g: cut off"),
        (KeyError("gone"), ModelFormatError, "f: layer 'a' (B): KeyError: 'gone'"),
    ],
)
def test_errors_name_the_layer(raised: Exception, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught, errors_of("layer 'a' (B)", "f", "a"):
        raise raised
    assert str(caught.value) == text
    assert type(caught.value) is error


def test_interrupts_and_failed_assertions_pass() -> None:
    for raised in (KeyboardInterrupt(), AssertionError("a mistake of vknn's own")):
        with pytest.raises(type(raised)) as caught, errors_of("layer 'a' (B)", "f", "a"):
            raise raised
        assert caught.value is raised


def _ncnn(folder: Path) -> Path:
    return ncnn.write(folder, ncnn.net("Input i 0 1 x", "ReLU r 1 1 x y"))


def _tflite(folder: Path) -> Path:
    path = folder / "net.tflite"
    path.write_bytes(tflite.adding().file())
    return path


def _coreml(folder: Path) -> Path:
    path = folder / "net.mlmodel"
    layer = coreml_writer.layer("softmaxND", name="r", axis=-1)
    path.write_bytes(coreml_writer.model([layer], {"x": X.shape}).SerializeToString())
    return path


def _openvino(folder: Path) -> Path:
    net = Net()
    net.layer("ReLU", [net.input("x", X.shape)], [X.shape], name="r")
    return net.save(folder)


def _raise(error: Exception) -> Callable[[Any], Any]:
    def convert(context: Any) -> Any:
        raise error

    return convert


@pytest.mark.parametrize(
    "error",
    [
        KeyError("k"), IndexError("i"), TypeError("t"), AttributeError("a"), ZeroDivisionError("z"),
        ValueError("v"), MemoryError("m"), struct.error("s"),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
@pytest.mark.parametrize(
    ("write", "finder", "place", "layer"),
    [
        (_ncnn, "ncnn.loader", "layer 'r' (ReLU)", "r"),
        (_tflite, "tflite.subgraph_builder", "operator 0 (ADD), 'c'", "c"),
        (_coreml, "coreml.stages", "layer 'r' (softmaxND)", "r"),
        (_openvino, "openvino.stages", "layer 'r' (ReLU)", "r"),
    ],
    ids=["ncnn", "tflite", "coreml", "openvino"],
)
def test_what_no_check_foresees_names_file_and_layer(
    write: Callable[[Path], Path],
    finder: str,
    place: str,
    layer: str,
    error: Exception,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A converter that stumbles is a damaged file's doing."""
    path = write(tmp_path)
    with Session(path, device="numpy") as session:
        names = [spec.name for spec in session.model.inputs]
        session.run(dict.fromkeys(names, X))
    module = importlib.import_module(f"vknn.formats.{finder}")
    find, convert = module.known_type, _raise(error)
    monkeypatch.setattr(
        module, "known_type", lambda *key: dataclasses.replace(find(*key), convert=convert)
    )
    with pytest.raises(VknnError) as caught, Session(path, device="numpy") as session:
        session.run(dict.fromkeys(names, X))
    assert type(caught.value) is ModelFormatError
    assert caught.value.layer == layer
    assert str(caught.value) == f"{path}: {place}: {type(error).__name__}: {error}"
