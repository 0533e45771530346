"""Sampling at places that are data: grids, regions of interest, deformed windows, columns."""

from __future__ import annotations

import math

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.windows import window
from vknn.formats.onnx.layers.movement.made import MAX_MADE
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.graph import DType, Value
from vknn.ops.convolution.deform_conv import DeformConv
from vknn.ops.convolution.im2col import Col2Im
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Concat, Pad
from vknn.ops.pooling.roi_pooling import MaxRoiPool, RoiAlign
from vknn.ops.sampling.grid_sample import GridSample

_HALF_PIXEL_SINCE = 16


@operator("DeformConv", 19, 22, inputs=(3, 5))
def deform_conv(c: Context) -> Value:
    """Conv of samples at places that are shifted by data, times a mask"""
    w = window(c, c.value(1).type.dims[2:])
    if len(w.kernel) != 2:
        c.refuse(f"{len(w.kernel)} spatial axes")
    op = DeformConv(
        (w.strides[0], w.strides[1]),
        (w.pads[0], w.pads[1], w.pads[2], w.pads[3]),
        (w.dilations[0], w.dilations[1]),
        c.int("group", 1),
        c.int("offset_group", 1),
    )
    return c.add(op, c.x, c.value(1), c.value(2), c.optional(3), c.optional(4))


@operator("GridSample", 16, 20, 22, inputs=2)
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
    if x.type.rank > 5 or (mode == "cubic" and x.type.rank > 4):
        c.refuse(f"{x.type.rank - 2} spatial axes in the mode {mode!r}")
    if not kind.is_float:
        x = c.cast(x, DType.FLOAT32 if kind.itemsize < 4 else DType.FLOAT64)
    if x.type.rank > 3:
        return c.cast(c.add(op, x, grid), kind)
    # A single axis is the row of an image of height 1, whose middle is at 0.
    n, channels, width = x.type.dims
    places = c.reshape(grid, (n, 1, grid.type.dims[1], 1))
    both = c.add(Pad((0, 0, 0, 0, 0, 0, 0, 1)), places)
    found = c.add(op, c.reshape(x, (n, channels, 1, width)), both)
    return c.cast(c.reshape(found, (n, channels, grid.type.dims[1])), kind)


@operator("AffineGrid", 20, inputs=2)
def affine_grid(c: Context) -> Value:
    """Coordinates (x, y[, z], 1) of all places of an image, times a matrix for each"""
    theta, size = c.value(0), c.ints(1, "size")
    axes = len(size) - 2
    c.require(axes in (2, 3) and min(size) >= 0, f"has the size {size}")
    good = theta.type.dims == (size[0], axes, axes + 1)
    c.require(good, f"has the matrices {theta.type} for the size {size}")
    places = math.prod(size[2:])
    c.require(places <= MAX_MADE, f"has the size {size}")
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


@operator("MaxRoiPool", 1, 22, inputs=2)
def max_roi_pool(c: Context) -> Value:
    """The largest element in each bin of a region"""
    height, width = c.int_list("pooled_shape", count=2)
    op = MaxRoiPool((height, width), c.float("spatial_scale", 1.0))
    return c.add(op, c.x, c.value(1))


@operator("Col2Im", 18, inputs=3)
def col2im(c: Context) -> Value:
    """Sums of columns at their places in an image"""
    image, block = c.ints(1, "image_shape"), c.ints(2, "block_shape")
    if len(image) != 2 or len(block) != 2:
        c.refuse(f"{len(image)} spatial axes")
    strides, dilations = c.int_list("strides", (1, 1), 2), c.int_list("dilations", (1, 1), 2)
    pads = c.int_list("pads", (0,) * 4, 4)
    op = Col2Im(
        (block[0], block[1]), tuple(strides), tuple(pads), tuple(dilations), (image[0], image[1])
    )
    return c.add(op, c.x)
