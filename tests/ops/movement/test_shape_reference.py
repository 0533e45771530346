"""Ops that move data, against index arithmetic written out."""

from __future__ import annotations

import numpy as np
import pytest

from reference_helper import check, data, f32, i8, i32, refuses
from vknn.graph import Op, TensorType
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

DTYPES = ("float32", "int8", "int32")


@pytest.mark.parametrize("dtype", DTYPES)
def test_moving_keeps_the_dtype(dtype: str) -> None:
    x = data(1, 6, 5, dtype=dtype)
    check(Identity(), x, expected=x)
    check(Reshape((5, 6)), x, expected=x.ravel().reshape(5, 6))
    check(Transpose((2, 0, 1)), x, expected=np.einsum("abc->cab", x))
    check(Slice((1,), (5,), (1,), (2,)), x, expected=x[:, 1:5:2])
    check(Pad((0, 1, 0, 0, 0, 2)), x, expected=np.pad(x, [(0, 0), (1, 0), (0, 2)]))
    check(Concat(1), x, x, expected=np.stack([x, x], 1).reshape(1, 12, 5))
    check(Expand((3, 1, 1)), x, expected=np.repeat(x, 3, 0))
    check(ChannelShuffle(3), x, expected=x[:, [0, 2, 4, 1, 3, 5]])


@pytest.mark.parametrize(
    ("shape", "target", "result"),
    [
        ((2, 3, 5), (30,), (30,)),
        ((2, 3, 5), (5, -1), (5, 6)),
        ((2, 3, 5), (-1,), (30,)),
        ((1,), (), ()),
        ((0, 3), (3, 0), (3, 0)),
        ((0, 3), (-1, 3), (0, 3)),
        ((2, 3), (1, 2, 1, 3, 1), (1, 2, 1, 3, 1)),
    ],
)
def test_reshape(shape: tuple[int, ...], target: tuple[int, ...], result: tuple[int, ...]) -> None:
    x = data(*shape)
    check(Reshape(target), x, expected=np.array(x.ravel().tolist(), np.float32).reshape(result))


@pytest.mark.parametrize("perm", [(0,), (1, 0), (2, 0, 1), (0, 2, 3, 1), (4, 1, 3, 0, 2)])
def test_transpose(perm: tuple[int, ...]) -> None:
    x = data(*(2, 3, 5, 7, 4)[: len(perm)])
    y = np.empty([x.shape[p] for p in perm], np.float32)
    for index in np.ndindex(*y.shape):
        source = [0] * len(perm)
        for to, origin in enumerate(perm):
            source[origin] = index[to]
        y[index] = x[tuple(source)]
    check(Transpose(perm), x, expected=y)


# starts, ends, axes, steps, and the indices taken along axis 1 of 7
SLICES = [
    ((2,), (5,), (1,), (1,), [2, 3, 4]),
    ((0,), (100,), (1,), (3,), [0, 3, 6]),
    ((-3,), (-1,), (1,), None, [4, 5]),
    ((-100,), (2,), (-2,), None, [0, 1]),
    ((6,), (-100,), (1,), (-2,), [6, 4, 2, 0]),
    ((100,), (2,), (1,), (-1,), [6, 5, 4, 3]),
    ((5,), (5,), (1,), (1,), []),
    ((5,), (2,), (1,), (1,), []),
]


@pytest.mark.parametrize(("starts", "ends", "axes", "steps", "taken"), SLICES)
def test_slice(starts, ends, axes, steps, taken) -> None:  # type: ignore[no-untyped-def]
    x = data(2, 7, 3)
    check(Slice(starts, ends, axes, steps), x, expected=x.take(np.array(taken, int), axis=1))


def test_slice_of_several_axes() -> None:
    x = data(3, 5, 7)
    check(Slice((1, 2), (3, 4)), x, expected=x[1:3, 2:4])
    check(Slice((1, 2), (3, 4), (-1, 0)), x, expected=x[2:4, :, 1:3])
    assert Slice((1,), (2,)) == Slice((1,), (2,), (0,), (1,))


