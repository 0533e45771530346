"""Tile, DepthToSpace, SpaceToDepth, SliceUpdate, MatrixDiag, ReverseSequence on the device."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.ops.movement.rearrange import (
    DepthToSpace,
    MatrixDiag,
    ReverseSequence,
    SliceUpdate,
    SpaceToDepth,
    Tile,
)


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def integers(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.int32).reshape(shape)


TILES = [
    ((5,), (3,)),
    ((8,), (2,)),
    ((2, 3), (1, 4)),
    ((1, 5, 7), (1, 2, 1)),
    ((1, 4, 3), (2, 3, 1)),
    ((2, 3, 2, 5), (1, 1, 3, 2)),
    ((1, 8, 3, 4), (1, 2, 1, 3)),
    ((1, 3, 2, 3, 5), (2, 2, 3, 2, 2)),
    ((2, 3, 5), (1, 1, 1)),
]


@pytest.mark.parametrize(("shape", "repeats"), TILES)
def test_tile(shape: tuple[int, ...], repeats: tuple[int, ...]) -> None:
    check_op(Tile(repeats), floats(*shape))
    check_op(Tile(repeats), integers(*shape), access=("storage",))


BLOCKS = [
    ((1, 12, 3, 5), 2),
    ((2, 16, 2, 3), 2),
    ((1, 36, 2, 1), 3),
    ((1, 6, 5), 3),
    ((1, 24, 2, 1, 3), 2),
    ((1, 3, 2, 5), 1),
]


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@pytest.mark.parametrize(("shape", "size"), BLOCKS)
def test_blocks(shape: tuple[int, ...], size: int, mode: str) -> None:
    check_op(DepthToSpace(size, mode), floats(*shape))
    space = tuple(s * size for s in shape[2:])
    channels = shape[1] // size ** len(space)
    check_op(SpaceToDepth(size, mode), floats(shape[0], channels, *space))
    check_op(DepthToSpace(size, mode), integers(*shape), access=("storage",))


UPDATES = [
    ((7,), (3,), (2,)),
    ((8,), (4,), (4,)),
    ((3, 5), (2, 2), (1, 3)),
    ((2, 7, 5), (1, 3, 5), (1, 2, 0)),
    ((1, 8, 3, 5), (1, 4, 2, 3), (0, 4, 1, 2)),
    ((1, 7, 3, 5), (1, 3, 3, 5), (0, 4, 0, 0)),
    ((1, 7, 3, 5), (1, 5, 1, 2), (0, 1, 2, 3)),
    ((1, 3, 2, 3, 8), (1, 2, 1, 2, 4), (0, 1, 1, 1, 4)),
    ((2, 3, 2, 3, 5, 3), (1, 2, 1, 2, 3, 2), (1, 1, 0, 1, 2, 1)),
    ((2, 3, 4), (2, 3, 4), (0, 0, 0)),
]


@pytest.mark.parametrize(("shape", "part", "starts"), UPDATES)
def test_slice_update(
    shape: tuple[int, ...], part: tuple[int, ...], starts: tuple[int, ...]
) -> None:
    check_op(SliceUpdate(starts), floats(*shape), floats(*part))
    check_op(SliceUpdate(starts), integers(*shape), -integers(*part), access=("storage",))


@pytest.mark.parametrize("offset", [0, 2, -3])
@pytest.mark.parametrize("shape", [(1,), (5,), (2, 3), (1, 3, 4)])
def test_matrix_diag(shape: tuple[int, ...], offset: int) -> None:
    check_op(MatrixDiag(offset), floats(*shape))
    check_op(MatrixDiag(offset), integers(*shape), access=("storage",))


def test_in_fp16() -> None:
    check_op(Tile((1, 2, 3)), floats(1, 3, 5), precision="fp16")
    check_op(DepthToSpace(2, "CRD"), floats(1, 12, 3, 5), precision="fp16")
    check_op(SpaceToDepth(2), floats(1, 4, 6, 4), precision="fp16")
    check_op(SliceUpdate((0, 1, 2)), floats(1, 3, 5), floats(1, 2, 3), precision="fp16")
    check_op(SliceUpdate((0, 4, 0)), floats(1, 8, 4), floats(1, 4, 4), precision="fp16")
    check_op(MatrixDiag(-1), floats(5), precision="fp16")


@pytest.mark.parametrize(("batch", "time"), [(0, 1), (1, 0), (-1, 0), (2, 1), (0, 3)])
def test_reverse_sequence(batch: int, time: int) -> None:
    for shape in ((3, 5, 2, 7), (2, 3, 4, 4)):
        lengths = np.array([2, 0, 9, -1, 1, 3, 5], np.int32)[: shape[batch]]
        op = ReverseSequence(batch, time)
        check_op(op, floats(*shape), lengths)
        check_op(op, integers(*shape), lengths, access=("storage",))
    check_op(op, floats(*shape), lengths, precision="fp16", tolerance=0.0)
