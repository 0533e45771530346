"""Convolutions of one tap and depthwise ones behind them in one dispatch, as on a GPU."""

from __future__ import annotations

import dataclasses

import pytest
from tests.lowering.limits import DISCRETE
from tests.ops.chain.pairs import (
    POINTWISE,
    RELU,
    RELU6,
    case,
    check,
    check_sums_in_float16,
    floats,
    offered,
)

from vknn.lowering.kernels.chain import expanded
from vknn.ops.chain import Chain
from vknn.ops.convolution.conv import Conv

KIND = "expanded"


@pytest.mark.device
def test_sums_in_float16() -> None:
    op, arrays = case(KIND, "3x3", (RELU,), (RELU6,))
    check_sums_in_float16(op, arrays, "expanded-tile2x2x64")


@pytest.mark.device
def test_by_dot_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expanded, "FLOAT_DOTS", 2)  # written out in float32
    features = ("float_dot", "fp16_storage", "fp16_arithmetic")
    for name in ("3x3", "row"):
        op, arrays = case(KIND, name, (RELU,))
        more = {"tolerance": 2e-3, "precision": "fp16", "features": features}
        check(KIND, op, *arrays, constants=(1, 2, 3, 4), **more)


@pytest.mark.host
def test_chains_that_it_is_offered() -> None:
    op, arrays = case(KIND, "wide")
    names = offered(op, arrays, DISCRETE)
    assert "expanded-tile2x2x64" in names
    assert not offered(op, arrays, dataclasses.replace(DISCRETE, kind="cpu"))
    strided = Chain((Conv((2, 2), (0,) * 4, (1, 1)), op.links[1]), (2, 1))
    assert not offered(strided, [arrays[0], arrays[1], arrays[3]], DISCRETE)
    grouped = Chain((POINTWISE, Conv((1, 1), (1,) * 4, (1, 1), 2)), (2, 1))
    few = [floats(1, 8, 5, 5), floats(8, 8, 1, 1), floats(8, 4, 3, 3)]
    assert not offered(grouped, few, DISCRETE)
