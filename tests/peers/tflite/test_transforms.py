"""RFFT2D, REAL, IMAG, COMPLEX_ABS and BUCKETIZE against TensorFlow Lite's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.peers.tflite.test_operators import check, kernels, one
from tests.tflite_writer import Net

from vknn.formats import fourier
from vknn.session import Session


def rfft2d(shape: tuple[int, ...], lengths: tuple[int, ...]) -> Net:
    given = ((len(lengths),), "int32", {"data": np.array(lengths, np.int32)})
    return one("RFFT2D", [(shape, "float32", {}), given], [(shape, "complex64", {})], {})


def found(net: Net, x: np.ndarray, folder: Path, backend: str) -> np.ndarray:
    (folder / "net.tflite").write_bytes(net.file())
    with Session(folder / "net.tflite", device="numpy" if backend == "numpy" else "auto") as s:
        result: np.ndarray = s.run({"x0": x})["y0"]
        return result


@pytest.mark.parametrize(
    ("shape", "lengths"),
    [
        ((3, 7), (4, 8)), ((7, 13), (4, 8)), ((2, 5, 3), (1, 2)), ((2, 3, 2, 5, 7), (8, 4)),
        ((31, 37), (64, 32)), ((1, 1), (1, 2)), ((2, 0, 5), (4, 4)), ((2, 5, 0), (4, 4)),
        ((0, 3, 5), (4, 4)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("large", [False, True])
def test_rfft2d(
    shape: tuple[int, ...],
    lengths: tuple[int, int],
    large: bool,
    tmp_path: Path,
    backend: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As products with matrices, and as FFTs where these would be ``large``."""
    if large:
        monkeypatch.setattr(fourier, "_LARGEST_MATRIX", 0)
    x = np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)
    net = rfft2d(shape, lengths)
    y, expected = found(net, x, tmp_path, backend), kernels(net.file(), {"x0": x})["y0"]
    assert y.dtype == expected.dtype == np.complex64 and y.shape == expected.shape
    assert np.abs(y - expected).max(initial=0) <= 1e-5 * np.abs(expected).max(initial=0)


@pytest.mark.parametrize(("shape", "lengths"), [((5, 3), (8, 1)), ((5, 3), (1, 1))])
def test_a_width_of_one_is_as_defined(
    shape: tuple[int, int], lengths: tuple[int, int], tmp_path: Path, backend: str
) -> None:
    """TensorFlow Lite's kernel leaves out the transform along the height there."""
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    y = found(rfft2d(shape, lengths), x, tmp_path, backend)
    np.testing.assert_allclose(y, np.fft.rfft2(x, lengths), rtol=0, atol=1e-5)


def test_lengths_as_an_input(tmp_path: Path, backend: str) -> None:
    inputs = [((5, 7), "float32", {}), ((2,), "int32", {})]
    net = one("RFFT2D", inputs, [((4, 5), "complex64", {})], {})
    x = np.random.default_rng(1).normal(size=(5, 7)).astype(np.float32)
    (tmp_path / "net.tflite").write_bytes(net.file())
    device = "numpy" if backend == "numpy" else "auto"
    with Session(tmp_path / "net.tflite", device=device) as session:
        for lengths in ((4, 8), (2, 16), (4, 8)):
            y = session.run({"x0": x, "x1": np.array(lengths, np.int32)})["y0"]
            np.testing.assert_allclose(y, np.fft.rfft2(x, lengths), rtol=0, atol=1e-4)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", ["REAL", "IMAG", "COMPLEX_ABS"])
def test_parts(name: str, dtype: str, tmp_path: Path, backend: str) -> None:
    made = "float32" if dtype == "complex64" else "float64"
    rng = np.random.default_rng(5)
    x = (rng.normal(size=(3, 7, 1)) + 1j * rng.normal(size=(3, 7, 1))).astype(dtype)
    x[0, :4, 0] = 3 - 4j, -0.0, 1e-30 + 1e-30j, -2
    net = one(name, [(x.shape, dtype, {})], [(x.shape, made, {})])
    check(net, {"x0": x}, tmp_path, backend)
    x[0, :2, 0] = complex(np.inf, 1), complex(np.nan, 2)
    y = found(net, x, tmp_path, backend)
    np.testing.assert_allclose(y, kernels(net.file(), {"x0": x})["y0"], rtol=1e-6)


VALUES = {
    "float32": [np.nan, np.inf, -np.inf, 1, 1.5, -0.0, 3e38],
    "float64": [np.nan, 1 + 1e-12, 1 - 1e-12, 1, 16777217.0, 2, -np.inf],
    "int32": [16777217, 16777216, 16777215, 2**31 - 1, -(2**31), 0, 1],
    "int64": [16777217, 16777216, 2**62, -(2**62), 0, 1, 2**31],
}
BOUNDARIES = [[0.0, 1.0, 16777216.0], [], [-np.inf, 1.0, np.inf], [2.0**31], [1.0, 1.0, 1.0, 2.0],
              [-3e38, -1e-37, 0.0, 1e-37]]  # fmt: skip


@pytest.mark.parametrize("boundaries", BOUNDARIES, ids=len)
@pytest.mark.parametrize("dtype", VALUES)
def test_bucketize(dtype: str, boundaries: list[float], tmp_path: Path, backend: str) -> None:
    given = {"boundaries": np.array(boundaries, np.float32)}
    net = one("BUCKETIZE", [((7, 1), dtype, {})], [((7, 1), "int32", {})], given)
    check(net, {"x0": np.array(VALUES[dtype], dtype).reshape(7, 1)}, tmp_path, backend)


def test_many_boundaries(tmp_path: Path, backend: str) -> None:
    rng = np.random.default_rng(2)
    given = {"boundaries": np.sort(rng.normal(size=1009)).astype(np.float32)}
    net = one("BUCKETIZE", [((31, 37), "float32", {})], [((31, 37), "int32", {})], given)
    check(net, {"x0": rng.normal(size=(31, 37)).astype(np.float32)}, tmp_path, backend)
