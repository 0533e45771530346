"""Products with gates."""

from __future__ import annotations

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.registry import operator
from vknn.graph import Value
from vknn.ops import elementwise as ew


@operator("SwiGLU", 28, inputs=2)
def swiglu(c: Context) -> Value:
    """a * sigmoid(alpha * a) * b, of equal shapes"""
    a, b = c.value(0), c.value(1)
    c.require(a.type == b.type, f"takes no {a.type} and {b.type}")
    alpha = c.float("alpha", 1.0)
    if alpha == 1.0:
        return c.add(ew.Mul(), c.add(ew.Swish(), a), b)
    gate = c.add(ew.Sigmoid(), c.add(ew.Mul(), a, c.scalar(alpha, a.type.dtype)))
    return c.add(ew.Mul(), c.add(ew.Mul(), a, gate), b)
