"""Convolutions of quantized integers: exact on every kernel, and their meaning."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from tests.helpers import GUARD_BYTES, check_op, run_graph, shared_device, single_op_graph
from tests.ops.quantized.convolutions import GEOMETRIES, conv, operands

from vknn.errors import ShapeError
from vknn.graph import DType, GraphBuilder, Op, TensorType
from vknn.lowering import Layout, LoweringOptions, candidates, lower
from vknn.lowering.kernels.quantized.requantize import as_bytes
from vknn.ops.elementwise import Cast
from vknn.ops.movement.shape import Concat
from vknn.ops.quantized import fixed_point as fp
from vknn.ops.quantized.convolution import (
    QuantizedConv,
    QuantizedConvTranspose,
    bias_words,
)
from vknn.ops.quantized.matmul import QuantizedGemm
from vknn.plan import DeviceLimits

Arrays = tuple[np.ndarray | None, ...]


@pytest.mark.parametrize("name", GEOMETRIES)
def test_convolution(name: str) -> None:
    settings, x_shape, w_shape = GEOMETRIES[name]
    x, w, bias, q, shift = operands(x_shape, w_shape, w_shape[0])
    op = conv(**settings, zero_in=-17, zero_out=5, low=-100, high=110)
    check_op(op, x, w, bias, q, shift, constants=(1, 2, 3, 4))


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("most", [1 << 9, (1 << 28) - 1, (1 << 29) - 1, 1 << 29, (1 << 31) - 1])
@pytest.mark.parametrize("lowest", [-20, -21])
def test_halves_and_bounds_of_multipliers(most: int, lowest: int, depthwise: bool) -> None:
    """The sums are the biases: halves of either sign, and the bounds of the shorter arithmetic."""
    rng = np.random.default_rng(most & 1023)
    shift = np.repeat(np.arange(lowest, 0, dtype=np.int32), 16)
    q = np.tile(np.array([1 << 30, 3 << 29, (1 << 31) - 1, 0], np.int32), shift.size // 4)
    q[8::16] = rng.integers(1 << 30, 1 << 31, q[8::16].size)
    halves = rng.integers(-300, 300, shift.size) << (-shift).astype(np.int64)
    bias = np.where(rng.random(shift.size) < 0.7, halves, rng.integers(-most, most, shift.size))
    bias = np.clip(bias, -most, most).astype(np.int32)
    bias[:2] = most, -most
    x = np.full((1, shift.size if depthwise else 1, 1, 1), 3, np.int8)
    w = np.zeros((shift.size, 1, 1, 1), np.int8)
    group = shift.size if depthwise else 1
    op = conv(group=group, zero_in=3, zero_out=-7, low=-32768, high=32767, dtype=DType.INT16)
    check_op(op, x, w, bias, q, shift, constants=(1, 2, 3, 4), access=("storage",))


@pytest.mark.parametrize("name", ["1x1", "groups", "odd groups", "depthwise"])
def test_kinds_of_numbers(name: str) -> None:
    settings, x_shape, w_shape = GEOMETRIES[name]
    x, w, bias, q, shift = operands(x_shape, w_shape, w_shape[0], "uint8", 1)
    wide = (w * np.int16(2)).astype(np.int16)
    op = conv(**settings, zero_in=131, zero_out=100, low=0, high=255, dtype=DType.UINT8)
    check_op(op, x, wide, None, q[:1], shift[:1], constants=(1, 3, 4), access=("storage",))
    check_op(op, x, w, bias, q, shift, constants=(3, 4), access=("storage",))
    x, w, bias, q, shift = operands(x_shape, w_shape, w_shape[0], "int16", 2, 1e-6)
    words = bias_words(bias.astype(np.int64) * 987654321)
    for given in (bias, words):
        op = conv(**settings, low=-32768, high=32767, dtype=DType.INT16, rounding="wide")
        check_op(op, x, w, given, q, shift, constants=(1, 2, 3, 4), access=("storage",))
    op = conv(**settings, low=-(1 << 31), high=(1 << 31) - 1, dtype=DType.INT32, rounding="none")
    check_op(op, x, w, None, q, shift, constants=(1, 3, 4), access=("storage",))


@pytest.mark.parametrize("group", [1, 64], ids=["dense", "depthwise"])
def test_sums_beyond_the_digits_of_a_float(group: int) -> None:
    """Sums become integers before float32 could not hold them exactly."""
    shape = (64, 64 // group, 5, 5)
    rng = np.random.default_rng(3)
    x = rng.integers(120, 128, (1, 64, 5, 7)).astype(np.int8)
    w = rng.integers(121, 128, shape).astype(np.int8)
    q, shift = fp.quantize_multiplier(np.full(64, 0.9 if group > 1 else 0.9 / 64))
    settings = {"zero_in": -128, "low": -(1 << 31), "high": (1 << 31) - 1, "dtype": DType.INT32}
    check_op(conv(group=group, **settings), x, w, None, q, shift, constants=(1, 3, 4))


@pytest.mark.parametrize("kind", ["cpu", "discrete"])
def test_wide_sums(kind: str) -> None:
    """int16 by int8: sums of 64 bits."""
    rng = np.random.default_rng(4)
    x = rng.integers(32700, 32768, (1, 61, 3, 5)).astype(np.int16)
    x[..., 0] = -32768
    w = rng.integers(120, 128, (5, 61, 3, 3)).astype(np.int8)
    q, shift = fp.quantize_multiplier(rng.uniform(1e-9, 1e-5, 5))
    op = conv(low=-32768, high=32767, dtype=DType.INT16, rounding="wide", pads=(1, 0, 0, 2))
    check_op(op, x, w, None, q, shift, constants=(1, 3, 4), access=("storage",), kind=kind)


@pytest.mark.parametrize("rounding", ["wide", "long"])
@pytest.mark.parametrize("exponent", [-31, -30, -20, -17, -16, -2, -1, 0, 1, 4], ids=str)
def test_every_shift(exponent: int, rounding: str) -> None:
    """The product of a sum of 64 bits, shifted by less and by more than a word."""
    x = np.array([-32768, -32767, -255, -3, -1, 0, 1, 2, 77, 32767], np.int16).reshape(1, 1, 1, -1)
    w = np.array([1, -1, 127, -128], np.int8).reshape(4, 1, 1, 1)
    bias = np.array([0, 1 << 40, -(1 << 38) - 12345, (1 << 31) - 1], np.int64)
    q = np.array([1 << 30, (1 << 31) - 1, 0x7FFF0000, 1518500250], np.int32)
    shift = np.full(4, exponent, np.int32)
    held = np.abs(bias) < 2.0 ** (30 - exponent)
    op = conv(low=-32768, high=32767, dtype=DType.INT16, rounding=rounding)
    words = bias_words(np.where(held, bias, 0))
    check_op(op, x, w, words, q, shift, constants=(1, 2, 3, 4), access=("storage",))
    narrow = conv(low=-32768, high=32767, dtype=DType.INT16)
    low = np.minimum(bias, 1 << 20).astype(np.int32) >> 8
    check_op(narrow, x, w, low, q, shift, constants=(1, 2, 3, 4), access=("storage",))


TRANSPOSED = {
    "stride 2": ({"strides": (2, 2), "pads": (0, 0, 1, 1)}, (1, 5, 4, 3), (5, 6, 3, 3)),
    "stride 1": ({"strides": (1, 1), "pads": (1, 1, 1, 1)}, (2, 3, 5, 4), (3, 4, 3, 3)),
    "longer": (
        {"strides": (3, 2), "pads": (0, 0, 0, 0), "output_padding": (2, 0)},
        (1, 4, 3, 3),
        (4, 5, 2, 3),
    ),
}


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed(name: str) -> None:
    settings, x_shape, w_shape = TRANSPOSED[name]
    x, w, bias, q, shift = operands(x_shape, w_shape, w_shape[1])
    op = QuantizedConvTranspose(**settings, dilations=(1, 1), zero_in=3, zero_out=-4)  # type: ignore[arg-type]
    check_op(op, x, w, bias, q, shift, constants=(1, 2, 3, 4))
    check_op(op, x, w, None, q, shift, constants=(3, 4), access=("storage",))
    x, w, bias, q, shift = operands(x_shape, w_shape, w_shape[1], "int16", 1, 1e-6)
    wide = {"low": -32768, "high": 32767, "dtype": DType.INT16, "rounding": "wide"}
    op = QuantizedConvTranspose(**settings, dilations=(1, 1), **wide)  # type: ignore[arg-type]
    check_op(op, x, w, bias, q, shift, constants=(1, 2, 3, 4), access=("storage",))


@pytest.mark.host
def test_meaning() -> None:
    """By a naive loop over int64, and rounding by hand."""
    x, w, bias, q, shift = operands((1, 2, 4, 5), (3, 2, 2, 3), 3)
    op = conv(strides=(2, 1), pads=(1, 0, 0, 1), zero_in=9, zero_out=-3, low=-90, high=91)
    (y,) = op.reference(x, w, bias, q, shift)
    padded = np.pad(x.astype(np.int64) - 9, [(0, 0), (0, 0), (1, 0), (0, 1)])
    for place in np.ndindex(*y.shape):
        _, m, i, j = place
        total = int((padded[0, :, 2 * i : 2 * i + 2, j : j + 3] * w[m]).sum()) + int(bias[m])
        exact = total * int(q[m]) / 2.0 ** (31 - int(shift[m])) - 3
        assert abs(int(y[place]) - np.clip(exact, -90, 91)) <= 0.5 + 1e-6


@pytest.mark.host
def test_transposed_meaning() -> None:
    """Each input adds its own copy of the kernel."""
    x, w, bias, q, shift = operands((1, 2, 3, 2), (2, 3, 2, 3), 3)
    op = QuantizedConvTranspose(
        (2, 1), (0, 0, 0, 0), (1, 1), zero_in=9, low=-(1 << 31), high=(1 << 31) - 1,
        dtype=DType.INT32, rounding="none",
    )  # fmt: skip
    (y,) = op.reference(x, w, bias, q, shift)
    expected = np.tile(bias.astype(np.int64).reshape(1, 3, 1, 1), (1, 1, 6, 4))
    for c, i, j in np.ndindex(2, 3, 2):
        copy = (int(x[0, c, i, j]) - 9) * w[c].astype(np.int64)
        expected[0, :, 2 * i : 2 * i + 2, j : j + 3] += copy
    np.testing.assert_array_equal(y, expected)


@pytest.mark.host
@pytest.mark.parametrize(
    ("op", "wrong"),
    [
        (conv(), {"x": "float32"}),
        (conv(), {"w": "int32"}),
        (conv(rounding="up"), {}),
        (conv(high=300), {}),
        (conv(), {"bias": (2, 4)}),
        (conv(), {"multiplier": (3,)}),
    ],
    ids=["data", "weights", "rounding", "range", "bias", "multiplier"],
)
def test_errors(op: Op, wrong: dict[str, object]) -> None:
    int32 = DType.INT32
    types = [
        TensorType((1, 2, 5, 5), DType(wrong.get("x", "int8"))),
        TensorType((4, 2, 3, 3), DType(wrong.get("w", "int8"))),
        TensorType(wrong.get("bias", (4,)), int32),  # type: ignore[arg-type]
        TensorType(wrong.get("multiplier", (4,)), int32),  # type: ignore[arg-type]
        TensorType((4,), int32),
    ]
    with pytest.raises(ShapeError, match="QuantizedConv"):
        op.infer(*types)


@pytest.mark.host
def test_weights_as_bytes() -> None:
    """Four weights of a column are the bytes of one integer."""
    rows = np.array([[1, -1], [2, -128], [127, 0], [-3, 5], [9, 9]], np.int32)
    joined = as_bytes(rows.ravel(), 2)
    np.testing.assert_array_equal(joined.view(np.int8).reshape(2, 4), rows[:4].T)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    "features",
    [
        pytest.param((), id="signed"),
        # Hundreds of kernels: those of GPUs, with each access.
        pytest.param(("integer_dot_mixed",), id="mixed", marks=pytest.mark.slow),
    ],
)
def test_dot_products_of_every_sign(dtype: str, features: tuple[str, ...]) -> None:
    """Data, weights and zero points at the ends of their ranges; rows that no vec4 fills."""
    check = functools.partial(check_op, features=features, kind="discrete" if features else None)
    info = np.iinfo(dtype)
    x = np.array([info.min, info.max, 0, 1], dtype).repeat(4).reshape(1, 2, 2, 4)
    x = np.concatenate([x, x[:, ::-1], x[:, :1]], axis=1)
    w = np.array([-128, 127, -1, 1, 0], np.int8).reshape(1, 5, 1, 1) * np.ones(
        (3, 1, 2, 2), np.int8
    )
    q, shift = fp.quantize_multiplier(np.full(3, 0.001))
    for zero in (info.min, info.max):
        op = conv(pads=(1, 1, 1, 1), zero_in=int(zero), dtype=DType.INT8)
        check(op, x, w, np.arange(3, dtype=np.int32), q, shift, constants=(1, 2, 3, 4))
    flat = np.ascontiguousarray(w[:, :, 0, 0])
    gemm = QuantizedGemm(zero_in=int(info.max), transpose_b=True)
    check(gemm, x[0, :, 0, :].T.copy(), flat, None, q, shift, constants=(1, 3, 4))


@pytest.mark.parametrize("features", [(), ("integer_dot_mixed",)], ids=["signed", "mixed"])
@pytest.mark.parametrize("zero", [0, 113, 255])
@pytest.mark.parametrize("name", ["3x3", "1x1", "groups"])
def test_dot_products_beyond_int8(name: str, zero: int, features: tuple[str, ...]) -> None:
    """Weights of uint8 less their zero point: bytes only less a number that all sums then lack."""
    settings, x_shape, w_shape = GEOMETRIES[name]
    x, _, bias, q, shift = operands(x_shape, w_shape, w_shape[0], "uint8", zero)
    w = np.random.default_rng(zero).integers(-zero, 256 - zero, w_shape).astype(np.int16)
    w.flat[0], w.flat[-1] = -zero, 255 - zero
    dots = ("integer_dot", "integer_dot_fast", *features)
    check = functools.partial(check_op, features=dots, kind="discrete", access=("storage",))
    op = conv(**settings, zero_in=131, zero_out=100, low=0, high=255, dtype=DType.UINT8)
    assert any("-dot" in n for n in _kernels(w, bias, _dotting(dots), x, q, shift, op=op))
    check(op, x, w, bias, q, shift, constants=(1, 2, 3, 4), tolerance=0)
    check(op, x, w, None, q, shift, constants=(1, 3, 4), tolerance=0)
    signed, wide = (x.astype(np.int16) - 128).astype(np.int8), (1 << 31) - 1
    ends = {"low": -wide - 1, "high": wide, "dtype": DType.INT32, "rounding": "none"}
    op = conv(**settings, zero_in=-77, **ends)
    check(op, signed, w, bias, q, shift, constants=(1, 2, 3, 4), tolerance=0)


@pytest.mark.parametrize("features", [(), ("integer_dot_mixed",)], ids=["signed", "mixed"])
@pytest.mark.parametrize("zero", [0, 255])
def test_products_beyond_int8(zero: int, features: tuple[str, ...]) -> None:
    """The same in matrix products, with rows that no word fills, and sums beyond 32 bits."""
    rng, dots = np.random.default_rng(zero), ("integer_dot", "integer_dot_fast", *features)
    check = functools.partial(check_op, features=dots, kind="discrete", access=("storage",))
    ends = {"low": -(1 << 31), "high": (1 << 31) - 1, "dtype": DType.INT32, "rounding": "none"}
    b = rng.integers(0, 256, (11, 67)).astype(np.uint8)
    b[0, 0], b[-1, -1] = 0, 255
    a = rng.integers(0, 256, (5, 67)).astype(np.uint8)
    q, shift = fp.quantize_multiplier(np.full(11, 0.001))
    op = QuantizedGemm(zero_in=3, zero_b=zero, transpose_b=True, **ends)
    graph = single_op_graph(op, (a, b, None, q, shift), (1, 3, 4))
    offered = candidates(graph.nodes[0], _dotting(dots), LoweringOptions())
    assert "dot" in [c.name for c in offered]
    check(op, a, b, None, q, shift, constants=(1, 3, 4), tolerance=0)
    k, edge = 33_107, np.int16(255 - 2 * zero)  # 33,026 products of 255 are beyond int32
    x, w = np.full((1, k, 1, 1), 255, np.uint8), np.full((5, k, 1, 1), edge)
    w[0, 0] = 0
    check(conv(**ends), x, w, None, q[:5], shift[:5], constants=(1, 3, 4), tolerance=0, only="tile")


def _dotting(features: tuple[str, ...]) -> DeviceLimits:
    return DeviceLimits(kind="discrete", features=frozenset(features))


@pytest.mark.host
def test_kernels_of_bytes() -> None:
    """Weights of 8 bits are packed as bytes where the device profits; wider ones are not."""
    x, w, bias, q, shift = operands((1, 8, 5, 5), (8, 8, 1, 1), 8)
    limits = DeviceLimits(features=frozenset(("integer_dot",)))
    names = _kernels(w, bias, limits, x, q, shift)
    assert {n.split("-")[1] for n in names if "-" in n} == {"bytes", "dot", "in", "to"}
    names = _kernels(w, bias, DeviceLimits(), x, q, shift)
    assert {n.split("-")[1] for n in names if "-" in n} == {"bytes", "in", "to"}
    names = _kernels(w * np.int16(2), bias, limits, x, q, shift)
    assert not any("-bytes" in n.replace("-in-bytes", "").replace("-to-bytes", "") for n in names)
    wide = np.where(np.arange(w.size).reshape(w.shape) % 2, np.int16(-1), np.int16(255))
    for kind, range_, offered in (
        ("discrete", np.minimum(wide, np.int16(254)), True),
        ("discrete", wide, False),  # from -1 to 255
        ("cpu", np.minimum(wide, np.int16(254)), False),
    ):
        one = DeviceLimits(kind=kind, features=limits.features)
        names = _kernels(range_, bias, one, x, q, shift)
        assert any("-dot" in n for n in names) is offered


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("name", ["3x3", "1x1", "groups", "depthwise"])
def test_tensors_of_bytes_between_convolutions(name: str, dtype: str) -> None:
    """Two layers in C4B, whose signs differ, beside a reader that takes no bytes."""
    settings, x_shape, w_shape = GEOMETRIES[name]
    x, w, bias, q, shift = operands(x_shape, w_shape, w_shape[0], dtype, 7)
    info, other = np.iinfo(dtype), DType.INT8 if dtype == "uint8" else DType.UINT8
    ends = {"low": int(info.min), "high": int(info.max), "dtype": DType(dtype)}
    first = conv(**settings, zero_in=int(info.max) - 120, zero_out=int(info.min) + 9, **ends)
    graph = GraphBuilder("two")
    feed = graph.input("x", TensorType.of(x))
    a = graph.add(first, feed, *(graph.constant(c) for c in (w, bias, q, shift)))
    _, w2, bias2, q2, shift2 = operands(a.type.dims, (9, w_shape[0], 1, 1), 9, dtype, 8)
    low, high = (-128, 127) if other is DType.INT8 else (0, 255)
    second = conv(zero_in=int(info.min) + 9, zero_out=low + 5, low=low, high=high, dtype=other)
    b = graph.add(second, a, *(graph.constant(c) for c in (w2, bias2, q2, shift2)))
    wide = graph.add(Cast(DType.INT32), a)
    net = graph.finish({"a": wide, "b": b})
    expected_a = first.reference(x, w, bias, q, shift)[0]
    expected_b = second.reference(expected_a, w2, bias2, q2, shift2)[0]
    limits, options = shared_device().limits, LoweringOptions(guard=GUARD_BYTES, layout=Layout.C4B)
    buffers = [buffer.name for buffer in lower(net, limits, options).buffers]
    assert f"{a.name}.c4b" in buffers and f"{a.name}.c4" not in buffers
    results = run_graph(net, limits, options, {"x": x})
    np.testing.assert_array_equal(results["a"], expected_a.astype(np.int32))
    np.testing.assert_array_equal(results["b"], expected_b)


def test_concatenated_bytes_between_convolutions() -> None:
    """Two layers write their parts of a result in C4B, which the next one reads."""
    graph = GraphBuilder("joined")
    x = operands((1, 5, 3, 4), (8, 5, 1, 1), 8, "int8", 1)[0]
    feed = graph.input("x", TensorType.of(x))
    made, expected = [], []
    for seed in (1, 2):
        _, *rest = operands((1, 5, 3, 4), (8, 5, 1, 1), 8, "int8", seed)
        op = conv(zero_in=3, zero_out=-4)
        made.append(graph.add(op, feed, *(graph.constant(c) for c in rest)))
        expected += op.reference(x, *rest)
    joined = graph.add(Concat(1), *made)
    _, *rest = operands((1, 16, 3, 4), (9, 16, 1, 1), 9, "int8", 3)
    last = graph.add(conv(zero_in=-4), joined, *(graph.constant(c) for c in rest))
    wide = graph.add(Cast(DType.INT32), joined)
    limits, options = shared_device().limits, LoweringOptions(guard=GUARD_BYTES, layout=Layout.C4B)
    net = graph.finish({"y": last, "joined": wide})
    assert f"{joined.name}.c4b" in [b.name for b in lower(net, limits, options).buffers]
    results = run_graph(net, limits, options, {"x": x})
    both = np.concatenate(expected, 1)
    np.testing.assert_array_equal(results["joined"], both.astype(np.int32))
    np.testing.assert_array_equal(results["y"], conv(zero_in=-4).reference(both, *rest)[0])


def _kernels(
    w: np.ndarray,
    bias: np.ndarray,
    limits: DeviceLimits,
    *rest: np.ndarray,
    op: QuantizedConv | None = None,
) -> list[str]:
    x, q, shift = rest
    graph = single_op_graph(op or conv(), (x, w, bias, q, shift), (1, 2, 3, 4))
    return [c.name for c in candidates(graph.nodes[0], limits, LoweringOptions())]
