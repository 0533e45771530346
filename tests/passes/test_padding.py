from __future__ import annotations

import numpy as np
import pytest

from vknn.graph import DType, Graph, GraphBuilder, TensorType
from vknn.ops.convolution.conv import Conv
from vknn.ops.movement.shape import Pad, Transpose
from vknn.ops.quantized.convolution import QuantizedConv
from vknn.passes.padding import fold_padding


def padded_conv(pad: Pad) -> Graph:
    g = GraphBuilder()
    x = g.input("x", TensorType((1, 2, 5, 5)))
    y = g.add(pad, x)
    channels = y.type.dims[1]
    w = g.constant(np.random.default_rng(0).standard_normal((3, channels, 3, 3), np.float32))
    conv = Conv(strides=(2, 2), pads=(1, 0, 1, 1), dilations=(1, 1))
    return g.finish({"y": g.add(conv, y, w)})


def test_spatial_zeros_join_the_pads(becomes) -> None:  # type: ignore[no-untyped-def]
    becomes(
        padded_conv(Pad((0, 0, 1, 2, 0, 0, 3, 4))),
        fold_padding,
        "Conv: float32[1, 3, 5, 5] = "
        "Conv(strides=(2, 2), pads=(2, 2, 4, 5), dilations=(1, 1), group=1)"
        "(x, const float32[3, 2, 3, 3])\noutput y = Conv",
    )


@pytest.mark.parametrize(
    "pad",
    [
        Pad((0, 0, 1, 1, 0, 0, 1, 1), value=1.0),
        Pad((0, 0, 1, 1, 0, 0, 1, 1), mode="reflect"),
        Pad((0, 1, 1, 1, 0, 1, 1, 1)),
    ],
)
def test_other_padding_stays(stays, pad) -> None:  # type: ignore[no-untyped-def]
    stays(padded_conv(pad), fold_padding)


def test_padding_before_a_transpose_joins_the_pads(becomes) -> None:  # type: ignore[no-untyped-def]
    g = GraphBuilder()
    x = g.input("x", TensorType((1, 5, 4, 2)))
    turned = g.add(Transpose((0, 3, 1, 2)), g.add(Pad((0, 1, 2, 0, 0, 3, 4, 0)), x))
    w = g.constant(np.ones((3, 2, 3, 3), np.float32))
    conv = Conv(strides=(1, 2), pads=(0, 0, 0, 1), dilations=(1, 1))
    becomes(
        g.finish({"y": g.add(conv, turned, w)}),
        fold_padding,
        "Transpose.1: float32[1, 2, 5, 4] = Transpose(perm=(0, 3, 1, 2))(x)\n"
        "Conv: float32[1, 3, 7, 5] = "
        "Conv(strides=(1, 2), pads=(1, 2, 3, 5), dilations=(1, 1), group=1)"
        "(Transpose.1, const float32[3, 2, 3, 3])\noutput y = Conv",
    )


def test_padding_of_channels_or_read_twice_before_a_transpose_stays(stays) -> None:  # type: ignore[no-untyped-def]
    for pads, twice in (((0, 1, 1, 1) * 2, False), ((0, 1, 1, 0) * 2, True)):
        g = GraphBuilder()
        padded = g.add(Pad(pads), g.input("x", TensorType((1, 5, 4, 2))))
        turned = g.add(Transpose((0, 3, 1, 2)), padded)
        w = g.constant(np.ones((3, turned.type.dims[1], 3, 3), np.float32))
        conv = Conv(strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1))
        outputs = {"y": g.add(conv, turned, w)}
        stays(g.finish(outputs | ({"z": padded} if twice else {})), fold_padding)


@pytest.mark.parametrize("value", [-7, 0])
def test_quantized_padding_is_that_of_the_zero_point(same_results, value: int) -> None:  # type: ignore[no-untyped-def]
    g = GraphBuilder()
    x = g.input("x", TensorType((1, 2, 4, 4), DType.INT8))
    padded = g.add(Pad((0, 0, 1, 1, 0, 0, 1, 1), value=value), x)
    weights = np.ones((1, 2, 3, 3), np.int8), np.full(1, 1 << 30, np.int32), np.zeros(1, np.int32)
    w, q, shift = map(g.constant, weights)
    conv = QuantizedConv(strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), zero_in=-7)
    before = g.finish({"y": g.add(conv, padded, w, None, q, shift)})
    after = fold_padding(before)
    first = after.nodes[0].op.type_name
    assert first == ("QuantizedConv" if value == -7 else "Pad")
    same_results(before, after)
