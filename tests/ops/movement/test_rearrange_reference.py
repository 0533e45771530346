"""The references of the rearranging ops, held against loops and values by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from vknn.errors import ShapeError
from vknn.graph import DType, Op, TensorType
from vknn.ops.movement.rearrange import (
    DepthToSpace,
    DynamicUpdateSlice,
    MatrixDiag,
    ReverseSequence,
    SliceUpdate,
    SpaceToDepth,
    Tile,
)


def one(op: Op, *arrays: np.ndarray) -> np.ndarray:
    """The only output; its type is what infer says."""
    (y,) = op.reference(*arrays)
    (type_,) = op.infer(*(TensorType.of(a) for a in arrays))
    assert TensorType.of(y) == type_
    return y


def test_tile() -> None:
    x = np.array([[1, 2]], np.int32)
    assert one(Tile((2, 3)), x).tolist() == [[1, 2, 1, 2, 1, 2]] * 2
    assert one(Tile((0, 1)), x).shape == (0, 2)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_blocks_by_loops(mode: str) -> None:
    """One element at a time, by the formula of the channel number."""
    x = np.arange(2 * 12 * 2 * 3).reshape(2, 12, 2, 3)
    y = one(DepthToSpace(2, mode), x)
    assert y.shape == (2, 3, 4, 6)
    for n, c, h, w in itertools.product(*map(range, y.shape)):
        place = (h % 2) * 2 + w % 2
        channel = place * 3 + c if mode == "DCR" else c * 4 + place
        assert y[n, c, h, w] == x[n, channel, h // 2, w // 2]
    np.testing.assert_array_equal(one(SpaceToDepth(2, mode), y), x)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@pytest.mark.parametrize("shape", [(1, 6, 5), (2, 24, 2, 1, 3)])
def test_other_ranks(shape: tuple[int, ...], mode: str) -> None:
    x = np.arange(np.prod(shape)).reshape(shape)
    size = 3 if len(shape) == 3 else 2
    y = one(DepthToSpace(size, mode), x)
    assert y.shape[2:] == tuple(s * size for s in shape[2:])
    np.testing.assert_array_equal(one(SpaceToDepth(size, mode), y), x)
    # The second place of the first block is the next channel, or the next group of channels.
    step = x.shape[1] // size ** (len(shape) - 2) if mode == "DCR" else 1
    assert y[0, 0].flat[1] == x[0, step].flat[0]


def test_slice_update() -> None:
    x, update = np.zeros((2, 3), np.float32), np.array([[5, 6]], np.float32)
    assert one(SliceUpdate((1, 1)), x, update).tolist() == [[0, 0, 0], [0, 5, 6]]
    for starts in ([1, 1], [9, 2**31 - 1]):
        found = one(DynamicUpdateSlice(), x, update, np.int32(starts))
        assert found.tolist() == [[0, 0, 0], [0, 5, 6]]
    found = one(DynamicUpdateSlice(), x, update, np.int32([-(2**31), 0]))
    assert found.tolist() == [[5, 6, 0], [0, 0, 0]]
    assert x.max() == 0  # the input stays as it is


def test_updates_that_do_not_fit_are_refused() -> None:
    f32, i32 = TensorType, lambda *shape: TensorType(shape, DType.INT32)
    with pytest.raises(ShapeError, match="does not fit"):
        DynamicUpdateSlice().infer(f32((2, 3)), f32((2, 4)), i32(2))
    with pytest.raises(ShapeError, match="does not fit"):
        DynamicUpdateSlice().infer(f32((2, 3)), f32((3,)), i32(2))
    with pytest.raises(ShapeError, match="starts has shape"):
        DynamicUpdateSlice().infer(f32((2, 3)), f32((2, 3)), i32(1))


def test_matrix_diag() -> None:
    x = np.array([7, 8], np.int32)
    assert one(MatrixDiag(), x).tolist() == [[7, 0], [0, 8]]
    assert one(MatrixDiag(1), x).tolist() == [[0, 7, 0], [0, 0, 8], [0, 0, 0]]
    assert one(MatrixDiag(-1), x[None]).tolist() == [[[0, 0, 0], [7, 0, 0], [0, 8, 0]]]


@pytest.mark.parametrize(
    ("op", "shapes", "message"),
    [
        (Tile((1, 2)), [(3,)], "should be 1 numbers"),
        (Tile((-1,)), [(3,)], "from 0 on"),
        (DepthToSpace(2), [(1, 6, 2, 2)], "do not fill blocks of 4"),
        (DepthToSpace(2), [(4, 6)], "1 to 3 spatial axes"),
        (DepthToSpace(0), [(1, 4, 2, 2)], "must be positive"),
        (DepthToSpace(2, "ABC"), [(1, 4, 2, 2)], "no mode 'ABC'"),
        (SpaceToDepth(2), [(1, 4, 2, 3)], "do not fill"),
        (SliceUpdate((0,)), [(3,), (4,)], "reaches beyond"),
        (SliceUpdate((-1,)), [(3,), (2,)], "reaches beyond"),
        (SliceUpdate((0, 0)), [(3, 3), (2,)], "does not suit"),
        (MatrixDiag(), [()], "no axis"),
    ],
    ids=str,
)
def test_nonsense(op: Op, shapes: list[tuple[int, ...]], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        op.infer(*(TensorType(s) for s in shapes))


def test_reverse_sequence() -> None:
    x = np.arange(8).reshape(2, 4)
    lengths = np.array([3, 9], np.int32)
    assert one(ReverseSequence(0, 1), x, lengths).tolist() == [[2, 1, 0, 3], [7, 6, 5, 4]]
    lengths = np.array([0, 1, 2, -1], np.int32)
    assert one(ReverseSequence(1, 0), x, lengths).tolist() == [[0, 1, 6, 3], [4, 5, 2, 7]]


@pytest.mark.parametrize(
    ("op", "lengths", "message"),
    [
        (ReverseSequence(1, -1), np.zeros(4, np.int32), "one axis twice"),
        (ReverseSequence(0, 1), np.zeros(3, np.int32), "lengths"),
        (ReverseSequence(0, 1), np.zeros(2, np.float32), "int32"),
    ],
    ids=["axes", "count", "dtype"],
)
def test_reverse_sequence_refuses(op: Op, lengths: np.ndarray, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        op.infer(TensorType((2, 4)), TensorType.of(lengths))
