"""Strings in operators that move elements, and numbers that no float holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.peers.onnx.one_node import run

X = np.array([["a", "né"], ["c", "d"]], object)


def one(folder: Path, operator: str, inputs: list[Any], **more: Any) -> np.ndarray:
    found: np.ndarray = run(folder, "numpy", operator, inputs, domain="", **more)[0]
    return found


@pytest.mark.parametrize("fed", [(0,), (0, 2)])
def test_padding(fed: tuple[int, ...], tmp_path: Path) -> None:
    pads = np.array([1, 0, -1, 2], np.int64)
    text = np.array(["p"], object) if 2 in fed else np.array([b"p"], object)
    found = one(tmp_path, "Pad", [X, pads, text], fed=fed)
    assert found.tolist() == [["p"] * 4, ["a", "né", "p", "p"]]
    assert one(tmp_path, "Pad", [X, pads]).tolist() == [[""] * 4, ["a", "né", "", ""]]


@pytest.mark.parametrize(
    ("kind", "number"), [(np.int64, (1 << 60) + 1), (np.complex64, 1 + 2j), (np.int64, -3)]
)
def test_padding_with_numbers(kind: Any, number: Any, tmp_path: Path) -> None:
    x = np.array([[1, 2]], kind)
    found = one(tmp_path, "Pad", [x, np.array([0, 1, 1, 0], np.int64), np.array(number, kind)])
    assert found.dtype == kind and found.tolist() == [[number, 1, 2], [number] * 3]


def test_one_hot(tmp_path: Path) -> None:
    given = [np.array([1, 0], np.int64), np.array(2, np.int64), np.array([b"off", b"on"], object)]
    assert one(tmp_path, "OneHot", given).tolist() == [["off", "on"], ["on", "off"]]


@pytest.mark.parametrize("name", ["float6_e2m3fn", "float6_e3m2fn"])
def test_floats_of_6_bits(name: str, tmp_path: Path) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    every = np.arange(64, dtype=np.uint8).view(dtype)
    real = every.astype(np.float32)
    most = real.max()
    number = {"float6_e2m3fn": 27, "float6_e3m2fn": 28}[name]
    back = one(tmp_path, "Cast", [real], to=number, version=28)
    assert back.dtype == dtype and (back.astype(np.float32) == real).all()
    far = np.array([1e9, -1e9, most * 1.01], np.float32)
    kept = one(tmp_path, "Cast", [far], to=number, version=28).astype(np.float32)
    assert kept.tolist() == [most, -most, most]
    given = [every, np.array(0.5, np.float32)]
    assert (one(tmp_path, "DequantizeLinear", given, version=28) == real * 0.5).all()
    found = one(tmp_path, "DequantizeLinear", given, version=28, fed=(1,))
    assert (found == real * 0.5).all()
    found = one(
        tmp_path, "QuantizeLinear", [real * 2, np.array(2, np.float32)], output_dtype=number,
        version=28,
    )  # fmt: skip
    assert found.dtype == dtype and (found.astype(np.float32) == real).all()
