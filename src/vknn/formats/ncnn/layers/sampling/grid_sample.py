"""GridSample: an image sampled at given coordinates."""

from __future__ import annotations

from vknn.formats.ncnn.context import Context, rank, shape
from vknn.formats.ncnn.params import Params, param, require
from vknn.formats.ncnn.registry import layer
from vknn.graph import Value, attributes
from vknn.ops.sampling.grid_sample import GridSample

_MODES = {1: "linear", 2: "nearest", 3: "cubic"}
_PADDINGS = {1: "zeros", 2: "border", 3: "reflection"}


@attributes
class GridSampleParams(Params):
    """Parameters of GridSample."""

    sample_type: int = param(0, 1)
    padding_mode: int = param(1, 1)
    align_corner: int = param(2)
    permute_fusion: int = param(3)

    def check(self) -> None:
        require(self.sample_type in _MODES, f"unknown sample_type {self.sample_type}")
        require(self.padding_mode in _PADDINGS, f"unknown padding_mode {self.padding_mode}")


@layer("GridSample", params=GridSampleParams, inputs=2)
def grid_sample(c: Context[GridSampleParams]) -> Value:
    """Samples of (c, h, w) or (c, d, h, w) at the coordinates in the second input.

    ncnn differs: sample_type 1 is bilinear and 2 nearest.
    ncnn differs: coordinates are reflected once at either end. With align_corner those that are
    then still outside give 0 where eight are computed at a time and the edge otherwise; here 0.
    """
    p, grid, axes = c.params, c.inputs[1], rank(c.x) - 1
    c.require(axes in (2, 3), f"takes three or four axes, not {list(shape(c.x))}")
    c.require(axes == 2 or p.sample_type != 3, "sample_type 3 (bicubic) takes three axes, not four")
    coordinates = shape(grid)[0 if p.permute_fusion else -1]
    c.require(
        rank(grid) == axes + 1 and coordinates == axes,
        f"the grid should be {_wanted(axes, bool(p.permute_fusion))}, not {list(shape(grid))}",
    )
    op = GridSample(
        mode=_MODES[p.sample_type],
        padding=_PADDINGS[p.padding_mode],
        align_corners=bool(p.align_corner),
        grid_first=bool(p.permute_fusion),
    )
    return c.add(op, c.x, grid)


def _wanted(axes: int, first: bool) -> str:
    sizes = ", ".join(("depth", "height", "width")[-axes:])
    return f"({axes}, {sizes})" if first else f"({sizes}, {axes})"
