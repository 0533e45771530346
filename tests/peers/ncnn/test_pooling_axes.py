"""Pooling1D, Pooling3D and SPP; Pooling on the grids of ncnn's own tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.peers.ncnn.peer import check, image, run_vknn

WINDOWS = ["1=3 2=2 3=1", "1=7 2=3 3=2"]
MORE = ["1=2 2=1", "1=2 2=2", "1=3 2=1", "1=4 2=1", "1=4 2=2 3=1"]
MORE += ["1=5 2=1", "1=5 2=2 3=2", "1=7 2=1", "1=7 2=2 3=1"]
WINDOWS += [pytest.param(window, marks=pytest.mark.slow) for window in MORE]
#: Kinds that leave nothing out: type, pad mode, include_pad.
KINDS = [f"0=0 5={mode}" for mode in range(4)]
KINDS += [f"0=1 5={mode} 6={include}" for mode in range(4) for include in (0, 1)]


def sweep(layer: str, shape: tuple[int, ...], window: str, backend: str) -> None:
    for number, kind in enumerate(KINDS):
        channels = (1, 2, 3, 4, 7, 8)[number % 6]
        check(f"{layer} {kind} {window}", image(channels, *shape), backend=backend)


@pytest.mark.parametrize("window", WINDOWS)
def test_rows(window: str, backend: str) -> None:
    sweep("Pooling1D", (9,), window, backend)


@pytest.mark.parametrize("window", WINDOWS)
def test_images(window: str, backend: str) -> None:
    sweep("Pooling", (7, 9), window, backend)


@pytest.mark.parametrize("window", WINDOWS)
def test_volumes(window: str, backend: str) -> None:
    sweep("Pooling3D", (8, 7, 9), window, backend)


ADAPTIVE = [
    ("Pooling1D", (5, 7), "8=3", "8=9", "8=1"),
    (
        "Pooling3D",
        (3, 4, 6, 5),
        "8=2",
        "8=4 18=3 28=7",
        "8=-233 18=2 28=1",
        "8=1 28=-233",
        "8=-233",
    ),
]


@pytest.mark.parametrize("kind", ["0=0", "0=1"])
@pytest.mark.parametrize("case", ADAPTIVE, ids=["rows", "volumes"])
def test_adaptive_and_global(case: tuple, kind: str, backend: str) -> None:
    layer, shape, *sizes = case
    for size in sizes:
        check(f"{layer} {kind} 7=1 {size}", image(*shape), backend=backend)
    check(f"{layer} {kind} 4=1", image(*shape), backend=backend)


UNEVEN = [
    ("Pooling1D", (3, 8), "1=3 2=2 3=1 14=2", "1=5 2=3 3=0 14=4", "1=1 2=3 3=0 14=2"),
    (
        "Pooling3D",
        (3, 6, 7, 8),
        "1=3 11=2 21=1 2=2 12=1 22=2 3=1 13=0 23=0 14=2 15=1 16=0",
        "1=2 21=3 2=2 22=3 23=1 16=2",
        "1=1 2=3 3=0 14=2 13=0 15=2 23=0 16=2",
    ),
]


@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize("case", UNEVEN, ids=["rows", "volumes"])
def test_uneven_windows(case: tuple, mode: int, backend: str) -> None:
    layer, shape, *windows = case
    for window in windows:
        if mode < 2 or "1=1" not in window:  # the wheel writes where it must not
            for kind in ("0=0", "0=1", "0=1 6=1"):
                check(f"{layer} {kind} 5={mode} {window}", image(*shape), backend=backend)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("Pooling1D 0=1 1=2 2=2 3=4 14=3 5=2", (3, 6)),  # the pads cover all of the input
        ("Pooling1D 0=1 1=4 2=3 3=3 14=4 5=3", (1, 1)),
        ("Pooling 0=1 1=3 2=2 3=1 13=5 15=4 5=2", (2, 7, 5)),
        ("Pooling1D 0=1 1=9 2=4 3=0 14=3 5=1", (2, 5)),  # the window reaches over the end
        ("Pooling 0=1 1=4 11=2 2=3 3=1 13=0 5=1", (2, 6, 1)),
    ],
)
def test_averages_of_too_few_cells(text: str, shape: tuple[int, ...], backend: str) -> None:
    check(text, image(*shape), backend=backend)


def test_fewer_axes(backend: str) -> None:
    check("Pooling1D 1=3 2=2", image(9), backend=backend)
    check("Pooling3D 1=2 21=1 2=2", image(3, 6, 7), backend=backend)
    check("Pooling 1=2 2=1", image(5, 6), backend=backend)
    check("Pooling 1=3 11=1 2=2 3=1", image(7), backend=backend)  # no height to be padded


@pytest.mark.parametrize("average", [0, 1])
@pytest.mark.parametrize("shape", [(2, 6, 7), (3, 1, 5), (1, 9, 4)])
@pytest.mark.parametrize("levels", [1, 2, 4])
def test_pyramid(
    levels: int, shape: tuple[int, ...], average: int, backend: str, tmp_path: Path
) -> None:
    """The wheel has no SPP: by the definition."""
    x = image(*shape) + 1
    want = []
    for level in range(levels):
        bins = 1 << level
        kernel = [-(-n // bins) for n in shape[1:]]
        missing = [k * bins - n for k, n in zip(kernel, shape[1:], strict=True)]
        padded = np.pad(x, [(0, 0), *(((m + 1) // 2, m) for m in missing)])
        for plane in padded:
            for i, j in np.ndindex(bins, bins):
                rows = slice(i * kernel[0], (i + 1) * kernel[0])
                window = plane[rows, j * kernel[1] : (j + 1) * kernel[1]]
                want.append(window.mean() if average else window.max())
    path = tmp_path / "net.param"
    path.write_text(f"7767517\n2 2\nInput i 0 1 x\nSPP s 1 1 x y 0={average} 1={levels}\n")
    path.with_suffix(".bin").write_bytes(b"")
    y = run_vknn(path, {"x": x}, backend)["y"]
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)
