"""Ops of every family with tensors stored in 16 bits (precision "fp16", "bf16"), against NumPy."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest
from tests.helpers import (
    check_op,
    run_graph,
    shared_device,
    single_op_graph,
    skip_without_half,
)
from tests.ops.detection.test_yolo import detector, maps

from vknn.crosscheck.storage import UNITS, rounded
from vknn.graph import DType, Op
from vknn.lowering import LoweringOptions
from vknn.ops import elementwise as ew
from vknn.ops.attention import Attention
from vknn.ops.convolution.conv import Conv, ConvInteger
from vknn.ops.elementwise import Fused, FusedStep
from vknn.ops.matmul import MatMul, MatMulInteger
from vknn.ops.movement import shape as mv
from vknn.ops.normalization import LRN, BatchNormalization, LayerNormalization
from vknn.ops.pooling.pool import (
    AdaptiveAveragePool,
    AdaptiveMaxPool,
    AveragePool,
    GlobalAveragePool,
    GlobalMaxPool,
    MaxPool,
)
from vknn.ops.quantized.linear import DequantizeLinear, QuantizeLinear
from vknn.ops.reduction import Softmax
from vknn.ops.sampling.resize import Resize

RNG = np.random.default_rng(16)
Check = Callable[..., None]


@pytest.fixture(params=["fp16", "bf16"])
def precision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def check(precision: str) -> Check:
    return functools.partial(check_op, precision=precision)


@pytest.fixture
def winograd(precision: str) -> float:
    """Weights that are rounded after Winograd's transformation: eight roundings of the output."""
    return 4e-3 * UNITS[precision] / UNITS["fp16"]


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def conv(strides: int = 1, pads: int = 1, group: int = 1, axes: int = 2) -> Conv:
    return Conv((strides,) * axes, (pads,) * (2 * axes), (1,) * axes, group)


@pytest.mark.parametrize("shape", [(3,), (2, 7), (1, 5, 3, 7), (2, 8, 2, 2)])
@pytest.mark.parametrize(
    "op", [ew.Relu(), ew.Exp(), ew.Tanh(), ew.Clip(-0.5, 0.5), ew.HardSwish()], ids=str
)
def test_unary(check: Check, op: Op, shape: tuple[int, ...]) -> None:
    check(op, floats(*shape))


@pytest.mark.parametrize(
    "one, other",
    [
        ((1, 5, 3, 7), (1, 5, 3, 7)),
        ((2, 5, 3, 3), (1, 5, 1, 1)),
        ((2, 3, 7), (7,)),
        ((2, 3, 8), (2, 1, 8)),
        ((3, 1, 5), (1, 4, 1)),
        ((1, 6, 4, 4), ()),
    ],
)
def test_binary(check: Check, one: tuple[int, ...], other: tuple[int, ...]) -> None:
    x, w = floats(*one), floats(*other)
    check(ew.Sub(), x, w)
    check(ew.Mul(), x, w, constants=(1,), access=("image",))


def test_tails(check: Check) -> None:
    x, w = floats(1, 7, 3, 5), floats(1, 7, 3, 5)
    steps = (FusedStep(ew.Sigmoid(), None), FusedStep(ew.Mul(), 0), FusedStep(ew.Relu(), None))
    check(Fused(ew.Square(), steps), x, w)
    check(Fused(ew.Add(), (FusedStep(ew.Sub(), 0, reverse=True),)), x, w, floats(1, 7, 1, 1))


@pytest.mark.parametrize("target", ["float32", "float16", "int8", "int32", "bool"])
@pytest.mark.parametrize("source", ["float32", "float16", "int32", "bool"])
def test_cast(check: Check, source: str, target: str) -> None:
    x = (10 * floats(1, 5, 3, 3)).astype(source)
    check(ew.Cast(DType(target)), x)


def test_what_is_beyond_the_range_is_infinite(check: Check) -> None:
    x = np.array([[255.0, 256.0, -300.0, np.inf, np.nan, 1e-3, 0.0, -1.0]], np.float32)
    check(ew.Square(), x)
    check(ew.Neg(), np.array([7e4, -1e30, 65504.0, 65519.0, 1.0], np.float32))
    check(ew.Neg(), np.array([3.3895e38, 3.3962e38, -3.4028e38, 1e-40], np.float32))
    weight = np.array([1e9, 1.0, -1e9, 2.0], np.float32)
    check(ew.Add(), np.zeros(4, np.float32), weight, constants=(1,))


