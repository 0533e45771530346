"""The transposed convolutions against ncnn, over the parameters of ncnn's own tests."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.peers.ncnn.peer import check, device, image, one_layer

from vknn import Session, formats
from vknn.errors import ModelFormatError, ShapeError

#: Kernel, dilation, stride, pad.
WINDOWS = [
    (1, 1, 1, 0),
    (1, 1, 2, 0),
    (2, 1, 1, 1),
    (2, 1, 2, -233),
    (3, 1, 1, 1),
    (3, 1, 2, 1),
    (3, 2, 1, 1),
    (4, 1, 1, -233),
    (4, 1, 2, -234),
    (4, 2, 1, -234),
    (5, 1, 1, 2),
    (5, 1, 2, 2),
    (5, 2, 2, 2),
    (7, 1, 1, 3),
    (7, 1, 2, 3),
    (7, 2, 1, -233),
]
#: Inputs, outputs, bias, output padding along w and h, output size or 0.
CHANNELS = [
    (1, 1, 1, 0, 0, 0),
    (4, 13, 0, 1, 1, 5),
    (13, 4, 1, 1, 0, 0),
    (4, 8, 0, 0, 1, 0),
    (8, 4, 1, 0, 0, 5),
    (12, 11, 0, 0, 1, 0),
    (8, 13, 0, 2, 2, 0),
    (13, 8, 1, 2, 0, 0),
    (16, 16, 0, 0, 2, 5),
]
#: Inputs, outputs, groups, bias, output padding along w and h, output size or 0.
GROUPS = [
    (1, 1, 1, 1, 0, 0, 0),
    (2, 2, 1, 0, 1, 1, 5),
    (2, 2, 2, 1, 1, 0, 0),
    (3, 3, 3, 0, 0, 1, 0),
    (4, 2, 2, 1, 0, 0, 5),
    (4, 4, 4, 0, 2, 2, 0),
    (7, 7, 7, 1, 2, 0, 0),
    (8, 8, 2, 0, 0, 2, 5),
    (8, 8, 8, 1, 0, 0, 0),
    (12, 12, 4, 0, 3, 3, 0),
    (15, 15, 15, 1, 3, 0, 5),
    (16, 8, 2, 0, 0, 3, 0),
]
ACTIVATIONS = [
    "9=1",
    "9=2 -23310=1,-0.3",
    "9=3 -23310=2,-0.5,0.4",
    "9=4",
    "9=5",
    "9=6 -23310=2,0.2,0.5",
]
#: By number of axes: layer, blob size, ids of output padding, ids of the output size.
LAYERS: dict[int, tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    1: ("1D", (9,), (18,), (20,)),
    2: ("", (7, 9), (18, 19), (20, 21)),
    3: ("3D", (5, 6, 7), (18, 19, 20), (25, 26, 27)),
}


def line(
    axes: int,
    window: tuple[int, ...],
    sizes: tuple[int, ...],
    group: int | None = None,
    *,
    dynamic: bool = False,
) -> str:
    """A layer as in a .param; ``sizes`` as in CHANNELS."""
    inputs, outputs, bias, *extra, target = sizes
    kernel, dilation, stride, pad = window
    suffix, _, extra_ids, target_ids = LAYERS[axes]
    pad = -233 if target and pad not in (-233, -234) else pad
    parts = [f"Deconvolution{'DepthWise' if group else ''}{suffix}"]
    if not dynamic:
        count = outputs * inputs // (group or 1) * kernel**axes
        parts += [f"0={outputs}", f"1={kernel}", f"6={count}"]
    parts += [f"2={dilation}", f"3={stride}", f"4={pad}", f"5={bias}"]
    parts += [f"7={group}"] if group else []
    parts += [f"{id_}={n}" for id_, n in zip(extra_ids, (*extra, extra[0]), strict=False)]
    parts += [f"{id_}={target}" for id_ in target_ids] if target else []
    parts += ["28=1"] if dynamic else []
    return " ".join(parts)


def sweep(axes: int, *, grouped: bool) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Every window and every size at least once."""
    sizes = GROUPS if grouped else CHANNELS
    windows = WINDOWS if axes < 3 else WINDOWS[:7]
    for number in range(max(len(sizes), len(windows))):
        yield windows[number % len(windows)], sizes[number * 5 % len(sizes)]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(activation: str, backend: str) -> None:
    """Before the output is cut, or behind: the same."""
    text = line(2, (3, 1, 2, 1), (5, 4, 1, 1, 1, 0))
    check(f"{text} {activation}", image(5, 3, 4), backend=backend)


@pytest.mark.parametrize("axes", LAYERS)
def test_plain(axes: int, backend: str) -> None:
    for window, sizes in sweep(axes, grouped=False):
        check(line(axes, window, sizes), image(sizes[0], *LAYERS[axes][1]), backend=backend)


