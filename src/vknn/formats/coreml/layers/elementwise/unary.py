"""Elementwise functions of one blob."""

from __future__ import annotations

import math

from vknn.formats.coreml.context import Context
from vknn.formats.coreml.registry import layer
from vknn.graph import Op, Value
from vknn.ops import elementwise as ew

_FUNCTIONS: dict[str, Op] = {
    "ceil": ew.Ceil(),
    "floor": ew.Floor(),
    "sign": ew.Sign(),
    "round": ew.Round(),
    "sin": ew.Sin(),
    "cos": ew.Cos(),
    "tan": ew.Tan(),
    "asin": ew.Asin(),
    "acos": ew.Acos(),
    "atan": ew.Atan(),
    "sinh": ew.Sinh(),
    "cosh": ew.Cosh(),
    "tanh": ew.Tanh(),
    "asinh": ew.Asinh(),
    "acosh": ew.Acosh(),
    "atanh": ew.Atanh(),
    "erf": ew.Erf(),
}


@layer(*_FUNCTIONS)
def function(c: Context) -> Value:
    """f(x); ``round`` rounds halves to even numbers."""
    return c.add(_FUNCTIONS[c.layer.type], c.x)


@layer("exp2")
def exp2(c: Context) -> Value:
    """2 to the power x."""
    return c.add(ew.Pow(), c.scalar(2.0), c.x)


@layer("clip")
def clip(c: Context) -> Value:
    """min(max(x, minVal), maxVal), and so maxVal where the bounds cross."""
    p = c.params
    c.require(not math.isnan(p.minVal) and not math.isnan(p.maxVal), "a bound is not a number")
    return c.add(ew.Clip(p.minVal, p.maxVal), c.x)
