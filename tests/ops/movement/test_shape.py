"""Movement ops on the device against their references."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.helpers import check_op, run_graph, shared_device, single_op_graph

from vknn.graph import Op
from vknn.lowering import LoweringOptions
from vknn.ops.movement.shape import (
    ChannelShuffle,
    Concat,
    Expand,
    Identity,
    Pad,
    Reshape,
    Slice,
    Transpose,
)

DTYPES = (np.float32, np.int32, np.int8)


def ramp(*shape: int, dtype: type = np.float32) -> np.ndarray:
    """All different (modulo the dtype) and none of them 0, so that a stray 0 is seen."""
    size = int(np.prod(shape))
    return (np.arange(size) % 119 + 1 + np.arange(size) // 119 * 128).astype(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("op", "shape"),
    [
        (Identity(), (1, 5, 3)),
        (Reshape((1, 30)), (1, 5, 3, 2)),
        (Reshape((2, 5, 12)), (2, 5, 3, 4)),
        (Reshape((7,)), (1, 7)),
        (Reshape((1, 8, 1, 1)), (1, 8)),
    ],
)
def test_same_bytes(op: Op, shape: tuple[int, ...], dtype: type) -> None:
    check_op(op, ramp(*shape, dtype=dtype))


@pytest.mark.parametrize(
    ("perm", "shape"),
    [
        ((1, 0), (3, 5)),
        ((1, 0), (8, 4)),
        ((0, 2, 1), (2, 5, 3)),
        ((0, 2, 1), (1, 8, 4)),
        ((0, 2, 3, 1), (1, 8, 3, 5)),
        ((0, 2, 3, 1), (1, 13, 3, 5)),
        ((0, 3, 1, 2), (1, 3, 5, 8)),
        ((0, 3, 1, 2), (2, 3, 5, 7)),
        ((0, 1, 3, 2), (1, 5, 3, 7)),
        ((0, 1, 3, 2), (1, 4, 4, 8)),
        ((3, 0, 2, 1), (2, 3, 5, 4)),
        ((0, 1, 2), (2, 3, 5)),
        ((0, 2, 1, 3), (1, 5, 1, 3)),
        ((0, 4, 2, 1, 3), (2, 5, 3, 2, 3)),
        ((0,), (5,)),
    ],
)
def test_transpose(perm: tuple[int, ...], shape: tuple[int, ...]) -> None:
    check_op(Transpose(perm), ramp(*shape))


def test_transpose_of_integers() -> None:
    for dtype in (np.int8, np.uint8):
        check_op(Transpose((0, 2, 1)), ramp(2, 5, 3, dtype=dtype))
        check_op(Transpose((0, 2, 3, 1)), ramp(1, 8, 3, 5, dtype=dtype) - dtype(90))
    check_op(Transpose((0, 2, 1)), ramp(1, 8, 4, dtype=np.int32))


@pytest.mark.parametrize(
    ("op", "shape"),
    [
        (Slice((1,), (3,), (1,)), (1, 5, 3)),
        (Slice((4,), (8,), (1,)), (1, 12, 3, 2)),
        (Slice((4,), (13,), (1,)), (1, 13, 3)),
        (Slice((8,), (11,), (1,)), (1, 13, 3)),
        (Slice((4,), (7,), (1,)), (2, 13, 3)),
        (Slice((3,), (9,), (1,)), (2, 13, 2, 2)),
        (Slice((1, 0), (4, 2), (2, 3)), (1, 5, 5, 3)),
        (Slice((1,), (7,), (1,), (2,)), (1, 8, 3)),
        (Slice((-1,), (-100,), (1,), (-1,)), (1, 5, 3)),
        (Slice((-1, 7), (-100, 0), (2, 3), (-2, -3)), (2, 4, 5, 8)),
        (Slice((1,), (3,), (0,)), (4, 5, 3)),
        (Slice((2,), (4,), (2,)), (1, 3, 8)),
        (Slice((0,), (8,), (2,)), (2, 3, 16)),
        (Slice((1, 1, 1), (3, 4, 3), (0, 1, 2)), (4, 5, 3)),
        (Slice((2,), (5,), (0,)), (7,)),
        (Slice((), (), (), ()), (1, 5)),
        (Slice((1,), (2,), (4,)), (1, 5, 3, 2, 3)),
    ],
)
def test_slice(op: Op, shape: tuple[int, ...]) -> None:
    check_op(op, ramp(*shape))


def test_slice_of_integers() -> None:
    check_op(Slice((1, 0), (4, 2), (1, 2)), ramp(1, 5, 3, dtype=np.int8))
    check_op(Slice((4,), (11,), (1,)), ramp(2, 13, 2, 2, dtype=np.uint8))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
@pytest.mark.parametrize(
    ("pads", "shape"),
    [
        ((0, 0, 1, 2, 0, 0, 0, 1), (1, 5, 3, 4)),
        ((0, 0, 1, 2, 0, 0, 0, 1), (2, 8, 3, 4)),
        ((0, 2, 0, 0, 1, 0), (1, 5, 3)),
        ((0, 4, 1, 0, 0, 0), (1, 8, 3)),
        ((1, 1, 1, 1, 1, 1), (2, 3, 2)),
        ((2, 1), (5,)),
        ((0, 0, 0, 1, 1, 0, 0, 1, 0, 1), (1, 3, 2, 3, 2)),
        ((0, 0, 0, 0), (2, 3)),
    ],
)
def test_pad(pads: tuple[int, ...], shape: tuple[int, ...], mode: str) -> None:
    check_op(Pad(pads, mode, 0.0), ramp(*shape))
    if mode == "constant":
        check_op(Pad(pads, mode, -2.5), ramp(*shape))


@pytest.mark.parametrize("shape", [(1, 5, 3, 4), (2, 8, 1, 3), (7,)])
def test_symmetric_pads_as_large_as_their_axes(shape: tuple[int, ...]) -> None:
    check_op(Pad((*shape, *shape), "symmetric"), ramp(*shape))
    check_op(Pad((*shape, *shape), "symmetric"), ramp(*shape, dtype=np.int8))


@pytest.mark.parametrize("channels", [1, 3, 5, 8, 13])
def test_pad_with_values_by_channel(channels: int) -> None:
    x, values = ramp(2, channels, 3, 4), -ramp(channels)
    check_op(Pad((0, 0, 1, 0, 0, 0, 1, 2)), x, values)
    more = -ramp(channels + 3)
    check_op(Pad((0, 2, 1, 0, 0, 1, 1, 2)), x, more, constants=(1,))
    check_op(Pad((0, 0, 1, 0, 0, 0, 2, 0)), x, values)  # whole vec4s of the width


def test_pad_of_integers() -> None:
    check_op(Pad((0, 0, 1, 0, 0, 2), "constant", -7.0), ramp(1, 5, 3, dtype=np.int8))
    check_op(Pad((0, 1, 1, 0, 2, 0), "edge"), ramp(1, 8, 3, dtype=np.uint8))


@pytest.mark.parametrize("dtype", [*DTYPES, np.int8])
@pytest.mark.parametrize(
    ("axis", "shapes"),
    [
        (1, [(1, 4, 3), (1, 8, 3)]),
        (1, [(1, 4, 3), (1, 5, 3)]),
        (1, [(1, 5, 3), (1, 4, 3), (1, 3, 3)]),
        (1, [(1, 1, 3), (1, 1, 3), (1, 1, 3), (1, 2, 3), (1, 13, 3)]),
        (1, [(2, 5, 2, 3), (2, 13, 2, 3)]),
        (1, [(2, 4, 2, 3), (2, 3, 2, 3)]),
        (1, [(2, 6, 3), (2, 7, 3)]),
        (1, [(1, 7, 3), (1, 9, 3)]),
        (1, [(1, 1, 3), (1, 3, 3)]),
        (0, [(2, 5, 3), (1, 5, 3)]),
        (2, [(1, 5, 3, 2), (1, 5, 1, 2)]),
        (3, [(2, 5, 3, 2), (2, 5, 3, 4)]),
        (-1, [(3, 4), (3, 8)]),
        (-1, [(1, 7)]),
        (0, [(3,), (5,), (1,)]),
    ],
)
def test_concat(axis: int, shapes: list[tuple[int, ...]], dtype: type) -> None:
    arrays = [ramp(*s, dtype=dtype) * (i + 1) for i, s in enumerate(shapes)]
    check_op(Concat(axis), *[a.astype(dtype) for a in arrays])


@pytest.mark.parametrize(
    ("shape", "target"),
    [
        ((1, 5, 1), (1, 5, 3)),
        ((1, 1, 3), (1, 5, 3)),
        ((1, 1, 4), (2, 5, 4)),
        ((5, 1), (2, 1, 5, 3)),
        ((1,), (3, 5)),
        ((1, 8, 1, 1), (1, 8, 3, 2)),
        ((2, 3), (2, 3)),
        ((2, 3), (1, 2, 3)),
    ],
)
def test_expand(shape: tuple[int, ...], target: tuple[int, ...]) -> None:
    check_op(Expand(target), ramp(*shape))


@pytest.mark.parametrize(
    ("channels", "group"),
    [(8, 2), (12, 2), (20, 2), (6, 3), (6, 2), (4, 2), (4, 4), (5, 1), (20, 5)],
)
def test_channel_shuffle(channels: int, group: int) -> None:
    check_op(ChannelShuffle(group), ramp(2, channels, 3, 2))


def test_big_enough_for_several_items_a_lane() -> None:
    check_op(Transpose((0, 2, 3, 1)), ramp(1, 21, 67, 71), access=("storage",))
    check_op(Pad((0, 0, 1, 1, 0, 0, 1, 1)), ramp(1, 13, 65, 63), access=("texel",))


def test_workgroups_of_a_gpu() -> None:
    x = ramp(1, 13, 29, 31)
    limits = dataclasses.replace(shared_device().limits, kind="discrete")
    for op in (Transpose((0, 2, 3, 1)), Pad((0, 0, 1, 1, 0, 0, 1, 1)), Slice((1,), (9,), (1,))):
        graph = single_op_graph(op, [x])
        actual = run_graph(graph, limits, LoweringOptions(), {"x0": x})["y0"]
        np.testing.assert_array_equal(actual, op.reference(x)[0])
