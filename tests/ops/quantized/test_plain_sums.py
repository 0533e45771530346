"""ConvInteger and MatMulInteger by kernels of quantized integers, as on GPUs with dot products."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from tests.helpers import check_op

from vknn.graph import DType, GraphBuilder, TensorType
from vknn.lowering import LoweringOptions, candidates
from vknn.ops.convolution.conv import ConvInteger
from vknn.ops.matmul import MatMulInteger, QuantizedMatMul
from vknn.plan import DeviceLimits

RNG = np.random.default_rng(11)
FAST = ("integer_dot", "integer_dot_fast")
FEATURES = [FAST, (*FAST, "integer_dot_mixed")]
signs = pytest.mark.parametrize("features", FEATURES, ids=["signed", "mixed"])


def integers(*shape: int) -> np.ndarray:
    """Random int8 with both ends of the range in them."""
    data = RNG.integers(-128, 128, shape).astype(np.int8)
    data.flat[0], data.flat[-1] = -128, 127
    return data


GEOMETRIES = {
    "3x3": ((1, 13, 9, 11), (21, 13, 3, 3), {"pads": (1, 1, 1, 1)}),
    "uneven": ((2, 5, 7, 8), (3, 5, 2, 3), {"strides": (2, 1), "pads": (0, 2, 1, 0)}),
    "dilated": ((1, 7, 11, 9), (5, 7, 3, 3), {"dilations": (2, 3), "pads": (2, 3, 2, 3)}),
    "1x1": ((1, 17, 5, 7), (11, 17, 1, 1), {}),
    "groups": ((1, 6, 7, 5), (10, 3, 3, 3), {"group": 2, "pads": (1, 1, 1, 1)}),
    "whole groups": ((1, 8, 7, 5), (16, 4, 3, 3), {"group": 2, "pads": (1, 1, 1, 1)}),
    "depthwise": ((1, 13, 9, 7), (13, 1, 3, 3), {"group": 13, "pads": (1, 1, 1, 1)}),
    "1d": ((1, 5, 31), (7, 5, 4), {"strides": (3,), "pads": (2, 1), "dilations": (1,)}),
}


def conv(w: np.ndarray, **settings: object) -> ConvInteger:
    axes = w.ndim - 2
    plain = {"strides": (1,) * axes, "pads": (0,) * 2 * axes, "dilations": (1,) * axes}
    return ConvInteger(**{**plain, **settings})


@signs
@pytest.mark.parametrize("name", GEOMETRIES)
def test_convolutions(name: str, features: tuple[str, ...]) -> None:
    x_shape, w_shape, settings = GEOMETRIES[name]
    w = integers(*w_shape)
    check = functools.partial(check_op, kind="discrete", features=features, tolerance=0)
    check(conv(w, **settings), integers(*x_shape), w, constants=(1,))


@signs
@pytest.mark.parametrize("value", [-128, 127])
@pytest.mark.parametrize("weight", [-128, 127])
def test_ends_of_the_range(value: int, weight: int, features: tuple[str, ...]) -> None:
    """Sums of one sign, of so many products that float32 would not hold them."""
    x, w = np.full((1, 1031, 1, 3), value, np.int8), np.full((5, 1031, 1, 1), weight, np.int8)
    check = functools.partial(check_op, kind="discrete", features=features, tolerance=0)
    check(conv(w), x, w, constants=(1,), access=("storage",))
    flat = w[:, :, 0, 0].copy()
    x = x[0, :, 0].T.copy()
    check(MatMulInteger(transpose_b=True), x, flat, constants=(1,), access=("storage",))


@signs
@pytest.mark.parametrize("transposed", [False, True], ids=["b", "transposed"])
@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (1, 37, 67), (5, 3, 7), (19, 41, 66), (70, 5, 8)])
def test_products(m: int, n: int, k: int, transposed: bool, features: tuple[str, ...]) -> None:
    b = integers(n, k) if transposed else integers(k, n)
    check = functools.partial(check_op, kind="discrete", features=features, tolerance=0)
    check(MatMulInteger(transpose_b=transposed), integers(m, k), b, constants=(1,))
    check(MatMulInteger(transpose_b=transposed), integers(2, 3, m, k), b, constants=(1,))


@signs
@pytest.mark.parametrize("transposed", [False, True], ids=["b", "transposed"])
@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (1, 37, 67), (5, 3, 7), (19, 41, 66), (70, 5, 8)])
def test_products_of_two_inputs(
    m: int, n: int, k: int, transposed: bool, features: tuple[str, ...]
) -> None:
    """Bytes are joined as they are read; the last of k, less than four, are not."""
    check = functools.partial(check_op, kind="discrete", features=features, tolerance=0)
    b = integers(3, n, k) if transposed else integers(3, k, n)
    check(MatMulInteger(transpose_b=transposed), integers(2, 1, m, k), b)
    ends = [np.full(b.shape, v, np.int8) for v in (-128, 127)]
    for left, right in itertools.product((-128, 127), ends):
        a = np.full((m, k), left, np.int8)
        check(MatMulInteger(transpose_b=transposed), a, right, access=("storage",))


@signs
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("flips", list(itertools.product((False, True), repeat=2)), ids=str)
def test_products_with_scales(
    flips: tuple[bool, bool], precision: str, features: tuple[str, ...]
) -> None:
    check = functools.partial(
        check_op, kind="discrete", features=features, precision=precision, access=("storage",)
    )
    op, (m, n, k) = QuantizedMatMul(*flips), (5, 7, 11)
    a = RNG.standard_normal((2, k, m) if flips[0] else (2, m, k)).astype(np.float32)
    b = integers(n, k) if flips[1] else integers(k, n)
    check(op, a, b.astype(np.float32))
    for scale in (np.abs(RNG.standard_normal(n)) + 1, np.ones(1)):
        check(op, a, b, None, scale.astype(np.float32), constants=(1, 3))
    scales = np.ones(m, np.float32), np.full(n, 3, np.float32)
    check(op, integers(*a.shape[1:]), b, *scales, constants=(1, 2, 3))
    check(op, integers(*a.shape[1:]), b, *scales, constants=(2, 3))


@pytest.mark.host
def test_only_where_dots_are_fast() -> None:
    """Other devices, CPUs and factors that are no constants keep the kernels of plain integers."""
    fast = DeviceLimits(kind="discrete", features=frozenset(FAST))
    slow = DeviceLimits(kind="discrete", features=frozenset(("integer_dot",)))
    names = {kind: _names(limits, True) for kind, limits in (("fast", fast), ("slow", slow))}
    assert any("dot" in name for name in names["fast"])
    assert not any("dot" in name for name in names["slow"])
    assert _names(DeviceLimits(kind="cpu", features=fast.features), True) == _names(
        DeviceLimits(kind="cpu"), True
    )
    assert _names(fast, False) == _names(slow, False)


def _names(limits: DeviceLimits, constant: bool) -> list[str]:
    graph, w = GraphBuilder("one"), np.ones((8, 8, 1, 1), np.int8)
    x = graph.input("x", TensorType((1, 8, 5, 5), DType.INT8))
    weight = graph.constant(w) if constant else graph.input("w", TensorType.of(w))
    y = graph.add(conv(w), x, weight)
    node = graph.finish({"y": y}).nodes[0]
    return [c.name for c in candidates(node, limits, LoweringOptions())]
