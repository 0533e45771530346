"""Interp: resizing along h and w."""

from __future__ import annotations

import numpy as np

from vknn.formats.ncnn.axes import size_of_axis
from vknn.formats.ncnn.context import Context, rank, shape
from vknn.formats.ncnn.params import Params, param, require
from vknn.formats.ncnn.registry import layer
from vknn.formats.ncnn.shape_expression import evaluate
from vknn.graph import Value, attributes
from vknn.ops.movement.shape import Expand
from vknn.ops.sampling.resize import Resize

_MODES = {1: "nearest", 2: "linear", 3: "cubic"}
_CUBIC_A = -0.75


@attributes
class InterpParams(Params):
    """Parameters of Interp."""

    resize_type: int = param(0)
    height_scale: float = param(1, 1.0)
    width_scale: float = param(2, 1.0)
    output_height: int = param(3)
    output_width: int = param(4)
    dynamic_target_size: int = param(5)
    align_corner: int = param(6)
    size_expr: str = param(9, "")

    def check(self) -> None:
        require(self.resize_type in _MODES, f"unknown resize_type {self.resize_type}")
        require(
            self.height_scale > 0 and self.width_scale > 0,
            f"scales {self.height_scale}, {self.width_scale} must be positive",
        )
        sizes = (self.output_height, self.output_width)
        require(min(sizes) >= 0, f"output size {sizes} must not be negative")


@layer("Interp", params=InterpParams, inputs=(1, None))
def interp(c: Context[InterpParams]) -> Value:
    """Resizing: 3-D blobs along h and w, 2-D along w; values of 1-D blobs are repeated over h x w.

    ncnn differs: without an explicit size samples are 1 / scale apart, even where size * scale is
    not an integer; but bilinear resizing ignores an axis that keeps its size.
    """
    n = rank(c.x)
    c.require(n <= 3, f"takes up to three axes, not {list(shape(c.x))}")
    sizes, given = _target(c)
    # 2-D blobs have no height, whatever the parameters are.
    c.require(min(sizes[n == 2 :]) > 0, f"the output would be {list(sizes)} (height, width)")
    if n == 1:
        (channels,) = shape(c.x)
        x = c.reshape(c.x, (1, channels, 1, 1))
        wanted = (1, channels, *sizes)
        return x if x.type.dims == wanted else c.add(Expand(shape=wanted), x)
    own, target, fixed = shape(c.x)[1:], sizes[3 - n :], given[3 - n :]
    if target == own:
        return c.x
    scales = (c.params.height_scale, c.params.width_scale)[3 - n :]
    mode = _MODES[c.params.resize_type]
    steps = tuple(
        float(np.float32(a) / np.float32(b))
        if by_size or (mode == "linear" and a == b)
        else float(np.float32(1) / np.float32(scale))
        for a, b, by_size, scale in zip(own, target, fixed, scales, strict=True)
    )
    if mode == "nearest":
        coordinates = "asymmetric"
    else:
        coordinates = "align_corners" if c.params.align_corner else "half_pixel"
    op = Resize(sizes=target, mode=mode, coordinates=coordinates, steps=steps, cubic_a=_CUBIC_A)
    return c.add(op, c.x)


def _target(c: Context[InterpParams]) -> tuple[tuple[int, int], tuple[bool, bool]]:
    """Height and width of the output, and True for each that is given as a size, not as a scale."""
    p = c.params
    if p.size_expr:
        sizes = evaluate(p.size_expr, [shape(x) for x in c.inputs])
        c.require(1 <= len(sizes) <= 2, f"size_expr gives {len(sizes)} sizes")
        height = sizes[1] if len(sizes) == 2 else size_of_axis(shape(c.x), "h")
        return (height, sizes[0]), (True, True)
    if p.dynamic_target_size:
        c.require(len(c.inputs) == 2, "takes the target as second input")
        target = shape(c.inputs[1])
        return (size_of_axis(target, "h"), size_of_axis(target, "w")), (True, True)
    if p.output_height and p.output_width:
        return (p.output_height, p.output_width), (True, True)
    # A 1-D blob counts as an image of 1 x 1.
    own = (1, 1) if rank(c.x) == 1 else (size_of_axis(shape(c.x), "h"), shape(c.x)[-1])
    height, width = (
        int(np.float32(n) * np.float32(s))
        for n, s in zip(own, (p.height_scale, p.width_scale), strict=True)
    )
    return (height, width), (bool(p.output_height), bool(p.output_width))
