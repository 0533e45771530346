"""Elementwise ops against scalar formulas, on all ranks, broadcast and at special values."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy.special

from reference_helper import check, data, f32, i8, i32, refuses
from vknn.graph import DType, Op, TensorType, op_classes
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import (
    Abs,
    Acos,
    Acosh,
    Add,
    Asin,
    Asinh,
    Atan,
    Atan2,
    Atanh,
    Binary,
    Cast,
    Ceil,
    Celu,
    Clip,
    Cos,
    Cosh,
    Div,
    Elu,
    Erf,
    Exp,
    Expm1,
    Floor,
    FloorDiv,
    Fmod,
    Fused,
    FusedStep,
    Gelu,
    HardSigmoid,
    HardSwish,
    Larger,
    LeakyRelu,
    Log,
    Log1p,
    Log10,
    LogAddExp,
    Max,
    Min,
    Mish,
    Mod,
    Mul,
    Neg,
    Pow,
    PRelu,
    Reciprocal,
    Relu,
    Remainder,
    Round,
    Rsqrt,
    Selu,
    Shrink,
    Sigmoid,
    Sign,
    Sin,
    Sinh,
    Smaller,
    Softplus,
    Softsign,
    Sqrt,
    Square,
    Sub,
    Swish,
    Tan,
    Tanh,
    Threshold,
    Trunc,
    Unary,
)  # fmt: skip
from vknn.ops.elementwise.special import erf
from vknn.ops.matmul import MatMul
from vknn.ops.movement.shape import Identity, Reshape

INF, NAN = math.inf, math.nan
ANY, POSITIVE, UNIT, ABOVE_ONE = (-6.0, 6.0), (0.01, 9.0), (-0.99, 0.99), (1.0, 9.0)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def clip(x: float, low: float, high: float) -> float:
    return low if x < low else min(x, high)


UNARY: list[tuple[Op, Callable[[float], float], tuple[float, float]]] = [
    (Abs(), abs, ANY),
    (Neg(), lambda x: -x, ANY),
    (Floor(), math.floor, ANY),
    (Ceil(), math.ceil, ANY),
    (Round(), round, ANY),
    (Trunc(), int, ANY),
    (Sign(), lambda x: (x > 0) - (x < 0), ANY),
    (Square(), lambda x: x**2, ANY),
    (Sqrt(), math.sqrt, POSITIVE),
    (Rsqrt(), lambda x: x**-0.5, POSITIVE),
    (Reciprocal(), lambda x: 1 / x, POSITIVE),
    (Exp(), math.exp, ANY),
    (Expm1(), math.expm1, ANY),
    (Log(), math.log, POSITIVE),
    (Log10(), math.log10, POSITIVE),
    (Log1p(), math.log1p, POSITIVE),
    (Sin(), math.sin, ANY),
    (Cos(), math.cos, ANY),
    (Tan(), math.tan, UNIT),
    (Asin(), math.asin, UNIT),
    (Acos(), math.acos, UNIT),
    (Atan(), math.atan, ANY),
    (Sinh(), math.sinh, ANY),
    (Cosh(), math.cosh, ANY),
    (Tanh(), math.tanh, ANY),
    (Asinh(), math.asinh, ANY),
    (Acosh(), math.acosh, ABOVE_ONE),
    (Atanh(), math.atanh, UNIT),
    (Erf(), math.erf, ANY),
    (Relu(), lambda x: max(x, 0), ANY),
    (LeakyRelu(), lambda x: x if x > 0 else 0.01 * x, ANY),
    (LeakyRelu(0.3), lambda x: x if x > 0 else 0.3 * x, ANY),
    (Elu(0.7), lambda x: x if x > 0 else 0.7 * (math.exp(x) - 1), ANY),
    (Selu(), lambda x: 1.05070098 * (x if x > 0 else 1.67326324 * (math.exp(x) - 1)), ANY),
    (Selu(1.5, 0.5), lambda x: 0.5 * (x if x > 0 else 1.5 * (math.exp(x) - 1)), ANY),
    (Celu(0.7), lambda x: max(x, 0) + min(0, 0.7 * (math.exp(x / 0.7) - 1)), ANY),
    (Sigmoid(), sigmoid, ANY),
    (HardSigmoid(), lambda x: clip(x / 6 + 0.5, 0, 1), ANY),
    (HardSigmoid(0.2, 0.4), lambda x: clip(0.2 * x + 0.4, 0, 1), ANY),
    (HardSwish(), lambda x: x * clip(x / 6 + 0.5, 0, 1), ANY),
    (HardSwish(0.2, 0.4), lambda x: x * clip(0.2 * x + 0.4, 0, 1), ANY),
    (Softplus(), lambda x: math.log(1 + math.exp(x)), ANY),
    (Softsign(), lambda x: x / (1 + abs(x)), ANY),
    (Swish(), lambda x: x * sigmoid(x), ANY),
    (Mish(), lambda x: x * math.tanh(math.log(1 + math.exp(x))), ANY),
    (Gelu(), lambda x: 0.5 * x * math.erfc(-x / math.sqrt(2)), ANY),
    (Gelu("tanh"), lambda x: x * sigmoid(2 * (2 / math.pi) ** 0.5 * (x + 0.044715 * x**3)), ANY),
    (Clip(), lambda x: x, ANY),
    (Clip(-0.5, 1.5), lambda x: clip(x, -0.5, 1.5), ANY),
    (Threshold(0.25), lambda x: float(x > 0.25), ANY),
    (Shrink(), lambda x: 0 if abs(x) <= 0.5 else x, ANY),
    (Shrink(0.2, 0.7), lambda x: 0 if abs(x) <= 0.7 else x - math.copysign(0.2, x), ANY),
]


def _label(value: object) -> str:
    """A name for a case that is the same in every process; functions have none."""
    return "" if callable(value) and not isinstance(value, Op) else str(value)[:40]


@pytest.mark.parametrize(("op", "formula", "span"), UNARY, ids=_label)
def test_unary(op: Op, formula: Callable[[float], float], span: tuple[float, float]) -> None:
    for shape in [(7,), (2, 3), (1, 3, 5), (1, 2, 3, 5), (1, 2, 1, 3, 2), (), (0, 3)]:
        x = np.random.default_rng(len(shape)).uniform(*span, shape).astype(np.float32)
        y = np.array([formula(float(v)) for v in x.ravel()], np.float32).reshape(shape)
        check(op, x, expected=y)


def test_every_unary_op_is_in_the_table() -> None:
    assert {type(op) for op, _, _ in UNARY} == set(op_classes(Unary))


SPECIAL = [
    (Relu(), [-INF, INF, NAN], [0, INF, NAN]),
    (Sign(), [-0.0, NAN, -INF], [0, NAN, -1]),
    (Round(), [0.5, 1.5, 2.5, -0.5, -1.5], [0, 2, 2, 0, -2]),
    (Sqrt(), [-1, INF, 0], [NAN, INF, 0]),
    (Rsqrt(), [0, INF], [INF, 0]),
    (Reciprocal(), [0.0, -0.0, INF], [INF, -INF, 0]),
    (Log(), [0, -1], [-INF, NAN]),
    (Exp(), [1000, -1000, 88.8], [INF, 0, INF]),
    (Sigmoid(), [1000, -1000, NAN], [1, 0, NAN]),
    (Tanh(), [1000, -1000], [1, -1]),
    (Softplus(), [1000, -1000], [1000, 0]),
    (Mish(), [1000, -1000], [1000, 0]),
    (Swish(), [1000, -1000], [1000, 0]),
    (Gelu(), [1000, -1000, NAN], [1000, 0, NAN]),
    (Gelu("tanh"), [1000, -1000], [1000, 0]),
    (Elu(), [1000, -1000], [1000, -1]),
    (Erf(), [INF, -INF, NAN], [1, -1, NAN]),
    (Clip(-1, 1), [NAN, INF, -INF], [NAN, 1, -1]),
    (Clip(2, 1), [0, 3], [1, 1]),
    (Threshold(1.0), [NAN, 1, INF], [0, 0, 1]),
    (Shrink(0.0, 1.0), [NAN, 1, -1], [NAN, 0, 0]),
    (Asin(), [2], [NAN]),
    (Acosh(), [0.5], [NAN]),
    (Atanh(), [1, -1, 2], [INF, -INF, NAN]),
]


@pytest.mark.parametrize(("op", "x", "y"), SPECIAL, ids=lambda v: str(v)[:30])
def test_special_values(op: Op, x: list[float], y: list[float]) -> None:
    check(op, np.array(x, np.float32), expected=np.array(y, np.float32))


@pytest.mark.parametrize("op", [Abs(), Neg(), Sign(), Square(), Relu(), Clip(-3, 5), Round()])
def test_exact_unary_ops_take_integers(op: Op) -> None:
    x = np.array([-7, -3, 0, 3, 7], np.int32)
    check(op, x, expected=op.reference(x.astype(np.float32))[0].astype(np.int32))


def test_erf_to_the_last_digits() -> None:
    x = np.linspace(-7, 7, 20011)
    np.testing.assert_allclose(erf(x), scipy.special.erf(x), rtol=1e-15, atol=1e-15)


def c_remainder(a: float, b: float) -> float:
    return math.remainder(a, b)


BINARY: list[tuple[Op, Callable[[float, float], float], bool]] = [
    (Add(), lambda a, b: a + b, False),
    (Sub(), lambda a, b: a - b, False),
    (Mul(), lambda a, b: a * b, False),
    (Div(), lambda a, b: a / b, False),
    (Max(), max, False),
    (Min(), min, False),
    (Larger(), max, False),
    (Smaller(), min, False),
    (Pow(), math.pow, True),
    (Atan2(), math.atan2, False),
    (Fmod(), math.fmod, False),
    (Remainder(), c_remainder, False),
    (FloorDiv(), lambda a, b: math.floor(a / b), False),
    (Mod(), lambda a, b: a % b, False),
    (LogAddExp(), lambda a, b: math.log(math.exp(a) + math.exp(b)), False),
    (PRelu(), lambda a, b: a if a > 0 else a * b, False),
]

SHAPES = [
    ((7,), (7,)),
    ((2, 3), (3,)),
    ((2, 3), (2, 1)),
    ((1, 3, 5), (2, 1, 5)),
    ((1, 3, 2, 5), (1, 3, 1, 1)),
    ((3, 1, 1), (1, 2, 3, 2, 2)),
    ((), (2, 3)),
    ((2, 0, 3), (1, 3)),
]


@pytest.mark.parametrize(("op", "formula", "positive"), BINARY, ids=_label)
def test_binary(op: Op, formula: Callable[[float, float], float], positive: bool) -> None:
    for left, right in SHAPES:
        a, b = data(*left, seed=1) * 3, data(*right, seed=2)
        a = np.abs(a) if positive else a
        pairs = np.broadcast(a, b)
        y = np.array([formula(float(p), float(q)) for p, q in pairs], np.float32)
        check(op, a, b, expected=y.reshape(pairs.shape))


def test_every_binary_op_is_in_the_table() -> None:
    assert {type(op) for op, _, _ in BINARY} == set(op_classes(Binary))


PAIRS = [
    (Div(), "float32", [1, -1, 0], [0, 0, 0], [INF, -INF, NAN]),
    (Max(), "float32", [NAN, 1], [0, NAN], [NAN, NAN]),
    (Min(), "float32", [NAN, -INF], [0, 1], [NAN, -INF]),
    (Pow(), "float32", [-2, -2, 0, 0], [3, 0.5, 0, -1], [-8, NAN, 1, INF]),
    (Pow(), "float32", [-INF, -0.0, 4, -4], [0.5], [INF, 0, 2, NAN]),
    (Fmod(), "float32", [5.5, -5.5, 5.5, 1, 3], [2, 2, -2, 0, INF], [1.5, -1.5, 1.5, NAN, 3]),
    (Remainder(), "float32", [3, 5, -5, 1, 2, 7, NAN], [2, 2, 2, 2, INF, 0, 1],
     [-1, 1, -1, 1, 2, NAN, NAN]),
    (Remainder(), "float32", [1e30, 3.4e38], [7, 3.3e38],
     [math.remainder(float(np.float32(1e30)), 7),
      float(np.float32(3.4e38)) - float(np.float32(3.3e38))]),
    (LogAddExp(), "float32", [1000, -INF], [1000, -INF], [1000 + math.log(2), -INF]),
    (FloorDiv(), "float32", [1, -1], [3, 3], [0, -1]),
    (Atan2(), "float32", [0, 0.0, 1], [-1, 1, 0], [math.pi, 0, math.pi / 2]),
    (Add(), "int32", [2**31 - 1], [1], [-(2**31)]),
    (Div(), "int32", [7, -7, 7, -7, 5, 2147483647], [2, 2, -2, -2, 0, 1],
     [3, -3, -3, 3, 0, 2147483647]),
    (FloorDiv(), "int32", [7, -7, 7, 5], [2, 2, -2, 0], [3, -4, -4, 0]),
    (Fmod(), "int32", [7, -7, 7, 5], [3, 3, -3, 0], [1, -1, 1, 0]),
    (Pow(), "int32", [2, -3, 2, -1, 1, 0], [10, 3, -1, -3, -5, -1], [1024, -27, 0, -1, 1, 0]),
    (Max(), "int8", [-128, 3], [127, -3], [127, 3]),
    (PRelu(), "int32", [-4, 4], [3, 3], [-12, 4]),
]  # fmt: skip


@pytest.mark.parametrize(("op", "dtype", "a", "b", "y"), PAIRS, ids=lambda v: str(v)[:30])
def test_binary_special_values(op: Op, dtype: str, a: list, b: list, y: list) -> None:
    check(op, np.array(a, dtype), np.array(b, dtype), expected=np.array(y, dtype))


CASTS = [
    ("float32", [1.9, -1.9, 300, -300, NAN, INF, -INF], "int8", [1, -1, 127, -128, 0, 127, -128]),
    ("float32", [-1, 256.5, 2.5], "uint8", [0, 255, 2]),
    ("float32", [3e9, -3e9, 7], "int32", [2**31 - 1, -(2**31), 7]),
    ("float32", [1e19, -1e19, 5], "int64", [2**63 - 1, -(2**63), 5]),
    ("int32", [300, -129, 5], "int8", [44, 127, 5]),
    ("int32", [-1, 7], "float32", [-1, 7]),
    ("float32", [0, -0.0, 0.1, NAN], "bool", [False, False, True, True]),
    ("bool", [True, False], "float32", [1, 0]),
    ("float32", [1e6, 1 / 3], "float16", [INF, 1 / 3]),
    ("float32", [], "int32", []),
]


@pytest.mark.parametrize(("source", "x", "target", "y"), CASTS)
def test_cast(source: str, x: list, target: str, y: list) -> None:
    check(Cast(DType(target)), np.array(x, source), expected=np.array(y, target))
    (scalar,) = Cast(DType.INT8).reference(np.float32(1e9).reshape(()))
    assert scalar == 127
    check(Cast(DType.INT16, True), np.float32([NAN, 3.7]), expected=np.int16([32767, 3]))
    check(Cast(DType.UINT8), np.complex64([300 + 9j, -4j]), expected=np.uint8([255, 0]))


def test_half_floats_stay_half() -> None:
    x = np.array([0.5, 1, -2], np.float16)
    check(Exp(), x, expected=np.exp(x.astype(np.float64)).astype(np.float16))
    check(Add(), x, x, expected=(2 * x))


def test_fused_tail() -> None:
    x, w, bias = data(1, 3, 5, 4), data(8, 3, 3, 2, seed=1), data(8, seed=2)
    conv = Conv((1, 1), (1, 0, 1, 1), (1, 1))
    (base,) = conv.reference(x, w, bias)
    other, slope = data(*base.shape, seed=3), data(1, 8, 1, 1, seed=4)
    steps = (
        FusedStep(Sub(), 0, reverse=True),
        FusedStep(Mul(), scalar=0.5),
        FusedStep(PRelu(), 1),
        FusedStep(Clip(-1, 2)),
    )
    half = 0.5 * (other - base)
    expected = np.clip(np.where(half > 0, half, half * slope), -1, 2)
    fused = Fused(conv, steps)
    check(fused, x, w, bias, other, slope, expected=expected)
    assert fused.type_name == "Conv+Sub+Mul+PRelu+Clip"
    assert fused.operand_count == 2
    rows = Fused(MatMul(), (FusedStep(Add(), 0), FusedStep(Relu())))
    a, b, vector = data(2, 3), data(3, 5), data(5)
    check(rows, a, b, None, vector, expected=np.maximum(a @ b + vector, 0))
    check(Fused(Relu()), a, expected=np.maximum(a, 0))


def test_fused_refuses_what_is_no_tail() -> None:
    relu, x = Relu(), f32(2, 3)
    refuses(lambda: Fused(Identity()), x, match="takes no epilogue")
    refuses(lambda: Fused(Fused(relu)), x, match="base of another")
    refuses(lambda: Fused(relu, (FusedStep(Add()),)), x, match="needs an operand or a scalar")
    refuses(lambda: Fused(relu, (FusedStep(Relu(), 0),)), x, x, match="takes no operand")
    refuses(lambda: Fused(relu, (FusedStep(Reshape((6,))),)), x, match="cannot be a step")  # type: ignore[arg-type]
    wider = Fused(relu, (FusedStep(Add(), 0),))
    refuses(wider, x, f32(4, 2, 3), match=r"Add turns float32\[2, 3\] into float32\[4, 2, 3\]")
    refuses(wider, x, i32(2, 3), match="differ")
    refuses(wider, match="too few")
    refuses(Fused(relu, (FusedStep(Add(), 1),)), x, None, None, match="operand 1 is missing")


def test_infer_refuses() -> None:
    refuses(Exp(), i32(3), match="wants floating point")
    refuses(Abs(), TensorType((3,), DType.BOOL), match="wants numbers")
    refuses(Relu(), match="takes 1 inputs, not 0")
    refuses(Relu(), f32(1), f32(1), match="not 2")
    refuses(Add(), f32(1), None, match="input 1 is missing")
    refuses(Add(), f32(2, 3), f32(2), match="do not broadcast")
    refuses(Add(), f32(3), i32(3), match="differ")
    refuses(Atan2(), i32(3), i32(3), match="wants floating point")
    refuses(lambda: Gelu("erf"), f32(1), match="approximate")
    refuses(Cast(DType.STRING), f32(1), match="cannot become string")


def test_open_dimensions_pass_through() -> None:
    assert Relu().infer(f32(None, 3)) == (f32(None, 3),)
    assert Add().infer(f32(None, 3), f32(1, 3)) == (f32(None, 3),)
    assert Add().infer(f32(None, 3), f32(5, 1)) == (f32(5, 3),)
    assert Add().infer(i8(None), i8(None)) == (i8(None),)
