"""Gradients of mathematical functions: the gradient of the result times the derivative.

The derivatives are those of the NIST Digital Library of Mathematical Functions: 4.7 (exponential,
logarithm), 4.20 and 4.24 (trigonometric), 4.34 and 4.38 (hyperbolic), 7.10 (error function).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from vknn.graph import Op, Value
from vknn.ops import elementwise as e
from vknn.training.gradients import flat, gradient
from vknn.training.scope import Scope

#: The derivative at ``g.x()``; ``g.y`` is the result.
Derivative = Callable[[Scope], Value]


def derivative(*ops: type[Op]) -> Callable[[Derivative], Derivative]:
    """Registration of the derivative of elementwise functions of one input."""

    def register(make: Derivative) -> Derivative:
        @gradient(*ops)
        def rule(g: Scope, dy: Value) -> Value:
            return g.times(dy, make(g))

        return make

    return register


flat(e.Sign, e.Floor, e.Ceil, e.Round, e.Trunc, e.Threshold)


@gradient(e.Neg)
def neg(g: Scope, dy: Value) -> Value:
    """-dy"""
    return g.times(dy, -1)


@derivative(e.Abs)
def absolute(g: Scope) -> Value:
    """The sign, 0 at 0."""
    return g.unary(e.Sign(), g.x())


@derivative(e.Square)
def square(g: Scope) -> Value:
    """2 x"""
    return g.times(g.x(), 2)


@derivative(e.Sqrt)
def sqrt(g: Scope) -> Value:
    """1 / (2 y)"""
    return g.over(0.5, g.y)


@derivative(e.Rsqrt)
def rsqrt(g: Scope) -> Value:
    """-y^3 / 2"""
    return g.times(g.times(g.unary(e.Square(), g.y), g.y), -0.5)


@derivative(e.Reciprocal)
def reciprocal(g: Scope) -> Value:
    """-y^2"""
    return g.times(g.unary(e.Square(), g.y), -1)


@derivative(e.Exp)
def exp(g: Scope) -> Value:
    """y"""
    return g.y


@derivative(e.Expm1)
def expm1(g: Scope) -> Value:
    """e^x"""
    return g.unary(e.Exp(), g.x())


@derivative(e.Log)
def log(g: Scope) -> Value:
    """1 / x"""
    return g.unary(e.Reciprocal(), g.x())


@derivative(e.Log10)
def log10(g: Scope) -> Value:
    """1 / (x ln 10)"""
    return g.over(1 / math.log(10), g.x())


@derivative(e.Log1p)
def log1p(g: Scope) -> Value:
    """1 / (1 + x)"""
    return g.unary(e.Reciprocal(), g.plus(g.x(), 1))


@derivative(e.Sin)
def sin(g: Scope) -> Value:
    """cos x"""
    return g.unary(e.Cos(), g.x())


@derivative(e.Cos)
def cos(g: Scope) -> Value:
    """-sin x"""
    return g.times(g.unary(e.Sin(), g.x()), -1)


@derivative(e.Tan)
def tan(g: Scope) -> Value:
    """1 + y^2"""
    return g.plus(g.unary(e.Square(), g.y), 1)


@derivative(e.Asin)
def asin(g: Scope) -> Value:
    """1 / sqrt(1 - x^2)"""
    return g.unary(e.Rsqrt(), g.complement(g.unary(e.Square(), g.x())))


@derivative(e.Acos)
def acos(g: Scope) -> Value:
    """-1 / sqrt(1 - x^2)"""
    return g.times(asin(g), -1)


@derivative(e.Atan)
def atan(g: Scope) -> Value:
    """1 / (1 + x^2)"""
    return g.unary(e.Reciprocal(), g.plus(g.unary(e.Square(), g.x()), 1))


@derivative(e.Sinh)
def sinh(g: Scope) -> Value:
    """cosh x"""
    return g.unary(e.Cosh(), g.x())


@derivative(e.Cosh)
def cosh(g: Scope) -> Value:
    """sinh x"""
    return g.unary(e.Sinh(), g.x())


@derivative(e.Tanh)
def tanh(g: Scope) -> Value:
    """1 - y^2"""
    return g.complement(g.unary(e.Square(), g.y))


@derivative(e.Asinh)
def asinh(g: Scope) -> Value:
    """1 / sqrt(x^2 + 1)"""
    return g.unary(e.Rsqrt(), g.plus(g.unary(e.Square(), g.x()), 1))


@derivative(e.Acosh)
def acosh(g: Scope) -> Value:
    """1 / sqrt(x^2 - 1)"""
    return g.unary(e.Rsqrt(), g.plus(g.unary(e.Square(), g.x()), -1))


@derivative(e.Atanh)
def atanh(g: Scope) -> Value:
    """1 / (1 - x^2)"""
    return g.unary(e.Reciprocal(), g.complement(g.unary(e.Square(), g.x())))


@derivative(e.Erf)
def erf(g: Scope) -> Value:
    """2 / sqrt(pi) e^(-x^2)"""
    bell = g.unary(e.Exp(), g.times(g.unary(e.Square(), g.x()), -1))
    return g.times(bell, 2 / math.sqrt(math.pi))