CONVOLUTIONS = {
    "pointwise": (conv(pads=0), (2, 5, 5, 3), (7, 5, 1, 1)),
    "3x3": (conv(), (1, 6, 9, 7), (9, 6, 3, 3)),
    "strided": (conv(strides=2), (1, 3, 9, 8), (8, 3, 3, 3)),
    "depthwise": (conv(group=7), (1, 7, 6, 5), (7, 1, 3, 3)),
    "groups of whole vec4s": (conv(group=2), (1, 8, 5, 5), (8, 4, 3, 3)),
    "uneven groups": (conv(group=3), (1, 9, 5, 4), (6, 3, 3, 3)),
    "one axis": (conv(axes=1), (1, 5, 11), (6, 5, 3)),
    "three axes": (conv(axes=3), (1, 3, 4, 5, 3), (5, 3, 2, 3, 3)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(check: Check, winograd: float, name: str) -> None:
    op, x, w = CONVOLUTIONS[name]
    arrays = floats(*x), floats(*w), floats(w[0])
    check(op, *arrays, constants=(1, 2), tolerance=winograd)
    check(op, *arrays, access=("image",))
    check(op, *arrays, constants=(1, 2), tolerance=winograd, kind="discrete", access=("storage",))


def test_convolution_with_a_tail(check: Check, winograd: float) -> None:
    steps = (FusedStep(ew.Sigmoid(), None), FusedStep(ew.Add(), 0))
    arrays = floats(1, 5, 7, 6), floats(6, 5, 3, 3), floats(6)
    for operand in (floats(1, 6, 7, 6), floats(1, 6, 1, 1)):
        check(Fused(conv(), steps), *arrays, operand, constants=(1, 2), tolerance=winograd)


def test_a_sum_that_takes_several_dispatches_stays_on_the_host(check: Check) -> None:
    """Its parts would be rounded on the way from one to the next."""
    x, w = floats(1, 9, 4, 5), floats(6, 3, 3, 3)
    check(conv(group=3), x, w, constants=(1,), host=True, max_loop_rounds=10)


def test_integers_stay_exact(check: Check) -> None:
    x = RNG.integers(-128, 128, (1, 5, 6, 7), np.int8)
    w = RNG.integers(-128, 128, (6, 5, 3, 3), np.int8)
    check(ConvInteger((1, 1), (1, 1, 1, 1), (1, 1)), x, w, constants=(1,))
    a, b = RNG.integers(-128, 128, (5, 70), np.int8), RNG.integers(-128, 128, (70, 3), np.int8)
    check(MatMulInteger(), a, b)
    check(mv.Transpose((1, 0)), a)
    check(ew.Add(), np.arange(70000, 70011, dtype=np.int32), np.ones(1, np.int32))


POOLINGS = [
    MaxPool((3, 3), (2, 2), (1, 1, 1, 1)),
    AveragePool((3, 2), (1, 2), (1, 0, 1, 1)),
    GlobalAveragePool(),
    GlobalMaxPool(),
    AdaptiveAveragePool((3, 2)),
    AdaptiveMaxPool((2, 5)),
]


@pytest.mark.parametrize("op", POOLINGS, ids=lambda op: op.type_name)
def test_pooling(check: Check, op: Op) -> None:
    check(op, floats(2, 7, 8, 9))
    check(op, floats(1, 4, 5, 6), kind="discrete", access=("storage",))


def test_pooling_of_large_windows(check: Check) -> None:
    x = floats(1, 3, 40, 40)
    check(AveragePool((40, 40), (1, 1), (0, 0, 0, 0)), x, max_loop_rounds=200)
    check(AdaptiveAveragePool((2, 2)), x, max_loop_rounds=100)


def test_long_sums_are_in_single_precision(check: Check) -> None:
    check(GlobalAveragePool(), 100 + floats(1, 5, 64, 64))
    check(MatMul(), 1 + floats(3, 3000), 1 + floats(3000, 5), constants=(1,))


@pytest.mark.parametrize(
    "a, b", [((1, 7), (7, 9)), ((5, 8), (8, 12)), ((2, 9, 12), (12, 20)), ((2, 3, 5, 6), (3, 6, 7))]
)
def test_matmul(check: Check, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, w, bias = floats(*a), floats(*b), floats(b[-1])
    check(MatMul(), x, w, bias, constants=(1, 2))
    check(MatMul(), x, w, bias, access=("image", "storage"))
    check(MatMul(transpose_b=True), x, np.ascontiguousarray(np.swapaxes(w, -1, -2)))
    steps = (FusedStep(ew.Relu(), None), FusedStep(ew.Add(), 0))
    y = MatMul().reference(x, w)[0]
    check(Fused(MatMul(), steps), x, w, bias, floats(*y.shape))
    check(MatMul(), x, w, constants=(1,), kind="discrete", access=("storage",))


@pytest.mark.parametrize("depth", [3, 8])
@pytest.mark.parametrize("masked", [False, True])
def test_attention(check: Check, depth: int, masked: bool) -> None:
    q, k, v = floats(2, 7, 2 * depth), floats(2, 9, 2 * depth), floats(2, 9, 2 * depth)
    check(Attention(2, depth**-0.5), q, k, v, floats(7, 9) if masked else None)


def test_attention_scores_beyond_the_range(check: Check) -> None:
    q, k = 100 * floats(1, 5, 8), 100 * floats(1, 9, 8)
    check(Attention(1, 1.0), q, k, floats(1, 9, 8))


def test_normalization(check: Check) -> None:
    x, channels = floats(2, 7, 4, 3), 7
    statistics = [floats(channels) for _ in range(3)] + [RNG.random(channels).astype(np.float32)]
    check(BatchNormalization(1e-5), x, *statistics, constants=(1, 2, 3, 4))
    check(LRN((1,), (2,), (2,), 1e-2, 0.75, 1.0), x)
    for length in (5, 8):
        rows = floats(3, 5, length)
        check(LayerNormalization(-1, 1e-5), rows, floats(length), floats(length))
        check(LayerNormalization(-1, 1e-5), rows, floats(length), None, constants=(1,))
    check(LayerNormalization(-2, 1e-5), 300 * floats(3, 5, 8))


@pytest.mark.parametrize(
    "shape, axis", [((3, 7), 1), ((2, 5, 3), 1), ((1, 7, 3, 5), 1), ((8, 4), 0)]
)
def test_softmax(check: Check, shape: tuple[int, ...], axis: int) -> None:
    check(Softmax(axis), 3 * floats(*shape))


MOVEMENTS = [
    mv.Transpose((0, 2, 3, 1)),
    mv.Slice((1,), (6,), (1,)),
    mv.Slice((4,), (7,), (1,)),
    mv.Slice((1,), (5,), (3,), (2,)),
    mv.Pad((0, 1, 1, 0, 0, 2, 0, 3), value=1.5),
    mv.Pad((0, 0, 1, 2, 0, 0, 2, 1), mode="reflect"),
    mv.Reshape((1, 210)),
    mv.Expand((3, 7, 5, 6)),
]


@pytest.mark.parametrize("op", MOVEMENTS, ids=str)
def test_movement(check: Check, op: Op) -> None:
    check(op, floats(1, 7, 5, 6))


def test_movement_of_channels(check: Check) -> None:
    check(mv.ChannelShuffle(2), floats(1, 12, 3, 3))
    check(mv.ChannelShuffle(3), floats(1, 9, 3, 3))
    check(mv.Pad((0, 1, 0, 0, 0, 1, 0, 0)), floats(1, 3, 2, 2), floats(5))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("parts", [(3, 5), (4, 8), (1, 2, 6)])
def test_concat(check: Check, axis: int, parts: tuple[int, ...]) -> None:
    shapes = [[1, 4, 3, 5] for _ in parts]
    for shape, part in zip(shapes, parts, strict=True):
        shape[axis] = part
    check(mv.Concat(axis), *(floats(*shape) for shape in shapes))
    check(mv.Concat(0), *(floats(part) for part in parts))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize(check: Check, mode: str) -> None:
    coordinates = "asymmetric" if mode == "nearest" else "half_pixel"
    op = Resize((9, 7), mode, coordinates, (5 / 9, 4 / 7))
    check(op, floats(1, 6, 5, 4))


def test_resize_of_a_long_axis(check: Check) -> None:
    """Tables of places stay float32: float16 has no odd numbers beyond 2048."""
    check(Resize((2500,), "nearest", "asymmetric", (1.2,)), floats(1, 3, 3000))


def test_quantization(check: Check) -> None:
    x, scale = 50 * floats(1, 5, 3, 2), RNG.uniform(1e-6, 2, 5).astype(np.float32)
    scale[0] = 3e-7  # float16 has two digits of it
    zero = RNG.integers(-20, 20, 5, dtype=np.int8)
    check(QuantizeLinear(axis=1), x, scale, zero, constants=(1, 2))
    q = RNG.integers(-10000, 10000, (1, 5, 3, 2), np.int32)
    check(DequantizeLinear(axis=1), q, scale / 100, floats(5), constants=(1, 2))
    check(DequantizeLinear(axis=1), q, scale / 100, constants=(1,))
    check(DequantizeLinear(axis=1), q, scale, host=True)


def test_detection(check: Check) -> None:
    arrays = [2 * m for m in maps(3, 3, (5, 7), (3, 4))]
    check(detector(3, 3, 2), *arrays, tolerance=1e-4)


def test_results_are_rounded_to_nearest(precision: str) -> None:
    skip_without_half()
    x = 1 + np.arange(64, dtype=np.float32) / 1024
    w = np.full(64, 1 + 1 / 1024, np.float32)
    graph = single_op_graph(ew.Mul(), [x, w])
    options = LoweringOptions(precision=precision)
    y = run_graph(graph, shared_device().limits, options, {"x0": x, "x1": w})["y0"]
    held = [rounded(a, precision) for a in (x, w)]
    np.testing.assert_array_equal(y, rounded(np.multiply(*held), precision))
