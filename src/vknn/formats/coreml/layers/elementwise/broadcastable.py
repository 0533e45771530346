"""Arithmetic of two blobs with NumPy's broadcasting."""

from __future__ import annotations

from vknn.formats.coreml.context import Context
from vknn.formats.coreml.registry import layer
from vknn.graph import Op, Value
from vknn.ops import elementwise as ew

_ARITHMETIC: dict[str, Op] = {
    "addBroadcastable": ew.Add(),
    "subtractBroadcastable": ew.Sub(),
    "multiplyBroadcastable": ew.Mul(),
    "divideBroadcastable": ew.Div(),
    "floorDivBroadcastable": ew.FloorDiv(),
    "modBroadcastable": ew.Mod(),
    "powBroadcastable": ew.Pow(),
    "minBroadcastable": ew.Min(),
    "maxBroadcastable": ew.Max(),
}


@layer(*_ARITHMETIC, inputs=2)
def arithmetic(c: Context) -> Value:
    """f(x, y); the remainder has the sign of the divisor."""
    return c.add(_ARITHMETIC[c.layer.type], c.x, c.value(1))
