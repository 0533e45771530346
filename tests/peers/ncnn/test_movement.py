"""Layers that move elements, against ncnn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.peers.ncnn.peer import check, compare_with_ncnn, image, whole_net

from vknn import formats
from vknn.errors import ShapeError
from vknn.formats.ncnn.reader import parse_param
from vknn.formats.ncnn.writer import Storage, format_bin
from vknn.graph import DType, TensorType

RANKS = [(7,), (5, 7), (3, 5, 7), (3, 4, 5, 7)]


@pytest.mark.parametrize("shape", RANKS)
def test_concat(shape: tuple[int, ...], backend: str) -> None:
    for axis in range(-len(shape), len(shape)):
        other = list(shape)
        other[axis] += 2
        check(f"Concat 0={axis}", image(*shape), image(*other, seed=1), backend=backend)


@pytest.mark.parametrize(
    ("line", "shapes"),
    [
        ("Concat", [(3, 5, 7), (5, 7), (2, 5, 7)]),
        ("Concat 0=-1", [(1, 5, 7), (5, 3)]),
        ("Concat 0=0", [(3, 1, 7), (7,)]),
        ("Concat 0=0", [(5, 7), (7,), (7,)]),
        ("Concat 0=1", [(1, 7), (4,)]),
        ("Concat 0=0", [(2, 1, 5, 7), (3, 5, 7)]),
        ("Concat 0=1", [(3, 2, 5, 7), (3, 5, 7)]),
        ("Concat 0=5", [(4,), (3,)]),
        ("Concat 0=-1", [(4,)]),
    ],
)
def test_concat_of_other_ranks(line: str, shapes: list[tuple[int, ...]], backend: str) -> None:
    """Axes that an input lacks have size 1; of 1-D blobs the axis does not matter."""
    arrays = [image(*shape, seed=i) for i, shape in enumerate(shapes)]
    check(line, *arrays, backend=backend)


def test_concat_refuses_what_ncnn_reads_in_part(tmp_path: Path) -> None:
    path = tmp_path / "net.param"
    path.write_text(whole_net("Input a 0 1 a", "Input b 0 1 b", "Concat c 2 1 a b y"))
    with pytest.raises(ShapeError, match="differ in rank"):
        formats.load(path).build({"a": TensorType((3, 4)), "b": TensorType((2, 3, 4))})


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
        ("0=4 1=3 2=2 3=1", (4, 3, 2)),
        ("0=24 3=1", (4, 3, 2)),
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
    rows = f"Padding 0=1 6={channels + 2} 7=1 8=2"  # more values than channels
    check(rows, image(*shape[:-1], 8), backend=backend)


PADDINGS = [
    "0=2 1=2 2=2 3=2 7=2 8=2 5=-3.0",
    "0=2 1=1 2=0 3=0 7=2 8=3",
    "1=1 3=1 8=1",
    "7=1 4=1",
    "2=2 3=1 4=2 7=1 8=2",
    "0=4 1=2 2=1 3=3 4=2 7=2 8=0",
    "2=6 3=6 4=1",
    "2=6 3=6 4=2",
]


@pytest.mark.parametrize("shape", [(7,), (5, 7), (3, 5, 7), (4, 5, 7), (3, 4, 5, 7)])
def test_padding_of_some_sides(shape: tuple[int, ...], backend: str) -> None:
    for params in PADDINGS:
        check(f"Padding {params}", image(*shape), backend=backend)


def test_padding_of_int8(backend: str) -> None:
    text = whole_net(
        "Input i 0 1 x",
        "Quantize q 1 1 x a",
        "Split s 1 3 a b c d",
        "Padding p 1 1 b y0 0=1 2=2 5=-7.9",
        "Padding r 1 1 c y1 1=1 3=2 6=5 7=1 8=1",
        "Padding t 1 1 d y2 0=1 2=2 4=2",
    )
    values = np.array([3.9, -4.2, 5, 6, 100], np.float32)
    weights = {"q": {"scale": np.array([40], np.float32)}, "r": {"per_channel_pad_data": values}}
    compare_with_ncnn(text, weights, {"x": image(3, 4, 5)}, (backend,))


def test_padding_that_adds_nothing(backend: str) -> None:
    check("Padding", image(3, 5, 7), backend=backend)


@pytest.mark.parametrize("shape", [(12, 5, 7), (12, 2, 5, 3)])
@pytest.mark.parametrize("params", ["0=3", "0=4 1=1", "0=1"])
def test_shuffle_channel(params: str, shape: tuple[int, ...], backend: str) -> None:
    check(f"ShuffleChannel {params}", image(*shape), backend=backend)


@pytest.mark.parametrize(("params", "shape"), [("0=1", (7,)), ("0=1 1=1", (5, 7))])
def test_shuffle_of_no_channels(params: str, shape: tuple[int, ...], backend: str) -> None:
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
        ("0=1", (1,)),
        ("0=1 1=1", (1, 1)),
        ("1=1", (1, 5)),
        ("0=1", (5, 1)),
        ("0=1 2=1", (1, 4, 1)),
        ("1=1 2=1", (1, 1, 4)),
        ("0=1 1=1 11=1 2=1", (1, 1, 1, 1)),
        ("1=1 2=1", (1, 4, 1, 5)),
        ("0=1 2=1", (1, 4, 5, 1)),
        ("1=1 11=1 2=1", (1, 1, 1, 5)),
        ("-23303=1,0", (7,)),
        ("-23303=3,0,1,-1", (1, 1, 1, 1)),
        ("-23303=2,3,-4", (1, 3, 4)),
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
        ("3,0,1,3", (7,)),
        ("3,-1,-2,-3", (7,)),
        ("2,1,2", (5, 7)),
        ("2,0,3", (5, 7)),
        ("1,3", (3, 5, 7)),
        ("1,0", (3, 5, 7)),
        ("2,0,1", (3, 5, 7)),
        ("3,0,1,3", (5, 7)),
        ("1,3", (5, 7)),
        ("2,1,3", (7,)),
        ("2,-1,2", (7,)),
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
    ('19="-(0w,3),0h//2,floor(*(0c,0.3))" 20="-1,0h,ceil(*(0c,0.9))" 21="2,1,0"', (13, 5, 7)),
    ('19="0,0" 20="ceil(*(0w,0.9)),*(0n,5)" 21="2,0"', (7, 5, 10)),
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


@pytest.mark.parametrize("storage", ["fp32", "fp16", "table"])
def test_tagged_memory_data(storage: Storage, backend: str) -> None:
    text = whole_net("MemoryData m 0 1 m 0=7 21=0", "Sigmoid s 1 1 m y")
    compare_with_ncnn(text, None, {}, (backend,), storage=storage)


def test_memory_data_of_int8(backend: str) -> None:
    text = whole_net("MemoryData m 0 1 m 0=3 1=2 21=0", "Cast c 1 1 m y 0=3 1=1")
    data = np.array([[1, -2, 3], [127, -127, 0]], np.int8)
    compare_with_ncnn(text, {"m": {"data": data}}, {}, (backend,), tolerance=0)


def test_int8_data_are_handed_out(tmp_path: Path) -> None:
    text = whole_net("MemoryData m 0 1 m 0=3 1=2 21=0")
    data = np.array([[1, -2, 3], [127, -127, 0]], np.int8)
    compare_with_ncnn(text, {"m": {"data": data}}, {}, tolerance=0)
    record = parse_param(text.encode())
    (tmp_path / "net.param").write_text(text)
    (tmp_path / "net.bin").write_bytes(format_bin(record, {"m": {"data": data}}))
    (spec,) = formats.load(tmp_path / "net.param").outputs
    assert spec.dtype == DType.INT8


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
