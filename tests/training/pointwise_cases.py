"""Functions of one element and of two, and the same functions in PyTorch."""

from __future__ import annotations

import numpy as np
from tests.training.case import Case, Peer, apart, normal, random, within

from vknn.graph import Op
from vknn.ops import elementwise as e
from vknn.ops.elementwise.glu import Glu
from vknn.ops.elementwise.logic import Where


def unary() -> list[Case]:
    x = apart(2, 3, 7)
    positive, inside = within(0.2, 3, 2, 3, 7), within(-0.9, 0.9, 2, 3, 7)
    table: list[tuple[Op, np.ndarray, Peer | None]] = [
        (e.Abs(), x, lambda t, x: t.abs(x)),
        (e.Neg(), x, lambda t, x: -x),
        (e.Sign(), x, lambda t, x: t.sign(x)),
        (e.Floor(), x, lambda t, x: t.floor(x)),
        (e.Ceil(), x, lambda t, x: t.ceil(x)),
        (e.Round(), x, lambda t, x: t.round(x)),
        (e.Trunc(), x, lambda t, x: t.trunc(x)),
        (e.Threshold(0.31), x, lambda t, x: (x > 0.31) * 1.0 + 0 * x),
        (e.Square(), x, lambda t, x: x * x),
        (e.Sqrt(), positive, lambda t, x: t.sqrt(x)),
        (e.Rsqrt(), positive, lambda t, x: t.rsqrt(x)),
        (e.Reciprocal(), positive, lambda t, x: 1 / x),
        (e.Exp(), x, lambda t, x: t.exp(x)),
        (e.Expm1(), x, lambda t, x: t.expm1(x)),
        (e.Log(), positive, lambda t, x: t.log(x)),
        (e.Log10(), positive, lambda t, x: t.log10(x)),
        (e.Log1p(), positive, lambda t, x: t.log1p(x)),
        (e.Sin(), x, lambda t, x: t.sin(x)),
        (e.Cos(), x, lambda t, x: t.cos(x)),
        (e.Tan(), inside, lambda t, x: t.tan(x)),
        (e.Asin(), inside, lambda t, x: t.asin(x)),
        (e.Acos(), inside, lambda t, x: t.acos(x)),
        (e.Atan(), x, lambda t, x: t.atan(x)),
        (e.Sinh(), x, lambda t, x: t.sinh(x)),
        (e.Cosh(), x, lambda t, x: t.cosh(x)),
        (e.Tanh(), x, lambda t, x: t.tanh(x)),
        (e.Asinh(), x, lambda t, x: t.asinh(x)),
        (e.Acosh(), positive + 1, lambda t, x: t.acosh(x)),
        (e.Atanh(), inside, lambda t, x: t.atanh(x)),
        (e.Erf(), x, lambda t, x: t.erf(x)),
        (e.Relu(), x, lambda t, x: t.relu(x)),
        (e.LeakyRelu(0.2), x, lambda t, x: t.nn.functional.leaky_relu(x, 0.2)),
        (e.Elu(1.3), x, lambda t, x: t.nn.functional.elu(x, 1.3)),
        (e.Elu(1.0), x * 90, lambda t, x: t.nn.functional.elu(x)),
        (e.Selu(), x, lambda t, x: t.selu(x)),
        (e.Celu(0.7), x, lambda t, x: t.celu(x, 0.7)),
        (e.Sigmoid(), x * 5, lambda t, x: t.sigmoid(x)),
        (e.HardSigmoid(), x * 5, lambda t, x: t.nn.functional.hardsigmoid(x)),
        (e.HardSigmoid(0.31, 0.6), x, lambda t, x: t.clamp(0.31 * x + 0.6, 0, 1)),
        (e.HardSwish(), x * 5, lambda t, x: t.nn.functional.hardswish(x)),
        (e.Softplus(), x * 10, lambda t, x: t.nn.functional.softplus(x, threshold=80)),
        (e.Softsign(), x, lambda t, x: t.nn.functional.softsign(x)),
        (e.Swish(), x, lambda t, x: t.nn.functional.silu(x)),
        (e.Mish(), x, lambda t, x: t.nn.functional.mish(x)),
        (e.Gelu(), x, lambda t, x: t.nn.functional.gelu(x)),
        (e.Gelu("tanh"), x, lambda t, x: t.nn.functional.gelu(x, approximate="tanh")),
        (e.Clip(-0.51, 0.31), x, lambda t, x: t.clamp(x, -0.51, 0.31)),
        (e.Clip(min=0.21), x, lambda t, x: t.clamp(x, min=0.21)),
        (e.Clip(max=0.21), x, lambda t, x: t.clamp(x, max=0.21)),
        (e.Shrink(0.5, 0.5), x, lambda t, x: t.nn.functional.softshrink(x, 0.5)),
        (e.Shrink(0.0, 0.4), x, lambda t, x: t.nn.functional.hardshrink(x, 0.4)),
        (e.Cast(), x, lambda t, x: x),
        (Glu(1), normal(2, 6, 3), lambda t, x: t.nn.functional.glu(x, 1)),
        (Glu(-1), normal(2, 6), lambda t, x: t.nn.functional.glu(x, -1)),
    ]
    return [Case(f"{op.type_name.lower()}-{i}", op, (a,), f) for i, (op, a, f) in enumerate(table)]


