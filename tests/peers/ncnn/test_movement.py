"""Layers that move elements, against ncnn."""

from __future__ import annotations

import numpy as np
import pytest
from tests.peers.ncnn.peer import check, compare_with_ncnn, image, whole_net

RANKS = [(7,), (5, 7), (3, 5, 7), (3, 4, 5, 7)]


@pytest.mark.parametrize("shape", RANKS)
def test_concat(shape: tuple[int, ...], backend: str) -> None:
    for axis in range(-len(shape), len(shape)):
        other = list(shape)
        other[axis] += 2
        check(f"Concat 0={axis}", image(*shape), image(*other, seed=1), backend=backend)


@pytest.mark.parametrize("shape", [(9,), (9, 5), (9, 5, 6), (9, 4, 5, 6)])
@pytest.mark.parametrize(
    ("params", "tops"),
    [
        ("-23300=2,4,-233", 2),
        ("-23300=3,-233,-233,-233", 3),
        ("-23300=3,2,-233,-233", 3),
        ("-23300=2,2,3", 2),
        ("-23302=2,3,-2", 3),
        ("2=4,", 2),
    ],
)
def test_slice(params: str, tops: int, shape: tuple[int, ...], backend: str) -> None:
    check(f"Slice {params}", image(*shape), tops=tops, backend=backend)


@pytest.mark.parametrize("axis", [1, 2, 3, -1, -2])
def test_slice_axes(axis: int, backend: str) -> None:
    check(f"Slice -23300=2,2,-233 1={axis}", image(5, 6, 7, 8), tops=2, backend=backend)


@pytest.mark.parametrize(
    ("params", "shape"),
    [
        ("0=-1", (3, 4, 5)),
        ("0=12 1=-1", (3, 4, 5)),
        ("0=0 1=-1", (3, 4, 5)),
        ("0=-1 1=0", (3, 4, 5)),
        ("0=2 1=0 2=-1", (3, 4, 6)),
        ("0=0 1=0 2=0", (3, 4, 5)),
        ("0=4 1=5 2=-1", (3, 4, 5)),
        ("0=2 1=3 11=2 2=-1", (3, 4, 6)),
        ("0=-1 1=0 11=0 2=0", (3, 2, 4, 6)),
        ("0=6 1=-1", (24,)),
        ("0=2 1=2 2=-1", (24,)),
        ("0=-1", (3, 2, 4, 5)),
        ("0=1 1=1 2=-1", (24,)),
        ('6="0h,*(0w,2),-1"', (4, 3, 6)),
        ('6="-1"', (4, 3, 6)),
        ('6="-1,//(0c,2)"', (4, 3, 6)),
    ],
)
def test_reshape(params: str, shape: tuple[int, ...], backend: str) -> None:
    check(f"Reshape {params}", image(*shape), backend=backend)


@pytest.mark.parametrize(
    ("shape", "orders"), [((7,), 1), ((5, 7), 2), ((3, 5, 7), 6), ((2, 3, 4, 5), 24)]
)
def test_permute(shape: tuple[int, ...], orders: int, backend: str) -> None:
    for order in range(orders):
        check(f"Permute 0={order}", image(*shape), backend=backend)


@pytest.mark.parametrize("shape", RANKS)
@pytest.mark.parametrize("kind", ["4=0 5=1.5", "4=1", "4=2", ""])
def test_padding(kind: str, shape: tuple[int, ...], backend: str) -> None:
    check(f"Padding 0=1 1=2 2=3 3=1 {kind}", image(*shape), backend=backend)
    check(f"Padding 0=1 1=2 2=3 3=1 {kind} 7=1 8=2", image(*shape), backend=backend)


@pytest.mark.parametrize(("shape", "channels"), [((3, 5, 7), 6), ((3, 4, 5, 7), 3)])
def test_padding_per_channel(shape: tuple[int, ...], channels: int, backend: str) -> None:
    line = f"Padding 0=1 1=2 2=3 3=1 6={channels} 7=1 8=2"
    check(line, image(*shape), backend=backend)


def test_padding_that_adds_nothing(backend: str) -> None:
    check("Padding", image(3, 5, 7), backend=backend)


@pytest.mark.parametrize("shape", [(12, 5, 7), (12, 2, 5, 3)])
@pytest.mark.parametrize("params", ["0=3", "0=4 1=1", "0=1"])
def test_shuffle_channel(params: str, shape: tuple[int, ...], backend: str) -> None:
    check(f"ShuffleChannel {params}", image(*shape), backend=backend)


@pytest.mark.parametrize(
    ("params", "shape"),
    [
        ("0=1", (3, 4, 1)),
        ("1=1", (3, 1, 4)),
        ("2=1", (1, 3, 4)),
        ("0=1 1=1", (3, 1, 1)),
        ("0=1 1=1 2=1", (1, 1, 1)),
        ("0=1 1=1", (3, 4, 5)),
        ("11=1", (3, 1, 4, 5)),
        ("0=1 11=1", (3, 1, 4, 1)),
        ("-23303=1,0", (1, 3, 4)),
        ("-23303=2,-1,1", (3, 1, 4, 1)),
    ],
)
def test_squeeze(params: str, shape: tuple[int, ...], backend: str) -> None:
    check(f"Squeeze {params}", image(*shape), backend=backend)


