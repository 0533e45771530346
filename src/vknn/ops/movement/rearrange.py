"""Tile, DepthToSpace, SpaceToDepth, MatrixDiag, ReverseSequence and updates of slices."""

from __future__ import annotations

import math

import numpy as np

from vknn.graph import DType, Op, Shape, TensorType, attributes
from vknn.ops.common.checks import arguments, normal_axis, require, require_dtype, require_vector

#: Spatial axes that a block may have.
_MAX_SPATIAL = 3


@attributes
class Tile(Op):
    """x repeated ``repeats[a]`` times along each axis a."""

    repeats: tuple[int, ...]

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        good = len(self.repeats) == x.rank and min(self.repeats, default=0) >= 0
        require(good, f"Tile: repeats {self.repeats} should be {x.rank} numbers from 0 on")
        shape = (None if s is None else s * r for s, r in zip(x.shape, self.repeats, strict=True))
        return (x.with_shape(tuple(shape)),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        return (np.tile(x, self.repeats),)


def _check_blocks(op: Op, x: TensorType, size: int, mode: str) -> None:
    name = type(op).__name__
    require(size >= 1, f"{name}: blocksize {size} must be positive")
    require(mode in ("DCR", "CRD"), f"{name}: no mode {mode!r}")
    good = 3 <= x.rank <= 2 + _MAX_SPATIAL
    require(good, f"{name}: {x} should have 1 to {_MAX_SPATIAL} spatial axes")


@attributes
class DepthToSpace(Op):
    """Channels moved into blocks of ``blocksize`` places along each of 1 to 3 spatial axes.

    Channel c of the output takes its block from channels (place in the block) * C + c of x in
    mode "DCR" and c * places + (place in the block) in mode "CRD"; places count row-major.
    """

    blocksize: int
    mode: str = "DCR"

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        _check_blocks(self, x, self.blocksize, self.mode)
        n, channels, *space = x.shape
        places = self.blocksize ** len(space)
        whole = channels is None or channels % places == 0
        require(whole, f"DepthToSpace: the channels of {x} do not fill blocks of {places}")
        out = None if channels is None else channels // places
        return (x.with_shape((n, out, *_scaled(space, self.blocksize))),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        n, channels, *space = x.shape
        count, b = len(space), self.blocksize
        out = channels // b**count
        blocks = (b,) * count
        if self.mode == "DCR":
            seen, first = x.reshape(n, *blocks, out, *space), 1
            channel = 1 + count
        else:
            seen, first = x.reshape(n, out, *blocks, *space), 2
            channel = 1
        perm = [0, channel]
        for axis in range(count):
            perm += [2 + count + axis, first + axis]
        shape = (n, out, *(s * b for s in space))
        return (np.ascontiguousarray(seen.transpose(perm)).reshape(shape),)


@attributes
class SpaceToDepth(Op):
    """Blocks of ``blocksize`` places along each of 1 to 3 spatial axes moved into channels.

    Inverse of DepthToSpace of the same mode: channel c of x gives the channels
    (place in the block) * C + c ("DCR") or c * places + (place in the block) ("CRD").
    """

    blocksize: int
    mode: str = "DCR"

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        _check_blocks(self, x, self.blocksize, self.mode)
        n, channels, *space = x.shape
        whole = all(s is None or s % self.blocksize == 0 for s in space)
        require(whole, f"SpaceToDepth: blocks of {self.blocksize} do not fill {x}")
        places = self.blocksize ** len(space)
        out = None if channels is None else channels * places
        small = (None if s is None else s // self.blocksize for s in space)
        return (x.with_shape((n, out, *small)),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        n, channels, *space = x.shape
        count, b = len(space), self.blocksize
        split = [part for s in space for part in (s // b, b)]
        seen = x.reshape(n, channels, *split)
        wholes = [2 + 2 * a for a in range(count)]
        parts = [3 + 2 * a for a in range(count)]
        front = [*parts, 1] if self.mode == "DCR" else [1, *parts]
        shape = (n, channels * b**count, *(s // b for s in space))
        return (np.ascontiguousarray(seen.transpose(0, *front, *wholes)).reshape(shape),)


def _scaled(space: list[int | None], factor: int) -> Shape:
    return tuple(None if s is None else s * factor for s in space)


@attributes
class SliceUpdate(Op):
    """x with the block that begins at ``starts`` replaced by the second input (of x's rank)."""

    starts: tuple[int, ...]

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, update = arguments(self, inputs, 2)
        require_dtype(self, x.dtype, update)
        same = x.rank == update.rank == len(self.starts)
        require(same, f"SliceUpdate: {update} at {self.starts} does not suit {x}")
        for size, part, start in zip(x.shape, update.shape, self.starts, strict=True):
            known = size is not None and part is not None
            inside = start >= 0 and (not known or start + part <= size)
            require(inside, f"SliceUpdate: {update} at {self.starts} reaches beyond {x}")
        return (x,)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, update = arguments(self, inputs, 2)
        y = x.copy()
        where = zip(self.starts, update.shape, strict=True)
        y[tuple(slice(start, start + part) for start, part in where)] = update
        return (y,)


@attributes
class DynamicUpdateSlice(Op):
    """x with a block replaced by the second input, where the third says, moved to lie within x.

    Inputs x, update (of the same rank, no axis larger) and starts, int32 [rank]: the block begins
    at each start or the nearest place from which the update fits.
    """

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, update, starts = arguments(self, inputs, 3)
        require_dtype(self, x.dtype, update)
        require_dtype(self, DType.INT32, starts)
        require_vector(self, "starts", starts, x.rank)
        good = x.rank == update.rank and all(
            size is None or part is None or part <= size
            for size, part in zip(x.shape, update.shape, strict=True)
        )
        require(good, f"DynamicUpdateSlice: {update} does not fit into {x}")
        return (x,)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, update, starts = arguments(self, inputs, 3)
        y = x.copy()
        room = np.subtract(x.shape, update.shape).astype(np.int64)
        begins = np.clip(starts, 0, room) if x.ndim else starts
        where = zip(begins.tolist(), update.shape, strict=True)
        y[tuple(slice(begin, begin + part) for begin, part in where)] = update
        return (y,)


@attributes
class MatrixDiag(Op):
    """Square matrices of zeros with the rows of x on their diagonal ``offset`` (above 0: upper)."""

    offset: int = 0

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require(x.rank >= 1, f"MatrixDiag: {x} has no axis to make a matrix of")
        *lead, last = x.shape
        size = None if last is None else last + abs(self.offset)
        return (x.with_shape((*lead, size, size)),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        *lead, last = x.shape
        size = last + abs(self.offset)
        y = np.zeros((math.prod(lead), size, size), x.dtype)
        place = np.arange(last)
        rows = x.reshape(math.prod(lead), last)
        y[:, place + max(-self.offset, 0), place + max(self.offset, 0)] = rows
        return (y.reshape(*lead, size, size),)


@attributes
class ReverseSequence(Op):
    """x with the first entries along ``time_axis`` backwards, lengths[b] at b of ``batch_axis``.

    Inputs x and lengths, int32 [size of the batch axis], which are held within 0 and the size of
    the time axis.
    """

    batch_axis: int = 1
    time_axis: int = 0

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        x, lengths = arguments(self, inputs, 2)
        batch = normal_axis(self, self.batch_axis, x.rank)
        require(batch != normal_axis(self, self.time_axis, x.rank), f"{self} has one axis twice")
        require_dtype(self, DType.INT32, lengths)
        require_vector(self, "lengths", lengths, x.shape[batch])
        return (x,)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        x, lengths = arguments(self, inputs, 2)
        batch, time = self.batch_axis % x.ndim, self.time_axis % x.ndim
        shape = [1] * x.ndim
        shape[batch] = x.shape[batch]
        length = np.clip(lengths, 0, x.shape[time]).reshape(shape)
        shape[batch], shape[time] = 1, x.shape[time]
        place = np.arange(x.shape[time]).reshape(shape)
        from_ = np.where(place < length, length - 1 - place, place)
        from_ = np.broadcast_to(from_, x.shape) if x.size else np.zeros(x.shape, np.int64)
        return (np.take_along_axis(x, from_, time),)
