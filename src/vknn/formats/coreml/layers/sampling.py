"""Resampling of height and width: upsample, resizeBilinear, cropResize."""

from __future__ import annotations

import math

import numpy as np

from vknn.formats.coreml import coreml_pb2 as pb
from vknn.formats.coreml.context import Context
from vknn.formats.coreml.layers.common.batch import merge_batch, restore_batch
from vknn.formats.coreml.layers.common.windows import sizes
from vknn.formats.coreml.registry import layer
from vknn.graph import DType, Value
from vknn.ops.elementwise.binary import Add, Max, Mul, Sub
from vknn.ops.movement.shape import Concat, Expand, Slice
from vknn.ops.sampling.grid_sample import GridSample
from vknn.ops.sampling.resize import Resize

#: Coordinates along an axis, by the number of LinearUpsampleMode. The first: i * in / out.
_UPSAMPLE = ("asymmetric", "align_corners", "half_pixel")


@layer("upsample")
def upsample(c: Context) -> Value:
    """Upsampling by whole or fractional factors; the results' sizes are rounded down."""
    p = c.params
    x, lead = merge_batch(c, c.x, 4, least=3)
    whole = sizes(c, p.scalingFactor, (1, 1), "scalingFactor")
    real = tuple(p.fractionalScalingFactor) or (1.0, 1.0)
    c.require(not p.scalingFactor or not p.fractionalScalingFactor, "has factors of two kinds")
    good = len(real) == 2 and all(math.isfinite(f) and 0 < f < 1 << 24 for f in real)
    c.require(good, f"fractionalScalingFactor is {list(real)}, not two positive numbers")
    # float32 products: 1.4 of 5 is 7, not 6.9999999.
    factors = np.asarray(real, np.float32) * np.asarray(whole, np.float32)
    grown = np.floor(np.asarray(x.type.dims[2:], np.float32) * factors)
    out = c.size([int(v) for v in grown])
    c.require(min(out) > 0, f"its output would have {list(out)} pixels")
    if p.mode == pb.UpsampleLayerParams.NN:
        # Whole factors: the centre of a pixel is far from the border between two others.
        places = "asymmetric" if p.fractionalScalingFactor else "half_pixel"
        return restore_batch(c, c.add(Resize(out, "nearest", places), x), lead)
    known = p.mode == pb.UpsampleLayerParams.BILINEAR and 0 <= p.linearUpsampleMode < 3
    c.require(known, f"there is no mode {p.mode} with the places {p.linearUpsampleMode}")
    y = c.add(Resize(out, "linear", _UPSAMPLE[p.linearUpsampleMode]), x)
    return restore_batch(c, y, lead)


@layer("resizeBilinear")
def resize_bilinear(c: Context) -> Value:
    """Bilinear resampling to targetSize at the coordinates of the sampling mode."""
    x, lead = merge_batch(c, c.x, 4, least=3)
    out = c.size(sizes(c, c.params.targetSize, (1, 1), "targetSize"))
    modes, mode = pb.SamplingMode, c.params.mode.samplingMethod
    if mode == modes.ROI_ALIGN_MODE:
        y = _at_places(c, x, out)
    elif mode == modes.UPSAMPLE_MODE:
        y = c.add(Resize(out, "linear", "asymmetric"), x)
    elif mode == modes.ALIGN_ENDPOINTS_MODE and 1 in out:
        # A single sample is in the middle, as with half-pixel coordinates.
        y = x
        for axis in (0, 1):
            stop = (out[0], y.type.dims[3]) if axis == 0 else out
            places = "half_pixel" if out[axis] == 1 else "align_corners"
            y = c.add(Resize(stop, "linear", places), y)
    else:
        known = mode in (modes.STRICT_ALIGN_ENDPOINTS_MODE, modes.ALIGN_ENDPOINTS_MODE)
        c.require(known, f"there is no sampling method {mode}")
        y = c.add(Resize(out, "linear", "align_corners"), x)
    return restore_batch(c, y, lead)


@layer("cropResize", inputs=2)
def crop_resize(c: Context) -> Value:
    """Boxes of x [1, B, C, H, W], each resampled to targetSize.

    Boxes [N, 1, 4, 1, 1] are cut out of all B images, boxes of five numbers out of the image that
    the first number names. A box may be reversed; coordinates outside of the image are clamped.
    """
    x, boxes = c.x, c.value(1)
    c.require(
        x.type.rank == 5 and x.type.dims[0] == 1, f"its input {x.type} is not [1, B, C, H, W]"
    )
    count, one, numbers, *rest = (*boxes.type.dims, *[0] * 5)[:5]
    right = boxes.type.rank == 5 and one == 1 and numbers in (4, 5) and rest == [1, 1]
    c.require(right, f"its boxes {boxes.type} are not [N, 1, 4, 1, 1] or [N, 1, 5, 1, 1]")
    out = sizes(c, c.params.targetSize, (1, 1), "targetSize")
    c.size((count, *x.type.dims[1:3], *out))
    boxes = c.reshape(boxes, (count, numbers))
    columns, rows = _box_grids(c, boxes, out)
    _, batch, channels, height, width = x.type.dims
    if numbers == 4 or batch == 1:
        flat = c.reshape(x, (1, batch * channels, height, width))
        y = c.add(_SAMPLE, flat, _joined(c, (columns, rows), (1, 1, count * out[0], out[1])))
        y = c.reshape(y, (batch, channels, count, *out))
        return c.transpose(y, (2, 0, 1, 3, 4))
    # The image index is a coordinate along a third axis.
    deep = c.transpose(x, (0, 2, 1, 3, 4))
    picture = _coordinate(c, c.add(Slice((0,), (1,), axes=(1,)), boxes), batch)
    picture = c.add(Expand((count, *out)), c.reshape(picture, (count, 1, 1)))
    y = c.add(_SAMPLE, deep, _joined(c, (columns, rows, picture), (1, 1, count, *out)))
    return c.transpose(y, (2, 0, 1, 3, 4))


