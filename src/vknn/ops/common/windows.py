"""Shapes and views of sliding windows, for convolution and pooling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vknn.errors import ShapeError
from vknn.graph import Op, Shape


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


def pad_spatial(x: np.ndarray, pads: Sequence[int], value: Any) -> np.ndarray:
    """``x`` [N, C, spatial...] with pads (begins..., ends...) of ``value`` around it."""
    axes = x.ndim - 2
    if not any(pads):
        return x
    widths = [(0, 0), (0, 0), *((pads[i], pads[i + axes]) for i in range(axes))]
    return np.pad(x, widths, constant_values=value)


def windows(
    x: np.ndarray, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> np.ndarray:
    """A view [N, C, out..., kernel...] of the windows of the padded ``x`` [N, C, spatial...]."""
    axes = tuple(range(2, x.ndim))
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    view = np.lib.stride_tricks.sliding_window_view(x, extents, axis=axes)
    steps = [slice(None, None, s) for s in (*strides, *dilations)]
    return view[(slice(None), slice(None), *steps)]


def reduce_windows(
    x: np.ndarray,
    function: Callable[[np.ndarray, np.ndarray], np.ndarray],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> np.ndarray:
    """Windows of the padded ``x`` reduced by ``function`` (np.maximum, np.add), axis by axis."""
    for axis, (k, s, d) in enumerate(zip(kernel, strides, dilations, strict=True), start=2):
        count = (x.shape[axis] - (k - 1) * d - 1) // s + 1
        lead = (slice(None),) * axis
        taps = [x[(*lead, slice(t * d, t * d + (count - 1) * s + 1, s))] for t in range(k)]
        total = taps[0]
        for tap in taps[1:]:
            total = function(total, tap)
        x = total
    return x


def volume(dims: Sequence[int]) -> int:
    """The product of ``dims``."""
    return math.prod(dims)
