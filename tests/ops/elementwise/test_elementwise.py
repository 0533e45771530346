"""Elementwise ops on the device against their references; the table of op codes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tests.helpers import check_op, run_graph, shared_device, single_op_graph

from vknn.graph import DType, Op, op_classes
from vknn.lowering import LoweringOptions
from vknn.lowering.kit import opcodes
from vknn.ops import elementwise as ew

SHADERS = Path(__file__).resolve().parents[3] / "shaders" / "common"
OPCODES = SHADERS / "opcodes.glsl"
RANDOM = np.random.default_rng(7)
SPECIAL = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, -0.5, 2, 1e30, -1e30], "f4")


def normal(*shape: int, scale: float = 2.0) -> np.ndarray:
    return (RANDOM.standard_normal(shape) * scale).astype(np.float32)


def snake(name: str) -> str:
    """Log1p -> LOG1P, LeakyRelu -> LEAKY_RELU, PRelu -> PRELU"""
    words = re.findall(r"[A-Z]+(?![a-z])[a-z0-9]*|[A-Z][a-z0-9]*", name)
    return {"PRelu": "PRELU"}.get(name, "_".join(words).upper())


@pytest.mark.host
def test_python_and_shaders_agree_on_the_codes() -> None:
    numbers, cases = (SHADERS / "opcode_numbers.glsl").read_text(), OPCODES.read_text()
    assert numbers == opcodes.glsl_constants(), "run python tools/opcodes.py"
    unary = {n: int(c) for n, c in re.findall(r"#define OP_(\w+) (\d+)", numbers)}
    binary = {n: int(c) for n, c in re.findall(r"#define BOP_(\w+) (\d+)", numbers)}
    table = {snake(op.__name__): code for op, (code, _) in opcodes.UNARY.items()}
    assert table | {"GELU_TANH": opcodes.GELU_TANH} == unary
    assert {snake(op.__name__): code for op, code in opcodes.BINARY.items()} == binary
    assert len(set(unary.values())) == len(unary) and len(set(binary.values())) == len(binary)
    for name in unary:
        assert f"case OP_{name}:" in cases
    for name in binary:
        assert f"case BOP_{name}:" in cases


@pytest.mark.host
def test_every_op_has_a_code() -> None:
    for base, codes in ((ew.Unary, opcodes.UNARY), (ew.Binary, opcodes.BINARY)):
        # Other tests in this process may have made ops of their own.
        own = {op for op in op_classes(base) if op.__module__.startswith("vknn.")}
        assert own == set(codes)


UNARY_CASES: list[tuple[Op, float, float]] = [
    (ew.Abs(), -5, 5),
    (ew.Neg(), -5, 5),
    (ew.Floor(), -5, 5),
    (ew.Ceil(), -5, 5),
    (ew.Square(), -5, 5),
    (ew.Sqrt(), 0, 9),
    (ew.Rsqrt(), 0.1, 9),
    (ew.Exp(), -20, 4),
    (ew.Log(), 1e-3, 9),
    (ew.Log10(), 1e-3, 9),
    (ew.Log1p(), -0.9, 9),
    (ew.Expm1(), -4, 3),
    (ew.Sin(), -30, 30),
    (ew.Cos(), -30, 30),
    (ew.Tan(), -1.4, 1.4),
    (ew.Asin(), -1, 1),
    (ew.Acos(), -1, 1),
    (ew.Atan(), -9, 9),
    (ew.Sinh(), -5, 5),
    (ew.Cosh(), -5, 5),
    (ew.Asinh(), -50, 50),
    (ew.Acosh(), 1, 50),
    (ew.Atanh(), -0.99, 0.99),
    (ew.Reciprocal(), 0.2, 5),
    (ew.Tanh(), -9, 9),
    (ew.Sigmoid(), -9, 9),
    (ew.Relu(), -5, 5),
    (ew.Round(), -5, 5),
    (ew.Trunc(), -5, 5),
    (ew.Sign(), -5, 5),
    (ew.Erf(), -5, 5),
    (ew.Softplus(), -9, 9),
    (ew.Mish(), -9, 9),
    (ew.Swish(), -9, 9),
    (ew.Gelu(), -5, 5),
    (ew.Gelu("tanh"), -5, 5),
    (ew.LeakyRelu(0.1), -5, 5),
    (ew.Elu(0.7), -5, 5),
    (ew.Selu(1.67, 1.05), -5, 5),
    (ew.Celu(0.5), -5, 5),
    (ew.HardSigmoid(), -5, 5),
    (ew.HardSwish(), -5, 5),
    (ew.Clip(-1.5, 2.5), -5, 5),
    (ew.Clip(), -5, 5),
    (ew.Threshold(0.5), -5, 5),
    (ew.Shrink(0.3, 0.5), -5, 5),
    (ew.Softsign(), -5, 5),
]


@pytest.mark.parametrize(("op", "low", "high"), UNARY_CASES, ids=str)
def test_unary(op: Op, low: float, high: float) -> None:
    x = np.linspace(low, high, 1 * 13 * 3 * 5, dtype=np.float32).reshape(1, 13, 3, 5)
    check_op(op, x, tolerance=4e-7, access=("texel",))


def check_each(op: Op, *arrays: np.ndarray, tolerance: float) -> None:
    """As ``check_op``, but every element is compared relative to its own magnitude."""
    graph = single_op_graph(op, arrays)
    feeds = {f"x{i}": a for i, a in enumerate(arrays)}
    actual = run_graph(graph, shared_device().limits, LoweringOptions(), feeds)["y0"]
    (expected,) = op.reference(*arrays)
    # Results below the normal range may be flushed to 0.
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=1e-36)


@pytest.mark.parametrize("op", [case[0] for case in UNARY_CASES], ids=str)
def test_unary_at_the_edges(op: Op) -> None:
    near = [1e-7, -1e-7, 1e-3, -1e-3, 20, -20, 89, -89, 100, -100, 5e3, -5e3]
    far = [8192, 12870, -123456.7, 8388609, 1e10, -3e20, 3.4e38, -3.4e38]
    x = np.array([*SPECIAL, *near, *far], np.float32)
    check_each(op, x, tolerance=2e-6)


@pytest.mark.parametrize("channels", [1, 3, 4, 5, 8, 13])
def test_unary_keeps_the_tail_zero(channels: int) -> None:
    x = normal(2, channels, 3, 2)
    check_op(ew.Cos(), x, tolerance=4e-7)
    check_op(ew.Exp(), x[0, :, 0, 0], tolerance=1e-6)


BINARY = [
    ew.Add(), ew.Sub(), ew.Mul(), ew.Div(), ew.Max(), ew.Min(), ew.Atan2(), ew.Fmod(),
    ew.Remainder(), ew.FloorDiv(), ew.LogAddExp(), ew.PRelu(), ew.Mod(), ew.Larger(), ew.Smaller(),
]  # fmt: skip


@pytest.mark.parametrize("op", BINARY, ids=str)
def test_binary(op: Op) -> None:
    check_op(op, normal(1, 5, 3, 2), normal(1, 5, 3, 2), tolerance=1e-6, access=("texel",))


def test_pow() -> None:
    base = np.abs(normal(1, 5, 7, 3)) + np.float32(0.01)
    check_op(ew.Pow(), base, normal(1, 5, 7, 3), tolerance=2e-6, access=("texel",))
    whole = np.array([2, 3, -2, 0, 5, -3], "f4").reshape(6, 1)
    check_op(ew.Pow(), whole.T.copy(), normal(7, 6).round(), tolerance=2e-6, access=("texel",))


def test_powers_of_subnormal_numbers() -> None:
    """To a subnormal exponent: 1, as of zeros both, however many of the two a device flushes."""
    tiny = np.float32([1e-38, 1e-45, 1, 2, 3e38])
    check_op(ew.Pow(), tiny, tiny[:2].reshape(2, 1))


@pytest.mark.parametrize("exponent", [0.5, -0.5, 1.5, 2, -1, 3, np.inf, -np.inf])
def test_one_exponent_for_all(exponent: float) -> None:
    """NumPy takes some of them by another way than an array of exponents."""
    check_op(ew.Pow(), SPECIAL, np.array(exponent, "f4"), constants=(1,), access=("storage",))


def test_remainders_of_the_largest_numbers() -> None:
    a = [5, 1e37, 8e37, 1e38, 2e38, 3e38, 3.2e38, 1e38, -1e36, 1e35]
    b = [3e38, 3e38, 1e38, 1e38, 1.1e38, 1.5e38, 2e38, 9e37, 2.6e35, 3e34]
    given = np.array(a, "f4"), np.array(b, "f4")
    for op in (ew.FloorDiv(), ew.Fmod(), ew.Mod(), ew.Remainder()):
        check_op(op, *given, tolerance=1e-6, access=("storage",))


@pytest.mark.parametrize("op", [*BINARY, ew.Pow()], ids=str)
def test_binary_at_the_edges(op: Op) -> None:
    values = np.array([0.0, -0.0, 1, -1, 2, -2.5, 3, np.inf, -np.inf, np.nan, 7.5], "f4")
    a, b = (m.ravel().copy() for m in np.meshgrid(values, values))
    if isinstance(op, ew.FloorDiv):  # what infinity goes into is a matter of taste
        keep = np.isfinite(a) & np.isfinite(b)
        a, b = a[keep], b[keep]
    check_each(op, a, b, tolerance=1e-6)


def test_signs_of_zero() -> None:
    y = np.array([0.0, -0.0, 0.0, -0.0, 1, -1], "f4")
    x = np.array([-1.0, -1.0, 1.0, 1.0, -0.0, -0.0], "f4")
    check_op(ew.Atan2(), y, x, access=("storage",))


def test_exact_divisions() -> None:
    a = np.arange(-60, 60, dtype=np.float32)
    for b in (3.0, -7.0, 0.1):
        w = np.full_like(a, b)
        for op in (ew.FloorDiv(), ew.Fmod(), ew.Mod(), ew.Remainder()):
            check_op(op, a * np.float32(b), w, tolerance=0, access=("storage",))
    large = np.array([1e7, 12345678.0, 1e15, 3e20, -1e9], "f4")
    check_op(ew.Fmod(), large, np.full_like(large, 0.7), tolerance=1e-6, access=("storage",))
    check_op(ew.Remainder(), large, np.full_like(large, 3.1), tolerance=1e-6, access=("storage",))


SHAPES = [
    ((1, 5, 3, 2), (1, 5, 1, 1)),
    ((1, 8, 3, 2), (1, 8, 1, 1)),
    ((1, 8, 3, 2), (8, 1, 1)),
    ((1, 5, 3, 2), (5, 1, 1)),
    ((2, 5, 3, 2), (2, 5, 1, 1)),
    ((2, 5, 3, 2), (1, 1, 3, 2)),
    ((2, 5, 3, 2), (3, 2)),
    ((2, 5, 3, 2), (2, 1, 1, 2)),
    ((1, 5, 3, 4), (4,)),
    ((1, 5, 3, 8), (1, 5, 3, 1)),
    ((2, 13, 3), (1,)),
    ((2, 8), (8,)),
    ((2, 13), (2, 1)),
    ((7, 5), (5,)),
    ((7,), (1,)),
    ((1, 1, 3, 2), (1, 4, 3, 2)),
    ((1, 1, 3, 2), (1, 1, 3, 1)),
    ((3, 1, 1, 5), (1, 4, 2, 1)),
    ((1, 1, 1, 1), (2, 3, 4, 5)),
    ((2, 1, 3, 1, 2), (1, 3, 1, 4, 1)),
    ((2, 1, 3, 1, 2, 4), (1, 3, 1, 4, 1, 4)),
    ((4,), (2, 3, 4)),
]


@pytest.mark.parametrize(("one", "other"), SHAPES)
def test_broadcasting(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    x, w = normal(*one), normal(*other)
    check_op(ew.Sub(), x, w, tolerance=1e-6)
    check_op(ew.Sub(), w, x, tolerance=1e-6, access=("texel",))
    check_op(ew.Div(), x, w, constants=(1,), tolerance=1e-6, access=("texel",))


def test_constant_without_axes() -> None:
    check_op(ew.Mul(), normal(2, 13, 3), np.array(0.3, "f4"), constants=(1,), access=("image",))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32])
def test_integers(dtype: type) -> None:
    info = np.iinfo(dtype)
    a = RANDOM.integers(info.min, info.max, (2, 5, 3), dtype, endpoint=True)
    b = RANDOM.integers(info.min, info.max, (2, 5, 3), dtype, endpoint=True)
    a[0, 0], b[0, 0] = info.min, [1, 0, info.max]
    b[1, :, 0] = [0, 1, 2, 3, 5]
    for op in (ew.Add(), ew.Sub(), ew.Mul(), ew.Div(), ew.Max(), ew.Min(), ew.Fmod(),
               ew.FloorDiv(), ew.PRelu(), ew.Mod()):  # fmt: skip
        check_op(op, a, b, access=("storage",))
        check_op(op, a, b[:1, :, :1].copy(), access=("texel",))
    for unary in (ew.Abs(), ew.Neg(), ew.Square(), ew.Relu(), ew.Sign(), ew.Clip(-3, 100.5),
                  ew.Threshold(2.5), ew.Floor(), ew.Round()):  # fmt: skip
        check_op(unary, a, access=("storage",))


def test_integer_powers() -> None:
    a = np.array([0, 1, -1, 2, -3, 7, 46341], np.int32).reshape(7, 1)
    b = np.array([0, 1, 2, 5, 31, -1, -2], np.int32)
    check_op(ew.Pow(), a, b, access=("storage",))


CASTS = ["float32", "float16", "int8", "uint8", "int16", "int32", "bool"]


@pytest.mark.parametrize("target", CASTS)
@pytest.mark.parametrize("source", CASTS)
def test_cast(source: str, target: str) -> None:
    values = np.array(
        [0, 1, -1, 2.5, -2.5, 127.6, 128, -129, 255.4, 300, -40000, 65504, 3e9, -3e9, 1e-5, 0.1]
    )
    with np.errstate(all="ignore"):
        if source.startswith("float"):
            x = np.array([*values, np.nan, np.inf, -np.inf], source)
        else:
            x = values.astype(np.int64).astype(source)
    check_op(ew.Cast(DType(target)), x.reshape(1, -1, 1), tolerance=0, access=("texel",))
    if x.dtype == np.float32:
        check_op(ew.Cast(DType(target), True), x, tolerance=0, access=("storage",))


def fused(base: Op, *steps: ew.FusedStep) -> Op:
    return ew.Fused(base, steps)


def test_tails_of_unary_ops() -> None:
    for channels in (3, 8):
        x, full, vector = normal(2, channels, 3), normal(2, channels, 3), normal(1, channels, 1)
        op = fused(
            ew.Tanh(),
            ew.FusedStep(ew.Mul(), operand=0),
            ew.FusedStep(ew.Relu()),
            ew.FusedStep(ew.Sub(), operand=1, reverse=True),
            ew.FusedStep(ew.Pow(), scalar=2.0),
            ew.FusedStep(ew.Div(), scalar=3.0, reverse=True),
            ew.FusedStep(ew.Clip(-1.0, 5.0)),
        )
        check_op(op, x, full, vector, tolerance=2e-5)
        check_op(op, x, vector, full, tolerance=2e-5, constants=(1,))
        check_op(op, x, vector, vector + 1, tolerance=2e-5, access=("texel",))


def test_tails_of_binary_ops() -> None:
    for channels in (3, 8):
        x, w = normal(2, channels, 3), normal(1, channels, 1)
        for operand in (normal(2, channels, 3), normal(1, channels, 1)):
            op = fused(
                ew.Add(),
                ew.FusedStep(ew.HardSwish()),
                ew.FusedStep(ew.Max(), operand=0),
                ew.FusedStep(ew.LeakyRelu(0.2)),
            )
            check_op(op, x, w, operand, tolerance=1e-6)
    rows = fused(ew.Mul(), ew.FusedStep(ew.Add(), operand=0))
    check_op(rows, normal(3, 8), normal(8), normal(1, 8), tolerance=1e-6)
    check_op(rows, normal(3, 7), normal(7), normal(3, 7), tolerance=1e-6)


def test_big_enough_for_several_items_a_lane() -> None:
    x = normal(1, 13, 67, 71)
    check_op(ew.Add(), x, normal(1, 13, 1, 1), tolerance=1e-6, access=("texel",))
    check_op(ew.Sigmoid(), x, tolerance=1e-6, access=("storage",))


def test_lanes_take_no_more_than_their_loops_allow() -> None:
    """As on a device that ends loops sooner."""
    x, w = normal(1, 5, 40, 41), normal(5, 1, 41)
    check_op(ew.Neg(), x, access=("storage",), max_loop_rounds=40)
    check_op(ew.Add(), x, w, access=("storage",), max_loop_rounds=40)
    check_op(ew.Cast(DType.INT32), x, access=("storage",), max_loop_rounds=40)