#: Where the two sides of a kink meet.
KINKS = np.array([-1.5, -0.0, 0.0, 0.5, 2.0], np.float32)


def kinks() -> list[Case]:
    table: list[tuple[Op, Peer]] = [
        (e.Relu(), lambda t, x: t.relu(x)),
        (e.LeakyRelu(0.2), lambda t, x: t.nn.functional.leaky_relu(x, 0.2)),
        (e.Elu(0.3), lambda t, x: t.nn.functional.elu(x, 0.3)),
        (e.Abs(), lambda t, x: t.abs(x)),
        (e.Clip(-1.5, 0.5), lambda t, x: t.clamp(x, -1.5, 0.5)),
        (e.Clip(0.0, 2.0), lambda t, x: t.clamp(x, 0.0, 2.0)),
    ]
    return [
        Case(f"kink-{op.type_name.lower()}-{i}", op, (KINKS,), f, smooth=False)
        for i, (op, f) in enumerate(table)
    ]


def binary() -> list[Case]:
    table: list[tuple[Op, Peer]] = [
        (e.Add(), lambda t, a, b: a + b),
        (e.Sub(), lambda t, a, b: a - b),
        (e.Mul(), lambda t, a, b: a * b),
        (e.Div(), lambda t, a, b: a / b),
        (e.Max(), lambda t, a, b: t.maximum(a, b)),
        (e.Min(), lambda t, a, b: t.minimum(a, b)),
        (e.Pow(), lambda t, a, b: a**b),
        (e.Atan2(), lambda t, a, b: t.atan2(a, b)),
        (e.LogAddExp(), lambda t, a, b: t.logaddexp(a, b)),
        (e.Fmod(), lambda t, a, b: t.fmod(a, b)),
        (e.Mod(), lambda t, a, b: t.remainder(a, b)),
        (e.FloorDiv(), lambda t, a, b: t.floor(a / b).detach() + 0 * a + 0 * b),
    ]
    shapes = [
        ((2, 3, 4), (2, 3, 4)),
        ((2, 3, 4), (3, 1)),
        ((4,), (2, 1, 4)),
        ((1, 3, 1), (2, 1, 5)),
    ]
    cases = []
    for i, (op, f) in enumerate(table):
        a, b = shapes[i % len(shapes)]
        arrays = within(0.3, 2, *a), within(0.4, 2, *b)
        if isinstance(op, e.Max | e.Min):
            arrays = apart(*a), apart(*b) + np.float32(0.02)
        cases.append(Case(op.type_name.lower(), op, arrays, f))
    for a, b in shapes:
        cases.append(Case(f"mul-{a}-{b}", e.Mul(), (normal(*a), normal(*b)), lambda t, a, b: a * b))
    same = np.array([1.0, 2.0, -3.0], np.float32)
    other = np.array([1.0, 1.0, 5.0], np.float32)
    zeros = np.array([0.0, 1.0, 0.0, 2.0], np.float32)
    powers = np.array([2.0, 0.0, 3.0, 0.0], np.float32)
    slope = within(0.1, 0.4, 3, 1)
    condition = random.random((2, 1, 4)) > 0.5
    cases += [
        Case("max-ties", e.Max(), (same, other), lambda t, a, b: t.maximum(a, b), smooth=False),
        Case("min-ties", e.Min(), (same, other), lambda t, a, b: t.minimum(a, b), smooth=False),
        Case("larger", e.Larger(), (same, other), lambda t, a, b: t.maximum(a, b), smooth=False),
        Case("smaller", e.Smaller(), (same, other), lambda t, a, b: t.minimum(a, b), smooth=False),
        Case("pow-zeros", e.Pow(), (zeros, powers), lambda t, a, b: a**b, smooth=False),
        Case("remainder", e.Remainder(), (within(1, 9, 5), within(0.9, 1.1, 5)), None),
        Case(
            "prelu", e.PRelu(), (apart(2, 3, 5), slope),
            lambda t, x, s: t.where(x > 0, x, s * x),
        ),
        Case(
            "where", Where(), (condition, normal(2, 3, 4), normal(3, 1)),
            lambda t, c, a, b: t.where(c, a, b),
        ),
    ]  # fmt: skip
    return cases
