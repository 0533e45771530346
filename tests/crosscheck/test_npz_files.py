"""NumPy's files that anybody may have made: damaged, huge, pickled."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from vknn.crosscheck.kept_inputs import write_inputs
from vknn.crosscheck.npz_files import load_npy, load_npz
from vknn.errors import VknnError
from vknn.pictures import UnreadableFileError


def npy(shape: str, dtype: str = "<f4", data: bytes = b"") -> bytes:
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, data in members.items():
            file.writestr(f"{name}.npy", data)
    return path


def test_arrays_are_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.arange(3), y=np.float16([1]))
    found = load_npz(tmp_path / "a.npz")
    assert found["x"].tolist() == [0, 1, 2] and found["y"].dtype == np.float16
    np.save(tmp_path / "a.npy", np.eye(2))
    assert load_npy(tmp_path / "a.npy").shape == (2, 2)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (npy("(1000000000000,)"), "is cut off"),
        (npy("(4,)", data=b"abc"), "is cut off"),
        (npy("(1,)", "|O", b"x" * 99), "holds objects, which are never unpickled"),
        (npy("(1,)", "|O99", b"x" * 99), "can be read"),
        (b"\x93NUMPY\x09\x00", "of version"),
        (b"nothing", "can be read"),
        (b"", "can be read"),
    ],
)
def test_damaged_arrays(tmp_path: Path, data: bytes, why: str) -> None:
    with pytest.raises(UnreadableFileError, match=why):
        load_npz(archive(tmp_path / "a.npz", x=data))


def test_files_that_are_none(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, x=np.arange(1000))
    (tmp_path / "cut.npz").write_bytes(buffer.getvalue()[:500])
    (tmp_path / "cut.npy").write_bytes(npy("(1000000000000,)"))
    (tmp_path / "text.npz").write_text("text")
    for name in ("cut.npz", "text.npz", "missing.npz"):
        with pytest.raises(UnreadableFileError, match=name):
            load_npz(tmp_path / name)
    for name in ("cut.npy", "text.npz", "missing.npy"):
        with pytest.raises(UnreadableFileError, match=name):
            load_npy(tmp_path / name)


def test_kept_inputs_of_odd_names(tmp_path: Path) -> None:
    feeds = {"file": np.arange(2), "a/b:0": np.float32([1]), "text": np.array(["x"], object)}
    names = ["../../etc/passwd", "</script>\n", "", "é" * 300]
    files = write_inputs(tmp_path, dict.fromkeys(names, feeds), {})
    assert len({*files.values()}) == 4
    for path in files.values():
        assert path.parent == tmp_path
        found = load_npz(path)
        assert set(found) == set(feeds)
        assert found["text"].tolist() == ["x"]
    with pytest.raises(VknnError, match="'x' holds objects"):
        write_inputs(tmp_path, {"a": {"x": np.array([object()])}}, {})
