"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR of images [n, h, w, c]."""

from __future__ import annotations

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.registry import operator, quantized
from vknn.graph import DType, Value
from vknn.ops.indexing.gather import Gather
from vknn.ops.movement.shape import Expand
from vknn.ops.quantized.resize import QuantizedResize
from vknn.ops.sampling.resize import Resize

#: Limit of the size of an axis: far beyond any model, and up to which float32 counts exactly.
_MAX_SIZE = 1 << 24


def _sizes(c: Context, least: int = 1) -> tuple[int, int]:
    """Height and width of the output, from the second input."""
    sizes = c.ints(1, "the new size")
    good = len(sizes) == 2 and min(sizes) >= least and max(sizes) < _MAX_SIZE
    c.require(good and c.x.type.rank == 4, f"resizes {c.x.type} to {sizes}")
    return (sizes[0], sizes[1])


def _coordinates(c: Context) -> str:
    aligned, halves = c.options["align_corners"], c.options["half_pixel_centers"]
    c.require(not (aligned and halves), "has align_corners and half_pixel_centers, which exclude "
              "one another")  # fmt: skip
    return "align_corners" if aligned else "half_pixel" if halves else "asymmetric"


@operator("RESIZE_BILINEAR", inputs=2)
def resize_bilinear(c: Context) -> Value:
    """Bilinear resizing; small integers are resized as quantized ones."""
    if c.x.type.dtype in (DType.INT8, DType.UINT8, DType.INT16):
        return _integer_bilinear(c)
    if not c.x.type.dtype.is_float:
        c.refuse(f"tensors of type {c.x.type.dtype.value}")
    return _resized(c, Resize(_sizes(c), "linear", _coordinates(c)))


@quantized("RESIZE_BILINEAR")
def quantized_bilinear(c: Context) -> Value:
    """Bilinear resizing of integers, with weights of 10 bits; of uint8 in float32."""
    return _integer_bilinear(c)


def _integer_bilinear(c: Context) -> Value:
    floating = c.x.type.dtype is DType.UINT8
    return _resized(c, QuantizedResize(_sizes(c), _coordinates(c), floating))


def _resized(c: Context, op: Resize | QuantizedResize) -> Value:
    return c.channels_last(c.add(op, c.channels_second(c.x)))


@operator("RESIZE_NEAREST_NEIGHBOR", inputs=2, takes_quantized=True)
def resize_nearest(c: Context) -> Value:
    """Nearest-neighbour resizing; by Gather where Resize would choose other neighbours."""
    sizes, dims = _sizes(c, least=0), c.x.type.dims[1:3]
    if 0 in sizes:
        return _empty(c, sizes)
    aligned, halves = c.options["align_corners"], c.options["half_pixel_centers"]
    places = [
        nearest_places(size, out, aligned, halves) for size, out in zip(dims, sizes, strict=True)
    ]
    coordinates = "align_corners" if aligned else "half_pixel" if halves else "asymmetric"
    op = Resize(sizes, "nearest", coordinates)
    usual = [op.taps(axis, size)[0][0] for axis, size in enumerate(dims)]
    if all(np.array_equal(a, b) for a, b in zip(places, usual, strict=True)):
        return _resized(c, op)
    y = c.x
    for axis, at in enumerate(places):
        indices = c.constant(at.astype(np.int32), "places")
        y = c.add(Gather(axis + 1, from_end=False), y, indices)
    return y


def _empty(c: Context, sizes: tuple[int, int]) -> Value:
    batch, *_, channels = c.x.type.dims
    zero = c.constant(np.zeros((), c.x.type.dtype.numpy), "zero")
    return c.add(Expand((batch, *sizes, channels)), zero)


def nearest_places(size: int, out: int, aligned: bool, halves: bool) -> np.ndarray:
    """Input index of each of ``out`` elements; computed in float32, rounded where ``aligned``."""
    whole = np.float32(size - 1) / np.float32(out - 1) if aligned and out > 1 else None
    scale = np.float32(size) / np.float32(out) if whole is None else whole
    place = (np.arange(out, dtype=np.float32) + np.float32(0.5 if halves else 0)) * scale
    if not aligned:
        found = np.floor(place)
    else:  # halves away from zero; no place is below it
        down = np.floor(place)
        found = down + (place - down >= np.float32(0.5))
    return np.clip(found.astype(np.int64), 0, size - 1)
