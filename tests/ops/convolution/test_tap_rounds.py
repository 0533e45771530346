"""Convolutions in shared-memory tiles whose rounds begin with a tap.

First layers of one vec4 of channels have kernels that are padded to rows of taps; others have as
many channels as a round has k.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
from tests.helpers import check_op, shared_device, single_op_graph
from tests.lowering.limits import DISCRETE

from vknn.lowering import LoweringOptions, candidates
from vknn.lowering.choose.candidates import make_problem
from vknn.lowering.kernels.convolution import register_tiles
from vknn.lowering.kernels.convolution.shape import conv_shape
from vknn.lowering.kernels.convolution.tap_rows import LaidTaps, laid_taps
from vknn.lowering.kernels.matmul import shared_memory_tiles
from vknn.ops.convolution.conv import Conv

FEATURES = ("float_dot", "fp16_storage", "fp16_arithmetic")
WRITTEN_OUT = 2
#: Strides, pads and dilations; output channels, channels and kernel.
CASES = {
    "7x7": (((2, 2), (3, 3, 3, 3), (1, 1)), (13, 3, 7, 7)),
    "3x3": (((2, 1), (1, 1, 1, 1), (1, 1)), (11, 4, 3, 3)),
    "patches": (((8, 8), (0, 0, 0, 0), (1, 1)), (13, 3, 8, 8)),
    "short patches": (((2, 2), (0, 0, 0, 0), (1, 1)), (67, 1, 2, 2)),
    "long rows": (((1, 5), (0, 7, 1, 2), (1, 1)), (7, 3, 2, 31)),
    "columns": (((1, 1), (3, 0, 1, 0), (1, 1)), (7, 2, 5, 1)),
    "rows apart": (((1, 1), (2, 1, 3, 1), (2, 1)), (7, 3, 3, 4)),
    "columns apart": (((1, 1), (1, 2, 1, 2), (1, 2)), (7, 3, 3, 3)),
    "1-D": (((1,), (1, 1), (1,)), (7, 3, 3)),
    "a round a tap": (((1, 2), (1, 2, 1, 0), (2, 1)), (13, 16, 3, 2)),
    "24 vec4s a round": (((5, 5), (1, 1, 1, 1), (1, 1)), (37, 96, 3, 3)),
    "a long round a tap": (((2, 3), (1, 1, 2, 0), (1, 2)), (37, 64, 2, 3)),
}
check = functools.partial(check_op, kind="discrete", access=("storage",))


def case(name: str) -> tuple[Conv, np.ndarray, np.ndarray, np.ndarray]:
    parameters, w = CASES[name]
    sizes = (17, 37)[-len(w[2:]) :]
    rng = np.random.default_rng(len(name))
    x, weights, bias = (
        rng.standard_normal(dims).astype(np.float32) for dims in ((2, w[1], *sizes), w, w[:1])
    )
    return Conv(*parameters), x, weights, bias


def laid(name: str, depth: int, constants: tuple[int, ...] = (1, 2)) -> LaidTaps:
    op, *arrays = case(name)
    (node,) = single_op_graph(op, arrays, constants).nodes
    problem = make_problem(node, DISCRETE, LoweringOptions())
    return laid_taps(problem, conv_shape(problem), depth)


@pytest.fixture
def written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (register_tiles, shared_memory_tiles):
        monkeypatch.setattr(module, "FLOAT_DOTS", WRITTEN_OUT)


@pytest.mark.device
@pytest.mark.parametrize("name", CASES)
def test_tiles_of_lanes(name: str) -> None:
    op, *arrays = case(name)
    check(op, *arrays, constants=(1, 2), only="shared")
    check(op, *arrays[:2], constants=(1,), only="shared")
    check(op, *arrays, only="shared")


@pytest.mark.device
@pytest.mark.usefixtures("written_out")
@pytest.mark.parametrize("name", CASES)
def test_dot_products(name: str) -> None:
    op, *arrays = case(name)
    check(op, *arrays, constants=(1, 2), only="dot", precision="fp16", features=FEATURES)


@pytest.mark.device
@pytest.mark.parametrize("name", CASES)
def test_cooperative_matrices(name: str) -> None:
    op, *arrays = case(name)
    limits = dataclasses.replace(shared_device().limits, kind="discrete")
    (node,) = single_op_graph(op, arrays, (1, 2)).nodes
    names = [c.name for c in candidates(node, limits, LoweringOptions(precision="fp16"))]
    if not any(found.startswith("cooperative") for found in names):
        pytest.skip(f"{shared_device().name} has no cooperative matrices of float16")
    check(op, *arrays, constants=(1, 2), only="cooperative", precision="fp16")


@pytest.mark.device
@pytest.mark.parametrize("name", ["7x7", "3x3", "columns"])
def test_padding_of_rows_meets_no_number_that_is_not_finite(name: str) -> None:
    """Times a weight of 0 such a number would be NaN, where no tap of the kernel is."""
    op, x, *weights = case(name)
    x[:, 0, 9, 21] = np.inf
    (y,) = op.reference(x, *weights)
    assert 0 < np.isfinite(y).sum() < y.size
    check(op, x, *weights, constants=(1, 2), only="shared")


@pytest.mark.host
@pytest.mark.parametrize(
    ("name", "depth", "row", "kernel"),
    [
        ("7x7", 4, 8, (7, 8)),
        ("7x7", 8, 8, (7, 8)),
        ("7x7", 16, 8, (8, 8)),
        ("7x7", 32, 8, (8, 8)),
        ("3x3", 8, 4, (4, 4)),
        ("3x3", 32, 4, (8, 4)),
        ("patches", 16, 8, (8, 8)),
        ("long rows", 8, 32, (2, 32)),
        ("columns", 4, 1, (8, 1)),
        ("columns apart", 4, 0, (3, 3)),
        ("1-D", 4, 4, (1, 4)),
    ],
)
def test_kernels_are_padded(name: str, depth: int, row: int, kernel: tuple[int, int]) -> None:
    found = laid(name, depth)
    assert (found.row, found.shape.kernel[1:]) == (row, kernel)
    assert found.whole == (row > 0)


@pytest.mark.host
def test_weights_that_are_not_known_are_not_padded() -> None:
    assert laid("7x7", 4, constants=()).row == 0
