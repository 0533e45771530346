"""DeformableConv2D: 2-D convolution with an offset for each tap (Dai et al. 2017)."""

from __future__ import annotations

from vknn.formats.ncnn.context import Context, as_image, shape
from vknn.formats.ncnn.layers.common.activation import activate, check_activation
from vknn.formats.ncnn.layers.common.windows import (
    ConvWindow2D,
    WeightedWindow,
    check_channels,
    float_weight,
)
from vknn.formats.ncnn.params import require
from vknn.formats.ncnn.registry import layer
from vknn.formats.windows import flat_pads
from vknn.graph import Value, attributes
from vknn.ops.convolution.deform_conv import DeformConv


@attributes
class DeformableConv2DParams(ConvWindow2D, WeightedWindow):
    """Parameters of DeformableConv2D."""

    def check(self) -> None:
        self.check_window()
        check_activation(self.activation_type, self.activation_params)
        flat = flat_pads(self.pads)
        require(min(flat) >= 0, f"negative padding {list(flat)}: this layer knows no SAME padding")


@layer(
    "DeformableConv2D",
    params=DeformableConv2DParams,
    weights=DeformableConv2DParams.weight_specs,
    inputs=(2, 3),
)
def deformable_conv_2d(c: Context[DeformableConv2DParams]) -> Value:
    """Inputs: image, offsets (h, then w) of each tap, and optionally a factor for each tap."""
    p = c.params
    x, *others = (as_image(c, value) for value in c.inputs)
    check_channels(c, x, p.weight_shape[1])
    sizes = zip(shape(x)[1:], p.pads, p.extents, p.strides, strict=True)
    out = [(n + sum(pair) - extent) // s + 1 for n, pair, extent, s in sizes]
    taps = p.kernel_h * p.kernel_w
    for what, value, channels in zip(("offsets", "mask"), others, (2 * taps, taps), strict=False):
        found, wanted = list(shape(value)), [channels, *out]
        c.require(found == wanted, f"its {what} have the shape {found}, not {wanted}")
    offset, mask = (*others, None)[:2]
    weight, bias = c.constant(float_weight(c), "weight"), c.weight_value("bias")
    (top, bottom), (left, right) = p.pads
    op = DeformConv(
        strides=(p.stride_h, p.stride_w),
        pads=(top, left, bottom, right),
        dilations=(p.dilation_h, p.dilation_w),
    )
    y = c.add(op, x, weight, offset, bias, mask)
    return activate(c, y, p.activation_type, p.activation_params)
