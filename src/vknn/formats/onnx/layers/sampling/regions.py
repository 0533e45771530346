"""Sampling at places that are data: grids and regions of interest."""

from __future__ import annotations

import math

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.other_types import by_parts, by_places
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.elementwise.logic import And, Equal, Where
from vknn.ops.indexing.gather import Bounded, Gather
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Concat, Expand, Pad, Slice
from vknn.ops.pooling.roi_pooling import MaxRoiPool, RoiAlign
from vknn.ops.sampling.grid_sample import GridSample

_HALF_PIXEL_SINCE = 16


@operator("GridSample", 16, 20, 22, inputs=2, like=0)
@operator("GridSample", 1, inputs=2, domain=MICROSOFT)
def grid_sample(c: Context) -> Value:
    """Samples at coordinates that are data"""
    mode = c.text("mode", "linear")
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    c.require(mode in ("linear", "nearest", "cubic"), f"has the mode {mode!r}")
    padding = c.text("padding_mode", "zeros", ("zeros", "border", "reflection"))
    op = GridSample(
        mode,
        padding,
        c.flag("align_corners"),
        to_even=mode == "nearest",
        repeated=padding == "reflection",
    )
    x, grid, kind = c.x, c.value(1), c.x.type.dtype
    good = x.type.rank == grid.type.rank >= 3 and grid.type.dims[-1] == x.type.rank - 2
    c.require(good, f"has the grid {grid.type} for {x.type}")
    c.require(kind is not DType.STRING or mode == "nearest", f"computes no {mode} mean of {x.type}")
    if mode == "nearest" and kind in (DType.STRING, DType.INT64, DType.UINT64):
        return by_places(c, x, lambda real: sampled(c, op, real, grid))
    if kind.is_complex:
        return by_parts(c, x, lambda real: sampled(c, op, real, grid))
    if not kind.is_float:
        x = c.cast(x, DType.FLOAT32 if kind.itemsize < 4 else DType.FLOAT64)
    return c.cast(sampled(c, op, x, grid), kind)


def sampled(c: Context, op: GridSample, x: Value, grid: Value) -> Value:
    """Samples of x [N, C, spatial...] at a grid [N, places..., axes]: [N, C, places...].

    A single axis is the row of an image of height 1, whose middle is at 0.
    """
    (n, channels), sizes, axes = x.type.dims[:2], x.type.dims[2:], x.type.rank - 2
    places = grid.type.dims[1:-1]
    if axes == 1:
        grid = c.add(Pad((0, 0, 0, 0, 0, 0, 0, 1)), c.reshape(grid, (n, 1, math.prod(places), 1)))
        x = c.reshape(x, (n, channels, 1, *sizes))
    elif len(places) != axes:
        grid = c.reshape(grid, (n, math.prod(places), *[1] * (axes - 1), axes))
    return c.reshape(c.add(op, x, grid), (n, channels, *places))


@operator("AffineGrid", 20, inputs=2)
def affine_grid(c: Context) -> Value:
    """Coordinates (x, y[, z], 1) of all places of an image, times a matrix for each"""
    theta, size = c.value(0), c.ints(1, "size")
    axes = len(size) - 2
    c.require(axes in (2, 3) and min(size) >= 0, f"has the size {size}")
    good = theta.type.dims == (size[0], axes, axes + 1)
    c.require(good, f"has the matrices {theta.type} for the size {size}")
    places = math.prod(size[2:])
    c.makeable(places * (axes + 1), DType.FLOAT64)
    align, kind = c.flag("align_corners"), theta.type.dtype
    lines = []
    for count in size[2:]:
        step = 1 / max(count, 1)
        lines.append(np.linspace(-1, 1, count) if align else np.linspace(step - 1, 1 - step, count))
    grid = np.meshgrid(*lines, indexing="ij")[::-1]  # x first
    points = np.stack([*grid, np.ones(size[2:])], -1).reshape(places, axes + 1)
    base = c.constant(points.astype(kind.numpy), "places")
    return c.reshape(c.add(MatMul(transpose_b=True), base, theta), (size[0], *size[2:], axes))


