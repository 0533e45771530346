"""Spectrogram and InverseSpectrogram against ncnn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.peers.ncnn.peer import check, image, one_layer, run_vknn

from vknn.errors import ModelFormatError, ShapeError

BACKENDS = ("numpy", "vulkan")
KEYS = (0, 1, 2, 3, 4, 5, 6, 7, 8)

#: Samples, then n_fft, power, hoplen, winlen, window_type, center, pad_type, normalized, onesided.
SPECTROGRAMS = [
    (17, 1, 0, 1, 1, 0, 1, 0, 0, 0),
    (39, 17, 0, 7, 15, 0, 0, 0, 1, 0),
    (128, 10, 0, 2, 7, 1, 1, 1, 1, 1),
    (255, 17, 1, 14, 17, 2, 0, 0, 0, 1),
    (124, 55, 2, 12, 55, 1, 1, 2, 2, 0),
    (16, 16, 2, 16, 16, 1, 0, 2, 0, 1),
    (50, 8, 1, 11, 5, 2, 1, 2, 2, 1),
    (23, 2, 1, 1, 1, 2, 1, 1, 0, 0),
    (9, 16, 0, 3, 16, 0, 1, 2, 0, 1),
    (40, 6, 2, 4, 6, 1, 2, 2, 0, 1),
    (12, 8, 1, 1000000007, 8, 0, 1, 2, 0, 1),
]
#: Frames, bins, then n_fft, returns, hoplen, winlen, window_type, center, normalized.
INVERSES = [
    (17, 1, 1, 0, 1, 1, 0, 1, 0),
    (39, 9, 17, 0, 7, 15, 0, 0, 1),
    (128, 6, 10, 0, 2, 7, 1, 1, 1),
    (255, 17, 17, 1, 14, 17, 2, 0, 0),
    (124, 28, 55, 2, 12, 55, 1, 1, 2),
    (1, 9, 16, 1, 4, 16, 1, 0, 0),
    (5, 8, 8, 2, 11, 5, 2, 1, 2),
    (4, 8, 8, 0, 8, 8, 0, 1, 0),
    (6, 2, 2, 1, 1, 1, 1, 0, 1),
    (5, 5, 8, 1, 2, 8, 1, 2, 0),
    (3, 5, 9, 0, 13, 9, 1, 1, 0),
]


def ids(values: tuple[int, ...]) -> str:
    return "-".join(map(str, values))


def spectrogram_line(values: tuple[int, ...]) -> str:
    return "Spectrogram " + " ".join(f"{k}={v}" for k, v in zip(KEYS, values, strict=True))


def inverse_line(values: tuple[int, ...]) -> str:
    keys = (0, 1, 2, 3, 4, 5, 7)
    return "InverseSpectrogram " + " ".join(f"{k}={v}" for k, v in zip(keys, values, strict=True))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", SPECTROGRAMS, ids=ids)
def test_spectrogram(case: tuple[int, ...], backend: str) -> None:
    check(spectrogram_line(case[1:]), image(case[0]), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", INVERSES, ids=ids)
def test_inverse(case: tuple[int, ...], backend: str) -> None:
    frames, bins, *values = case
    check(inverse_line(tuple(values)), image(bins, frames, 2), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_defaults(backend: str) -> None:
    check("Spectrogram 0=32", image(100), backend=backend)
    check("InverseSpectrogram 0=32", image(17, 5, 2), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_windows_of_speech(backend: str) -> None:
    check("Spectrogram 0=512 1=2 2=160 3=400 4=1", image(1600), backend=backend)
    check("InverseSpectrogram 0=512 1=1 2=160 3=400 4=1", image(257, 6, 2), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(3, 40), (2, 3, 40), (2, 2, 3, 40)], ids=ids)
def test_only_the_first_row_counts(shape: tuple[int, ...], backend: str) -> None:
    check("Spectrogram 0=8 1=1 2=3 4=2", image(*shape), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(5, 9, 3), (5, 2, 9, 2), (9, 4, 2), (8, 2, 4, 3)], ids=ids)
def test_parts_that_the_inverse_leaves_out(shape: tuple[int, ...], backend: str) -> None:
    check("InverseSpectrogram 0=8 1=0 2=3 4=1", image(*shape), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_inverse_of_one_matrix(backend: str) -> None:
    check("InverseSpectrogram 0=1 2=1", image(7, 2), backend=backend)


def test_there_and_back(tmp_path: Path) -> None:
    path = tmp_path / "net.param"
    path.write_text(
        "7767517\n3 3\nInput in 0 1 x\nSpectrogram a 1 1 x s 0=16 2=4 4=1\n"
        "InverseSpectrogram b 1 1 s y 0=16 1=1 2=4 4=1\n"
    )
    x = image(40)
    np.testing.assert_allclose(run_vknn(path, {"x": x}, "numpy")["y"], x, atol=1e-5)


REFUSED = {
    "n_fft": ("Spectrogram 1=1", (40,)),
    "n_fft \\(parameter 0\\) is 1000000000": ("Spectrogram 0=1000000000", (40,)),
    "hoplen": ("Spectrogram 0=3", (40,)),
    "winlen": ("Spectrogram 0=8 3=9", (40,)),
    "window_type": ("InverseSpectrogram 0=8 4=3", (5, 4, 2)),
    "normalized": ("InverseSpectrogram 0=8 7=3", (5, 4, 2)),
    "power": ("Spectrogram 0=8 1=3", (40,)),
    "pad_type": ("Spectrogram 0=8 6=3", (40,)),
    "returns": ("InverseSpectrogram 0=8 1=3", (5, 4, 2)),
    "shorter than n_fft": ("Spectrogram 0=8 5=0", (7,)),
    "mirrored": ("Spectrogram 0=8", (4,)),
    "5 or 8 bins": ("InverseSpectrogram 0=8", (6, 4, 2)),
    "no tensor has": ("InverseSpectrogram 0=8 2=1000000007", (5, 4, 2)),
    "no sample": ("InverseSpectrogram 0=8", (5, 1, 2)),
    "takes \\(bins": ("InverseSpectrogram 0=8", (5, 4, 1)),
}


@pytest.mark.parametrize("message", REFUSED)
def test_nonsense_is_refused(message: str, tmp_path: Path) -> None:
    line, shape = REFUSED[message]
    path = tmp_path / "net.param"
    path.write_text(one_layer(line, 1))
    with pytest.raises((ModelFormatError, ShapeError), match=message):
        run_vknn(path, {"x0": image(*shape)}, "numpy")
