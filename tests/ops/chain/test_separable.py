"""Depthwise separable convolutions in one dispatch, as on a GPU."""

from __future__ import annotations

import dataclasses

import pytest
from tests.helpers import shared_device
from tests.lowering.limits import DISCRETE
from tests.lowering.plan_texts import MATRICES
from tests.ops.chain.pairs import POINTWISE, RELU, RELU6, case, check, floats, offered

from vknn.lowering.kernels.chain import separable
from vknn.lowering.kernels.matmul import shared_memory_tiles
from vknn.ops.chain import Chain
from vknn.ops.convolution.conv import Conv

KIND = "separable"


@pytest.mark.device
def test_by_dot_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_memory_tiles, "FLOAT_DOTS", 2)  # written out in float32
    features = ("float_dot", "fp16_storage", "fp16_arithmetic")
    for name in ("wide", "row"):
        op, arrays = case(KIND, name, (RELU,))
        more = {"tolerance": 2e-3, "precision": "fp16", "features": features}
        check(KIND, op, *arrays, constants=(1, 2, 3, 4), **more)


@pytest.mark.device
@pytest.mark.parametrize(
    ("name", "most"), [("strided", 0), ("dilated", 0), ("row", 0), ("5x5", 25)]
)
def test_taps_by_rows_and_together(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(separable, "MANY_TAPS", most)
    op, arrays = case(KIND, name, (RELU,), (RELU6,))
    check(KIND, op, *arrays, constants=(1, 2, 3, 4))


@pytest.mark.device
@pytest.mark.parametrize("name", ["wide", "row"])
def test_by_cooperative_matrices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not {"cooperative_matrix", "fp16_arithmetic"} <= shared_device().limits.features:
        pytest.skip("the device has no cooperative matrices of float16")
    # A CPU driver's subgroups are small: their lanes take more of both.
    monkeypatch.setattr(separable, "MOST_VALUES", 8)
    monkeypatch.setattr(separable, "MOST_WEIGHTS", 64)
    op, arrays = case(KIND, name, (RELU,), (RELU6,))
    more = {"tolerance": 2e-3, "precision": "fp16", "only": "separable-cooperative"}
    check(KIND, op, *arrays, constants=(1, 2, 3, 4), **more)


@pytest.mark.host
def test_chains_that_it_is_offered() -> None:
    op, arrays = case(KIND, "wide")
    names = offered(op, arrays, DISCRETE)
    assert "separable-shared32x128x8" in names
    assert not offered(op, arrays, dataclasses.replace(DISCRETE, kind="cpu"))
    matrices = dataclasses.replace(MATRICES, kind="discrete")
    assert any("cooperative" in name for name in offered(op, arrays, matrices, precision="fp16"))
    grouped = Chain((Conv((1, 1), (1,) * 4, (1, 1), 2), POINTWISE), (2, 1))
    assert not offered(
        grouped, [floats(1, 8, 5, 5), floats(8, 4, 3, 3), floats(3, 8, 1, 1)], DISCRETE
    )
    larger = Chain((op.links[0], Conv((1, 1), (1,) * 4, (1, 1))), (2, 1))
    assert not offered(larger, [arrays[0], arrays[1], floats(3, 67, 3, 3)], DISCRETE)
