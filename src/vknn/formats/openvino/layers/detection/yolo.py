"""YOLO: RegionYolo and ReorgYolo, as in Darknet.

Section 2 of Redmon and Farhadi, YOLO9000, arXiv:1612.08242.
"""

from __future__ import annotations

import numpy as np

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.registry import layer
from vknn.graph import Value
from vknn.ops.elementwise.activation import Sigmoid
from vknn.ops.indexing.gather import Gather
from vknn.ops.movement.shape import Concat, Slice
from vknn.ops.reduction import Softmax


@layer("RegionYolo")
def region_yolo(c: Context) -> Value:
    """Sigmoid of x, y and objectness of each region; of its classes the softmax or sigmoid."""
    x, coords, classes = c.float_input(), c.int("coords"), c.int("classes")
    softmax = c.bool("do_softmax", True)
    regions = c.int("num") if softmax else len(c.ints("mask", ()))
    dims, each = x.type.dims, coords + classes + 1
    c.require(len(dims) == 4, f"{x.type} is not [N, C, H, W]")
    c.require(coords >= 2 and classes >= 0, f"coords {coords}, classes {classes}")
    good = regions >= 1 and dims[1] == regions * each
    c.require(good, f"{dims[1]} channels are not {regions} regions of {each}")
    wide = c.reshape(x, (dims[0] * regions, each, *dims[2:]))
    parts = [c.add(Sigmoid(), _planes(c, wide, 0, 2))]
    if coords > 2:
        parts.append(_planes(c, wide, 2, coords))
    if softmax and classes:
        parts.append(c.add(Sigmoid(), _planes(c, wide, coords, coords + 1)))
        parts.append(c.add(Softmax(1), _planes(c, wide, coords + 1, each)))
    else:
        parts.append(c.add(Sigmoid(), _planes(c, wide, coords, each)))
    return c.reshape(c.add(Concat(1), *parts), _flattened(c, dims))


def _planes(c: Context, x: Value, first: int, end: int) -> Value:
    return c.add(Slice((first,), (end,), (1,)), x)


def _flattened(c: Context, dims: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the output port, else the input's with ``axis`` to ``end_axis`` merged."""
    if c.is_as_declared:
        stated = c.declared()
        same = np.prod(stated, dtype=object) == np.prod(dims, dtype=object)
        c.require(bool(same), f"its output {list(stated)} does not hold {list(dims)}")
        return stated
    if len(c.port().dims) == len(dims):
        return dims
    first, last = c.axis(c.int("axis", 1), 4), c.axis(c.int("end_axis", -1), 4)
    c.require(first <= last, f"axis {first} is behind end_axis {last}")
    merged = int(np.prod(dims[first : last + 1], dtype=object))
    return (*dims[:first], merged, *dims[last + 1 :])


@layer("ReorgYolo")
def reorg_yolo(c: Context) -> Value:
    """Darknet's reorg layer, which differs from space to depth.

    The input is read as [C / s^2, H * s, W * s], every s-th pixel of that goes to one channel, and
    the result is read as [C * s^2, H / s, W / s].
    """
    x, stride = c.x, c.int("stride")
    dims = x.type.dims
    c.require(len(dims) == 4 and stride >= 1, f"{x.type} with stride {stride}")
    images, channels, height, width = dims
    good = height % stride == 0 == width % stride and channels >= stride**2
    c.require(good, f"{x.type} is not rearranged by stride {stride}")
    shape = (images, channels * stride**2, height // stride, width // stride)
    if channels % stride**2 == 0:
        own = channels // stride**2
        split = c.reshape(x, (images, own, height, stride, width, stride))
        return c.reshape(c.transpose(split, (0, 3, 5, 1, 2, 4)), shape)
    return c.reshape(_scrambled(c, x, stride), shape)


def _scrambled(c: Context, x: Value, stride: int) -> Value:
    """reorg for channels that s^2 does not divide: offsets count in the rounded-down quotient."""
    channels, height, width = x.type.dims[1:]
    c.makeable(3 * x.type.size)  # of the axes four numbers each, and as many of what comes of them
    own = channels // stride**2
    image, channel, row, column = np.indices(x.type.dims)
    part = channel // own
    line = (image * own + channel % own) * height * stride + row * stride + part // stride
    places = line * width * stride + column * stride + part % stride
    c.require(bool(places.max() < x.type.size), f"{channels} channels with stride {stride}")
    flat = c.reshape(x, (x.type.size,))
    return c.add(Gather(0), flat, c.constant(places.reshape(-1).astype(np.int32), "places"))
