"""Tile, CopyTo, Flip, Reorg, PixelShuffle, Diag, Packing and blobs with a batch, against ncnn."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from tests.peers.ncnn.peer import check, compare_with_ncnn, image, run_vknn, whole_net

from vknn import formats
from vknn.errors import ModelFormatError, ShapeError
from vknn.graph import TensorType

SHAPES = [(7,), (5, 7), (3, 5, 7), (3, 4, 2, 5)]


@pytest.mark.parametrize("shape", [*SHAPES, (8,), (4, 3, 4), (8, 1, 2, 3)])
def test_tile_an_axis(shape: tuple[int, ...], backend: str) -> None:
    for axis in range(4):
        check(f"Tile 0={axis} 1={2 + axis % 2}", image(*shape), backend=backend)
    check("Tile", image(*shape), backend=backend)


@pytest.mark.parametrize("repeats", ["1,2", "2,3,1", "2,1,1", "3,2,1,3", "4,2,3,1,2", "4,1,1,1,1"])
@pytest.mark.parametrize("shape", SHAPES)
def test_tile_repeats(shape: tuple[int, ...], repeats: str, backend: str) -> None:
    check(f"Tile -23302={repeats}", image(*shape), backend=backend)


COPIES = [
    ((7,), (3,), "0=2"),
    ((7,), (1,), ""),
    ((5, 7), (2, 3), "0=1 1=3"),
    ((5, 7), (3,), "0=4 1=2"),
    ((5, 6, 7), (2, 3, 4), "0=1 1=2 2=3"),
    ((5, 6, 8), (4, 6, 8), "2=1"),
    ((8, 6, 8), (4, 2, 4), "0=4 1=1 2=4"),
    ((5, 6, 7), (2, 3), "0=4 1=1 2=1"),
    ((5, 6, 7), (4,), "0=3 2=4"),
    ((3, 4, 5, 6), (2, 3, 2, 4), "0=2 1=3 13=1 2=1"),
    ((3, 4, 5, 6), (2, 3, 4), "0=1 1=1 13=2"),
    ((3, 4, 5, 6), (3, 4), "1=1 13=3 2=2"),
    ((3, 4, 5, 6), (2,), "13=1"),
    ((7,), (3,), "-23309=1,-4"),
    ((7,), (3,), "-23309=1,-233"),
    ((5, 7), (2, 3), "-23309=2,-2,1"),
    ((5, 7), (2, 3), "-23309=1,-3 -23311=1,-1"),
    ((5, 6, 7), (2, 3, 4), "-23309=2,2,-233 -23311=2,-1,0"),
    ((3, 4, 5, 6), (1, 2, 3, 4), "-23309=3,-1,2,-5 -23311=3,0,1,-2"),
    ((3, 4, 5, 6), (1, 2, 3, 4), "-23309=4,1,2,1,2"),
    ((3, 4, 5), (3, 4, 5), "0=2 1=9"),
    # Rows that run on into the next ones.
    ((5, 7, 8, 6), (2, 3, 1, 6), "0=4 1=3 2=3"),
    ((5, 7, 8, 6), (2, 3), "-23309=4,2,1,-4,4"),
    ((5, 6, 7), (2, 3, 9), "1=1 2=1"),
    ((5, 7), (3, 4), "0=-1 1=2"),
    ((5, 7), (3, 2, 4), "0=1"),
    ((4, 5, 6), (2, 3, 2, 4), "0=1 2=1"),
]


@pytest.mark.parametrize(("shape", "part", "params"), COPIES)
def test_copy_to(shape: tuple[int, ...], part: tuple[int, ...], params: str, backend: str) -> None:
    check(f"CopyTo {params}", image(*shape), image(*part, seed=1), backend=backend)


@pytest.mark.parametrize("shape", [(7,), (5, 7), (3, 5, 7), (5, 3, 2, 4)])
def test_flip(shape: tuple[int, ...], backend: str) -> None:
    n = len(shape)
    for count in range(1, n + 1):
        for axes in itertools.combinations(range(n), count):
            listed = ",".join(str(a if a % 2 else a - n) for a in axes)
            check(f"Flip -23300={count},{listed}", image(*shape), backend=backend)
    check("Flip", image(*shape), backend=backend)
    check("Flip -23300=1,2", image(*shape), backend=backend)


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize(
    ("stride", "shape"),
    [
        (1, (1, 7, 6)),
        (2, (2, 6, 6)),
        (2, (3, 8, 6)),
        (4, (4, 4, 4)),
        (3, (16, 9, 9)),
        (2, (3, 7, 5)),
        (2, (5, 4)),
        (1, (5,)),
    ],
)
def test_reorg(stride: int, shape: tuple[int, ...], mode: int, backend: str) -> None:
    check(f"Reorg 0={stride} 1={mode}", image(*shape), backend=backend)


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize(
    ("factor", "shape"),
    [
        (1, (3, 7, 6)),
        (2, (4, 6, 5)),
        (2, (12, 3, 4)),
        (3, (9, 2, 3)),
        (4, (64, 2, 3)),
        (2, (7, 2, 3)),
        (3, (28, 1, 5)),
    ],
)
def test_pixel_shuffle(factor: int, shape: tuple[int, ...], mode: int, backend: str) -> None:
    check(f"PixelShuffle 0={factor} 1={mode}", image(*shape), backend=backend)


@pytest.mark.parametrize(
    ("shape", "diagonals"),
    [
        ((5,), (-2, 0, 3)),
        ((1,), (0, -1)),
        ((5, 8), (-4, -1, 0, 1, 3, 4, 7)),
        ((6, 6), (-4, 0, 5)),
        ((8, 5), (-7, -3, -2, 0, 4)),
    ],
)
def test_diag(shape: tuple[int, ...], diagonals: tuple[int, ...], backend: str) -> None:
    for k in diagonals:
        check(f"Diag 0={k}", image(*shape), backend=backend)


def test_packing_changes_nothing(backend: str) -> None:
    check("Packing 0=4", image(3, 5, 7), backend=backend)
    check("Packing", image(3, 5, 7), backend=backend)
    text = whole_net("Input i 0 1 x", "Packing p 1 1 x a 0=4 2=1 3=2", "Packing q 1 1 a y 0=1")
    compare_with_ncnn(text, None, {"x": image(8, 3, 5)}, (backend,))


# --- a batch --------------------------------------------------------------------------------------

BATCHES = [
    # An axis becomes the batch; layers see the rest; the batch becomes an axis again.
    ((3, 4, 5), "0=5 1=4 2=3 13=0", "Softmax l 1 1 b c", "0=0 1=0 2=-1 12=0"),
    ((3, 4, 5), "0=5 1=4 2=3 13=1", "Softmax l 1 1 b c", "0=0 1=0 2=0 12=1"),
    ((3, 4, 5), "0=5 1=-1 2=3 13=-1", "UnaryOp l 1 1 b c 0=4", "0=60 12=-1"),
    ((3, 4, 5), "0=2 1=5 2=3 11=2 13=0", "Pooling l 1 1 b c 1=2", "0=0 1=0 2=0 11=0 12=0"),
    ((3, 4, 5), "0=2 1=5 2=3 11=2 13=1", "InnerProduct l 1 1 b c 0=7 2=210", "0=7 1=2 12=0"),
    ((3, 4, 5), "0=4 1=5 2=3 13=2", "Reshape l 1 1 b c 0=-1", "0=0 1=0 12=0"),
    ((3, 4, 5), "0=15 1=1 2=4 13=1", "Flatten l 1 1 b c", "0=15 1=4 12=0"),
    ((24,), "0=6 1=4 13=1", "DeepCopy l 1 1 b c", "0=4 1=6 12=1"),
]


@pytest.mark.parametrize(("shape", "there", "layer", "back"), BATCHES)
def test_batch(shape: tuple[int, ...], there: str, layer: str, back: str, backend: str) -> None:
    text = whole_net(
        "Input i 0 1 x", f"Reshape r 1 1 x b {there}", layer, f"Reshape s 1 1 c y {back}"
    )
    compare_with_ncnn(text, None, {"x": image(*shape)}, (backend,))


def test_batch_of_two_inputs(backend: str) -> None:
    """One input has a batch, the other, which every item meets, has none."""
    text = whole_net(
        "Input i 0 1 x",
        "Input j 0 1 w",
        "Reshape r 1 1 x b 0=5 1=4 2=3 13=0",
        "BinaryOp l 2 1 b w c 0=2",
        "Reshape s 1 1 c y 0=5 1=12 12=0",
    )
    compare_with_ncnn(text, None, {"x": image(3, 4, 5), "w": image(4, 5, seed=1)}, (backend,))


def test_reshape_of_a_batch_by_expression(backend: str) -> None:
    text = whole_net(
        "Input i 0 1 x",
        'Reshape r 1 1 x b 6="*(0w,2),//(0h,2),0c" 13=0',
        'Reshape s 1 1 b y 6="-1,0h,3" 12=0',
    )
    compare_with_ncnn(text, None, {"x": image(3, 4, 5)}, (backend,))


def test_an_output_with_a_batch_shows_its_first_item(backend: str) -> None:
    text = whole_net("Input i 0 1 x", "Reshape r 1 1 x y 0=5 1=4 2=3 13=0")
    compare_with_ncnn(text, None, {"x": image(3, 4, 5)}, (backend,))


# --- what makes no sense --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ("Tile t 1 1 x y 0=-1 1=2", "axis -1 is not one of 0 to 3"),
        ("Tile t 1 1 x y 1=0", "tiles 0 must be positive"),
        ("Tile t 1 1 x y -23302=1,0", r"repeats \[0\] must be positive"),
        ("Tile t 1 1 x y -23302=5,1,1,1,1,2", "more than four"),
        ("Flip t 1 1 x y -23300=1,4", "not all from -4 to 3"),
        ("Flip t 1 1 x y -23300=5,0,1,2,0,1", "more than four"),
        ("Reorg t 1 1 x y 0=0", "stride 0 must be positive"),
        ("Reorg t 1 1 x y 0=2 1=2", "unknown mode 2"),
        ("PixelShuffle t 1 1 x y 0=-2", "must be positive"),
        ("PixelShuffle t 1 1 x y 0=2 1=-1", "unknown mode -1"),
        ("Packing t 1 1 x y 0=0", "must be positive"),
        ("CopyTo t 2 1 x x y -23309=1,0 -23311=2,0,1", "2 axes for 1 starts"),
        ("CopyTo t 2 1 x x y -23309=2,0,0 -23311=1,0", "1 axes for 2 starts"),
        ("CopyTo t 2 1 x x y -23309=1,0 -23311=1,4", "not all from -4 to 3"),
        ("Crop t 1 1 x y -23309=1,1", "starts and ends differ"),
        ("Crop t 1 1 x y -23309=2,1,0 -23310=2,3,2 -23311=1,0", "1 axes for 2 starts"),
        ("Crop t 1 1 x y -23309=1,1 -23310=1,3 -23311=1,-5", "not all from -4 to 3"),
        ("Squeeze t 1 1 x y -23303=5,0,1,2,3,0", "more than four"),
        ("Slice t 1 1 x y -23300=1,0", r"slices \[0\] must be positive"),
        ("Slice t 1 1 x y -23300=1,1 1=4", "not all from -4 to 3"),
        ("Reduction t 1 1 x y 1=0 -23303=1,4 5=1", "not all from -4 to 3"),
    ],
)
def test_refused_when_read(layer: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "net.param"
    path.write_text(whole_net("Input i 0 1 x", layer))
    with pytest.raises(ModelFormatError, match=message):
        formats.load(path)


@pytest.mark.parametrize(
    ("layer", "shape", "message"),
    [
        ("Reorg t 1 1 x y 0=4", (2, 3, 5), "no block of 4"),
        ("Reorg t 1 1 x y 0=2", (2, 2, 4, 4), "at most three axes"),
        ("PixelShuffle t 1 1 x y 0=2", (3, 4, 5), "do not fill a block of 4"),
        ("Diag t 1 1 x y 0=5", (3, 4), "outside a matrix of 3 x 4"),
        ("Diag t 1 1 x y 0=-3", (3, 4), "outside a matrix of 3 x 4"),
        ("Diag t 1 1 x y", (2, 3, 4), "takes a 1-D or 2-D blob"),
        ("Packing t 1 1 x y 0=4 1=1", (3, 4), "undefined elements"),
        ("CopyTo t 2 1 x w y 0=3", (2, 3, 4), "reaches beyond"),
        ("BinaryOp t 2 1 x w y 1=1", (2, 3, 2), "a number and a second input"),
        ("CopyTo t 2 1 x w y 0=-1", (2, 3, 4), "reaches beyond"),
        ("Reshape t 1 1 x y 0=4 1=3 2=2 12=4", (2, 3, 4), "batch axis 4 does not exist"),
        ("Reshape t 1 1 x y 0=24 13=0", (2, 3, 4), "nothing is left beside the batch"),
        ("Reshape t 1 1 x y 0=4 1=5 13=0", (2, 3, 4), "does not fit into"),
    ],
)
def test_refused_for_these_shapes(
    layer: str, shape: tuple[int, ...], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "net.param"
    path.write_text(whole_net("Input i 0 1 x", "Input j 0 1 w", layer))
    with pytest.raises(ShapeError, match=f"'t'.*{message}"):
        formats.load(path).build({"x": TensorType(shape), "w": TensorType((2, 3, 2))})


def test_integers_move_too(tmp_path: Path) -> None:
    """int8 blobs behind Quantize keep their type."""
    path = tmp_path / "net.param"
    path.write_text(
        whole_net(
            "Input i 0 1 x",
            "Quantize q 1 1 x a",
            "Tile t 1 1 a b 0=1 1=2",
            "PixelShuffle p 1 1 b c 0=2",
            "Flip f 1 1 c y -23300=1,2",
        )
    )
    path.with_suffix(".bin").write_bytes(np.array([20], np.float32).tobytes())
    y = run_vknn(path, {"x": image(4, 3, 5)}, "numpy")["y"]
    assert y.dtype == np.int8
    assert y.shape == (1, 12, 10)
