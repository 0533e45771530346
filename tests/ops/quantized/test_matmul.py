"""Matrix products of quantized integers: exact on every kernel, and their meaning."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.helpers import check_op, shared_device, single_op_graph

from vknn.errors import ShapeError
from vknn.graph import DType, TensorType
from vknn.lowering import LoweringOptions, candidates
from vknn.ops.quantized import fixed_point as fp
from vknn.ops.quantized.convolution import bias_words
from vknn.ops.quantized.matmul import QuantizedGemm


def integers(shape: tuple[int, ...], dtype: str = "int8", seed: int = 0) -> np.ndarray:
    info = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def factors(count: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    return fp.quantize_multiplier(scale * np.random.default_rng(9).uniform(0.5, 8.0, count))


WHOLE = {"low": -(1 << 31), "high": (1 << 31) - 1, "dtype": DType.INT32}
WIDE = {"low": -32768, "high": 32767, "dtype": DType.INT16, "rounding": "wide"}

SHAPES = {
    "row": ((1, 37), (11, 37)),
    "rows": ((5, 13), (7, 13)),
    "vec4s": ((3, 16), (8, 16)),
    "axes": ((2, 3, 5), (6, 5)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_with_constant_weights(name: str) -> None:
    a_shape, b_shape = SHAPES[name]
    a, b = integers(a_shape), integers(b_shape, seed=1)
    bias = np.arange(b_shape[0], dtype=np.int32) * 300 - 999
    q, shift = factors(b_shape[0], 3e-4)
    op = QuantizedGemm(zero_in=-7, zero_out=3, low=-120, high=99, transpose_b=True)
    check_op(op, a, b, bias, q, shift, constants=(1, 2, 3, 4))
    check_op(op, a, b, bias, q, shift, constants=(3, 4), access=("storage",))
    turned = QuantizedGemm(zero_in=-7, zero_b=5, low=-120)
    check_op(
        turned, a, np.ascontiguousarray(b.T), None, q[:1], shift[:1],
        constants=(1, 3, 4), access=("storage",),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("a_shape", "b_shape", "flags"),
    [
        ((2, 3, 5), (2, 5, 4), (False, False)),
        ((2, 5, 3), (1, 7, 5), (True, True)),
        ((2, 1, 3, 5), (3, 5, 2), (False, False)),
        ((3, 5, 2), (4, 5), (True, True)),
    ],
    ids=str,
)
def test_batches(
    a_shape: tuple[int, ...], b_shape: tuple[int, ...], flags: tuple[bool, bool]
) -> None:
    q, shift = factors(1, 1e-3)
    a, b = integers(a_shape), integers(b_shape, seed=1)
    op = QuantizedGemm(
        zero_in=11, zero_b=-9, zero_out=1, transpose_a=flags[0], transpose_b=flags[1]
    )
    check_op(op, a, b, None, q, shift, constants=(3, 4), access=("storage",))
    a, b = integers(a_shape, "int16"), integers(b_shape, "int16", 1)
    op = QuantizedGemm(**WIDE, transpose_a=flags[0], transpose_b=flags[1])  # type: ignore[arg-type]
    check_op(op, a, b, None, *factors(1, 1e-6), constants=(3, 4), access=("storage",))
    sums = QuantizedGemm(
        **WHOLE, zero_in=3, zero_b=1, rounding="none", transpose_a=flags[0], transpose_b=flags[1]
    )  # type: ignore[arg-type]
    a, b = integers(a_shape), integers(b_shape, seed=1)
    check_op(sums, a, b, None, q, shift, constants=(1, 3, 4), access=("storage",))


@pytest.mark.parametrize("dtype", ["uint8", "int16"])
def test_numbers(dtype: str) -> None:
    """uint8 by uint8 to int16; int16 by int8 with a bias of 64 bits; sums beyond float32's."""
    a, b = integers((3, 301), dtype), integers((5, 301), "uint8" if dtype == "uint8" else "int8", 1)
    a[0], b[0] = np.iinfo(a.dtype).max, np.iinfo(b.dtype).max
    if dtype == "uint8":
        op = QuantizedGemm(**{**WHOLE, "zero_in": 1, "zero_b": 2}, transpose_b=True)  # type: ignore[arg-type]
        check_op(op, a, b, None, *factors(5, 0.1), constants=(1, 3, 4))
        return
    bias = bias_words(np.arange(-2, 3) * (1 << 36))
    op = QuantizedGemm(**WIDE, transpose_b=True)  # type: ignore[arg-type]
    check_op(op, a, b, bias, *factors(5, 1e-7), constants=(1, 2, 3, 4), access=("storage",))


