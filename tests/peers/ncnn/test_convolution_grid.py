"""Convolutions of one to three axes against ncnn, over the parameters of ncnn's own tests."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.peers.ncnn.peer import (
    check,
    compare_with_ncnn,
    image,
    one_layer,
    random_weights,
    run_vknn,
)

from vknn.errors import ShapeError
from vknn.formats.ncnn.reader import parse_param

#: Kernel, dilation, stride, pad.
WINDOWS = [
    (1, 1, 1, 0),
    (1, 1, 2, 0),
    (2, 1, 1, 1),
    (2, 1, 2, -233),
    (3, 1, 1, 1),
    (3, 1, 2, 1),
    (3, 2, 1, -234),
    (4, 1, 1, 2),
    (4, 1, 2, -233),
    (4, 2, 1, -234),
    (5, 1, 1, -234),
    (5, 1, 2, 2),
    (5, 2, 2, 2),
    (7, 1, 1, 3),
    (7, 1, 2, 3),
    (7, 2, 1, -233),
]
#: Inputs, outputs, bias.
CHANNELS = [(1, 1, 1), (4, 13, 0), (13, 4, 1), (12, 12, 0), (8, 12, 1), (15, 15, 0), (16, 16, 0)]
#: Inputs, outputs, groups, bias.
GROUPS = [
    (1, 1, 1, 1),
    (2, 2, 1, 0),
    (2, 2, 2, 1),
    (3, 3, 3, 0),
    (4, 2, 2, 1),
    (4, 4, 4, 0),
    (7, 7, 7, 1),
    (8, 8, 2, 0),
    (12, 12, 4, 0),
    (15, 15, 15, 1),
    (16, 8, 2, 0),
]
SUFFIX = {1: "1D", 2: "", 3: "3D"}
SHAPE = {1: (9,), 2: (7, 9), 3: (5, 6, 7)}
ACTIVATIONS = ["", "9=1", "9=2 -23310=1,-0.3", "9=3 -23310=2,-0.5,0.4", "9=6 -23310=2,0.2,0.5"]


def line(axes: int, window: Sequence[int], sizes: Sequence[int], *, dynamic: bool = False) -> str:
    """A layer as in a .param; ``sizes`` as in CHANNELS or GROUPS."""
    (inputs, outputs, *group, bias), (kernel, dilation, stride, pad) = sizes, window
    parts = [f"Convolution{'DepthWise' if group else ''}{SUFFIX[axes]}"]
    if not dynamic:
        count = outputs * inputs // (group or [1])[0] * kernel**axes
        parts += [f"0={outputs}", f"1={kernel}", f"6={count}"]
    parts += [f"2={dilation}", f"3={stride}", f"4={pad}", f"5={bias}"]
    parts += [f"7={group[0]}"] if group else []
    parts += ["19=1"] if dynamic else []
    return " ".join(parts)


def sweep(axes: int, sizes: Sequence[tuple[int, ...]]) -> Iterator[tuple[Sequence[int], ...]]:
    """Every window and every size at least once."""
    windows = WINDOWS if axes < 3 else WINDOWS[:7]
    for number in range(max(len(sizes), len(windows))):
        yield windows[number % len(windows)], sizes[number * 3 % len(sizes)]


@pytest.mark.parametrize("axes", SUFFIX)
@pytest.mark.parametrize("sizes", [CHANNELS, GROUPS], ids=["plain", "groups"])
def test_float(axes: int, sizes: list[tuple[int, ...]], backend: str) -> None:
    for number, (window, given) in enumerate(sweep(axes, sizes)):
        text = f"{line(axes, window, given)} {ACTIVATIONS[number % 2 * (number % 5)]}"
        check(text, image(given[0], *SHAPE[axes]), backend=backend)


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("sizes", [CHANNELS, GROUPS], ids=["plain", "groups"])
def test_dynamic_weights(axes: int, sizes: list[tuple[int, ...]], backend: str) -> None:
    for window, given in itertools.islice(sweep(axes, sizes), 0, None, 2):
        inputs, outputs, *group, bias = given
        kernel = (window[0],) * axes
        blobs = [
            image(inputs, *SHAPE[axes]),
            image(outputs, inputs // (group or [1])[0], *kernel, seed=1, scale=0.3),
        ]
        blobs += [image(outputs, seed=2)] if bias else []
        check(line(axes, window, given, dynamic=True), *blobs, backend=backend)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("Convolution1D 0=5 1=3 4=1 15=2 18=0.75 5=1 6=60", (4, 7)),
        ("Convolution1D 0=5 1=3 3=2 4=-234 18=-0.5 6=60", (4, 8)),
        ("Convolution1D 0=3 1=3 4=-233 15=0 6=36", (4, 7)),
        ("Convolution1D 0=3 1=3 4=1 6=9", (7,)),
        ("ConvolutionDepthWise1D 0=4 1=3 4=2 18=1.5 6=12 7=4", (4, 7)),
        ("ConvolutionDepthWise1D 0=5 1=3 4=1 5=1 6=45 7=5", (5, 7)),
        ("ConvolutionDepthWise1D 0=8 1=2 5=1 6=128 7=2", (8, 9)),
        ("Convolution3D 0=3 1=2 11=1 21=3 3=1 13=2 23=3 4=1 14=0 24=2 17=1 5=1 6=36", (2, 5, 4, 5)),
        ("Convolution3D 0=3 1=3 3=2 4=-234 18=0.5 6=162", (2, 4, 4, 4)),
        ("Convolution3D 0=5 1=1 21=1 23=3 24=1 17=0 4=0 5=1 6=40", (8, 1, 3, 2)),
        ("ConvolutionDepthWise3D 0=4 1=1 21=1 23=3 24=1 17=0 4=0 5=1 6=4 7=4", (4, 1, 3, 2)),
        ("Convolution3D 0=3 1=3 11=1 21=1 4=1 5=1 6=9", (7,)),  # pads of axes that are not there
        ("Convolution 0=3 1=3 11=1 4=1 5=1 6=9", (7,)),
        ("Convolution 0=3 1=1 3=3 4=1 18=0.5 5=1 6=21", (7,)),  # channels
        ("Convolution3D 0=3 1=2 3=2 12=2 22=3 6=48", (2, 7, 6, 5)),
        ("Convolution3D 0=2 1=2 21=1 6=24", (3, 4, 5)),
        ("ConvolutionDepthWise3D 0=4 1=3 4=1 18=1.5 5=1 6=108 7=4", (4, 3, 4, 5)),
    ],
    ids=map(str, range(17)),
)
def test_uneven(text: str, shape: tuple[int, ...], backend: str) -> None:
    check(text, image(*shape), backend=backend)


@pytest.mark.parametrize("storage", ["fp16", "table"])
@pytest.mark.parametrize(
    "text",
    ["Convolution1D 0=6 1=3 5=1 6=108", "ConvolutionDepthWise1D 0=6 1=3 5=1 6=36 7=3"],
    ids=["plain", "groups"],
)
def test_storage(text: str, storage: str, backend: str) -> None:
    check(text, image(6, 9), storage=storage, backend=backend)  # type: ignore[arg-type]


@pytest.mark.parametrize("sizes", [CHANNELS, GROUPS], ids=["plain", "groups"])
def test_int8(sizes: list[tuple[int, ...]], backend: str) -> None:
    """Exact, with float and int8 outputs, from float and int8 inputs."""
    for number, (window, given) in enumerate(sweep(2, sizes)):
        term = (1, 101, 2, 102)[number % 4]
        text = f"{line(2, window, given)} 8={term} {ACTIVATIONS[number % 3 * (number % 2)]}"
        x = image(given[0], *SHAPE[2])
        if number % 3 == 0:
            x = np.clip(np.rint(40 * x), -127, 127).astype(np.int8)
        text = one_layer(text, 1)
        weights = random_weights(parse_param(text.encode()))
        if number % 2:
            scaled = weights["layer"]["weight"] * 100
            weights["layer"]["weight"] = np.clip(np.rint(scaled), -127, 127).astype(np.int8)
        compare_with_ncnn(text, weights, {"x0": x}, (backend,), tolerance=1e-6)


@pytest.mark.parametrize("text", ["Convolution1D 0=2 1=1 6=6", "Deconvolution 0=2 1=1 6=6"])
def test_int8_weights_without_scales_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "net.param"
    path.write_text(one_layer(text, 1))
    tag = np.array([0x000D4B38], "<u4").tobytes()
    path.with_suffix(".bin").write_bytes(tag + bytes(8))
    x = np.zeros((3, 5) if "1D" in text else (3, 5, 5), np.float32)
    with pytest.raises(ShapeError, match="int8 weights"):
        run_vknn(path, {"x0": x}, "numpy")