@operator("RoiAlign", 10, 16, 22, inputs=3)
def roi_align(c: Context) -> Value:
    """The mean of samples in each bin of a region, or the largest weighted element of them"""
    ranks = (c.rank, c.value(1).type.rank, c.value(2).type.rank)
    c.require(ranks == (4, 2, 1), f"takes images, regions and indices of ranks {ranks}")
    mode = c.text("mode", "avg", ("avg", "max"))
    coordinates = c.text(
        "coordinate_transformation_mode", "half_pixel", ("half_pixel", "output_half_pixel")
    )
    aligned = c.version >= _HALF_PIXEL_SINCE and coordinates == "half_pixel"
    size = (c.int("output_height", 1), c.int("output_width", 1))
    ratio = c.int("sampling_ratio", 0)
    op = RoiAlign(size, c.float("spatial_scale", 1.0), ratio, aligned, mode=mode)
    regions, count = c.value(1), c.value(1).type.dims[0]
    images = c.reshape(c.indices(2, c.x.type.dims[0], from_end=False), (count, 1))
    return c.add(op, c.x, c.add(Concat(1), c.cast(images, regions.type.dtype), regions))


@operator("CropAndResize", 1, inputs=4, domain=MICROSOFT)
def crop_and_resize(c: Context) -> Value:
    """Samples on a grid in each box, whose corners are fractions of an image"""
    boxes, size = c.value(1), c.ints(3, "crop_size")
    mode = c.text("mode", "bilinear", ("bilinear", "nearest"))
    good = boxes.type.rank == 2 and boxes.type.dims[1] == 4 and len(size) == 2 and min(size) >= 1
    c.require(good and c.rank == 4, f"has {c.x.type}, the boxes {boxes.type} and the size {size}")
    count, (rows, columns) = boxes.type.dims[0], size
    c.makeable(rows + columns)
    lines = []
    for axis, steps in enumerate(size):
        low, high = (c.add(Slice((i,), (i + 1,), (1,)), boxes) for i in (axis, axis + 2))
        share = np.arange(steps) / (steps - 1) if steps > 1 else np.full(1, 0.5)
        shares = c.constant(share.astype(np.float32), "shares")
        length = c.add(ew.Mul(), c.add(ew.Sub(), high, low), shares)
        lines.append(c.add(ew.Add(), low, length))
    shape = (count, rows, columns, 1)
    y = c.add(Expand(shape), c.reshape(lines[0], (count, rows, 1, 1)))
    x = c.add(Expand(shape), c.reshape(lines[1], (count, 1, columns, 1)))
    places = c.add(Concat(3), x, y)
    double = c.add(ew.Mul(), places, c.scalar(2.0))
    grid = c.add(ew.Sub(), double, c.scalar(1.0))
    images = c.add(Gather(0), c.x, c.indices(2, c.x.type.dims[0], from_end=False))
    sample = GridSample("nearest" if mode == "nearest" else "linear", "border", True)
    found = c.add(sample, images, grid)
    within = c.add(Equal(), places, c.add(ew.Clip(0.0, 1.0), places))
    inside = [c.add(Slice((i,), (i + 1,), (3,)), within) for i in range(2)]
    both = c.reshape(c.add(And(), *inside), (count, 1, rows, columns))
    outside = c.scalar(c.float("extrapolation_value", 0.0), found.type.dtype)
    return c.add(Where(), both, found, outside)


@operator("MaxRoiPool", 1, 22, inputs=2)
def max_roi_pool(c: Context) -> Value:
    """The largest element in each bin of a region"""
    height, width = c.int_list("pooled_shape", count=2)
    scale, regions = c.float("spatial_scale", 1.0), c.value(1)
    c.require(math.isfinite(scale) and scale > 0, f"has the spatial_scale {scale}")
    op = MaxRoiPool((height, width), scale)
    good = c.rank == 4 and regions.type.rank == 2 and regions.type.dims[1] == 5
    c.require(good, f"takes images and regions of 5 numbers, not {c.x.type} and {regions.type}")
    column = c.cast(c.add(Slice((0,), (1,), (1,)), regions), DType.INT32)
    images = c.add(Bounded(0, c.x.type.dims[0] - 1), column)
    boxes = c.add(Slice((1,), (5,), (1,)), regions)
    return c.add(op, c.x, c.add(Concat(1), c.cast(images, regions.type.dtype), boxes))
