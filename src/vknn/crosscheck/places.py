"""Places of errors: by channel, by place in the picture, and the few indices that hold them all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: Sides of a map, and entries of a vector of channels, at most; longer axes are taken in blocks.
MOST_SIDE, MOST_CHANNELS = 32, 1024
#: Indices that are listed one by one, and periods that are looked for: those of tiles.
_FEW, _LONGEST_PERIOD = 4, 128


@dataclass(frozen=True)
class ChannelErrors:
    """Largest error of each channel, as a multiple of what is allowed.

    Attributes:
        axis: The axis of the channels.
        size: Number of channels.
        step: Channels that one of the values stands for.
        values: The largest errors, at most 1024.
    """

    axis: int
    size: int
    step: int
    values: tuple[float, ...]


@dataclass(frozen=True)
class ErrorMap:
    """Largest error of each place over all other axes, as a multiple of what is allowed.

    Attributes:
        axes: The axes of rows and of columns.
        size: Rows and columns of the array.
        step: Rows and columns that one of the values stands for.
        values: The largest errors by row and column, at most 32 by 32.
    """

    axes: tuple[int, int]
    size: tuple[int, int]
    step: tuple[int, int]
    values: tuple[tuple[float, ...], ...]


def channel_axis(shape: tuple[int, ...]) -> int | None:
    """The axis of channels: 1 of [N, C, ...], 0 of [C, H, W], the last of [1, T, C] and [N, C]."""
    if len(shape) >= 4:
        return 1
    if len(shape) == 3 and shape[0] != 1:
        return 0
    return len(shape) - 1 if shape else None


def channel_errors(excess: np.ndarray) -> ChannelErrors | None:
    """Errors by channel of an array of errors; None of a single number."""
    axis = channel_axis(excess.shape)
    if axis is None or not excess.size:
        return None
    others = tuple(a for a in range(excess.ndim) if a != axis)
    largest = excess.max(axis=others)
    step = -(-len(largest) // MOST_CHANNELS)
    values = np.maximum.reduceat(largest, range(0, len(largest), step))
    return ChannelErrors(axis, len(largest), step, tuple(map(_short, values)))


def error_map(excess: np.ndarray) -> ErrorMap | None:
    """Errors by the last two axes of an array of errors; None of a vector."""
    if excess.ndim < 2 or not excess.size:
        return None
    plane = excess.max(axis=tuple(range(excess.ndim - 2)))
    size = (plane.shape[0], plane.shape[1])
    step = (-(-size[0] // MOST_SIDE), -(-size[1] // MOST_SIDE))
    for axis in (0, 1):
        plane = np.maximum.reduceat(plane, range(0, size[axis], step[axis]), axis=axis)
    values = tuple(tuple(map(_short, row)) for row in plane)
    return ErrorMap((excess.ndim - 2, excess.ndim - 1), size, step, values)


def concentration(over: np.ndarray) -> str:
    """The few indices of each axis that hold all elements that are True; empty where none are few.

    For example "channel 3", "column 7, 15, 23 (every 8)"; at most half of an axis are few.
    """
    if over.ndim == 0 or not over.any():
        return ""
    parts = []
    for axis in range(over.ndim):
        hit = np.asarray(np.moveaxis(over, axis, 0).reshape(over.shape[axis], -1).any(axis=1))
        text = _few(hit)
        if text:
            parts.append(f"{_axis_name(axis, over.shape)} {text}")
    return "; ".join(parts)


def _axis_name(axis: int, shape: tuple[int, ...]) -> str:
    rank = len(shape)
    if axis == channel_axis(shape):
        return "channel"
    if rank >= 2 and axis >= rank - 2:
        return "row" if axis == rank - 2 else "column"
    return "example" if axis == 0 else f"axis {axis}"


def _few(hit: np.ndarray) -> str:
    """The indices that are True, in words; empty for more than half of them."""
    indices = np.flatnonzero(hit)
    count, size = len(indices), len(hit)
    if size < 2 or 2 * count > size:
        return ""
    first, last = int(indices[0]), int(indices[-1])
    period = _period(hit, indices)
    shown = ", ".join(map(str, indices[:_FEW])) + (", ..." if count > _FEW else "")
    if period is not None:
        return f"{shown} (every {period})"
    if count <= _FEW:
        return shown
    return f"{first} to {last}" if last - first + 1 == count else ""


def _period(hit: np.ndarray, indices: np.ndarray) -> int | None:
    """The least period with which the indices come again, at least three times."""
    if len(indices) < 3:
        return None
    first, last = int(indices[0]), int(indices[-1])
    within = np.arange(first, last + 1)
    for period in range(2, min(_LONGEST_PERIOD, len(hit) // 2) + 1):
        found = np.unique(indices % period)
        if 2 * len(found) > period or last - first < 2 * period - 1:
            continue
        # Seams lie between tiles: the first tile has none on its one side, nor has the last.
        whole = first <= period and last >= len(hit) - 1 - period
        if whole and np.isin(within % period, found).sum() == len(indices):
            return period
    return None


def _short(value: float) -> float:
    """A number in few digits: there are many of them."""
    return float(f"{value:.4g}")
