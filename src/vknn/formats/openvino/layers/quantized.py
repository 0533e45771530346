"""FakeQuantize: floats rounded to levels, for quantization-aware training."""

from __future__ import annotations

from vknn.formats.openvino.context import Context
from vknn.formats.openvino.registry import layer
from vknn.graph import DType, Value
from vknn.ops.elementwise import binary, logic
from vknn.ops.elementwise.unary import Round


@layer("FakeQuantize", "Quantize", inputs=5)
def fake_quantize(c: Context) -> Value:
    """Inputs x, input_low, input_high, output_low, output_high.

    output_low up to input_low, output_high above input_high; between them round((x - input_low) /
    (input_high - input_low) * (levels - 1)) / (levels - 1) * (output_high - output_low) +
    output_low, halves to even, in float32 and in this order.
    """
    levels = c.int("levels")
    c.require(levels >= 2, f"has {levels} levels")
    x, low, high, out_low, out_high = c.float_input(), *(_limit(c, k) for k in range(1, 5))
    steps = c.scalar(float(levels - 1))
    bounds = (low.constant, high.constant)
    proper = bounds[0] is not None and bounds[1] is not None and bool((bounds[0] < bounds[1]).all())
    if proper:
        # Elements clipped to the bounds are rounded to the first and the last level.
        y = c.add(binary.Min(), c.add(binary.Max(), x, low), high)
        return _rounded(c, y, low, high, out_low, out_high, steps)
    y = _rounded(c, x, low, high, out_low, out_high, steps)
    y = c.add(logic.Where(), c.add(logic.Greater(), x, high), out_high, y)
    return c.add(logic.Where(), c.add(logic.LessOrEqual(), x, low), out_low, y)


def _rounded(
    c: Context, x: Value, low: Value, high: Value, out_low: Value, out_high: Value, steps: Value
) -> Value:
    share = c.add(binary.Div(), c.add(binary.Sub(), x, low), _width(c, low, high))
    level = c.add(binary.Div(), c.add(Round(), c.add(binary.Mul(), share, steps)), steps)
    width = c.add(binary.Sub(), out_high, out_low)
    return c.add(binary.Add(), c.add(binary.Mul(), level, width), out_low)


def _width(c: Context, low: Value, high: Value) -> Value:
    """high - low, or 1 where they are equal: no element is between them then."""
    width = c.add(binary.Sub(), high, low)
    if width.constant is not None and width.constant.all():
        return width
    nothing = c.add(logic.Equal(), width, c.scalar(0.0))
    return c.add(logic.Where(), nothing, c.scalar(1.0), width)


def _limit(c: Context, number: int) -> Value:
    """A limit in a shape that broadcasts to x; a vector may be one number per channel."""
    value, dims = c.cast(c.value(number), DType.FLOAT32), c.x.type.dims
    given = value.type.dims
    tail = dims[len(dims) - len(given) :]
    if len(given) <= len(dims) and all(g in (1, d) for g, d in zip(given, tail, strict=True)):
        return value
    channels = dims[1] if len(dims) > 1 else 0
    c.require(given == (channels,), f"limits {value.type} do not broadcast to {c.x.type}")
    return c.reshape(value, (channels, *(1,) * (len(dims) - 2)))
