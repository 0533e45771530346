"""Max and average pooling."""

from __future__ import annotations

from collections.abc import Sequence

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.layers.common.windows import SlidingWindow, window
from vknn.formats.openvino.registry import layer
from vknn.graph import Value
from vknn.ops.movement.shape import Pad, Slice
from vknn.ops.pooling.pool import AveragePool, MaxPool

_METHODS = {"max": "max", "avg": "avg", "average": "avg", "ave": "avg"}


@layer("Pooling")
def pooling(c: Context) -> Value:
    """Maxima or means of windows. Padding is no candidate for a maximum.

    A mean is over the elements of the window in the image, or without ``exclude-pad`` in the padded
    image. The output port's shape tells how sizes are rounded. A window that extends beyond the
    padding is cut off there; one that begins behind the image gives 0.
    """
    c.require(3 <= c.rank <= 5, f"its input has rank {c.rank}")
    spatial, axes = c.x.type.dims[2:], c.rank - 2
    whole = c.bool("global_pool|global-pool|global_pooling", False)
    w = window(c, axes, spatial if whole else None, dilated=False)
    begins, ends = w.pads(spatial)
    counts = _counts(c, w, spatial, begins, ends)
    inside = tuple(
        min(count, (size + begin - 1) // step + 1)
        for count, size, begin, step in zip(counts, spatial, begins, w.strides, strict=True)
    )
    over, under = _overhang(w, spatial, begins, ends, inside)
    method = _METHODS[c.text("pool-method|pool_method", "max", choices=tuple(_METHODS))]
    x = c.float_input() if method == "avg" else c.x
    reach = tuple(e + o for e, o in zip(ends, over, strict=True))
    if method == "max":
        y = c.add(MaxPool(w.kernel, w.strides, (*begins, *reach)), x)
    else:
        excluded = c.bool("exclude-pad|exclude_pad", False)
        y = _mean(c, x, w, excluded, (begins, ends, over))
    if any(under):
        y = c.add(Slice((0,) * axes, inside, tuple(range(2, c.rank))), y)
    if inside != counts:
        behind = (count - there for count, there in zip(counts, inside, strict=True))
        y = c.add(Pad((0,) * (c.rank + 2) + tuple(behind)), y)
    return y


def _mean(
    c: Context, x: Value, w: SlidingWindow, excluded: bool, pads: tuple[Sequence[int], ...]
) -> Value:
    """Means of ``x``; ``pads``: begins, ends, and the overhang of windows beyond the latter."""
    begins, ends, over = pads
    if excluded or not any((*begins, *ends)):
        reach = [e + o for e, o in zip(ends, over, strict=True)]
        return c.add(AveragePool(w.kernel, w.strides, (*begins, *reach)), x)
    if not any(over):
        return c.add(AveragePool(w.kernel, w.strides, (*begins, *ends), True), x)
    x = c.add(Pad((0, 0, *begins, 0, 0, *ends)), x)
    return c.add(AveragePool(w.kernel, w.strides, (*(0 for _ in over), *over)), x)


def _counts(
    c: Context, w: SlidingWindow, spatial: Sequence[int], begins: Sequence[int], ends: Sequence[int]
) -> tuple[int, ...]:
    """The number of windows along each axis."""
    rounding = c.text("rounding_type|rounding-type", "floor", choices=("floor", "ceil"))
    if w.auto_pad:
        rounding = "floor"  # the pads are made for so many windows
    result = []
    for axis, (size, step) in enumerate(zip(spatial, w.strides, strict=True)):
        padded = size + begins[axis] + ends[axis]
        c.require(size >= 1 and padded >= 1, "its input has an empty axis")
        room = padded - w.extents[axis]
        most = -(-room // step) + 1
        count = room // step + 1 if rounding == "floor" else most
        padding = any((*begins, *ends))
        if rounding == "ceil" and padding and (count - 1) * step >= size + begins[axis]:
            count -= 1
        result.append(_declared(c, axis, count, max(most, (padded - 1) // step + 1)))
    return tuple(result)


def _declared(c: Context, axis: int, count: int, most: int) -> int:
    """The number of windows in the output port's shape, where that can be; otherwise ``count``."""
    dims = c.port().dims
    if c.is_as_declared and len(dims) == c.rank and 1 <= dims[axis + 2] <= most:
        return dims[axis + 2]
    c.require(count >= 1, "its window is larger than the image")
    return count


def _overhang(
    w: SlidingWindow,
    spatial: Sequence[int],
    begins: Sequence[int],
    ends: Sequence[int],
    counts: Sequence[int],
) -> tuple[list[int], list[bool]]:
    """The overhang of the last windows beyond the padding, and the axes with too few windows."""
    over, under = [], []
    for axis, (count, step) in enumerate(zip(counts, w.strides, strict=True)):
        padded = spatial[axis] + begins[axis] + ends[axis]
        last = (count - 1) * step + w.extents[axis]
        over.append(max(last - padded, 0))
        under.append(last + step <= padded)
    return over, under
