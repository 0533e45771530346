"""Choice of a format by content and suffix, and errors for foreign files."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from vknn import formats
from vknn.errors import ModelFormatError
from vknn.formats.identify import identify

PARAM = "7767517\n1 1\nInput i 0 1 x\n"


def test_the_ncnn_format_is_registered() -> None:
    assert "ncnn" in {f.name for f in formats.formats()}


def test_content_counts_and_not_the_name(tmp_path: Path) -> None:
    for name in ("a.param", "a.PARAM", "a.txt", "noname"):
        (tmp_path / name).write_text(PARAM)
        assert [s.name for s in formats.load(tmp_path / name).outputs] == ["x"]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.param", b"", "an empty file"),
        ("a.param", b"\x89PNG\r\n\x1a\n", "a PNG image"),
        ("a.bin", b"\x93NUMPY\x01\x00", "a NumPy array"),
        ("a.onnx", b"\x08\x07\x12\x07pytorch", "holds no graph"),
        ("a.json", b'{"nodes": []}', "a JSON file"),
        ("a.txt", b"hello", "a text file"),
        ("a.param", b"\xff\x00\x13\x37", "an unknown binary file"),
        ("a.param", bytes(100), "an unknown binary file"),
        ("a.param", b"hello world", "not a whole number"),
        ("a.param", b"7767518 3 4", "does not start with 7767517"),
    ],
)
def test_foreign_files(name: str, data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(ModelFormatError, match=message) as caught:
        formats.load(path)
    assert caught.value.file == str(path)


@pytest.mark.parametrize(
    ("name", "data", "advice"),
    [
        ("a.onnx", b"\x08\x07\x12\x07pytorch", "fetch or export it again"),
        ("a.pt", b"PK\x03\x04" + bytes(30), "torch.onnx.export.*pnnx model.pt"),
        (
            "a.safetensors",
            b'\x32\0\0\0\0\0\0\0{"a":{"dtype":"F32"}}',
            "weights without their network.*torch.onnx.export",
        ),
        ("a.bin", b"\x80\x02\x8a\x0a" + bytes(30), "torch.jit.trace"),
        ("a.h5", b"\x89HDF\r\n\x1a\n", "TFLiteConverter"),
        ("a.vkb", b"\x89VKB\r\n\x1a\n\x01", "a bundle that vknn export wrote.*vknn bundle"),
        ("a.json", b'{"device": "a GPU", "driver": "one", "runs": 10}', "vknn report"),
    ],
)
def test_other_models_errors_say_what_to_do(
    name: str, data: bytes, advice: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(ModelFormatError, match=advice):
        formats.load(path)


def test_pnnx_networks_are_told_from_ncnns(tmp_path: Path) -> None:
    path = tmp_path / "x.pnnx.param"
    path.write_text(
        "7767517\n3 2\npnnx.Input pnnx_input_0 0 1 0\nnn.Conv2d conv 1 1 0 1 bias=True "
        "@bias=(8)f32 #0=(1,3,8,8)f32\npnnx.Output pnnx_output_0 1 0 1\n"
    )
    with pytest.raises(ModelFormatError, match=r"pnnx's own network .* open the \.ncnn\.param"):
        formats.load(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match="no such file"):
        formats.load(tmp_path / "missing.param")
    with pytest.raises(ModelFormatError, match="a directory"):
        formats.load(tmp_path)


def test_archives_are_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
        archive.writestr("x", "y")
    assert "zip" in identify((tmp_path / "a.pt").read_bytes())
    np.savez(tmp_path / "b.npz", x=np.zeros(1))
    assert "zip" in identify((tmp_path / "b.npz").read_bytes())
