"""Broadcasting of old opsets: attributes said where the second operand lies on the first."""

from __future__ import annotations

from vknn.formats.onnx.context import Context
from vknn.graph import Value

#: From this opset on operands broadcast by NumPy's rules.
NUMPY_RULES = 7


def operands(c: Context) -> tuple[Value, Value]:
    """Both inputs, the second in a shape that broadcasts onto the first by NumPy's rules."""
    a, b = c.value(0), c.value(1)
    if c.version >= NUMPY_RULES:
        return a, b
    if not c.flag("broadcast"):
        c.require(a.type.dims == b.type.dims, f"without broadcast=1 takes no {a.type} and {b.type}")
        return a, b
    return a, aligned(c, a, b, c.int("axis", None))


def aligned(c: Context, a: Value, b: Value, axis: int | None) -> Value:
    """``b`` with its axes on those of ``a`` from ``axis`` on; None: on the last ones."""
    rank = a.type.rank
    c.require(b.type.rank <= rank, f"{b.type} does not broadcast onto {a.type}")
    first = rank - b.type.rank if axis is None else c.axis(axis, rank)
    behind = rank - first - b.type.rank
    c.require(behind >= 0, f"{b.type} does not fit {a.type} from axis {first} on")
    return c.reshape(b, (*b.type.dims, *[1] * behind)) if behind else b
