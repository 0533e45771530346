"""ROIPooling, ROIAlign, PSROIPooling for one region: the first four values of the second input."""

from __future__ import annotations

import numpy as np

from vknn.formats.ncnn.context import Context, as_image, shape
from vknn.formats.ncnn.params import P, Params, param, require
from vknn.formats.ncnn.registry import layer
from vknn.graph import Value, attributes
from vknn.ops.movement.shape import Reshape, Slice
from vknn.ops.pooling.roi_pooling import MaxRoiPool, PositionSensitiveRoiPool, RoiAlign

#: Numbers of bins whose approximate reciprocal is one unit in the last place too small.
_TOO_SMALL = frozenset((1, 2, 4, 5, *range(7, 12), *range(14, 21), 22, 28, 30, *range(32, 35)))
_TOO_SMALL |= frozenset((36, 37, 38, 40, 44, 56, 57, 60, 64))


@attributes
class RoiPoolingParams(Params):
    """Parameters of ROIPooling."""

    pooled_width: int = param(0)
    pooled_height: int = param(1)
    spatial_scale: float = param(2, 1.0)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the output."""
        return self.pooled_height, self.pooled_width

    def check(self) -> None:
        require(min(self.size) > 0, f"pooled_height and pooled_width {self.size} must be positive")


#: Limit of the samples of a bin along an axis, far beyond any model.
_MAX_SAMPLES = 1 << 16


@attributes
class RoiAlignParams(RoiPoolingParams):
    """Parameters of ROIAlign; version 1 is the one of detectron2."""

    sampling_ratio: int = param(3)
    aligned: int = param(4)
    version: int = param(5)

    def check(self) -> None:
        super().check()
        require(self.version in (0, 1), f"unknown version {self.version}")
        few = self.sampling_ratio < _MAX_SAMPLES
        require(few, f"sampling_ratio {self.sampling_ratio} is absurdly large")


@attributes
class PsRoiPoolingParams(RoiPoolingParams):
    """Parameters of PSROIPooling."""

    pooled_width: int = param(0, 7)
    pooled_height: int = param(1, 7)
    spatial_scale: float = param(2, 0.0625)
    output_dim: int = param(3)


@layer("ROIPooling", params=RoiPoolingParams, inputs=2)
def roi_pooling(c: Context[RoiPoolingParams]) -> Value:
    """Maximum in each bin of the region.

    ncnn differs: bins are the region's size times an approximate reciprocal (in the PyPI build),
    one unit too small for many numbers of bins, so that a bin which should begin at a whole pixel
    begins one before it; which numbers (3, 6, 12, 13, 21 among them) hangs on the processor.
    PSROIPooling divides.
    """
    p = c.params
    op = MaxRoiPool(output_size=p.size, spatial_scale=p.spatial_scale, shares=_shares(p))
    return c.add(op, as_image(c, c.x), _region(c))


@layer("ROIAlign", params=RoiAlignParams, inputs=2)
def roi_align(c: Context[RoiAlignParams]) -> Value:
    """Mean of samples in each bin of the region.

    ncnn differs: samples beyond the image's last row or column are read from other memory; here the
    edge is repeated.
    """
    p = c.params
    op = RoiAlign(
        output_size=p.size,
        spatial_scale=p.spatial_scale,
        sampling_ratio=max(p.sampling_ratio, 0),
        aligned=bool(p.aligned),
        clipped=p.version == 0,
    )
    return c.add(op, as_image(c, c.x), _region(c))


@layer("PSROIPooling", params=PsRoiPoolingParams, inputs=2)
def ps_roi_pooling(c: Context[PsRoiPoolingParams]) -> Value:
    """Position-sensitive pooling: mean in each bin of the region, each bin in its own channels."""
    p, x = c.params, as_image(c, c.x)
    wanted = p.output_dim * p.pooled_height * p.pooled_width
    c.require(
        x.type.dims[1] == wanted > 0,
        f"takes {wanted} channels (output_dim * pooled_height * pooled_width), "
        f"not {list(shape(c.x))}",
    )
    op = PositionSensitiveRoiPool(output_size=p.size, spatial_scale=p.spatial_scale)
    return c.add(op, x, _region(c))


def _region(c: Context[P]) -> Value:
    """The first four values of the second input, as (1, 4)."""
    roi = c.inputs[1]
    if not roi.type.is_static:  # proposals, whose number depends on data
        rows = c.add(Reshape((1, -1, 4)), roi)
        return c.add(Reshape((1, 4)), c.add(Slice((0,), (1,), (1,)), rows))
    count = roi.type.size
    c.require(count >= 4, f"the region should have four values, not {count}")
    flat = c.reshape(roi, (1, count))
    return flat if count == 4 else c.add(Slice((0,), (4,), (1,)), flat)


def _shares(p: RoiPoolingParams) -> tuple[float, float]:
    """Reciprocals of the numbers of bins (height, width) as in ncnn's PyPI build."""
    exact = [np.float32(1) / np.float32(n) for n in p.size]
    height, width = (
        float(np.nextafter(share, np.float32(0)) if n in _TOO_SMALL else share)
        for share, n in zip(exact, p.size, strict=True)
    )
    return height, width