def padded(x: np.ndarray, pads: tuple[int, ...], mode: str, value: float) -> np.ndarray:
    """Each index walked back to the element it comes from."""
    shape = [s + pads[i] + pads[i + x.ndim] for i, s in enumerate(x.shape)]
    y = np.full(shape, value, x.dtype)
    for index in np.ndindex(*shape):
        source = []
        for axis, i in enumerate(index):
            at, last = i - pads[axis], x.shape[axis] - 1
            if mode == "edge":
                at = min(max(at, 0), last)
            elif mode == "reflect":
                at = abs(at)
                at = 2 * last - at if at > last else at
            elif mode == "symmetric":
                at = -1 - at if at < 0 else at
                at = 2 * last + 1 - at if at > last else at
            source.append(at)
        if all(0 <= a < s for a, s in zip(source, x.shape, strict=True)):
            y[index] = x[tuple(source)]
    return y


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
@pytest.mark.parametrize(
    ("shape", "pads"),
    [
        ((5,), (2, 1)),
        ((2, 3), (0, 1, 0, 2)),
        ((1, 3, 5), (0, 2, 0, 0, 1, 4)),
        ((1, 3, 4, 5), (0, 1, 2, 3, 0, 2, 1, 0)),
        ((1, 2, 2, 3, 4), (0, 0, 1, 1, 1, 0, 0, 0, 1, 2)),
        ((1, 3), (0, 0, 0, 0)),
    ],
)
def test_pad(mode: str, shape: tuple[int, ...], pads: tuple[int, ...]) -> None:
    x = data(*shape)
    check(Pad(pads, mode, 1.5), x, expected=padded(x, pads, mode, 1.5))


def test_pad_with_a_value_for_each_channel() -> None:
    x, values = data(1, 2, 3, 3), data(4, seed=1)
    y = np.broadcast_to(values[:, None, None], (1, 4, 4, 5)).copy()
    y[:, 1:3, 0:3, 2:5] = x
    check(Pad((0, 1, 0, 2, 0, 1, 1, 0)), x, values, expected=y)
    check(Pad((0, 1, 0, 1)), x[:, :, 0, 0], values, expected=y[:, :, 0, 2])


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_concat(axis: int) -> None:
    parts = []
    for size in (3, 1, 2, 0):
        shape = [2, 3, 5]
        shape[axis] = size
        parts.append(data(*shape, seed=size))
    moved = [row for p in parts for row in np.moveaxis(p, axis, 0)]
    check(Concat(axis), *parts, expected=np.moveaxis(np.array(moved), 0, axis))
    check(Concat(axis), parts[0], expected=parts[0])


@pytest.mark.parametrize(
    ("shape", "target", "result"),
    [
        ((3, 1), (3, 4), (3, 4)),
        ((3, 1), (2, 1, 6), (2, 3, 6)),
        ((2, 3), (1,), (2, 3)),
        ((), (2, 3), (2, 3)),
        ((1,), (0,), (0,)),
    ],
)
def test_expand(shape: tuple[int, ...], target: tuple[int, ...], result: tuple[int, ...]) -> None:
    x = data(*shape)
    check(Expand(target), x, expected=np.float32(0) + x + np.zeros(result, np.float32))


@pytest.mark.parametrize(("shape", "group"), [((1, 6), 2), ((2, 6, 5), 3), ((1, 8, 2, 3), 8)])
def test_channel_shuffle(shape: tuple[int, ...], group: int) -> None:
    x = data(*shape)
    each = shape[1] // group
    y = np.empty_like(x)
    for g in range(group):
        for i in range(each):
            y[:, i * group + g] = x[:, g * each + i]
    check(ChannelShuffle(group), x, expected=y)


