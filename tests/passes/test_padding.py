from __future__ import annotations

import numpy as np
import pytest

from vknn.graph import Graph, GraphBuilder, TensorType
from vknn.ops.convolution import Conv
from vknn.ops.movement import Pad
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
