"""STABLEHLO_DOT_GENERAL and STABLEHLO_CONVOLUTION."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vknn.formats.einsum import Labelled, contracted
from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.stablehlo.shape import hold_to_declared
from vknn.formats.tflite.registry import operator
from vknn.formats.tflite.scatter_numbers import strictly_rising
from vknn.formats.window_reduction import AxisWindow, filled, window_places
from vknn.graph import DType, Value
from vknn.ops.convolution.conv import Conv
from vknn.ops.indexing.gather import Gather
from vknn.ops.integer_matmul import IntegerProduct
from vknn.ops.movement.shape import Expand, Slice


def _factors(c: Context) -> tuple[Value, Value]:
    """The operands, in the type of the output where that is a wider one of the same kind."""
    a, b, wanted = c.x, c.value(1), c.target().dtype
    kinds = {v.type.dtype.is_integer for v in (a, b)} | {wanted.is_integer}
    good = len(kinds) == 1 and DType.BOOL not in (a.type.dtype, b.type.dtype)
    c.require(good, f"makes {wanted.value} of {a.type} and {b.type}")
    return c.cast(a, wanted), c.cast(b, wanted)


@operator("STABLEHLO_DOT_GENERAL", inputs=2)
def dot_general(c: Context) -> Value:
    """Sums of products over the contracting axes: batch axes, free axes of the first operand,
    free axes of the second."""
    a, b = _factors(c)
    batch, summed = _axes(c, "batching", a, b), _axes(c, "contracting", a, b)
    left = [f"a{i}" for i in range(a.type.rank)]
    right = [f"b{i}" for i in range(b.type.rank)]
    for i, j in (*batch, *summed):
        right[j] = left[i]
    first = [left[i] for i, _ in batch]
    bound = {left[i] for i, _ in (*batch, *summed)}
    result = [*first, *(x for x in left if x not in bound), *(x for x in right if x not in bound)]
    terms = [Labelled(a, tuple(left)), Labelled(b, tuple(right))]
    return contracted(c, terms, tuple(result))


def _axes(c: Context, kind: str, a: Value, b: Value) -> list[tuple[int, int]]:
    """Pairs of axes of the operands of one kind, which have the same sizes."""
    found = [tuple(c.options[f"{side}_{kind}_dimensions"]) for side in ("lhs", "rhs")]
    others = [
        tuple(c.options[f"{side}_{other}_dimensions"])
        for side in ("lhs", "rhs")
        for other in ("batching", "contracting")
    ]
    named = [others[0] + others[1], others[2] + others[3]]
    good = len(found[0]) == len(found[1])
    for axes, value in zip(named, (a, b), strict=True):
        good = good and strictly_rising(sorted(axes), value.type.rank)
    pairs = list(zip(*found, strict=False))
    good = good and all(a.type.dims[i] == b.type.dims[j] for i, j in pairs)
    c.require(good, f"has the {kind} axes {found[0]} and {found[1]} of {a.type} and {b.type}")
    return pairs


@operator("STABLEHLO_CONVOLUTION", inputs=2)
def convolution(c: Context) -> Value:
    """Convolution with any order of axes, dilations of both operands, reversed kernels and groups
    of features or of batches."""
    x, w = _factors(c)
    o = c.options
    x = _ordered(c, x, (o["input_batch_dimension"], o["input_feature_dimension"]), "input")
    w = _ordered(
        c, w, (o["kernel_output_feature_dimension"], o["kernel_input_feature_dimension"]), "kernel"
    )
    groups, batches = o["feature_group_count"], o["batch_group_count"]
    good = min(groups, batches) >= 1 and 1 in (groups, batches)
    good = good and w.type.dims[0] % (groups * batches) == 0
    good = good and x.type.dims[0] % batches == 0
    good = good and x.type.dims[1] == w.type.dims[1] * groups
    c.require(
        good, f"has {groups} groups of features and {batches} of batches of {x.type} and {w.type}"
    )
    windows = _windows(c, w.type.dims[2:])
    sizes = [window.count(d) for window, d in zip(windows, x.type.dims[2:], strict=True)]
    shape = (x.type.dims[0] // batches, w.type.dims[0], *sizes)
    hold_to_declared(c, _as_declared(c, shape))
    if 0 in sizes:
        return _back(c, c.add(Expand(shape), c.scalar(0, x.type.dtype)))
    for axis, turned in enumerate(o["window_reversal"]):
        if turned:
            size = w.type.dims[2 + axis]
            w = c.add(Slice((size - 1,), (-size - 1,), (2 + axis,), (-1,)), w)
    if batches > 1:  # each group of the batch becomes channels of its own
        n, channels, *space = x.type.dims
        x = c.reshape(x, (batches, n // batches, channels, *space))
        x = c.transpose(x, (1, 0, *range(2, x.type.rank)))
        x = c.reshape(x, (n // batches, batches * channels, *space))
    return _back(c, _convolved(c, x, w, windows, groups * batches))


def _ordered(c: Context, value: Value, first: Sequence[int], what: str) -> Value:
    """``value`` with two axes first, then the spatial ones."""
    axes = (*first, *c.options[f"{what}_spatial_dimensions"])
    good = sorted(axes) == list(range(value.type.rank))
    c.require(good, f"has the axes {list(axes)} of the {what} {value.type}")
    return c.transpose(value, axes)


def _output_order(c: Context, rank: int) -> tuple[int, ...]:
    """Axes of the output that are its batch, its features and its spatial ones."""
    o = c.options
    order = (o["output_batch_dimension"], o["output_feature_dimension"],
             *o["output_spatial_dimensions"])  # fmt: skip
    c.require(sorted(order) == list(range(rank)), f"has the axes {list(order)} of its output")
    return order


def _as_declared(c: Context, shape: Sequence[int]) -> list[int]:
    order = _output_order(c, len(shape))
    return [shape[order.index(a)] for a in range(len(shape))]


def _back(c: Context, y: Value) -> Value:
    order = _output_order(c, y.type.rank)
    return c.transpose(y, [order.index(a) for a in range(y.type.rank)])


def _windows(c: Context, kernel: Sequence[int]) -> list[AxisWindow]:
    """Windows along the spatial axes; what the file leaves out is 1 or 0."""
    o, axes = c.options, len(kernel)
    names = ("window_strides", "lhs_dilation", "rhs_dilation")
    strides, base, dilations = (tuple(o[name]) or (1,) * axes for name in names)
    pads = tuple(o["padding"]) or (0,) * (2 * axes)
    lengths = {len(strides), len(base), len(dilations), len(o["window_reversal"]) or axes}
    good = lengths == {axes} and len(pads) == 2 * axes
    good = good and min((*strides, *base, *dilations, *kernel), default=1) > 0
    c.require(good, f"has windows {list(kernel)} by {list(strides)}, {list(pads)}, {list(base)}, "
              f"{list(dilations)}")  # fmt: skip
    pairs = zip(pads[::2], pads[1::2], strict=True)
    each = zip(kernel, strides, pairs, base, dilations, strict=True)
    return [AxisWindow(*window) for window in each]


def _convolved(c: Context, x: Value, w: Value, windows: Sequence[AxisWindow], groups: int) -> Value:
    """The convolution of [N, C, spatial...] with [M, C / groups, spatial...]."""
    axes, floats = len(windows), x.type.dtype.is_float
    plain = all(window.base_dilation == 1 and min(window.pads) >= 0 for window in windows)
    if not (plain and floats):
        each = [AxisWindow(1), AxisWindow(1), *windows]
        x, (_, _, *windows) = filled(c, x, c.scalar(0, x.type.dtype), each)
    if not floats:
        return _integers(c, x, w, windows, groups)
    if axes > 3:
        c.refuse(f"a convolution over {axes} axes")
    if axes == 0:
        x, w = (c.reshape(v, (*v.type.dims, 1)) for v in (x, w))
        windows = [AxisWindow(1)]
    pads = tuple(window.pads[end] for end in (0, 1) for window in windows)
    strides, dilations = (tuple(getattr(window, name) for window in windows)
                          for name in ("stride", "dilation"))  # fmt: skip
    y = c.add(Conv(strides, pads, dilations, groups), x, w)
    return c.reshape(y, y.type.dims[: 2 + axes])


def _integers(c: Context, x: Value, w: Value, windows: Sequence[AxisWindow], groups: int) -> Value:
    """The same of integers, whose sums wrap around: windows beside each other times the kernels."""
    n, channels, *space = x.type.dims
    maps, depth, *kernel = w.type.dims
    sizes = [window.count(size) for window, size in zip(windows, space, strict=True)]
    for axis, window in enumerate(windows):
        c.makeable(sizes[axis] * window.size, DType.INT32)
        found = c.constant(window_places(sizes[axis], window), f"windows{axis}")
        x = c.add(Gather(2 + 2 * axis, from_end=False), x, found)
    count = len(space)
    x = c.reshape(x, (n, groups, channels // groups, *x.type.dims[2:]))
    outer, inner = (tuple(3 + 2 * a + i for a in range(count)) for i in (0, 1))
    x = c.transpose(x, (1, 0, *outer, 2, *inner))
    rows, columns = math.prod((n, *sizes)), math.prod((depth, *kernel))
    x = c.reshape(x, (groups, rows, columns))
    matrix = c.transpose(c.reshape(w, (groups, maps // groups, columns)), (0, 2, 1))
    y = c.reshape(c.add(IntegerProduct(), x, matrix), (groups, n, *sizes, maps // groups))
    y = c.transpose(y, (1, 0, 2 + count, *range(2, 2 + count)))
    return c.reshape(y, (n, maps, *sizes))