REFUSED = [
    (Reshape((4, 4)), [f32(3, 5)], "has 15 elements"),
    (Reshape((4, -1)), [f32(3, 5)], "do not fill"),
    (Reshape((-1, -1)), [f32(3, 5)], "is not a shape"),
    (Reshape((-2, 5)), [f32(3, 5)], "is not a shape"),
    (Reshape((0, -1)), [f32(0, 5)], "do not fill"),
    (Transpose((0, 0)), [f32(3, 5)], "does not permute"),
    (Transpose((1, 0)), [f32(3, 5, 2)], "does not permute"),
    (Transpose((1, 2)), [f32(3, 5)], "does not permute"),
    (Slice((0,), (1,), (2,)), [f32(3, 5)], "axis 2 is out of range for rank 2"),
    (Slice((0, 0), (1, 1), (1, -1)), [f32(3, 5)], "repeat"),
    (Slice((0,), (1,), (0,), (0,)), [f32(3, 5)], "step is 0"),
    (Slice((0, 1), (1,)), [f32(3, 5)], "differ in length"),
    (Pad((1, 1)), [f32(3, 5)], "should be 4 numbers"),
    (Pad((1, 1, -1, 0)), [f32(3, 5)], "from 0 on"),
    (Pad((0, 5, 0, 0), "reflect"), [f32(3, 5)], "reflect by 5 does not suit an axis of 5"),
    (Pad((0, 0, 4, 0), "symmetric"), [f32(3, 5)], "symmetric by 4 does not suit an axis of 3"),
    (Pad((1, 0, 0, 0), "edge"), [f32(0, 5)], "edge by 1"),
    (Pad((0, 0, 0, 0), "wrap"), [f32(3, 5)], "no mode"),
    (Pad((0, 1, 0, 0)), [f32(3, 5), f32(5)], "values has shape"),
    (Pad((0, 1, 0, 0), "edge"), [f32(3, 5), f32(6)], "takes no values"),
    (Pad((0, 0)), [f32(5), f32(5)], "no axis 1"),
    (Pad((0, 1, 0, 0)), [f32(3, 5), i32(6)], "wants float32"),
    (Concat(2), [f32(3, 5)], "out of range"),
    (Concat(0), [f32(3, 5), f32(3, 4)], "differ along axis 1"),
    (Concat(0), [f32(3, 5), f32(3)], "ranks"),
    (Concat(0), [f32(3, 5), i8(3, 5)], "wants float32"),
    (Concat(0), [], "no inputs"),
    (Concat(0), [f32(3), None], "input 1 is missing"),
    (Expand((4,)), [f32(3)], "do not broadcast"),
    (Expand((-1,)), [f32(3)], "is not a shape"),
    (ChannelShuffle(4), [f32(1, 6)], "do not divide"),
    (ChannelShuffle(0), [f32(1, 6)], "do not divide"),
    (ChannelShuffle(2), [f32(6)], "no channel axis"),
]


@pytest.mark.parametrize(("op", "types", "words"), REFUSED, ids=lambda v: str(v)[:40])
def test_infer_refuses(op: Op, types: list[TensorType], words: str) -> None:
    refuses(op, *types, match=words)


OPEN = [
    (Reshape((-1, 3)), [f32(None, 6)], f32(None, 3)),
    (Transpose((1, 0)), [f32(None, 6)], f32(6, None)),
    (Slice((1, 1), (3, 3)), [f32(None, 6)], f32(None, 2)),
    (Pad((1, 0, 0, 2), "reflect"), [f32(None, 6)], f32(None, 8)),
    (Concat(0), [f32(None, 6), f32(3, None)], f32(None, 6)),
    (Expand((4, 1, 1)), [f32(None, 6)], f32(4, None, 6)),
    (ChannelShuffle(2), [f32(1, None)], f32(1, None)),
]


@pytest.mark.parametrize(("op", "types", "result"), OPEN, ids=lambda v: str(v)[:40])
def test_open_dimensions(op: Op, types: list[TensorType], result: TensorType) -> None:
    assert op.infer(*types) == (result,)
