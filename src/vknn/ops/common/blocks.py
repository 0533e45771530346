"""References in blocks: results computed a part at a time, so that what is computed with on the way
(arrays in float64 or int64, of several times the size) stays small beside the tensors, and a run
that is out of time or was cancelled ends between two parts.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from vknn import run_limits

#: Elements of a result that are computed at once: 2 MiB of float64, which caches hold.
ELEMENTS = 1 << 18
#: Bytes of what one step of a product gathers.
GATHERED = 1 << 23

Reference = Callable[..., tuple[np.ndarray, ...]]


def index_of(*parts: Any) -> tuple[Any, ...]:
    """Index of an array's axes; Python 3.11 and newer would have it as x[..., *parts]."""
    return parts


def blocks(count: int, bytes_each: int) -> Iterator[slice]:
    """Slices of range(count) that take at most GATHERED bytes each, or one of the range."""
    return _slices(count, GATHERED // max(1, bytes_each))


def columns(shape: Sequence[int]) -> Iterator[slice]:
    """Slices of the last axis that hold at most ELEMENTS elements of all rows, or one column."""
    return _slices(shape[-1], ELEMENTS // max(1, math.prod(shape[:-1])))


def by_columns(
    x: np.ndarray, dtype: Any, compute: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Elementwise results of rows too long for one block: ``compute`` of parts of the last axis."""
    y = np.empty(x.shape, dtype)
    for part in columns(x.shape):
        y[..., part] = compute(x[..., part])
    return y


def places(out: Sequence[int], bytes_each: int) -> Iterator[tuple[slice, ...]]:
    """Parts of the places of the output, for each of which so many bytes are gathered."""
    row = bytes_each * math.prod(out[1:])
    if row <= GATHERED or len(out) == 1:
        yield from ((part, *(slice(0, n) for n in out[1:])) for part in blocks(out[0], row))
        return
    for place in range(out[0]):
        yield from ((slice(place, place + 1), *rest) for rest in places(out[1:], bytes_each))


def products(matrix: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The products [group, maps, n] of a matrix [group, maps, depth] and float64 [group, depth, n].

    A matrix of integers becomes one of floats some rows at a time, which changes no exact sum.
    """
    if matrix.dtype == columns.dtype:
        return np.asarray(matrix @ columns)
    group, maps, depth = matrix.shape
    found = np.empty((group, maps, columns.shape[2]))
    for rows in blocks(maps, 8 * group * depth):
        found[:, rows] = matrix[:, rows].astype(columns.dtype) @ columns
    return found


def in_blocks(
    whole: Callable[[Any, int], Iterable[int]] | None = None, split: int | None = None
) -> Callable[[Reference], Reference]:
    """A decorator of ``reference`` for ops with one result: parts of the inputs give parts of it.

    ``whole``: of the op and the rank of its inputs (broadcast) the axes that no part may cut, along
    which the result may have another size; none where all is elementwise. ``split``: how many of
    the inputs, which broadcast, are cut; the others are given whole. None: all of them.
    """

    def decorated(reference: Reference) -> Reference:
        @functools.wraps(reference)
        def by_parts(op: Any, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
            cut, rest = inputs[:split], inputs[len(inputs[:split]) :]
            shape = _broadcast(cut)
            if shape is None or math.prod(shape) <= ELEMENTS:
                return reference(op, *inputs)
            axes = () if whole is None else whole(op, len(shape))
            kept = frozenset(axis % len(shape) for axis in axes)

            def compute(*parts: np.ndarray | None) -> np.ndarray:
                return np.asarray(reference(op, *parts, *rest)[0])

            return (_joined(compute, cut, shape, kept),)

        return by_parts

    return decorated


def _broadcast(arrays: Sequence[np.ndarray | None]) -> tuple[int, ...] | None:
    """The shape of all together; None where they do not fit, which the reference reports."""
    try:
        return np.broadcast_shapes(*(a.shape for a in arrays if a is not None))
    except ValueError:
        return None


def _joined(
    compute: Callable[..., np.ndarray],
    inputs: Sequence[np.ndarray | None],
    shape: tuple[int, ...],
    whole: frozenset[int],
) -> np.ndarray:
    """The result, part by part along the first axis that may be cut, and where one index of it is
    still too much along those behind it."""
    size = math.prod(shape)
    axis = next((a for a, n in enumerate(shape) if n > 1 and a not in whole), None)
    if size <= ELEMENTS or axis is None:
        return compute(*inputs)
    result: np.ndarray | None = None
    behind = len(shape) - axis
    for part in _slices(shape[axis], ELEMENTS * shape[axis] // size):
        pieces = [_cut(x, behind, part) for x in inputs]
        length = part.stop - part.start
        piece = _joined(compute, pieces, (*shape[:axis], length, *shape[axis + 1 :]), whole)
        if result is None:
            whole_shape = (*piece.shape[:axis], shape[axis], *piece.shape[axis + 1 :])
            result = np.empty(whole_shape, piece.dtype)
        result[index_of(*(slice(None),) * axis, part)] = piece
    assert result is not None  # the axis has two indices or more
    return result


def _cut(x: Any, behind: int, part: slice) -> Any:
    """The part of ``x`` along the axis that is ``behind`` axes from the end."""
    if x is None or x.ndim < behind or x.shape[-behind] == 1:
        return x
    return x[index_of(..., part, *(slice(None),) * (behind - 1))]


def _slices(count: int, most: int) -> Iterator[slice]:
    """Slices of range(count) of at most so many; before each the run's limit is looked at."""
    step = max(1, most)
    for start in range(0, count, step):
        run_limits.check()
        yield slice(start, min(start + step, count))