@pytest.mark.parametrize("axes", LAYERS)
def test_groups(axes: int, backend: str) -> None:
    for window, (inputs, outputs, group, *rest) in sweep(axes, grouped=True):
        text = line(axes, window, (inputs, outputs, *rest), group)
        check(text, image(inputs, *LAYERS[axes][1]), backend=backend)


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("grouped", [False, True], ids=["plain", "groups"])
def test_dynamic_weights(axes: int, grouped: bool, backend: str) -> None:
    for window, sizes in itertools.islice(sweep(axes, grouped=grouped), 1, None, 2):
        inputs, outputs, *rest = sizes
        group = rest.pop(0) if grouped else None
        kernel = (window[0],) * axes
        given = [
            image(inputs, *LAYERS[axes][1]),
            image(inputs, outputs // (group or 1), *kernel, seed=1, scale=0.3),
        ]
        given += [image(outputs, seed=2)] if rest[0] else []
        text = line(axes, window, (inputs, outputs, *rest), group, dynamic=True)
        check(text, *given, backend=backend)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("Deconvolution 0=3 1=4 11=2 3=2 13=3 4=1 15=2 14=0 16=3 5=1 6=96", (4, 5, 6)),
        ("Deconvolution 0=3 1=3 2=3 12=1 3=2 13=4 6=54", (2, 1, 1)),
        ("Deconvolution 0=3 1=2 3=5 6=12", (1, 3)),
        ("Deconvolution 0=3 1=2 3=2 6=12", (5,)),
        ("Deconvolution1D 0=3 1=2 3=2 6=6", (5,)),
        ("Deconvolution1D 0=3 1=2 3=2 4=2 15=0 5=1 6=24", (4, 5)),
        ("Deconvolution3D 0=3 1=2 11=1 21=3 3=1 13=2 23=3 4=1 14=0 24=2 17=1 6=36", (2, 3, 4, 5)),
        ("Deconvolution3D 0=3 1=2 3=2 20=1 6=48", (2, 3, 4, 5)),
        ("Deconvolution 0=3 1=4 3=2 4=-233 14=0 15=0 20=9 21=7 6=96", (2, 4, 5)),
        ("Deconvolution 0=3 1=4 3=2 4=0 14=1 16=0 20=9 21=7 6=96", (2, 4, 5)),
        ("Deconvolution 0=3 1=4 3=2 20=9 21=0 6=96", (2, 4, 5)),
        ("Deconvolution 0=3 1=4 3=2 4=-233 6=96", (2, 4, 5)),
    ],
    ids=map(str, range(12)),
)
def test_uneven(text: str, shape: tuple[int, ...], backend: str) -> None:
    check(text, image(*shape), backend=backend)


@pytest.mark.parametrize("storage", ["fp16", "table"])
def test_storage(storage: str, backend: str) -> None:
    text = "DeconvolutionDepthWise 0=6 1=3 3=2 5=1 6=108 7=3"
    check(text, image(6, 3, 4), storage=storage, backend=backend)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Deconvolution 0=3 1=4 6=96 20=9 21=7", "-233"),
        ("Deconvolution 0=3 1=4 6=96 4=1 14=-1", "negative padding"),
        ("Deconvolution 0=3 1=4 6=96 18=-1", "output padding"),
        ("DeconvolutionDepthWise 0=3 1=4 6=96 7=2", "divisible"),
    ],
    ids=["size without SAME", "mixed pads", "output padding", "group"],
)
def test_what_ncnn_breaks_on_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "net.param"
    type_, rest = text.split(" ", 1)
    path.write_text(f"7767517\n2 2\nInput in 0 1 x\n{type_} layer 1 1 x y {rest}\n")
    path.with_suffix(".bin").write_bytes(np.zeros(400, np.float32).tobytes())
    with pytest.raises(ModelFormatError, match=message):
        formats.load(path)


def test_an_output_size_beyond_the_full_one_is_refused() -> None:
    """ncnn reads outside of its memory there."""
    with pytest.raises(ShapeError, match="cannot be cut to"):
        check("Deconvolution1D 0=1 1=1 6=1 4=-233 20=5", image(1, 3))


def test_nothing_is_left_to_the_host(tmp_path: Path) -> None:
    lines = [
        line(3, (3, 2, 2, 1), (6, 4, 1, 1, 0, 0), 2),
        line(2, (4, 1, 2, 1), (5, 5, 1, 0, 0, 0), 5, dynamic=True),
    ]
    shapes = [[(6, 3, 4, 5)], [(5, 3, 4), (5, 1, 4, 4), (5,)]]
    for text, given in zip(lines, shapes, strict=True):
        path = tmp_path / "net.param"
        path.write_text(one_layer(text, len(given)))
        path.with_suffix(".bin").write_bytes(np.zeros(1000, np.float32).tobytes())
        with Session(path, device=device()) as session:
            session.run({f"x{i}": image(*shape) for i, shape in enumerate(given)})
            assert set(session.placement.values()) == {"vulkan"}