@pytest.mark.parametrize(
    ("axes", "shape"),
    [
        ("1,0", (7,)),
        ("1,-1", (7,)),
        ("2,0,2", (7,)),
        ("1,1", (5, 7)),
        ("2,0,-1", (5, 7)),
        ("1,-2", (3, 5, 7)),
    ],
)
def test_expand_dims(axes: str, shape: tuple[int, ...], backend: str) -> None:
    check(f"ExpandDims -23303={axes}", image(*shape), backend=backend)


# --- Crop ---------------------------------------------------------------------------------------

CROPS = [
    ("0=2 3=3 4=-233 5=-233", (7,)),
    ("0=2 3=-233 6=1", (7,)),
    ("0=2 3=-233 6=2 1=1 4=-233 7=1", (5, 7)),
    ("0=2 1=1 2=1 3=3 4=2 5=1", (3, 5, 7)),
    ("0=1 1=1 2=1 3=-233 4=-233 5=-233", (3, 5, 7)),
    ("0=1 1=0 2=1 3=-233 4=-233 5=-233 6=2 7=1 8=1", (4, 5, 7)),
    ("3=100 4=3 5=-233", (3, 5, 7)),
    ("0=2 1=1 2=1 13=1 3=3 4=2 5=2 14=2", (3, 4, 5, 7)),
    ("0=1 13=1 3=-233 4=-233 5=-233 14=-233 15=1", (3, 4, 5, 7)),
    ("-23309=1,1 -23310=1,-1 -23311=1,0", (7,)),
    ("-23309=1,2 -23310=1,5", (7,)),
    ("-23309=1,1 -23310=1,-233 -23311=1,1", (5, 7)),
    ("-23309=2,-4,1 -23310=2,-1,4 -23311=2,2,1", (3, 5, 7)),
    ("-23309=3,0,1,2 -23310=3,2,0,100", (3, 5, 7)),
    ("-23309=1,-233 -23310=1,2 -23311=1,-3", (3, 5, 7)),
    ("-23309=2,1,1 -23310=2,3,-1 -23311=2,1,3", (3, 4, 5, 7)),
    ('19="1" 20="-(0w,2)" 21="2"', (3, 5, 7)),
]


@pytest.mark.parametrize(("params", "shape"), CROPS)
def test_crop(params: str, shape: tuple[int, ...], backend: str) -> None:
    check(f"Crop {params}", image(*shape), backend=backend)


@pytest.mark.parametrize(
    ("params", "shape", "other"),
    [
        ("0=1", (7,), (4,)),
        ("0=1 1=2", (5, 7), (3, 4)),
        ("0=1 1=2 2=1", (4, 5, 7), (2, 3, 4)),
        ("0=1 1=2", (4, 5, 7), (3, 4)),
        ("0=1 1=2 2=1 13=1", (4, 3, 5, 7), (2, 2, 3, 4)),
        ("0=1", (5, 7), (2, 5, 4)),
    ],
)
def test_crop_to_reference(
    params: str, shape: tuple[int, ...], other: tuple[int, ...], backend: str
) -> None:
    check(f"Crop {params}", image(*shape), image(*other), backend=backend)


@pytest.mark.parametrize(
    ("shape", "numbers"),
    [
        ((7,), [2, 0, 0, 4, 0, 0]),
        ((5, 7), [2, 1, 0, 4, 3, 0]),
        ((4, 5, 7), [2, 1, 1, 4, 3, 2]),
        ((4, 3, 5, 7), [2, 1, 1, 1, 4, 3, 2, 2]),
    ],
)
def test_crop_by_data(shape: tuple[int, ...], numbers: list[int], backend: str) -> None:
    check("Crop 0=-233", image(*shape), np.array(numbers, np.int32), backend=backend)


def test_crop_by_constant_data(backend: str) -> None:
    """MemoryData holds the integers' bits in a float blob."""
    text = whole_net("Input in 0 1 x", "MemoryData m 0 1 m 0=6", "Crop c 2 1 x m y 0=-233")
    bits = np.array([2, 1, 1, 4, 3, 2], np.int32).view(np.float32)
    compare_with_ncnn(text, {"m": {"data": bits}}, {"x": image(4, 5, 7)}, (backend,))


# --- sources and fan-out ------------------------------------------------------------------------


@pytest.mark.parametrize("params", ["0=7", "0=7 1=5", "0=7 1=5 2=3", "0=7 1=5 11=2 2=3"])
def test_memory_data(params: str, backend: str) -> None:
    text = whole_net(f"MemoryData m 0 1 m {params}", "Sigmoid s 1 1 m y")
    compare_with_ncnn(text, None, {}, (backend,))


def test_tagged_memory_data(backend: str) -> None:
    text = whole_net("MemoryData m 0 1 m 0=7 21=0", "Sigmoid s 1 1 m y")
    compare_with_ncnn(text, None, {}, (backend,), storage="fp16")


def test_dangling_blobs_are_outputs(backend: str) -> None:
    """Unread Split tops, an unread Input, a blob with two readers and pairwise Noop."""
    text = whole_net(
        "Input i 0 1 x",
        "Input j 0 1 unread",
        "Split s 1 3 x a b c",
        "ReLU r 1 1 a d",
        "Sigmoid g 1 1 d e",
        "TanH t 1 1 d f",
        "Noop n 2 2 e f p q",
    )
    inputs = {"x": image(3, 5, 7), "unread": image(4)}
    compare_with_ncnn(text, None, inputs, (backend,))
