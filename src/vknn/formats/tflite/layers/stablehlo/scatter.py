"""STABLEHLO_SCATTER: windows of updates joined to the operand at starts that are data."""

from __future__ import annotations

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.stablehlo.indices import bounded, grid, index_vectors
from vknn.formats.tflite.regions import function_of
from vknn.formats.tflite.registry import operator
from vknn.formats.tflite.scatter_numbers import ScatterNumbers
from vknn.graph import Value
from vknn.ops import elementwise as ew
from vknn.ops.indexing.scatter import ScatterND
from vknn.ops.movement.shape import Pad


@operator("STABLEHLO_SCATTER", inputs=3, takes_quantized=True)
def scatter(c: Context) -> Value:
    """The operand with updates joined to it by the region; elements outside are left out, one by
    one, as StableHLO's specification and TensorFlow Lite's kernel have it.

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
    found = [*numbers.scattered, *(own.get(a, updates.type.rank) for a in axes)]
    # Of several elements at a place the last one counts, in the order of the updates' axes.
    turned = function == "none" and found != sorted(found)
    turn = sorted(range(len(found)), key=lambda i: found[i]) if turned else list(range(len(found)))
    tuples = c.transpose(tuples, [*turn, len(found)])
    taken = [*(found[i] for i in turn), *(own[a] for a in order[len(axes) :])]
    sizes = [*numbers.batch, *(numbers.windows[a] for a in axes)]
    moved = c.transpose(updates, [a for a in taken if a < updates.type.rank])
    whole = (numbers.windows[a] for a in order[len(axes) :])
    moved = c.reshape(moved, (*(sizes[i] for i in turn), *whole))
    y = c.add(ScatterND(function, from_end=False), c.transpose(x, order), tuples, moved)
    return c.transpose(y, [order.index(a) for a in range(len(order))])


def _tuples(c: Context, numbers: ScatterNumbers, axes: list[int]) -> Value:
    """Places along ``axes`` of all elements of all windows: [batch..., window..., axes]."""
    named, windows = numbers.indexed, [numbers.windows[a] for a in axes]
    starts = index_vectors(c, 1, numbers.vector, len(named))
    # Beyond these bounds nothing of a window is within the operand.
    low, high = [-numbers.windows[a] for a in named], [numbers.dims[a] for a in named]
    starts = bounded(c, starts, low, high)
    batch, count = starts.type.dims[:-1], len(axes)
    if count > len(named):
        begins, ends = (0,) * starts.type.rank, [0] * len(batch)
        starts = c.add(Pad((*begins, *ends, count - len(named))), starts)
    starts = c.reshape(starts, (*batch, *[1] * count, count))
    return starts if set(windows) <= {1} else c.add(ew.Add(), starts, grid(c, windows))