_SAMPLE = GridSample("linear", "border", align_corners=True, grid_first=True)


def _at_places(c: Context, x: Value, out: tuple[int, ...]) -> Value:
    """x [N, C, H, W] resampled as in ROI_ALIGN_MODE: half a step from the ends."""
    axes = []
    c.makeable(2 * math.prod(out), DType.FLOAT32)
    for size, count in zip(x.type.dims[2:], out, strict=True):
        step = max(1, size - 1) / count
        places = np.minimum((np.arange(count) + 0.5) * step, size - 1)
        axes.append((places * (2 / max(1, size - 1)) - 1).astype(np.float32))
    grid = np.stack(np.broadcast_arrays(axes[1], axes[0][:, None]))[None]
    batch, channels = x.type.dims[:2]
    flat = c.reshape(x, (1, batch * channels, *x.type.dims[2:]))
    return c.reshape(c.add(_SAMPLE, flat, c.constant(grid, "grid")), (batch, channels, *out))


def _box_grids(c: Context, boxes: Value, out: tuple[int, ...]) -> tuple[Value, Value]:
    """Coordinates of the samples of all boxes, columns and rows: [N, *out] each."""
    p, modes = c.params, pb.BoxCoordinatesMode
    mode = p.boxIndicesMode.boxMode
    c.require(0 <= mode < 4, f"there is no order {mode} of a box's numbers")
    height_first = mode in (modes.CORNERS_HEIGHT_FIRST, modes.CENTER_SIZE_HEIGHT_FIRST)
    count, numbers = boxes.type.dims
    found = []
    for axis in (1, 0):
        size, samples = c.x.type.dims[3 + axis], out[axis]
        factor = (size - 1 if p.normalizedCoordinates else 1) * (p.spatialScale or 1.0)
        at = numbers - 4 + (axis if height_first else 1 - axis)
        parts = [c.add(Slice((k,), (k + 1,), axes=(1,)), boxes) for k in (at, at + 2)]
        first, second = (c.add(Mul(), part, c.scalar(factor)) for part in parts)
        if mode in (modes.CENTER_SIZE_HEIGHT_FIRST, modes.CENTER_SIZE_WIDTH_FIRST):
            first = c.add(Sub(), first, c.add(Mul(), second, c.scalar(0.5)))
            extent = second
        else:
            extent = c.add(Sub(), second, first)
        places = c.add(Add(), first, _offsets(c, extent, samples))
        shape = (count, 1, samples) if axis else (count, samples, 1)
        grid = c.reshape(_coordinate(c, places, size), shape)
        found.append(c.add(Expand((count, *out)), grid))
    return found[0], found[1]


def _offsets(c: Context, extent: Value, samples: int) -> Value:
    """Distances of the samples from the start of a box: [N, samples]; ``extent``: [N, 1]."""
    modes, mode = pb.SamplingMode, c.params.mode.samplingMethod
    index = np.arange(samples, dtype=np.float32)
    if mode in (modes.STRICT_ALIGN_ENDPOINTS_MODE, modes.ALIGN_ENDPOINTS_MODE):
        share = index / max(1, samples - 1)
        if samples == 1 and mode == modes.ALIGN_ENDPOINTS_MODE:
            share = np.full(1, 0.5, np.float32)
        return c.add(Mul(), extent, c.constant(share.astype(np.float32), "shares"))
    if mode == modes.UPSAMPLE_MODE:
        whole, share = c.add(Add(), extent, c.scalar(1.0)), index / samples
    else:
        c.require(mode == modes.ROI_ALIGN_MODE, f"there is no sampling method {mode}")
        whole, share = c.add(Max(), extent, c.scalar(1.0)), (index + 0.5) / samples
    return c.add(Mul(), whole, c.constant(share.astype(np.float32), "shares"))


def _coordinate(c: Context, places: Value, size: int) -> Value:
    """Indices along an axis of ``size`` as GridSample's coordinates, -1 to 1."""
    scaled = c.add(Mul(), places, c.scalar(2 / max(1, size - 1)))
    return c.add(Sub(), scaled, c.scalar(1.0))


def _joined(c: Context, coordinates: tuple[Value, ...], shape: tuple[int, ...]) -> Value:
    """A grid [1, coordinates, ...] of coordinates, each of which has ``shape``."""
    return c.add(Concat(1), *(c.reshape(part, shape) for part in coordinates))
