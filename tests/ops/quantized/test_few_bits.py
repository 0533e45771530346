"""Convolutions by weights of 4 and 2 bits, which every kernel reads as such."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from tests.helpers import check_op, shared_device, single_op_graph
from tests.ops.quantized.convolutions import GEOMETRIES, conv, operands

from vknn.graph import DType, Op
from vknn.lowering import LoweringOptions, candidates, lower
from vknn.lowering.kernels.quantized.few_bits import as_few, bits_of
from vknn.ops.convolution.conv import ExactConv
from vknn.ops.quantized.convolution import bias_words
from vknn.plan import Role

CASES = GEOMETRIES | {
    "multiplied by 3": ({"group": 5, "pads": (0, 2, 1, 0)}, (2, 5, 5, 3), (15, 1, 2, 3)),
    "multiplied by 5": ({"group": 3, "strides": (2, 1)}, (2, 3, 5, 5), (15, 1, 3, 2)),
    "of volumes": (
        {"group": 5, "strides": (1, 2, 1), "pads": (1, 0, 1) * 2, "dilations": (1, 1, 2)},
        *((1, 5, 3, 5, 7), (5, 1, 2, 3, 3)),
    ),
    "of a line": ({"strides": (2,), "pads": (1, 1), "dilations": (2,)}, (1, 5, 11), (7, 5, 3)),
}
QUICK = ("3x3", "multiplied by 3")
KINDS = [None, "discrete"]


def few(shape: tuple[int, ...], bits: int) -> np.ndarray:
    """Weights with the lowest and highest numbers among them, and a row of zeros."""
    low, high = -(1 << (bits - 1)), 1 << (bits - 1)
    w = np.random.default_rng(5).integers(low, high, shape).astype(np.int8)
    w.reshape(-1)[:2] = low, high - 1
    w[-1] = 0
    return w


def case(name: str, dtype: str, bits: int, scale: float = 2e-3) -> tuple[dict[str, Any], Any]:
    settings, x_shape, w_shape = CASES[name]
    axes = len(x_shape) - 2
    given = {"strides": (1,) * axes, "pads": (0,) * 2 * axes, "dilations": (1,) * axes, **settings}
    x, _, bias, q, shift = operands(x_shape, w_shape, w_shape[0], dtype, 0, scale)
    return given, (x, few(w_shape, bits), bias, q, shift)


def names(
    op: Op, arrays: tuple[Any, ...], constants: tuple[int, ...], kind: str | None
) -> set[str]:
    graph = single_op_graph(op, arrays, constants)
    limits = dataclasses.replace(shared_device().limits, kind=kind or "cpu")
    return {c.name for c in candidates(graph.nodes[0], limits, LoweringOptions())}


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in CASES]
)
@pytest.mark.parametrize("bits", [4, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_quantized(name: str, bits: int, kind: str | None) -> None:
    settings, arrays = case(name, "int8", bits)
    op = conv(**settings, zero_in=-17, zero_out=5, low=-100, high=110, weight_bits=bits)
    constants = (1, 2, 3, 4)
    found = names(op, arrays, constants, kind)
    assert all(f.startswith(("tile", "span", "depthwise")) for f in found)
    assert all(str(bits) in f for f in found if f.startswith("tile"))
    dots = ("integer_dot", "integer_dot_fast") if kind else ()
    check_op(
        op, *arrays, constants=constants, kind=kind, features=dots, access=("storage", "texel")
    )


@pytest.mark.parametrize("name", ["strided", "odd groups", "multiplied by 5"])
@pytest.mark.parametrize("bits", [4, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_data(name: str, bits: int, kind: str | None) -> None:
    """Unsigned bytes, whose padding is their zero point; int16 with sums of 32 and 64 bits."""
    settings, arrays = case(name, "uint8", bits)
    settings["weight_bits"] = bits
    op = conv(**settings, zero_in=131, zero_out=100, low=0, high=255, dtype=DType.UINT8)
    given = {"constants": (1, 2, 3, 4), "kind": kind, "access": ("storage",)}
    check_op(op, *arrays, **given)  # type: ignore[arg-type]
    settings, (x, w, bias, q, shift) = case(name, "int16", bits, 1e-5)
    settings["weight_bits"] = bits
    for rounding, shifts in (("double", bias), ("wide", bias_words(bias.astype(np.int64) << 20))):
        ends = {"low": -32768, "high": 32767, "dtype": DType.INT16, "rounding": rounding}
        check_op(conv(**settings, **ends), x, w, shifts, q, shift, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize(
    "name",
    [n if n in ("odd groups", *QUICK) else pytest.param(n, marks=pytest.mark.slow) for n in CASES],
)
@pytest.mark.parametrize("bits", [4, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_floats(name: str, bits: int, kind: str | None, precision: str) -> None:
    """Hybrid ones: whole numbers, whose sums are exact."""
    settings, (x, w, *_) = case(name, "int8", bits)
    unit = 1 / 4096
    op = ExactConv(**{"group": 1, **settings}, weight_bits=bits, weight_unit=unit)
    arrays = (x.astype(np.float32), w * np.float32(unit), None)
    assert "general" not in names(op, arrays, (1,), kind)
    check_op(
        op, *arrays, constants=(1,), kind=kind, precision=precision, tolerance=1e-7,
        access=("storage", "texel"),
    )  # fmt: skip


@pytest.mark.parametrize("bits", [4, 2])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("floats", [False, True])
@pytest.mark.parametrize(
    ("group", "w_shape"), [(1, (64, 32, 3, 3)), (256, (256, 1, 5, 5)), (64, (192, 1, 5, 5))]
)
def test_memory(bits: int, kind: str | None, floats: bool, group: int, w_shape: Any) -> None:
    """Weights take as many bits on the device, whichever kernel is taken."""
    channels = w_shape[1] * group
    x, _, bias, q, shift = operands((1, channels, 7, 7), w_shape, w_shape[0])
    w = few(w_shape, bits)
    arrays: tuple[Any, ...] = (x, w, bias, q, shift)
    op: Op = conv(group=group, weight_bits=bits)
    if floats:
        arrays = (x.astype(np.float32), w.astype(np.float32), None)
        op = ExactConv((1, 1), (0,) * 4, (1, 1), group, bits)
    graph = single_op_graph(op, arrays, (1,) if floats else (1, 2, 3, 4))
    limits = dataclasses.replace(shared_device().limits, kind=kind or "cpu")
    for name in {c.name for c in candidates(graph.nodes[0], limits, LoweringOptions())}:
        plan = lower(graph, limits, LoweringOptions(algorithm=name))
        held = sum(b.nbytes for b in plan.buffers if b.role is Role.WEIGHT)
        vectors = 0 if floats else 16 * (w_shape[0] + 1)  # multipliers, shifts, bias
        assert held <= w.size * bits // 8 + vectors + 64, name


@pytest.mark.parametrize(
    ("low", "high", "bits"),
    [(-2, 1, 2), (-3, 1, 4), (-2, 2, 4), (-8, 7, 4), (-9, 0, 8), (0, 8, 8)],
)
def test_bits(low: int, high: int, bits: int) -> None:
    assert bits_of(low, high) == bits


@pytest.mark.parametrize("bits", [4, 2])
def test_packing(bits: int) -> None:
    """Words hold every number once, also where rows are no whole quads."""
    rows, width = 7, 8
    numbers = np.random.default_rng(6).integers(-2, 2, (rows, width))
    words = as_few(numbers.ravel(), width, bits).reshape(-1, 4)
    sharing, mask = 8 // bits, (1 << bits) - 1
    quads = width // 4
    for row in range(rows):
        for column in range(width):
            quad = row // 4 * quads + column // 4
            word = int(words[quad // sharing, column % 4])
            code = word >> (8 * (row % 4) + quad % sharing * bits) & mask
            assert code == numbers[row, column] & mask
    assert len(words) == -(-2 * quads // sharing)


def test_weights_that_are_wider() -> None:
    """Where a single one is, they have 8 bits; so have those that are made at run time."""
    settings, arrays = case("3x3", "int8", 4)
    op = conv(**settings, weight_bits=4)
    assert "tile4x4-bytes" not in names(op, arrays, (1, 2, 3, 4), None)
    arrays[1][0, 0, 0, 0] = 8
    assert "tile4x4-bytes" in names(op, arrays, (1, 2, 3, 4), None)
    check_op(op, *arrays, constants=(1, 2, 3, 4), access=("storage",), only="tile4x4-bytes")
    check_op(op, *arrays, constants=(2, 3, 4), access=("storage",))
