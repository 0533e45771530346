"""Sorts and scatters whose regions are called for their elements, at run time, many at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from vknn import run_limits
from vknn.formats.layer_errors import Malformed
from vknn.formats.tflite.records import OperatorRecord
from vknn.formats.tflite.scatter_numbers import ScatterNumbers

#: Results of a region for vectors of arguments, element by element.
Evaluate = Callable[[Sequence[np.ndarray]], list[np.ndarray]]


def run_region(
    operator: OperatorRecord, arrays: Sequence[np.ndarray], evaluate: Evaluate
) -> list[np.ndarray]:
    """Outputs of a STABLEHLO_SORT or STABLEHLO_SCATTER. Raises Malformed."""
    if operator.code == "STABLEHLO_SORT":
        return _sorted(arrays, operator.options["dimension"], evaluate)
    x, indices, updates = arrays
    numbers = ScatterNumbers.of(operator.options, x, indices, updates)
    return [_scattered(numbers, x, indices, updates, evaluate)]


def _sorted(arrays: Sequence[np.ndarray], dimension: int, evaluate: Evaluate) -> list[np.ndarray]:
    """A stable merge sort: each element counts those of the neighbouring run that go before it."""
    rank = arrays[0].ndim
    if len({array.shape for array in arrays}) > 1 or not -rank <= dimension < rank:
        shapes = ", ".join(str(list(array.shape)) for array in arrays)
        raise Malformed(f"sorts {shapes} along axis {dimension}")
    axis = dimension % rank
    if arrays[0].size == 0 or arrays[0].shape[axis] < 2:
        return [array.copy() for array in arrays]
    moved = [np.moveaxis(array, axis, -1) for array in arrays]
    size = moved[0].shape[-1]
    rows = [array.reshape(-1) for array in moved]

    def before(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        pairs = [row[places] for row in rows for places in (first, second)]
        return evaluate(pairs)[0]

    order = np.arange(rows[0].size)
    width = 1
    while width < size:
        order = _merged(order, size, width, before)
        width *= 2
    found = (row[order].reshape(array.shape) for row, array in zip(rows, moved, strict=True))
    return [np.ascontiguousarray(np.moveaxis(array, -1, axis)) for array in found]


def _merged(
    order: np.ndarray,
    size: int,
    width: int,
    before: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """``order``, of rows of ``size``, with neighbouring runs of ``width`` merged."""
    place = np.arange(order.size)
    row, within = place - place % size, place % size
    is_first = within // width % 2 == 0
    own = within - within % width
    other = np.where(is_first, own + width, own - width)
    low = np.zeros(order.size, np.int64)
    high = np.clip(size - other, 0, width)
    count = high.copy()
    for _ in range(width.bit_length()):
        run_limits.check()
        middle = (low + high) // 2
        there = order[row + np.clip(other + np.minimum(middle, count - 1), 0, size - 1)]
        first, second = np.where(is_first, there, order), np.where(is_first, order, there)
        goes_before = before(first, second) == is_first
        searched = low < high
        low = np.where(searched & goes_before, middle + 1, low)
        high = np.where(searched & ~goes_before, middle, high)
    merged = np.empty_like(order)
    merged[row + np.minimum(own, other) + within - own + low] = order
    return merged


def _scattered(
    numbers: ScatterNumbers,
    x: np.ndarray,
    indices: np.ndarray,
    updates: np.ndarray,
    evaluate: Evaluate,
) -> np.ndarray:
    """``x`` with the updates joined to it by the region, one after the other where they meet."""
    places, inside = numbers.places(indices)
    y, values = x.reshape(-1).copy(), updates.reshape(-1)
    taken = np.flatnonzero(inside)
    if not taken.size:
        return y.reshape(x.shape)
    order = taken[np.argsort(places[taken], kind="stable")]
    begins = np.flatnonzero(np.diff(places[order], prepend=-1))
    lengths = np.diff(begins, append=order.size)
    lanes = 1 << (len(begins) - 1).bit_length()
    for turn in range(int(lengths.max())):
        run_limits.check()
        chosen = order[begins[lengths > turn] + turn]
        lane = np.resize(chosen, lanes)
        joined = evaluate([y[places[lane]], values[lane]])[0]
        y[places[chosen]] = joined[: len(chosen)]
    return y.reshape(x.shape)
