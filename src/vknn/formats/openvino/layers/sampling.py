"""Resampling of images: Interp, Resample, DepthToSpace, SpaceToDepth."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.registry import layer
from vknn.graph import DType, Value
from vknn.ops.matmul import MatMul
from vknn.ops.movement import rearrange
from vknn.ops.movement.shape import Pad, Slice
from vknn.ops.sampling.resize import Resize, keys_weights

_KINDS = ("nearest", "linear", "cubic")


@layer("Interp", inputs=(1, 2))
def interp(c: Context) -> Value:
    """Bilinear resampling; without ``align_corners`` pixel i of the output is at i * in / out.

    Pads above 0 are zeros around the image, pads below 0 cut it off.
    """
    c.require(c.rank >= 3, f"its input has rank {c.rank}")
    x = _padded(c, c.int("pad_beg", 0), c.int("pad_end", 0))
    sizes = _given_sizes(c) or _interp_sizes(c, x.type.dims[2:])
    coordinates = "align_corners" if c.bool("align_corners", True) else "asymmetric"
    return c.add(Resize(tuple(sizes), "linear", coordinates), x)


def _padded(c: Context, begin: int, end: int) -> Value:
    x, axes = c.float_input(), c.rank - 2
    if max(begin, end) > 0:
        around = (0, 0, *(max(begin, 0),) * axes, 0, 0, *(max(end, 0),) * axes)
        x = c.add(Pad(around), x)
    if min(begin, end) < 0:
        first, last = max(-begin, 0), max(-end, 0)
        sizes = x.type.dims[2:]
        c.require(min(sizes) > first + last, "its pads cut off the whole image")
        ends = tuple(s - last for s in sizes)
        x = c.add(Slice((first,) * axes, ends, tuple(range(2, c.rank))), x)
    return x


def _given_sizes(c: Context) -> list[int] | None:
    """The sizes in the second input: of all axes or of the spatial ones; None without such an
    input.

    The output port's where they are computed at run time.
    """
    if len(c.inputs) < 2:
        return None
    if c.value(1).constant is None and c.is_as_declared:
        return list(c.declared()[2:])
    stated, dims = c.input_ints(1, "the shape"), c.x.type.dims
    if len(stated) == len(dims):
        c.require(tuple(stated[:2]) == dims[:2], f"resizes axes 0 and 1 to {stated[:2]}")
        stated = stated[2:]
    c.require(len(stated) == len(dims) - 2, f"has {len(stated)} sizes for {c.x.type}")
    return _positive(c, stated)


def _positive(c: Context, sizes: Sequence[int]) -> list[int]:
    c.require(min(sizes) >= 1, f"{list(sizes)} are no sizes of an image")
    return list(sizes)


def _interp_sizes(c: Context, sizes: Sequence[int]) -> list[int]:
    """The sizes: ``height`` and ``width``, else the output port's, else by the factors."""
    height, width = c.int("height", 0), c.int("width", 0)
    if height > 0 and width > 0 and len(sizes) == 2:
        return [height, width]
    if c.is_as_declared:
        return list(c.declared()[2:])
    shrink, zoom = c.float("shrink_factor", 1.0), c.float("zoom_factor", 1.0)
    factor = c.float("factor", 1.0)
    if shrink == zoom == factor == 1 or min(shrink, zoom, factor) <= 0:
        c.declared()
    if shrink != 1:
        sizes = [math.floor((s - 1) / shrink) + 1 for s in sizes]
    if zoom != 1:
        sizes = [s + math.floor((s - 1) * (zoom - 1)) for s in sizes]
    if shrink == zoom == 1:
        sizes = [math.floor(s * factor) for s in sizes]
    return _positive(c, sizes)


