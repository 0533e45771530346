"""Convolution and its transpose."""

from __future__ import annotations

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.common.windows import WindowAttributes, window
from vknn.formats.onnx.registry import operator
from vknn.formats.windows import halves
from vknn.graph import Value
from vknn.ops.convolution.conv import Conv
from vknn.ops.convolution.conv_transpose import ConvTranspose


@operator("Conv", 1, 11, 22, inputs=(2, 3))
def conv(c: Context) -> Value:
    """Sums of windows times weights, plus a bias"""
    weights = c.value(1)
    c.require(weights.type.rank >= 3, f"has the weights {weights.type}")
    w = window(c, weights.type.dims[2:])
    op = Conv(w.strides, w.resolved(c.x.type.dims[2:]), w.dilations, c.int("group", 1))
    return c.add(op, c.x, weights, c.optional(2))


@operator("ConvTranspose", 1, 11, 22, inputs=(2, 3))
def conv_transpose(c: Context) -> Value:
    """Sums of elements times weights where their windows overlap, plus a bias"""
    weights = c.value(1)
    c.require(weights.type.rank >= 3, f"has the weights {weights.type}")
    w = window(c, weights.type.dims[2:])
    axes = len(w.kernel)
    extra = list(c.int_list("output_padding", (0,) * axes, axes))
    pads = list(w.pads)
    wanted = c.int_list("output_shape", None)
    if wanted is not None:
        c.require(len(wanted) in (axes, axes + 2), f"has the output_shape {list(wanted)}")
        wanted = wanted[-axes:]
    elif w.auto_pad.startswith("SAME"):
        sizes = zip(c.x.type.dims[2:], w.strides, strict=True)
        wanted = tuple(size * step for size, step in sizes)
    elif w.auto_pad == "VALID":
        pads = [0] * (2 * axes)
    if wanted is not None:
        pads, extra = _pads_for(c, w, wanted, extra)
    op = ConvTranspose(w.strides, tuple(pads), w.dilations, c.int("group", 1), tuple(extra))
    return c.add(op, c.x, weights, c.optional(2))


def _pads_for(
    c: Context, w: WindowAttributes, wanted: tuple[int, ...], extra: list[int]
) -> tuple[list[int], list[int]]:
    """Pads, and additions at the ends, that give an output of the sizes ``wanted``."""
    begins, ends, more = [], [], []
    sizes = c.x.type.dims[2:]
    for axis, size in enumerate(wanted):
        full = (sizes[axis] - 1) * w.strides[axis] + w.extents[axis] + extra[axis]
        total = full - size
        # Of an odd number the larger half is at the end with SAME_UPPER, else at the start.
        begin, end = halves(max(total, 0), w.auto_pad != "SAME_UPPER")
        begins.append(begin)
        ends.append(end)
        more.append(extra[axis] + max(-total, 0))
    return [*begins, *ends], more
