"""Resize and its predecessor Upsample, in all modes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vknn.formats.layer_context import MAX_ELEMENTS
from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.other_types import by_parts
from vknn.formats.onnx.layers.sampling.taps import COORDINATES, NEAREST, AxisResize
from vknn.formats.onnx.registry import operator
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.elementwise.logic import Where
from vknn.ops.indexing.gather import Gather
from vknn.ops.integer_matmul import IntegerProduct
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Identity
from vknn.ops.sampling.resize import Resize

#: Places and weights of the elements that are mixed, a pair of arrays for each tap.
_Taps = list[tuple[np.ndarray, np.ndarray]]
_MODES = ("nearest", "linear", "cubic")
#: Coordinates that the graph's own Resize knows.
_KNOWN = ("half_pixel", "asymmetric", "align_corners")
#: Integers that a float32 does not hold; onnxruntime makes one of int32 all the same.
_WIDE = (DType.UINT32, DType.INT64, DType.UINT64)
#: Integers that onnxruntime resizes.
_WITH_KERNEL = (DType.INT32, DType.INT8, DType.UINT8)
_FRACTION_BITS = 22
#: Taps of which more are one product with a matrix.
_FEW = 4
#: Entries of a table of places: up to these, and to so many for each element of the axis.
_LARGEST_TABLE = 1 << 20
_PER_ELEMENT = 256


@operator("Resize", 10, inputs=2)
@operator("Upsample", 9, 10, inputs=2)
def resize_by_scales(c: Context) -> Value:
    """The tensor sampled anew by a scale for each axis; nearest takes the element before"""
    return _enlarged(c, [float(s) for s in c.data(1).reshape(-1)])


@operator("Upsample", 1, 7)
def upsample_by_attributes(c: Context) -> Value:
    """Resize 10, the scales being attributes"""
    if c.version == 1:
        return _enlarged(c, [1.0, 1.0, c.float("height_scale"), c.float("width_scale")])
    return _enlarged(c, list(c.float_list("scales")))


def _enlarged(c: Context, scales: list[float]) -> Value:
    mode = {"bilinear": "linear"}.get(c.text("mode", "nearest"), c.text("mode", "nearest"))
    c.require(mode in _MODES[:2], f"has the mode {mode!r}")
    _check_scales(c, scales, c.rank)
    axes = {
        axis: AxisResize(size, _scaled(size, scale), scale, "asymmetric")
        for axis, (size, scale) in enumerate(zip(c.x.type.dims, scales, strict=True))
    }
    dims = [axes[axis].out for axis in range(c.rank)]
    if 0 in (*dims, *c.x.type.dims):
        return _of_nothing(c, dims)
    return resized(c, c.x, axes, mode, "simple")


@operator("Resize", 11, 13, 18, 19, inputs=(1, 4), like=0)
def resize(c: Context) -> Value:
    """The tensor sampled anew by scales or to sizes"""
    mode = c.text("mode", "nearest", _MODES)
    axes = _axes(c)
    dims = [axes[a].out if a in axes else d for a, d in enumerate(c.x.type.dims)]
    if 0 in (*dims, *c.x.type.dims):
        return _of_nothing(c, dims)
    antialias, exclude = c.flag("antialias"), c.flag("exclude_outside")
    cubic = c.float("cubic_coeff_a", -0.75) if mode == "cubic" else None
    nearest = c.text("nearest_mode", "round_prefer_floor", NEAREST)
    found = resized(c, c.x, axes, mode, nearest, cubic, antialias, exclude)
    if any(part.coordinates == "tf_crop_and_resize" for part in axes.values()):
        found = _extrapolated(c, found, axes)
    return found


def _of_nothing(c: Context, dims: Sequence[int]) -> Value:
    """A result without elements, of the sizes ``dims``."""
    c.require(0 in dims, f"makes {list(dims)} of the empty tensor {c.x.type}")
    return c.constant(np.zeros(dims, c.x.type.dtype.numpy), "nothing")


def _axes(c: Context) -> dict[int, AxisResize]:
    """The resizes of the axes that are named, all of them by default."""
    mode = c.text("coordinate_transformation_mode", "half_pixel", COORDINATES)
    dims, rank = c.x.type.dims, c.rank
    named = c.int_list("axes", None)
    axes = list(range(rank)) if named is None else [c.axis(a, rank) for a in named]
    scales, sizes = _given(c, 2), _given(c, 3)
    c.require((scales is None) != (sizes is None), "takes either scales or sizes")
    if scales is not None:
        factors = [float(s) for s in scales]
        _check_scales(c, factors, len(axes))
        outs = [_scaled(dims[a], f) for a, f in zip(axes, factors, strict=True)]
    else:
        assert sizes is not None
        wanted = [int(s) for s in sizes]
        none = [a for a, w in zip(axes, wanted, strict=False) if w == 0 and dims[a] == 0]
        good = len(wanted) == len(axes) and min(wanted, default=1) >= 0
        good = good and wanted.count(0) == len(none)
        c.require(good, f"has the sizes {wanted} for {len(axes)} axes")
        c.require(max(wanted, default=1) < MAX_ELEMENTS, f"has the impossible sizes {wanted}")
        factors, outs = _policy(c, [dims[a] for a in axes], wanted)
    region = _given(c, 1)
    parts: list[tuple[float, float]] = [(0.0, 1.0)] * len(axes)
    # Without a region onnxruntime takes the whole; ONNX does not say.
    if mode == "tf_crop_and_resize" and c.optional(1) is not None:
        if region is None or region.size != 2 * len(axes):
            c.fail(f"has the roi {c.value(1).type} for {len(axes)} axes, which takes two of each")
        ends = [float(v) for v in region]
        parts = list(zip(ends[: len(axes)], ends[len(axes) :], strict=True))
    return {
        axis: AxisResize(dims[axis], out, factor, mode, part)
        for axis, out, factor, part in zip(axes, outs, factors, parts, strict=True)
    }


def _given(c: Context, number: int) -> np.ndarray | None:
    """An input that opset 11 gives as an empty tensor where it is not there."""
    if c.optional(number) is None:
        return None
    found = c.data(number).reshape(-1)
    return found if found.size else None


def _policy(c: Context, dims: list[int], wanted: list[int]) -> tuple[list[float], list[int]]:
    """Scales and sizes, the latter changed where one scale is to count for all axes."""
    policies = ("stretch", "not_larger", "not_smaller")
    policy = c.text("keep_aspect_ratio_policy", "stretch", policies)
    factors = [w / d if d else 1.0 for w, d in zip(wanted, dims, strict=True)]
    if policy == "stretch" or not factors:
        return factors, wanted
    one = min(factors) if policy == "not_larger" else max(factors)
    return [one] * len(dims), [math.floor(one * d + 0.5) for d in dims]


def _scaled(size: int, scale: float) -> int:
    """An axis enlarged, in the float32 that scales are, as ONNX's shapes and onnxruntime have it.

    A scale of 224 / 24 is a little less than that, and is to make 224 of 24 all the same.
    """
    return math.floor(np.float32(size) * np.float32(scale))


def _check_scales(c: Context, scales: Sequence[float], count: int) -> None:
    c.require(len(scales) == count, f"has {len(scales)} scales for {count} axes")
    sizes = zip(c.x.type.dims, scales, strict=False)
    good = all(math.isfinite(s) and s > 0 and d * s < MAX_ELEMENTS for d, s in sizes)
    c.require(good, f"has the impossible scales {list(scales)}")


def resized(
    c: Context,
    x: Value,
    axes: dict[int, AxisResize],
    mode: str,
    nearest: str,
    cubic: float | None = None,
    antialias: bool = False,
    exclude: bool = False,
) -> Value:
    """``x`` resized along axes, one after the other."""
    kind = x.type.dtype
    moved = {a: part for a, part in axes.items() if _changes(part)}
    if not moved:
        return c.add(Identity(), x)
    _check_tables(c, moved, antialias)
    if mode == "nearest":
        places = {a: part.nearest(nearest) for a, part in moved.items()}
        taken = {a: [(p, np.ones(len(p)))] for a, p in places.items()}
        op = _one_resize(x.type.dims, moved, taken, "nearest", None)
        if op is not None:
            return c.add(op, x)
        for axis, part in places.items():
            x = c.add(Gather(axis), x, c.constant(part, f"places{axis}"))
        return x
    c.require(kind is not DType.STRING, f"computes no {mode} mean of {x.type}")
    taps = {a: part.taps(cubic, antialias, exclude) for a, part in moved.items()}
    if kind.is_complex:
        return by_parts(c, x, lambda real: _mixed(c, real, moved, taps, mode, cubic))
    if antialias and kind in _WITH_KERNEL:
        return _rounded_by_axes(c, x, taps)
    wide = DType.FLOAT64 if kind in _WIDE else DType.FLOAT32
    whole = _mixed(c, x if kind.is_float else c.cast(x, wide), moved, taps, mode, cubic)
    if kind.is_float:
        return whole
    if kind is DType.BOOL:
        return c.cast(whole, kind)
    # onnxruntime drops the fraction where it has a kernel; elsewhere ONNX's reference rounds.
    rounds = antialias or mode == "cubic" or kind not in _WITH_KERNEL
    whole = c.add(ew.Round() if rounds else ew.Trunc(), whole)
    info = np.iinfo(kind.numpy)
    return c.cast(c.add(ew.Clip(float(info.min), float(info.max)), whole), kind)


def _rounded_by_axes(c: Context, x: Value, taps: dict[int, _Taps]) -> Value:
    """Integers as onnxruntime antialiases them: rounded along each axis, halves up, the last first.

    It clips int8 as if it were uint8, which is not followed. Weights of 8 bits have 22 of fraction.
    """
    kind = x.type.dtype
    fixed = kind is not DType.INT32
    wide, half = (DType.INT32, 1 << _FRACTION_BITS - 1) if fixed else (DType.FLOAT32, 0.5)
    info = np.iinfo(kind.numpy)
    x = c.cast(x, wide)
    for axis in sorted(taps, reverse=True):
        part = taps[axis]
        if fixed:
            part = [(at, np.rint(w * (1 << _FRACTION_BITS))) for at, w in part]
        total = c.add(ew.Add(), _along(c, x, axis, part), c.scalar(half, wide))
        if fixed:
            total = c.add(ew.FloorDiv(), total, c.scalar(1 << _FRACTION_BITS, wide))
        else:
            total = c.add(ew.Floor(), total)
        x = c.add(ew.Clip(float(info.min), float(info.max)), total)
    return c.cast(x, kind)


def _mixed(
    c: Context, x: Value, axes: dict[int, AxisResize], taps: dict[int, _Taps], mode: str,
    cubic: float | None,
) -> Value:  # fmt: skip
    """Floats resized along axes by sums of elements times weights."""
    op = _one_resize(x.type.dims, axes, taps, mode, cubic)
    if op is not None:
        return c.add(op, x)
    for axis, part in taps.items():
        x = _along(c, x, axis, part)
    return x


def _check_tables(c: Context, axes: dict[int, AxisResize], antialias: bool) -> None:
    """Check that tables of places have a size that the tensor explains; raises Malformed."""
    for axis, part in axes.items():
        taps = max(1.0, 2 / part.scale) if antialias else 1.0
        good = part.out * taps <= max(_LARGEST_TABLE, _PER_ELEMENT * part.size)
        c.require(good, f"resizes axis {axis} from {part.size} to {part.out} elements")


def _changes(part: AxisResize) -> bool:
    """Whether a resize is more than a copy."""
    same = part.size == part.out and part.scale == 1.0
    return not same or part.coordinates == "tf_crop_and_resize"


def _one_resize(
    dims: Sequence[int], axes: dict[int, AxisResize], taps: dict[int, _Taps], mode: str,
    cubic: float | None,
) -> Resize | None:  # fmt: skip
    """One Resize of the spatial axes, where that takes the very same elements; else None."""
    if not 3 <= len(dims) <= 5 or min(axes) < 2:
        return None
    spatial = dims[2:]
    sizes = tuple(axes[a + 2].out if a + 2 in axes else d for a, d in enumerate(spatial))
    steps = tuple(1 / axes[a + 2].scale if a + 2 in axes else 1.0 for a in range(len(spatial)))
    for coordinates in _KNOWN:
        given = None if coordinates == "align_corners" else steps
        op = Resize(sizes, mode, coordinates, given, -0.75 if cubic is None else cubic)
        if all(_same(op.taps(a - 2, axes[a].size), taps[a]) for a in axes):
            return op
    return None


def _same(own: _Taps, wanted: _Taps) -> bool:
    """Whether taps take the same elements with the same weights, but for rounding."""
    if len(own) != len(wanted):
        return False
    for (place, weight), (other, factor) in zip(own, wanted, strict=True):
        counts = np.abs(factor) > 1e-5
        if not np.array_equal(place[counts], other[counts]):
            return False
        if not np.allclose(weight, factor, rtol=0, atol=1e-5):
            return False
    return True


def _along(c: Context, x: Value, axis: int, taps: _Taps) -> Value:
    """``x`` along an axis as the sum of elements by weights."""
    kind = x.type.dtype
    if len(taps) > _FEW:
        return _by_matrix(c, x, axis, taps)
    total: Value | None = None
    shape = (-1, *[1] * (x.type.rank - axis - 1))
    for number, (places, weights) in enumerate(taps):
        name = f"{axis}.{number}"
        part = c.add(Gather(axis), x, c.constant(places, f"places{name}"))
        factor = c.constant(weights.astype(kind.numpy).reshape(shape), f"weights{name}")
        part = c.add(ew.Mul(), part, factor)
        total = part if total is None else c.add(ew.Add(), total, part)
    assert total is not None
    return total


def _by_matrix(c: Context, x: Value, axis: int, taps: _Taps) -> Value:
    """The same as one product with a matrix of weights."""
    size, out = x.type.dims[axis], len(taps[0][0])
    matrix = np.zeros((size, out))
    for places, weights in taps:
        np.add.at(matrix, (places, np.arange(out)), weights)
    rank = x.type.rank
    last = [a for a in range(rank) if a != axis] + [axis]
    flat, op = c.transpose(x, last), MatMul() if x.type.dtype.is_float else IntegerProduct()
    weights_value = c.constant(matrix.astype(x.type.dtype.numpy), f"weights{axis}")
    if flat.type.rank == 1:
        made = c.reshape(c.add(op, c.reshape(flat, (1, size)), weights_value), (out,))
    else:
        made = c.add(op, flat, weights_value)
    return c.transpose(made, [last.index(a) for a in range(rank)])


def _extrapolated(c: Context, x: Value, axes: dict[int, AxisResize]) -> Value:
    """``x`` with a number of the file where coordinates lie outside of the tensor."""
    inside = np.ones((1,) * x.type.rank, np.bool_)
    for axis, part in axes.items():
        shape = [1] * x.type.rank
        shape[axis] = part.out
        inside = inside & part.inside().reshape(shape)
    if inside.all():
        return x
    if x.type.dtype is DType.STRING:
        number = c.constant(np.array(b"", object), "nothing")
    else:
        number = c.scalar(c.float("extrapolation_value", 0.0), x.type.dtype)
    return c.add(Where(), c.constant(inside, "inside"), x, number)
