"""Unfold (im2col) and Fold (col2im): windows of an image as the columns of a matrix, and back."""

from __future__ import annotations

from vknn.formats.ncnn.context import Context, as_image, rank, shape
from vknn.formats.ncnn.layers.common.padding import applicable_pads, check_pads, window_pads
from vknn.formats.ncnn.layers.common.windows import ConvWindow2D, check_extents, padded_sizes
from vknn.formats.ncnn.params import param, require
from vknn.formats.ncnn.registry import layer
from vknn.formats.windows import flat_pads
from vknn.graph import Value, attributes
from vknn.ops.convolution.im2col import Col2Im, Im2Col


@attributes
class ColumnParams(ConvWindow2D):
    """Parameters that Unfold and Fold share."""

    def check(self) -> None:
        require(min(self.kernel) > 0, f"kernel {self.kernel} must be positive")
        require(min(self.strides) > 0, f"stride {self.strides} must be positive")
        require(min(self.dilations) > 0, f"dilation {self.dilations} must be positive")


@attributes
class UnfoldParams(ColumnParams):
    """Parameters of Unfold."""

    pad_value: float = param(18, 0.0)

    def check(self) -> None:
        super().check()
        check_pads(flat_pads(self.pads))


@attributes
class FoldParams(ColumnParams):
    """Parameters of Fold."""

    output_w: int = param(20)
    output_h: int = param(21, like="output_w")

    def check(self) -> None:
        super().check()
        require(min(flat_pads(self.pads)) >= 0, f"negative padding {self.pads}")
        sizes = (self.output_h, self.output_w)
        require(min(sizes) > 0, f"output_h and output_w {sizes} must be positive")


@layer("Unfold", params=UnfoldParams)
def unfold(c: Context[UnfoldParams]) -> Value:
    """Windows of an image (c, h, w) as columns (c * kernel, windows).

    ncnn differs: SAME padding of one axis where the other would get a negative one writes outside
    of its memory; here the latter is not padded.
    """
    p, x = c.params, as_image(c, c.x)
    pads = applicable_pads(c, window_pads(p.pads, shape(x)[1:], p.extents, p.strides))
    check_extents(c, padded_sizes(shape(x)[1:], pads), p.extents)
    top, left, bottom, right = flat_pads(pads)
    op = Im2Col(
        kernel=(p.kernel_h, p.kernel_w),
        strides=(p.stride_h, p.stride_w),
        pads=(top, left, bottom, right),
        dilations=(p.dilation_h, p.dilation_w),
        value=p.pad_value,
    )
    return c.add(op, x)


@layer("Fold", params=FoldParams)
def fold(c: Context[FoldParams]) -> Value:
    """Columns (c * kernel, windows) summed to an image (c, output_h, output_w)."""
    p = c.params
    c.require(rank(c.x) == 2, f"takes two axes, not {list(shape(c.x))}")
    top, left, bottom, right = flat_pads(p.pads)
    op = Col2Im(
        kernel=(p.kernel_h, p.kernel_w),
        strides=(p.stride_h, p.stride_w),
        pads=(top, left, bottom, right),
        dilations=(p.dilation_h, p.dilation_w),
        image=(p.output_h, p.output_w),
    )
    return c.add(op, c.x)
