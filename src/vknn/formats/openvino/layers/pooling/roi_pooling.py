"""ROIPooling, PSROIPooling and ExperimentalDetectronROIFeatureExtractor.

Girshick, Fast R-CNN, arXiv:1504.08083; Dai et al., R-FCN, arXiv:1605.06409, and Deformable
Convolutional Networks, arXiv:1703.06211; He et al., Mask R-CNN (RoIAlign), arXiv:1703.06870.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.registry import layer
from vknn.graph import DType, Op, Value
from vknn.ops.elementwise.binary import Add, Div, Mul, Sub
from vknn.ops.elementwise.logic import And, Greater, GreaterOrEqual, Less, Not, Where
from vknn.ops.elementwise.unary import Sqrt
from vknn.ops.movement.shape import Concat, Slice
from vknn.ops.pooling.roi_pooling import MaxRoiPool, PositionSensitiveRoiPool, RoiAlign
from vknn.ops.pooling.roi_sampled import BilinearRoiPool, DeformableRoiPool
from vknn.ops.reduction import CumSum

#: The side of a region that belongs to level 2 of a pyramid.
_CANONICAL = 224.0
_CANONICAL_LEVEL = 2
#: Samples of a bin along an axis.
_MOST_SAMPLES = 1 << 10


@layer("ROIPooling", inputs=2)
def roi_pooling(c: Context) -> Value:
    """Maxima of bins, or bilinear samples in boxes given as fractions of the image."""
    size = (c.int("pooled_h"), c.int("pooled_w"))
    c.require(min(size) >= 1, f"pooled to {size}")
    op: Op = BilinearRoiPool(size)
    if c.text("method", "max", choices=("max", "bilinear")) == "max":
        op = MaxRoiPool(size, c.float("spatial_scale"), whole=True)
    return c.add(op, _image(c, 0), _terminated(c, 1))


@layer("PSROIPooling", inputs=(2, 3))
def ps_roi_pooling(c: Context) -> Value:
    """Position-sensitive pooling: each bin, or each part of a region, has its own channels."""
    outputs, group = c.int("output_dim"), c.int("group_size", 1)
    size = (c.int("pooled_height", group), c.int("pooled_width", group))
    bins = (c.int("spatial_bins_y", 1), c.int("spatial_bins_x", 1))
    good = min(outputs, group, *size, *bins) >= 1 and max(bins) <= _MOST_SAMPLES
    c.require(good, f"output_dim {outputs} of {group} groups, {size} with bins {bins}")
    mode = c.text("mode", "average", choices=("average", "bilinear", "bilinear_deformable"))
    scale, parts = c.float("spatial_scale"), group * group
    moved = mode == "bilinear_deformable" and not c.bool("no_trans", True)
    c.require(len(c.inputs) == 2 + moved, f"takes {2 + moved} inputs, not {len(c.inputs)}")
    op: Op = PositionSensitiveRoiPool((group, group), scale)
    if mode == "average":
        c.require(size == (group, group), f"pools {group} groups to {size}")
    elif mode == "bilinear":
        parts, op = bins[0] * bins[1], BilinearRoiPool(size, scale, parts=bins)
    else:
        spread, cells = c.float("trans_std", 1.0), c.int("part_size", 1) if moved else 1
        c.require(cells >= 1, f"part_size {cells}")
        op = DeformableRoiPool(size, scale, group, bins, cells, spread)
    x, channels = _image(c, 0), c.value(0).type.dims[1]
    c.require(channels >= outputs * parts, f"{channels} channels, not {outputs} * {parts}")
    if channels > outputs * parts:
        x = c.add(Slice((0,), (outputs * parts,), (1,)), x)
    return c.add(op, x, _terminated(c, 1), *([c.float_input(2)] if moved else []))


def _image(c: Context, number: int) -> Value:
    x = c.float_input(number)
    good = x.type.rank == 4 and 0 not in x.type.dims
    c.require(good, f"input {number} {x.type} is no [N, C, H, W]")
    return x


def _terminated(c: Context, number: int) -> Value:
    """Regions [R, 5]; from the first with image -1 on all have image -1: that ends the list."""
    rois = c.float_input(number)
    dims = rois.type.dims
    c.require(len(dims) == 2 and dims[1] == 5, f"regions {list(dims)} are not [R, 5]")
    image = c.add(Slice((0,), (1,), (1,)), rois)
    last = c.cast(c.add(Less(), image, c.scalar(0.0)), DType.INT32)
    ended = c.add(Greater(), c.add(CumSum(0), last), c.scalar(0, DType.INT32))
    image = c.add(Where(), ended, c.scalar(-1.0), image)
    return c.add(Concat(1), image, c.add(Slice((1,), (5,), (1,)), rois))


@layer(
    "ExperimentalDetectronROIFeatureExtractor",
    "ROIAlignPyramid",
    inputs=(2, None),
    outputs=(1, 2),
)
def roi_feature_extractor(c: Context) -> Sequence[Value]:
    """RoiAlign of each region in the pyramid's map that suits its size."""
    size, ratio = c.int("output_size"), c.int("sampling_ratio", 0)
    levels = [_image(c, i) for i in range(1, len(c.inputs))]
    scales = c.ints("pyramid_scales", count=len(levels))
    good = size >= 1 and 0 <= ratio <= _MOST_SAMPLES and min(scales) >= 1
    c.require(good, f"output_size {size}, sampling_ratio {ratio}, pyramid_scales {scales}")
    same = len({v.type.dims[1] for v in levels}) == 1
    c.require(same, "the maps of its pyramid differ in their channels")
    rois = c.float_input(0)
    dims = rois.type.dims
    c.require(len(dims) == 2 and dims[1] == 4, f"regions {list(dims)} are not [R, 4]")
    result = None
    for own, scale, x in zip(_levels(c, rois, len(levels)), scales, levels, strict=True):
        # Regions of other levels get the image index -1, which gives zeros.
        image = c.add(Where(), own, c.scalar(0.0), c.scalar(-1.0))
        op = RoiAlign((size, size), float(np.float32(1) / np.float32(scale)), ratio)
        part = c.add(op, x, c.add(Concat(1), image, rois))
        result = part if result is None else c.add(Add(), result, part)
    assert result is not None
    return [result, rois][: len(c.layer.outputs)]


def _levels(c: Context, rois: Value, count: int) -> Sequence[Value]:
    """For each level [R, 1]: whether a region belongs to it.

    The level is floor(2 + log2(sqrt(area) / 224 + 1e-6)), clipped to 0 .. last (equation 1 of
    arXiv:1612.03144, counted from the first map); it is compared with powers of two, which are
    exact. Regions without an area belong to none.
    """
    low, high = (c.add(Slice((i,), (i + 2,), (1,)), rois) for i in (0, 2))
    sides = c.add(Sub(), high, low)
    width, height = (c.add(Slice((i,), (i + 1,), (1,)), sides) for i in (0, 1))
    area = c.add(Mul(), width, height)
    side = c.add(Div(), c.add(Sqrt(), area), c.scalar(_CANONICAL))
    side = c.add(Add(), side, c.scalar(1e-6))
    reached = [c.add(Greater(), area, c.scalar(0.0))]
    for level in range(1, count):
        limit = c.scalar(2.0 ** (level - _CANONICAL_LEVEL))
        reached.append(c.add(And(), reached[0], c.add(GreaterOrEqual(), side, limit)))
    beyond = [c.add(And(), a, c.add(Not(), b)) for a, b in pairwise(reached)]
    return [*beyond, reached[-1]]
