"""Shapes and views of sliding windows, for convolution and pooling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vknn import run_limits
from vknn.errors import ShapeError
from vknn.graph import Op, Shape
from vknn.ops.common.blocks import index_of

#: Elements of padding along an axis, beside twice those that are there, which may be made.
FAR_PADDING = 64


def check_window(op: Op, axes: int, **attributes: Sequence[int] | None) -> None:
    """Check: ShapeError unless the window's attributes fit ``axes`` spatial axes."""
    name = type(op).__name__
    for what, value in attributes.items():
        if value is None:
            continue
        count = 2 * axes if what == "pads" else axes
        low = 0 if what == "pads" else 1
        if len(value) != count:
            raise ShapeError(f"{name}: {what} {tuple(value)} should have {count} values")
        if min(value, default=low) < low:
            raise ShapeError(f"{name}: {what} {tuple(value)} must be >= {low}")


def window_output(
    op: Op,
    spatial: Shape,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
) -> Shape:
    """Output sizes of a sliding window; raises ShapeError where it exceeds the padded input."""
    result: list[int | None] = []
    for axis, size in enumerate(spatial):
        if size is None:
            result.append(None)
            continue
        padded = size + pads[axis] + pads[axis + len(spatial)]
        extent = (kernel[axis] - 1) * dilations[axis] + 1
        if extent > padded:
            raise ShapeError(
                f"{type(op).__name__}: a kernel of extent {extent} exceeds the padded input of "
                f"{padded} along spatial axis {axis}"
            )
        result.append((padded - extent) // strides[axis] + 1)
    return tuple(result)


def padded(
    x: np.ndarray,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    value: Any,
) -> tuple[np.ndarray, list[int], list[int]]:
    """``x`` [N, C, spatial...] with pads of ``value``, and its windows' strides and dilations.

    Along an axis with far more padding than elements only what windows read is made, window beside
    window: a few bytes of a file can say pads of gigabytes.
    """
    axes, strides, dilations, pads = len(kernel), list(strides), list(dilations), list(pads)
    for i, (k, s, d) in enumerate(zip(kernel, strides, dilations, strict=True)):
        before, after, size = pads[i], pads[i + axes], x.shape[2 + i]
        if _are_far(before, after, size):
            starts = _starts(size, k, s, d, before, after)
            x = _taken(x, 2 + i, [start + t * d for start in starts for t in range(k)], value)
            pads[i] = pads[i + axes] = 0
            strides[i], dilations[i] = k, 1
    widths = [(0, 0), (0, 0), *((pads[i], pads[i + axes]) for i in range(axes))]
    return np.pad(x, widths, constant_values=value) if any(pads) else x, strides, dilations


def _are_far(before: int, after: int, size: int) -> bool:
    return before + after > 2 * size + FAR_PADDING


def _starts(size: int, k: int, s: int, d: int, before: int, after: int) -> list[int]:
    """Where the windows along an axis begin; negative in the padding."""
    count = (size + before + after - (k - 1) * d - 1) // s + 1
    return [number * s - before for number in range(count)]


def _taken(x: np.ndarray, axis: int, places: Sequence[int], value: Any) -> np.ndarray:
    """The elements at ``places`` along an axis, ``value`` where there are none."""
    size = x.shape[axis]
    row = np.full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), value, x.dtype)
    near = [place if 0 <= place < size else size for place in places]
    return np.take(np.concatenate([x, row], axis), near, axis)


def windows(
    x: np.ndarray, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> np.ndarray:
    """A view [N, C, out..., kernel...] of the windows of the padded ``x`` [N, C, spatial...]."""
    axes = tuple(range(2, x.ndim))
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    view = np.lib.stride_tricks.sliding_window_view(x, extents, axis=axes)
    steps = [slice(None, None, s) for s in (*strides, *dilations)]
    return view[index_of(slice(None), slice(None), *steps)]


def reduce_windows(
    x: np.ndarray,
    function: Callable[[np.ndarray, np.ndarray], np.ndarray],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    value: Any,
) -> np.ndarray:
    """Windows of ``x`` [N, C, spatial...] with pads of ``value``, reduced by ``function``
    (np.maximum, np.add) axis by axis."""
    axes = len(kernel)
    for i, (k, s, d) in enumerate(zip(kernel, strides, dilations, strict=True)):
        axis, before, after = 2 + i, pads[i], pads[i + axes]
        if _are_far(before, after, x.shape[axis]):
            starts = _starts(x.shape[axis], k, s, d, before, after)
            x = _reduce_near(x, function, axis, starts, k, d, value)
            continue
        if before or after:
            widths = [(before, after) if j == axis else (0, 0) for j in range(x.ndim)]
            x = np.pad(x, widths, constant_values=value)
        count = (x.shape[axis] - (k - 1) * d - 1) // s + 1
        lead = (slice(None),) * axis
        taps = [x[index_of(*lead, slice(t * d, t * d + (count - 1) * s + 1, s))] for t in range(k)]
        total = taps[0]
        for tap in taps[1:]:
            run_limits.check()
            total = function(total, tap)
        x = total
    return x


def _reduce_near(
    x: np.ndarray,
    function: Callable[[np.ndarray, np.ndarray], np.ndarray],
    axis: int,
    starts: Sequence[int],
    k: int,
    d: int,
    value: Any,
) -> np.ndarray:
    """Windows along an axis with far padding: of that no more than one element is looked at."""
    size = x.shape[axis]
    inside = [
        range(max(0, -(start // d)), min(k - 1, (size - 1 - start) // d) + 1) for start in starts
    ]
    total = None
    for number in range(max(1, *map(len, inside))):
        run_limits.check()
        places = [
            start + taps[number] * d if number < len(taps) else -1
            for start, taps in zip(starts, inside, strict=True)
        ]
        tap = _taken(x, axis, places, value)
        total = tap if total is None else function(total, tap)
    assert total is not None
    shape = (-1, *[1] * (x.ndim - axis - 1))
    pads_too = np.array([len(taps) < k for taps in inside]).reshape(shape)
    return np.where(pads_too, function(total, np.full_like(total, value)), total)


def on_target(offset: int, stride: int, count: int, size: int) -> tuple[slice, slice]:
    """Slices of the i < ``count`` with offset + i * stride in range(size), and of these places."""
    first = min(count, max(0, -(offset // stride)))
    behind = max(first, min(count, -((offset - size) // stride)))
    begin = offset + first * stride
    if first == behind:
        return slice(0, 0), slice(0, 0)
    return slice(first, behind), slice(begin, offset + (behind - 1) * stride + 1, stride)


def volume(dims: Sequence[int]) -> int:
    """The product of ``dims``."""
    return math.prod(dims)
