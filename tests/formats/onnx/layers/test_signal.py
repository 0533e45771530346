"""Fourier transforms, mel scales, determinants: against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from vknn.errors import VknnError
from vknn.formats import fourier

RNG = np.random.default_rng(23)
MICROSOFT = "com.microsoft"


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def parts(x: np.ndarray) -> np.ndarray:
    return np.stack([x.real, x.imag], -1)


def number(value: int) -> np.ndarray:
    return np.array(value, np.int64)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -2])
def test_transforms(run, axis: int, large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if large:  # as of a long signal: by FFT, without a matrix
        monkeypatch.setattr(fourier, "_LARGEST_MATRIX", 0)
    x = normal(3, 5, 6, 2)
    numbers = x[..., 0] + 1j * x[..., 1]
    at = axis if axis >= 0 else axis + 1  # without the axis of parts
    for length in (None, 4, 9):
        given = [x, None if length is None else number(length), number(axis)]
        (found,) = run("DFT", given, opset=20)
        np.testing.assert_allclose(found, parts(np.fft.fft(numbers, length, at)), atol=1e-4)
        (found,) = run("DFT", given, opset=20, inverse=1)
        np.testing.assert_allclose(found, parts(np.fft.ifft(numbers, length, at)), atol=1e-4)
        real = [x[..., :1], *given[1:]]
        (found,) = run("DFT", real, opset=20, onesided=1)
        np.testing.assert_allclose(found, parts(np.fft.rfft(x[..., 0], length, at)), atol=1e-4)
        (found,) = run("DFT", given, opset=20, onesided=1, inverse=1)
        want = np.fft.irfft(numbers, length, at)[..., None]
        np.testing.assert_allclose(found, want, atol=1e-4)
    if axis >= 0:
        (found,) = run("DFT", [x], opset=17, axis=axis)
        np.testing.assert_allclose(found, parts(np.fft.fft(numbers, axis=at)), atol=1e-4)


def test_default_axes(run) -> None:
    x = normal(2, 5, 6, 1)
    (found,) = run("DFT", [x], opset=17)
    np.testing.assert_allclose(found, parts(np.fft.fft(x[..., 0], axis=1)), atol=1e-4)
    (found,) = run("DFT", [x], opset=20)
    np.testing.assert_allclose(found, parts(np.fft.fft(x[..., 0], axis=2)), atol=1e-4)
    with pytest.raises(VknnError, match="along the last axis"):
        run("DFT", [x, None, number(-1)], opset=20)


def test_other_types(run) -> None:
    x = RNG.standard_normal((2, 7, 1))
    (found,) = run("DFT", [x], opset=20)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, parts(np.fft.fft(x[..., 0])), atol=1e-12)
    (found,) = run("DFT", [x.astype(np.float16)], opset=20)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, parts(np.fft.fft(x[..., 0])), atol=2e-2)


@pytest.mark.parametrize("onesided", [0, 1])
def test_frames(run, onesided: int) -> None:
    x, window = normal(2, 31, 1), normal(8)
    frames = np.lib.stride_tricks.sliding_window_view(x[..., 0], 8, 1)[:, ::3]
    transform = np.fft.rfft if onesided else np.fft.fft
    for given, factors in (
        ([x, number(3), window], window),
        ([x, number(3), window, number(8)], window),
        ([x, number(3), None, number(8)], np.ones(8)),
    ):
        (found,) = run("STFT", given, onesided=onesided)
        want = parts(transform(frames * factors))
        np.testing.assert_allclose(found, want, atol=1e-4)
    (found,) = run("STFT", [x[..., 0], number(3), window], onesided=onesided)
    assert found.shape == want.shape
    with pytest.raises(VknnError, match="for frames of 9"):
        run("STFT", [x, number(3), window, number(9)])


def test_complex_signals(run) -> None:
    x = normal(1, 12, 2)
    numbers = x[..., 0] + 1j * x[..., 1]
    (found,) = run("STFT", [x, number(4), None, number(4)], onesided=0)
    np.testing.assert_allclose(found, parts(np.fft.fft(numbers.reshape(1, 3, 4))), atol=1e-4)


def test_mel_weights(run) -> None:
    given = [number(3), number(16), number(8000)]
    given += [np.array(v, np.float32) for v in (0, 4000)]
    (found,) = run("MelWeightMatrix", given)
    # Edges at 0, 429.2, 858.4, 1287.7 and 1716.9 of 2146.1 mel: 0, 324, 799, 1494 and 2511 Hz, in
    # the bins 0, 0, 1, 3 and 5.
    want = np.zeros((9, 3))
    want[0, 0] = 1
    want[1:3, 1] = [1, 0.5]
    want[2:5, 2] = [0.5, 1, 0.5]
    np.testing.assert_allclose(found, want, atol=1e-6)
    (whole,) = run("MelWeightMatrix", given, output_datatype=11)
    assert whole.dtype == np.float64


def test_transforms_of_com_microsoft(run) -> None:
    x = normal(2, 6, 8)
    attributes = {"domain": MICROSOFT, "normalized": 0, "onesided": 1}
    (half,) = run("Rfft", [x], signal_ndim=1, **attributes)
    np.testing.assert_allclose(half, parts(np.fft.rfft(x)), atol=1e-4)
    (back,) = run("Irfft", [half], signal_ndim=1, **attributes)
    np.testing.assert_allclose(back, x, atol=1e-4)
    (half,) = run("Rfft", [x], signal_ndim=2, **attributes)
    np.testing.assert_allclose(half, parts(np.fft.rfft2(x)), atol=1e-4)
    (back,) = run("Irfft", [half], signal_ndim=2, **attributes)
    np.testing.assert_allclose(back, x, atol=1e-4)


def test_matrices(run) -> None:
    x = normal(2, 3, 3)
    (found,) = run("Det", [x])
    np.testing.assert_allclose(found, np.linalg.det(x), rtol=1e-4)
    (found,) = run("Inverse", [x], domain=MICROSOFT)
    np.testing.assert_allclose(found @ x, np.broadcast_to(np.eye(3), x.shape), atol=1e-3)
    a, b = normal(4, 7), normal(5, 7)
    squares = ((a[:, None] - b[None]) ** 2).sum(axis=-1)
    (found,) = run("CDist", [a, b], domain=MICROSOFT)
    np.testing.assert_allclose(found, squares, rtol=1e-4)
    (found,) = run("CDist", [a, b], domain=MICROSOFT, metric="euclidean")
    np.testing.assert_allclose(found, np.sqrt(squares), rtol=1e-4)
