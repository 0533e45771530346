"""Gradients of activations; at kinks PyTorch's, that of the side where the function is flat."""

from __future__ import annotations

import math

from vknn.graph import Value
from vknn.ops import elementwise as e
from vknn.ops.elementwise.glu import Glu
from vknn.training.gradients import decomposition, gradient
from vknn.training.rules.unary import derivative
from vknn.training.scope import Scope


def above(g: Scope, x: Value, bound: float = 0.0) -> Value:
    """1 where x > bound, else 0."""
    return g.unary(e.Threshold(bound), x)


@derivative(e.Relu)
def relu(g: Scope) -> Value:
    """1 where x > 0"""
    return above(g, g.x())


@derivative(e.LeakyRelu)
def leaky_relu(g: Scope) -> Value:
    """1 where x > 0, else alpha"""
    alpha = g.op(e.LeakyRelu).alpha
    return g.plus(g.times(above(g, g.x()), 1 - alpha), alpha)


@gradient(e.PRelu)
def prelu(g: Scope, dy: Value) -> tuple[Value | None, Value | None]:
    """dy where x > 0, else slope * dy; for the slope x * dy where x <= 0."""
    x, slope = g.x(0), g.x(1)
    right = above(g, x)
    left = g.complement(right)
    factor = g.plus(right, g.times(left, slope))
    dx = g.fitted(g.times(dy, factor), x.type) if g.wants(0) else None
    share = g.times(dy, g.times(left, x))
    return dx, g.fitted(share, slope.type) if g.wants(1) else None


@derivative(e.Elu)
def elu(g: Scope) -> Value:
    """1 where x > 0, else alpha e^x"""
    right = above(g, g.x())
    # Clipped at 0: e^x of a large x is infinite, and infinity times the 0 of the mask is NaN.
    power = g.unary(e.Exp(), g.unary(e.Clip(max=0.0), g.x()))
    left = g.times(g.complement(right), power)
    return g.plus(right, g.times(left, g.op(e.Elu).alpha))


@derivative(e.Sigmoid)
def sigmoid(g: Scope) -> Value:
    """y (1 - y)"""
    return g.times(g.complement(g.y), g.y)


@derivative(e.HardSigmoid)
def hard_sigmoid(g: Scope) -> Value:
    """alpha strictly within the bounds"""
    op = g.op(e.HardSigmoid)
    line = g.plus(g.times(g.x(), op.alpha), op.beta)
    inside = g.times(above(g, line), above(g, g.complement(line)))
    return g.times(inside, op.alpha)


@derivative(e.Softplus)
def softplus(g: Scope) -> Value:
    """sigmoid(x)"""
    return g.unary(e.Sigmoid(), g.x())


@derivative(e.Softsign)
def softsign(g: Scope) -> Value:
    """1 / (1 + |x|)^2"""
    size = g.plus(g.unary(e.Abs(), g.x()), 1)
    return g.unary(e.Reciprocal(), g.unary(e.Square(), size))


@gradient(e.Clip)
def clip(g: Scope, dy: Value) -> Value:
    """dy within the bounds, these included"""
    op = g.op(e.Clip)
    if op.max < math.inf:
        dy = g.times(dy, g.complement(above(g, g.x(), op.max)))
    if op.min > -math.inf:
        below = above(g, g.times(g.x(), -1), -op.min)
        dy = g.times(dy, g.complement(below))
    return dy


@derivative(e.Shrink)
def shrink(g: Scope) -> Value:
    """1 where |x| > lambd"""
    return above(g, g.unary(e.Abs(), g.x()), g.op(e.Shrink).lambd)


# --- functions of functions -----------------------------------------------------------------------


@decomposition(e.Selu)
def selu(g: Scope) -> Value:
    """gamma * elu(x)"""
    op = g.op(e.Selu)
    return g.times(g.unary(e.Elu(op.alpha), g.x()), op.gamma)


@decomposition(e.Celu)
def celu(g: Scope) -> Value:
    """alpha * elu(x / alpha)"""
    alpha = g.op(e.Celu).alpha
    return g.times(g.unary(e.Elu(1.0), g.times(g.x(), 1 / alpha)), alpha)


@decomposition(e.HardSwish)
def hard_swish(g: Scope) -> Value:
    """x * hard_sigmoid(x)"""
    op = g.op(e.HardSwish)
    return g.times(g.x(), g.unary(e.HardSigmoid(op.alpha, op.beta), g.x()))


@decomposition(e.Swish)
def swish(g: Scope) -> Value:
    """x * sigmoid(x)"""
    return g.times(g.x(), g.unary(e.Sigmoid(), g.x()))


@decomposition(e.Mish)
def mish(g: Scope) -> Value:
    """x * tanh(softplus(x))"""
    return g.times(g.x(), g.unary(e.Tanh(), g.unary(e.Softplus(), g.x())))


@decomposition(e.Gelu)
def gelu(g: Scope) -> Value:
    """x/2 * (1 + erf(x/sqrt 2)), or with tanh"""
    x = g.x()
    if g.op(e.Gelu).approximate == "none":
        bent = g.unary(e.Erf(), g.times(x, math.sqrt(0.5)))
    else:
        cubic = g.times(g.plus(g.times(g.unary(e.Square(), x), 0.044715), 1), x)
        bent = g.unary(e.Tanh(), g.times(cubic, math.sqrt(2 / math.pi)))
    return g.times(g.times(x, g.plus(bent, 1)), 0.5)


@decomposition(Glu)
def glu(g: Scope) -> Value:
    """a * sigmoid(b) of the halves"""
    x, op = g.x(), g.op(Glu)
    axis = op.axis % x.type.rank
    half = x.type.dims[axis] // 2
    a, b = g.cut(x, axis, 0, half), g.cut(x, axis, half, 2 * half)
    return g.times(a, g.unary(e.Sigmoid(), b))
