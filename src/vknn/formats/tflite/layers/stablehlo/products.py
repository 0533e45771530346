"""STABLEHLO_DOT_GENERAL and STABLEHLO_CONVOLUTION."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vknn.formats.einsum import Labelled, contracted
from vknn.formats.padding import padded
from vknn.formats.tflite.context import Context
from vknn.formats.tflite.registry import operator
from vknn.formats.tflite.scatter_numbers import strictly_rising
from vknn.graph import DType, Value
from vknn.ops.convolution.conv import Conv
from vknn.ops.indexing.gather import Gather
from vknn.ops.integer_matmul import IntegerProduct
from vknn.ops.movement.shape import Slice


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
        good = good and len(set(axes)) == len(axes)
    pairs = list(zip(*found, strict=False))
    good = good and all(a.type.dims[i] == b.type.dims[j] for i, j in pairs)
    c.require(good, f"has the {kind} axes {found[0]} and {found[1]} of {a.type} and {b.type}")
    return pairs


@dataclass(frozen=True)
class _Window:
    """Windows over the spatial axes; ``pads``: pairs of begin and end."""

    strides: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    base: tuple[int, ...]
    dilations: tuple[int, ...]
    reversed: tuple[bool, ...]


@operator("STABLEHLO_CONVOLUTION", inputs=2)
def convolution(c: Context) -> Value:
    """Convolution with any order of axes, dilations of both operands, reversed kernels and groups
    of features or of batches."""
    x, w = _factors(c)
    o = c.options
    axes = len(o["input_spatial_dimensions"])
    x = _ordered(c, x, (o["input_batch_dimension"], o["input_feature_dimension"]), "input")
    w = _ordered(
        c, w, (o["kernel_output_feature_dimension"], o["kernel_input_feature_dimension"]), "kernel"
    )
    window = _window(c, axes)
    groups, batches = o["feature_group_count"], o["batch_group_count"]
    good = min(groups, batches) >= 1 and 1 in (groups, batches)
    good = good and w.type.dims[0] % (groups * batches) == 0
    good = good and x.type.dims[0] % batches == 0
    good = good and x.type.dims[1] == w.type.dims[1] * groups
    c.require(
        good, f"has {groups} groups of features and {batches} of batches of {x.type} and {w.type}"
    )
    for axis, turned in enumerate(window.reversed):
        if turned:
            size = w.type.dims[2 + axis]
            w = c.add(Slice((size - 1,), (-size - 1,), (2 + axis,), (-1,)), w)
    if batches > 1:  # each group of the batch becomes channels of its own
        n, channels, *space = x.type.dims
        x = c.reshape(x, (batches, n // batches, channels, *space))
        x = c.transpose(x, (1, 0, *range(2, x.type.rank)))
        x = c.reshape(x, (n // batches, batches * channels, *space))
    y = _convolved(c, x, w, window, groups * batches)
    return _back(c, y, axes)


def _ordered(c: Context, value: Value, first: Sequence[int], what: str) -> Value:
    """``value`` with two axes first, then the spatial ones."""
    axes = (*first, *c.options[f"{what}_spatial_dimensions"])
    good = sorted(axes) == list(range(value.type.rank))
    c.require(good, f"has the axes {list(axes)} of the {what} {value.type}")
    return c.transpose(value, axes)


def _back(c: Context, y: Value, axes: int) -> Value:
    o = c.options
    order = (o["output_batch_dimension"], o["output_feature_dimension"],
             *o["output_spatial_dimensions"])  # fmt: skip
    good = sorted(order) == list(range(axes + 2))
    c.require(good, f"has the axes {list(order)} of its output")
    return c.transpose(y, [order.index(a) for a in range(axes + 2)])


def _window(c: Context, axes: int) -> _Window:
    o = c.options
    ones = (1,) * axes
    strides, base, dilations = (
        tuple(o[name]) or ones for name in ("window_strides", "lhs_dilation", "rhs_dilation")
    )
    pads = tuple(o["padding"]) or (0,) * (2 * axes)
    turned = tuple(map(bool, o["window_reversal"])) or (False,) * axes
    lengths = {len(strides), len(base), len(dilations), len(turned)}
    good = lengths == {axes} and len(pads) == 2 * axes and min((*strides, *base, *dilations, 1)) > 0
    c.require(good, f"has windows by {list(strides)}, {list(pads)}, {list(base)}, "
              f"{list(dilations)}, {list(turned)} over {axes} axes")  # fmt: skip
    pairs = tuple(zip(pads[::2], pads[1::2], strict=True))
    return _Window(strides, pairs, base, dilations, turned)


def _convolved(c: Context, x: Value, w: Value, window: _Window, groups: int) -> Value:
    """The convolution of [N, C, spatial...] with [M, C / groups, spatial...]."""
    axes, strides, dilations = x.type.rank - 2, window.strides, window.dilations
    floats, pads = x.type.dtype.is_float, window.pads
    plain = set(window.base) <= {1} and min((0, *(p for pair in pads for p in pair))) >= 0
    if not (plain and floats):
        zero = c.scalar(0, x.type.dtype)
        low, high = ([0, 0, *(pair[end] for pair in pads)] for end in (0, 1))
        x = padded(c, x, low, high, [0, 0, *(b - 1 for b in window.base)], zero)
        pads = ((0, 0),) * axes
    if not floats:
        return _integers(c, x, w, window, groups)
    if axes > 3:
        c.refuse(f"a convolution over {axes} axes")
    if axes == 0:
        x, w = (c.reshape(v, (*v.type.dims, 1)) for v in (x, w))
        strides, pads, dilations = (1,), ((0, 0),), (1,)
    flat = (*(a for a, _ in pads), *(b for _, b in pads))
    y = c.add(Conv(strides, flat, dilations, groups), x, w)
    return c.reshape(y, y.type.dims[: 2 + axes])


def _integers(c: Context, x: Value, w: Value, window: _Window, groups: int) -> Value:
    """The same of integers, whose sums wrap around: windows beside each other times the kernels."""
    n, channels, *space = x.type.dims
    maps, depth, *kernel = w.type.dims
    sizes: list[int] = []
    for axis, (size, k) in enumerate(zip(space, kernel, strict=True)):
        extent = (k - 1) * window.dilations[axis] + 1
        c.require(k >= 1 and extent <= size, f"has a kernel of {extent} for {size} elements")
        sizes.append((size - extent) // window.strides[axis] + 1)
        c.makeable(sizes[-1] * k, DType.INT32)
        places = _places(sizes[-1], k, window.strides[axis], window.dilations[axis])
        x = c.add(Gather(2 + 2 * axis, from_end=False), x, c.constant(places, f"windows{axis}"))
    count = len(space)
    x = c.reshape(x, (n, groups, channels // groups, *x.type.dims[2:]))
    outer, inner = (tuple(3 + 2 * a + i for a in range(count)) for i in (0, 1))
    x = c.transpose(x, (1, 0, *outer, 2, *inner))
    rows, columns = (int(np.prod(d, dtype=object)) for d in ((n, *sizes), (depth, *kernel)))
    x = c.reshape(x, (groups, rows, columns))
    matrix = c.transpose(c.reshape(w, (groups, maps // groups, columns)), (0, 2, 1))
    y = c.reshape(c.add(IntegerProduct(), x, matrix), (groups, n, *sizes, maps // groups))
    y = c.transpose(y, (1, 0, 2 + count, *range(2, 2 + count)))
    return c.reshape(y, (n, maps, *sizes))


def _places(count: int, size: int, stride: int, dilation: int) -> np.ndarray[Any, Any]:
    """Elements of windows along an axis: int32 [windows, size]."""
    places = np.arange(count)[:, None] * stride + np.arange(size) * dilation
    return places.astype(np.int32)