@layer("Resample", inputs=(1, 2))
def resample(c: Context) -> Value:
    """Resampling by nearest pixel, floor(i * in / out), or by a filter.

    A filter is centred at (i + 0.5) * in / out - 0.5, its weights divided by their sum; with
    ``antialias`` it is as wide as the distance of the outputs where an axis shrinks.
    """
    c.require(3 <= c.rank <= 5, f"its input has rank {c.rank}")
    kind = _kind(c)
    sizes, spatial = _given_sizes(c) or _resample_sizes(c), c.x.type.dims[2:]
    c.require(min(spatial) >= 1, "its input has an empty axis")
    if kind == "nearest":
        return c.add(Resize(tuple(sizes), "nearest", "asymmetric", _steps(spatial, sizes)), c.x)
    shrinks = any(o < i for i, o in zip(spatial, sizes, strict=True))
    if kind == "linear" and not (shrinks and c.bool("antialias", False)):
        return c.add(Resize(tuple(sizes), "linear", "half_pixel"), c.float_input())
    wide = shrinks and c.bool("antialias", False)
    x = c.float_input()
    for axis, (size, count) in enumerate(zip(spatial, sizes, strict=True), start=2):
        if size != count or kind == "cubic":
            c.makeable(count * size, DType.FLOAT64)
            x = _filtered(c, x, axis, _filter(size, count, kind, size / count if wide else 1.0))
    return x


def _kind(c: Context) -> str:
    """The type, which may be written like caffe.ResampleParameter.NEAREST."""
    stated = c.text("type", "caffe.ResampleParameter.NEAREST")
    kind: str = stated.rsplit(".", 1)[-1].strip().lower()
    if kind not in _KINDS:
        c.refuse(f"type {stated[:60]!r}")
    return kind


def _resample_sizes(c: Context) -> list[int]:
    """The output port's sizes; for inputs of other shapes by the factor."""
    if c.is_as_declared and len(c.declared()) == c.rank:
        return list(c.declared()[2:])
    factor = c.float("factor")
    c.require(factor > 0, f"factor is {factor}")
    return _positive(c, [math.floor(s * factor) for s in c.x.type.dims[2:]])


def _steps(spatial: Sequence[int], sizes: Sequence[int]) -> tuple[float, ...]:
    """in / out, rounded up, so that float32 does not put whole coordinates below their value."""
    steps = []
    for size, count in zip(spatial, sizes, strict=True):
        step = np.float32(size / count)
        exact = float(step) * count == size
        steps.append(float(step if exact else np.nextafter(step, np.float32(np.inf))))
    return tuple(steps)


def _filter(size: int, count: int, kind: str, reach: float) -> np.ndarray:
    """Weights [count, size] of a filter ``reach`` times as wide as for single pixels."""
    centre = (np.arange(count) + 0.5) * (size / count) - 0.5
    distance = np.abs(np.arange(size) - centre[:, None]) / reach
    if kind == "linear":
        weights = np.maximum(1.0 - distance, 0.0)
    else:
        _, near, _, _ = keys_weights(np.minimum(distance, 1.0), -0.5)
        far = keys_weights(np.clip(distance, 1.0, 2.0) - 1.0, -0.5)[0]
        weights = np.where(distance < 1, near, far)
    total = weights.sum(1, keepdims=True)
    return (weights / np.where(total == 0, 1, total)).astype(np.float32)


def _filtered(c: Context, x: Value, axis: int, weights: np.ndarray) -> Value:
    """``x`` with the matrix ``weights`` applied along an axis."""
    dims = x.type.dims
    lead, rest = math.prod(dims[:axis]), math.prod(dims[axis + 1 :])
    count, size = weights.shape
    if rest == 1:
        y = c.add(MatMul(transpose_b=True), c.reshape(x, (lead, size)), c.constant(weights))
    else:
        y = c.add(MatMul(), c.constant(weights), c.reshape(x, (lead, size, rest)))
    return c.reshape(y, (*dims[:axis], count, *dims[axis + 1 :]))


@layer("DepthToSpace")
def depth_to_space(c: Context) -> Value:
    """Blocks of pixels made of channels.

    The position in the block is the slow part of a channel's index, with mode "depth_first" the
    fast part.
    """
    mode = "CRD" if _depth_first(c) else "DCR"
    return c.add(rearrange.DepthToSpace(_block(c), mode), c.x)


@layer("SpaceToDepth")
def space_to_depth(c: Context) -> Value:
    """The inverse of DepthToSpace."""
    mode = "CRD" if _depth_first(c) else "DCR"
    return c.add(rearrange.SpaceToDepth(_block(c), mode), c.x)


def _depth_first(c: Context) -> bool:
    stated = c.text("mode", "blocks_first", choices=("blocks_first", "depth_first"))
    return bool(stated == "depth_first")


def _block(c: Context) -> int:
    size: int = c.int("block_size", 1)
    c.require(size >= 1, f"block_size is {size}")
    c.require(3 <= c.rank <= 5, f"its input has rank {c.rank}")
    return size
