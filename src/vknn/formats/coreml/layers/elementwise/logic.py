"""Comparison, logic and selection. Results are 1 and 0; inputs other than 0 are true."""

from __future__ import annotations

from vknn.formats.coreml.context import Context
from vknn.formats.coreml.registry import layer
from vknn.graph import Op, Value
from vknn.ops.elementwise import logic

_COMPARISONS: dict[str, Op] = {
    "equal": logic.Equal(),
    "notEqual": logic.NotEqual(),
    "lessThan": logic.Less(),
    "lessEqual": logic.LessOrEqual(),
    "greaterThan": logic.Greater(),
    "greaterEqual": logic.GreaterOrEqual(),
}
_LOGIC: dict[str, Op] = {
    "logicalAnd": logic.And(),
    "logicalOr": logic.Or(),
    "logicalXor": logic.Xor(),
}


def as_bool(c: Context, x: Value) -> Value:
    """Whether elements differ from 0; true for NaN."""
    return c.add(logic.NotEqual(), x, c.scalar(0.0))


@layer(*_COMPARISONS, inputs=(1, 2))
def comparison(c: Context) -> Value:
    """Comparison of two blobs, or of one with ``alpha``."""
    other = c.optional(1) or c.scalar(c.params.alpha)
    return c.add(_COMPARISONS[c.layer.type], c.x, other)


@layer(*_LOGIC, inputs=2)
def combination(c: Context) -> Value:
    """Logical and, or, xor of two blobs."""
    return c.add(_LOGIC[c.layer.type], as_bool(c, c.x), as_bool(c, c.value(1)))


@layer("logicalNot")
def negation(c: Context) -> Value:
    """Logical not: whether elements are 0."""
    return c.add(logic.Equal(), c.x, c.scalar(0.0))


@layer("whereBroadcastable", inputs=3)
def where(c: Context) -> Value:
    """The second input where the first is true, elsewhere the third."""
    return c.add(logic.Where(), as_bool(c, c.x), c.value(1), c.value(2))