@pytest.mark.host
def test_meaning() -> None:
    a, b = integers((3, 5)), integers((4, 5), "uint8", 1)
    q, shift = factors(4, 1e-3)
    bias = np.array([5, -5, 1000, 0], np.int32)
    op = QuantizedGemm(zero_in=2, zero_b=130, zero_out=-1, low=-100, high=100, transpose_b=True)
    (y,) = op.reference(a, b, bias, q, shift)
    for m, n in np.ndindex(3, 4):
        total = sum((int(a[m, k]) - 2) * (int(b[n, k]) - 130) for k in range(5)) + int(bias[n])
        exact = total * int(q[n]) / 2.0 ** (31 - int(shift[n])) - 1
        assert abs(int(y[m, n]) - np.clip(exact, -100, 100)) <= 0.5 + 1e-6


@pytest.mark.host
def test_errors() -> None:
    types = [TensorType(s, DType.INT8) for s in ((2, 3), (4, 5))]
    vector = TensorType((5,), DType.INT32)
    with pytest.raises(ShapeError, match="QuantizedGemm"):
        QuantizedGemm().infer(*types, None, vector, vector)
    with pytest.raises(ShapeError, match="5 inputs"):
        QuantizedGemm().infer(*types)


@pytest.mark.parametrize("shift", [5, 13, 14, 15, 30])
@pytest.mark.parametrize("rounding", ["wide", "single", "double"])
def test_multipliers_of_tiny_scales(rounding: str, shift: int) -> None:
    """What 32 bits do not hold wraps around; shifts beyond the most count as that."""
    a, b = integers((3, 37), "int16" if rounding == "wide" else "int8"), integers((11, 37), seed=1)
    wide = {**WIDE, "rounding": rounding} if rounding == "wide" else {"rounding": rounding}
    op = QuantizedGemm(**wide, zero_out=0 if rounding == "wide" else 5, transpose_b=True)  # type: ignore[arg-type]
    q, s = np.array([(1 << 31) - 1], np.int32), np.array([shift], np.int32)
    check_op(op, a, b, None, q, s, constants=(1, 3, 4), access=("storage",))


@pytest.mark.parametrize("kind", [None, "discrete"])
@pytest.mark.parametrize(("low", "high", "bits"), [(-8, 7, 4), (-2, 1, 2)])
@pytest.mark.parametrize("name", ["row", "rows"])
def test_weights_of_few_bits(name: str, low: int, high: int, bits: int, kind: str | None) -> None:
    """Weights within 4 or 2 bits are packed as such; none of their kernels widens them."""
    a_shape, b_shape = SHAPES[name]
    b = np.random.default_rng(3).integers(low, high + 1, b_shape).astype(np.int8)
    b[:2, :2], b[-1] = [[low, high], [high, low]], 0
    bias = np.arange(b_shape[0], dtype=np.int32) * 30 - 99
    q, shift = factors(b_shape[0], 3e-3)
    for data, zero, given in (
        ("int8", -7, {"rounding": "single"}),
        ("uint8", 131, {"low": 0, "high": 255, "dtype": DType.UINT8}),
        ("int16", 0, {"low": -32768, "high": 32767, "dtype": DType.INT16, "rounding": "single"}),
    ):
        a = integers(a_shape, data)
        op = QuantizedGemm(zero_in=zero, zero_out=3, transpose_b=True, **given)
        graph = single_op_graph(op, (a, b, bias, q, shift), (1, 2, 3, 4))
        limits = dataclasses.replace(shared_device().limits, kind=kind or "cpu")
        names = {c.name for c in candidates(graph.nodes[0], limits, LoweringOptions())}
        assert f"{'packed' if data == 'int16' else 'bytes'}{bits}" in names
        assert all(n == "plain" or n.endswith(str(bits)) for n in names)
        dots = ("integer_dot", "integer_dot_fast") if data != "int16" else ()
        check_op(
            op, a, b, bias, q, shift, constants=(1, 2, 3, 4), kind=kind, features=dots,
            only=("packed", "bytes", "dot"), access=("storage", "texel"),
        )  # fmt: skip


def test_weights_of_few_bits_with_a_zero_point() -> None:
    """What is left of them without it counts."""
    a, b = integers((3, 13)), np.random.default_rng(5).integers(92, 108, (7, 13)).astype(np.int8)
    q, shift = factors(7, 3e-3)
    op = QuantizedGemm(zero_b=100, zero_in=4, transpose_b=True)
    check_op(op, a, b, None, q, shift, constants=(1, 3, 4), access=("storage",), only="bytes4")
