"""Gradients of arithmetic of two tensors: those of a broadcast input are added up."""

from __future__ import annotations

from vknn.graph import Op, Value
from vknn.ops import elementwise as e
from vknn.ops.elementwise.logic import Equal, Greater, Where
from vknn.training.gradients import flat, gradient
from vknn.training.scope import Scope

Pair = tuple[Value | None, Value | None]

#: Rounding of the quotient a / b to the whole number n of the remainder a - n b.
_WHOLE: dict[type[Op], Op] = {e.Fmod: e.Trunc(), e.Mod: e.Floor(), e.Remainder: e.Round()}


def both(g: Scope, da: Value | None, db: Value | None) -> Pair:
    """The two gradients in the shapes of the inputs."""
    a, b = g.x(0), g.x(1)
    return (
        g.fitted(da, a.type) if da is not None and g.wants(0) else None,
        g.fitted(db, b.type) if db is not None and g.wants(1) else None,
    )


@gradient(e.Add)
def add(g: Scope, dy: Value) -> Pair:
    """dy, dy"""
    return both(g, dy, dy)


@gradient(e.Sub)
def sub(g: Scope, dy: Value) -> Pair:
    """dy, -dy"""
    da, db = both(g, dy, dy)
    return da, None if db is None else g.times(db, -1)


@gradient(e.Mul)
def mul(g: Scope, dy: Value) -> Pair:
    """dy b, dy a"""
    da = g.times(dy, g.x(1)) if g.wants(0) else None
    db = g.times(dy, g.x(0)) if g.wants(1) else None
    return both(g, da, db)


@gradient(e.Div)
def div(g: Scope, dy: Value) -> Pair:
    """dy / b, -dy y / b"""
    quotient = g.over(dy, g.x(1))
    db = g.times(g.times(quotient, g.y), -1) if g.wants(1) else None
    return both(g, quotient, db)


@gradient(e.Max, e.Min, e.Larger, e.Smaller)
def extreme(g: Scope, dy: Value) -> Pair:
    """dy where the input was taken; half of it where both are the same."""
    a, b = g.x(0), g.x(1)
    larger = isinstance(g.node.op, e.Max | e.Larger)
    ahead = g.minus(a, b) if larger else g.minus(b, a)
    share = g.times(g.plus(g.unary(e.Sign(), ahead), 1), 0.5)
    da = g.times(dy, share) if g.wants(0) else None
    db = g.times(dy, g.complement(share)) if g.wants(1) else None
    return both(g, da, db)


@gradient(e.Pow)
def power(g: Scope, dy: Value) -> Pair:
    """dy b a^(b-1), 0 where b is 0; dy y ln a, 0 where a is not positive."""
    a, b = g.x(0), g.x(1)
    da = db = None
    if g.wants(0):
        slope = g.times(g.add(e.Pow(), a, g.plus(b, -1)), b)
        if b.constant is None or not b.constant.all():
            zero = g.scalar(0.0, b.type.dtype)
            slope = g.add(Where(), g.add(Equal(), b, zero), zero, slope)
        da = g.times(dy, slope)
    if g.wants(1):
        positive = g.add(Greater(), a, g.scalar(0.0, a.type.dtype))
        safe = g.add(Where(), positive, a, g.scalar(1.0, a.type.dtype))
        db = g.times(dy, g.times(g.y, g.unary(e.Log(), safe)))
    return both(g, da, db)


@gradient(e.Atan2)
def atan2(g: Scope, dy: Value) -> Pair:
    """dy b / (a^2 + b^2), -dy a / (a^2 + b^2)"""
    a, b = g.x(0), g.x(1)
    length = g.plus(g.unary(e.Square(), a), g.unary(e.Square(), b))
    part = g.over(dy, length)
    return both(g, g.times(part, b), g.times(g.times(part, a), -1))


@gradient(e.LogAddExp)
def log_add_exp(g: Scope, dy: Value) -> Pair:
    """dy e^(a - y), dy e^(b - y)"""
    da = g.times(dy, g.unary(e.Exp(), g.minus(g.x(0), g.y)))
    db = g.times(dy, g.unary(e.Exp(), g.minus(g.x(1), g.y)))
    return both(g, da, db)


@gradient(e.Fmod, e.Mod, e.Remainder)
def rest(g: Scope, dy: Value) -> Pair:
    """dy, -dy n where the result is a - n b; n jumps, and has no slope between."""
    if not g.wants(1):
        return both(g, dy, None)
    count = g.unary(_WHOLE[type(g.node.op)], g.over(g.x(0), g.x(1)))
    return both(g, dy, g.times(g.times(dy, count), -1))


flat(e.FloorDiv)


@gradient(e.Cast)
def cast(g: Scope, dy: Value) -> Value | None:
    """dy in the dtype of x"""
    return g.cast(dy, g.x().type.dtype)


@gradient(Where)
def where(g: Scope, dy: Value) -> tuple[Value | None, Value | None, Value | None]:
    """dy for the one that was taken, 0 for the other."""
    condition, zero = g.x(0), g.scalar(0.0, dy.type.dtype)
    da = g.add(Where(), condition, dy, zero) if g.wants(1) else None
    db = g.add(Where(), condition, zero, dy) if g.wants(2) else None
    return (
        None,
        None if da is None else g.fitted(da, g.x(1).type),
        None if db is None else g.fitted(db, g.x(2).type),
    )
