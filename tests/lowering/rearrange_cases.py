"""Rearranging ops for the tests of lowering: op, inputs, constants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from vknn.graph import Op
from vknn.ops.movement.rearrange import (
    DepthToSpace,
    DynamicUpdateSlice,
    MatrixDiag,
    SliceUpdate,
    SpaceToDepth,
    Tile,
)
from vknn.ops.quantized.linear import RoundBFloat16

I8 = np.int8
IMAGE = (1, 13, 9, 11)


def cases() -> Iterator[tuple[Op, tuple[Any, ...], tuple[int, ...]]]:
    """Small ones of each kernel and variant."""
    for given in (IMAGE, (2, 8, 6, 4), (IMAGE, I8)):
        yield Tile((1, 2, 1, 3)), (given,), ()
    yield Tile((3,)), ((7,),), ()
    for mode in ("DCR", "CRD"):
        for shape in ((1, 16, 3, 5), (1, 12, 3, 5), ((2, 8, 2, 2), I8)):
            yield DepthToSpace(2, mode), (shape,), ()
        for shape in ((1, 4, 6, 10), (1, 3, 6, 10), ((2, 8, 2, 2), I8)):
            yield SpaceToDepth(2, mode), (shape,), ()
    yield SliceUpdate((0, 1, 2, 3)), (IMAGE, (1, 5, 3, 4)), ()
    yield SliceUpdate((0, 4, 0, 0)), (IMAGE, (1, 4, 9, 11)), ()
    yield SliceUpdate((2, 0)), (((5, 7), I8), ((2, 7), I8)), ()
    for part in ((1, 13, 9, 3), (1, 5, 9, 11)):
        yield DynamicUpdateSlice(), (IMAGE, part, ((4,), np.int32)), ()
    for k in (-2, 0, 1):
        yield MatrixDiag(k), ((3, 7),), ()
    yield RoundBFloat16(), (IMAGE,), ()


#: Half a gigabyte.
LARGE: list[tuple[Op, tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]] = [
    (Tile((1, 2, 1, 1)), ((1, 32, 2048, 1024),), ()),
    (DepthToSpace(2), ((1, 256, 1024, 512),), ()),
    (SpaceToDepth(2), ((1, 64, 2048, 1024),), ()),
    (SliceUpdate((0, 3, 0, 1)), ((1, 64, 2048, 1024), (1, 31, 2048, 1023)), ()),
    (MatrixDiag(), ((11000,),), ()),
    (RoundBFloat16(), ((1, 64, 2048, 1024),), ()),
]
