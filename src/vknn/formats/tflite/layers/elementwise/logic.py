"""Comparisons, logic, SELECT and SELECT_V2."""

from __future__ import annotations

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.common.quantization import scale_of, zero_of
from vknn.formats.tflite.registry import operator, quantized
from vknn.graph import DType, Op, Value
from vknn.ops.elementwise import logic
from vknn.ops.quantized import fixed_point as fp
from vknn.ops.quantized.arithmetic import Rescale

_COMPARISONS: dict[str, Op] = {
    "EQUAL": logic.Equal(),
    "NOT_EQUAL": logic.NotEqual(),
    "LESS": logic.Less(),
    "LESS_EQUAL": logic.LessOrEqual(),
    "GREATER": logic.Greater(),
    "GREATER_EQUAL": logic.GreaterOrEqual(),
}
_LOGIC: dict[str, Op] = {"LOGICAL_AND": logic.And(), "LOGICAL_OR": logic.Or()}
_EXTRA_BITS = 8


@operator(*_COMPARISONS, inputs=2)
def comparison(c: Context) -> Value:
    """Comparisons of two tensors with NumPy's broadcasting."""
    return c.add(_COMPARISONS[c.operator.code], c.x, c.value(1))


@quantized(*_COMPARISONS)
def quantized_comparison(c: Context) -> Value:
    """Comparisons of quantized tensors: operands with 8 more bits times their scale, fixed point.

    int16 operands are compared as stored, except by EQUAL and NOT_EQUAL.

    TensorFlow Lite differs: scales of 1 and more do not fit its arithmetic; it stops or errs.
    """
    if c.x.type.dtype is DType.INT16 and c.operator.code not in ("EQUAL", "NOT_EQUAL"):
        return c.add(_COMPARISONS[c.operator.code], c.x, c.value(1))
    sides = []
    for number in (0, 1):
        quant = c.quant(number)
        q, shift = fp.quantize_multiplier(float(scale_of(quant)))
        rescale = Rescale(int(q), int(shift), zero_of(quant), _EXTRA_BITS)
        sides.append(c.add(rescale, c.value(number)))
    return c.add(_COMPARISONS[c.operator.code], *sides)


@operator(*_LOGIC, inputs=2)
def logical(c: Context) -> Value:
    """LOGICAL_AND and LOGICAL_OR with NumPy's broadcasting."""
    return c.add(_LOGIC[c.operator.code], c.x, c.value(1))


@operator("LOGICAL_NOT")
def logical_not(c: Context) -> Value:
    """Logical negation."""
    return c.add(logic.Not(), c.x)


@operator("SELECT", inputs=3, takes_quantized=True)
def select(c: Context) -> Value:
    """x where the condition is true, else y; a vector of conditions selects whole rows."""
    condition, x, y = c.x, c.value(1), c.value(2)
    if _is_single(c):
        return _selected(c, condition)
    dims = condition.type.dims
    fits = dims == x.type.dims or not dims or (len(dims) == 1 and dims == x.type.dims[:1])
    c.require(fits and x.type.dims == y.type.dims,
              f"chooses between {x.type} and {y.type} by {condition.type}")  # fmt: skip
    if condition.type.rank == 1 and x.type.rank > 1:
        rows = (condition.type.size, *[1] * (x.type.rank - 1))
        condition = c.reshape(condition, rows)
    return _selected(c, condition)


@operator("SELECT_V2", inputs=3, takes_quantized=True)
def select_v2(c: Context) -> Value:
    """x where the condition is true, else y; all three broadcast."""
    return _selected(c, c.x)


def _is_single(c: Context) -> bool:
    """True where each input, and the output as the file declares it, has a single element."""
    shape = c.target().shape
    sizes = [c.value(i).type.size for i in range(3)]
    return sizes == [1, 1, 1] and all(d == 1 for d in shape)


def _selected(c: Context, condition: Value) -> Value:
    """The selection; with single elements it has the shape that the file declares."""
    y = c.add(logic.Where(), condition, c.value(1), c.value(2))
    return c.reshape(y, [1] * len(c.target().shape)) if _is_single(c) else y
