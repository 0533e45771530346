"""Sliding windows, as all formats' convolutions and pools have them: extents and SAME padding."""

from __future__ import annotations

from collections.abc import Sequence

#: (begin, end) of each spatial axis, outermost first.
Pads = tuple[tuple[int, int], ...]


def window_extents(kernel: Sequence[int], dilations: Sequence[int]) -> tuple[int, ...]:
    """Elements from the first to the last of a window, along each axis."""
    return tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))


def halves(total: int, larger_first: bool = False) -> tuple[int, int]:
    """Begin and end of a total padding, of which the end (``larger_first``: the begin) is larger
    by one where it is odd."""
    small = total // 2
    return (total - small, small) if larger_first else (small, total - small)


def same_pads(
    sizes: Sequence[int],
    extents: Sequence[int],
    strides: Sequence[int],
    larger_first: bool = False,
) -> Pads:
    """Pads that give outputs of ceil(size / stride), as :func:`halves`.

    No pads where windows of ``extents`` reach the end without.
    """
    axes = zip(sizes, extents, strides, strict=True)
    totals = [max((-(-size // step) - 1) * step + reach - size, 0) for size, reach, step in axes]
    return tuple(halves(total, larger_first) for total in totals)


def flat_pads(pads: Pads) -> tuple[int, ...]:
    """Pads as all begins, then all ends, as the ops take them."""
    return (*(begin for begin, _ in pads), *(end for _, end in pads))
