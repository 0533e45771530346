"""STABLEHLO_REDUCE and STABLEHLO_REDUCE_WINDOW, whose regions join two elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.stablehlo.shape import hold_to_declared
from vknn.formats.tflite.regions import function_of
from vknn.formats.tflite.registry import operator
from vknn.formats.tflite.scatter_numbers import strictly_rising
from vknn.formats.window_reduction import (
    MANY,
    MOST_GROWTH,
    AxisWindow,
    filled,
    is_neutral,
    joined,
    reduced_windows,
    window_places,
)
from vknn.graph import DType, Value
from vknn.ops import reduction as rd
from vknn.ops.indexing.gather import Gather
from vknn.ops.movement.shape import Concat, Expand, Slice

_REDUCTIONS: dict[str, type[rd.Reduction]] = {
    "add": rd.ReduceSum, "mul": rd.ReduceProd, "max": rd.ReduceMax, "min": rd.ReduceMin,
}  # fmt: skip
_ENDS = (1, None)


def _operands(c: Context) -> tuple[list[Value], list[Value]]:
    """Operands of one shape, and the first value of each: a scalar of its type."""
    count = len(c.inputs) // 2
    good = len(c.inputs) == 2 * count == 2 * len(c.operator.outputs)
    c.require(good, f"has {len(c.inputs)} inputs for {len(c.operator.outputs)} outputs")
    values, first = ([c.value(i + at) for i in range(count)] for at in (0, count))
    for x, init in zip(values, first, strict=True):
        good = x.type.dims == values[0].type.dims and init.type.dtype is x.type.dtype
        good = good and init.type.size == 1
        c.require(good, f"reduces {x.type} from {init.type} on")
    return values, [c.reshape(init, ()) for init in first]


@operator("STABLEHLO_REDUCE", inputs=_ENDS, outputs=_ENDS)
def reduce(c: Context) -> list[Value]:
    """The operands' elements along ``dimensions`` joined by the region, the first values too.

    What is no known function is called for pairs of neighbours, then for pairs of these.
    """
    values, first = _operands(c)
    axes, rank = tuple(sorted(c.options["dimensions"])), values[0].type.rank
    c.require(strictly_rising(axes, rank), f"reduces the axes {list(axes)} of {values[0].type}")
    function = function_of(c.region)
    if function in _REDUCTIONS and len(values) == 1:
        return [_reduced(c, function, axes, values[0], first[0])]
    rest = [a for a in range(rank) if a not in axes]
    dims = tuple(values[0].type.dims[a] for a in rest)
    count = int(np.prod([values[0].type.dims[a] for a in axes], dtype=object))
    rows = [c.reshape(c.transpose(x, (*axes, *rest)), (count, *dims)) for x in values]
    begin = [c.add(Expand(dims), init) for init in first]
    return _joined(c, begin, _in_pairs(c, rows)) if count else begin


def _reduced(c: Context, function: str, axes: tuple[int, ...], x: Value, init: Value) -> Value:
    dtype, dims = x.type.dtype, x.type.dims
    left = tuple(d for a, d in enumerate(dims) if a not in axes)
    if any(dims[a] == 0 for a in axes):
        return c.add(Expand(left), init)
    small = dtype.is_integer and dtype.itemsize < 4 and function in ("add", "mul")
    y = c.cast(x, DType.INT32) if small else x  # sums of these wrap around as theirs
    y = c.cast(c.add(_REDUCTIONS[function](axes, False), y), dtype) if axes else x
    return y if is_neutral(function, init) else joined(c, function, y, init)


def _joined(c: Context, a: Sequence[Value], b: Sequence[Value]) -> list[Value]:
    return c.lifted([*a, *b])


def _in_pairs(c: Context, rows: list[Value]) -> list[Value]:
    """The entries of the operands along their first axis joined, in order."""
    while (count := rows[0].type.dims[0]) > 1:
        even = count - count % 2
        halves = [
            [c.add(Slice((start,), (even,), (0,), (2,)), x) for x in rows] for start in (0, 1)
        ]
        made = _joined(c, *halves)
        if count % 2:
            last = [c.add(Slice((even,), (count,), (0,)), x) for x in rows]
            made = [c.add(Concat(0), *pair) for pair in zip(made, last, strict=True)]
        rows = made
    return [c.reshape(x, x.type.dims[1:]) for x in rows]


@operator("STABLEHLO_REDUCE_WINDOW", inputs=_ENDS, outputs=_ENDS)
def reduce_window(c: Context) -> list[Value]:
    """Windows of the operands joined by the region; pads and holes hold the first values, which
    take part in each window, too."""
    values, first = _operands(c)
    windows = _windows(c, values[0])
    each = zip(windows, values[0].type.dims, strict=True)
    counts = tuple(window.count(size) for window, size in each)
    hold_to_declared(c, counts)
    function = function_of(c.region)
    if function in _REDUCTIONS and len(values) == 1:
        return [reduced_windows(c, values[0], function, first[0], windows)]
    if 0 in counts:  # windows that fit nowhere may be of any size
        return [c.add(Expand(counts), init) for init in first]
    full = [filled(c, x, init, windows) for x, init in zip(values, first, strict=True)]
    values, windows = [x for x, _ in full], full[0][1]
    for axis in reversed(range(len(windows))):  # in the order of the places of a window
        values = _along(c, values, axis, windows[axis])
    begin = [c.add(Expand(values[0].type.dims), init) for init in first]
    return _joined(c, begin, values)


def _windows(c: Context, x: Value) -> list[AxisWindow]:
    rank, options = x.type.rank, c.options
    names = ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
    sizes, *steps = (tuple(options[name]) for name in names)
    # As in StableHLO strides, dilations and pads that are left out are 1, 1 and 0.
    strides, base, dilations = (step or (1,) * rank for step in steps)
    pads = tuple(options["padding"]) or (0,) * (2 * rank)
    lengths = {len(sizes), len(strides), len(base), len(dilations), len(pads) // 2}
    good = lengths == {rank} and len(pads) == 2 * rank
    good = good and min((*sizes, *strides, *base, *dilations), default=1) >= 1
    c.require(good, f"has windows {list(sizes)} by {list(strides)}, {list(base)}, "
              f"{list(dilations)} and {list(pads)} of {x.type}")  # fmt: skip
    pairs = zip(pads[::2], pads[1::2], strict=True)
    return [
        AxisWindow(*window) for window in zip(sizes, strides, pairs, base, dilations, strict=True)
    ]


def _along(c: Context, values: list[Value], axis: int, window: AxisWindow) -> list[Value]:
    """Windows along one axis, without pads and holes, joined by the region."""
    if window.is_each:
        return values
    dims = values[0].type.dims
    count = window.count(dims[axis])
    c.makeable(window.size * count, DType.INT32)
    made = window.size * values[0].type.size // dims[axis] * count if dims[axis] else 0
    c.require(made < MANY or made < MOST_GROWTH * values[0].type.size,
              f"has windows of {made} elements along axis {axis} of {values[0].type}")  # fmt: skip
    found = c.constant(window_places(count, window).T.copy(), "windows")
    order = (axis, *range(axis), *range(axis + 1, len(dims) + 1))
    rows = [c.transpose(c.add(Gather(axis, from_end=False), x, found), order) for x in values]
    return _in_pairs(c, rows)
