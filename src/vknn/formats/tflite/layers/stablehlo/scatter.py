"""STABLEHLO_SCATTER: windows of updates joined to the operand at starts that are data."""

from __future__ import annotations

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.stablehlo.indices import bounded, grid, index_vectors
from vknn.formats.tflite.regions import function_of
from vknn.formats.tflite.registry import operator
from vknn.formats.tflite.scatter_numbers import ScatterNumbers
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.elementwise import logic
from vknn.ops.indexing.scatter import ScatterND
from vknn.ops.movement.shape import Pad
from vknn.ops.reduction import ReduceMin

_NOWHERE = int(np.iinfo(np.int32).min)


@operator("STABLEHLO_SCATTER", inputs=3, takes_quantized=True)
def scatter(c: Context) -> Value:
    """The operand with updates joined to it by the region; a window that does not fit is left out.

    Regions that are no function of ScatterND are called at run time (``region_runs``).
    """
    x, updates = c.x, c.value(2)
    c.require(x.type.dtype is updates.type.dtype, f"writes {updates.type} into {x.type}")
    numbers = ScatterNumbers.of(c.options, x.type, c.value(1).type, updates.type)
    function = function_of(c.region)
    assert function is not None, "others are interpreted"
    if function != "none" and c.is_quantized:
        c.refuse("arithmetic on quantized tensors")
    if 0 in (x.type.size, updates.type.size):
        return x
    free = [a for a, d in enumerate(numbers.dims) if a not in numbers.indexed]
    part = [a for a in free if numbers.windows[a] != numbers.dims[a]]
    axes = [*numbers.indexed, *part]
    order = [*axes, *(a for a in free if a not in part)]
    tuples = _tuples(c, numbers, axes)
    kept = [a for a in range(len(numbers.dims)) if a not in numbers.inserted]
    own = dict(zip(kept, numbers.window_axes, strict=True))
    moved = c.transpose(updates, [*numbers.scattered, *(own[a] for a in order if a in own)])
    moved = c.reshape(moved, (*numbers.batch, *(numbers.windows[a] for a in order)))
    y = c.add(ScatterND(function, from_end=False), c.transpose(x, order), tuples, moved)
    return c.transpose(y, [order.index(a) for a in range(len(order))])


def _tuples(c: Context, numbers: ScatterNumbers, axes: list[int]) -> Value:
    """Places along ``axes`` of all elements of all windows: [batch..., window..., axes]; below 0
    in windows that do not fit."""
    named = numbers.indexed
    sizes, windows = ([by[a] for a in named] for by in (numbers.dims, numbers.windows))
    starts = index_vectors(c, 1, numbers.vector, len(named))
    starts = bounded(c, starts, [-1] * len(named), sizes)
    if any(w > 1 for w in windows):
        last = np.array([d - w for d, w in zip(sizes, windows, strict=True)], np.int32)
        fits = c.add(logic.And(),
                     c.add(logic.GreaterOrEqual(), starts, c.scalar(0, DType.INT32)),
                     c.add(logic.LessOrEqual(), starts, c.constant(last, "last")))  # fmt: skip
        fits = c.add(ReduceMin((starts.type.rank - 1,)), fits)
        starts = c.add(logic.Where(), fits, starts, c.scalar(_NOWHERE, DType.INT32))
    batch, count = starts.type.dims[:-1], len(axes)
    if count > len(named):
        begins, ends = (0,) * starts.type.rank, [0] * len(batch)
        starts = c.add(Pad((*begins, *ends, count - len(named))), starts)
    starts = c.reshape(starts, (*batch, *[1] * count, count))
    windows = [numbers.windows[a] for a in axes]
    return starts if set(windows) <= {1} else c.add(ew.Add(), starts, grid(c, windows))
