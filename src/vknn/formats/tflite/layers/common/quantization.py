"""Scales, zero points and multipliers of quantized tensors, and tables over their integers."""

from __future__ import annotations

import numpy as np

from vknn.formats.layer_errors import Malformed
from vknn.formats.tflite.context import Context
from vknn.formats.tflite.records import Quant
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.quantized import fixed_point as fp
from vknn.ops.quantized.arithmetic import TableLookup
from vknn.ops.quantized.linear import DequantizeLinear

#: A number for RELU_0_TO_1 beside those of the schema's ActivationFunctionType, which lacks it.
RELU_0_TO_1 = -1


def all_values(dtype: DType) -> np.ndarray:
    """All integers of a dtype of 8 or 16 bits in ascending order, as int64."""
    if dtype not in (DType.INT8, DType.UINT8, DType.INT16):
        raise Malformed(f"takes integers of 8 or 16 bits, not {dtype.value}")
    info = np.iinfo(dtype.numpy)
    return np.arange(info.min, info.max + 1, dtype=np.int64)


def table_lookup(c: Context, table: np.ndarray, x: Value | None = None) -> Value:
    """``x`` (default: the first input) through ``table``, which has an entry for each integer.

    Entries are in the order of :func:`all_values` and are saturated to the output's dtype.
    """
    x = x or c.x
    first = int(np.iinfo(x.type.dtype.numpy).min)
    held = fp.saturated(table, c.target().dtype.numpy)
    return c.add(TableLookup(first), x, c.constant(held, "table"))


def scale_of(quant: Quant) -> np.float32:
    """The scale of a tensor that is quantized as a whole (not by channel)."""
    return np.float32(quant.scale.reshape(-1)[0])


def zero_of(quant: Quant) -> int:
    """The zero point of a tensor that is quantized as a whole (not by channel)."""
    return int(quant.zero_point.reshape(-1)[0])


def output_quant(c: Context, number: int = 0) -> Quant:
    """Scale and zero point of an output; Malformed where it has none, or a scale of 0."""
    quant = c.quant_of(c.target(number), f"output {number}")
    c.require(bool((quant.scale > 0).all()), f"output {number} has a scale of 0")
    return quant


def check_symmetric_int16(c: Context) -> None:
    """Check: Malformed for int16 tensors with a zero point, as TensorFlow Lite's kernels do."""
    if c.x.type.dtype is DType.INT16:
        quants = [c.quant(i) for i in range(len(c.inputs))] + [output_quant(c)]
        zeros = [zero_of(q) for q in quants]
        c.require(not any(zeros), f"has int16 tensors with the zero points {zeros}")


def power_of_two_exponent(scale: float) -> int | None:
    """Exponent of a scale within 0.07 % of a power of two (TensorFlow Lite's test), else None."""
    exponent = np.log(scale) * (1 / np.log(2.0)) if scale > 0 else 0.5
    whole = round(exponent)
    return whole if abs(exponent - whole) < 1e-3 else None


def float32_ratio(scale: np.float32, other: np.float32) -> float:
    """scale / other, rounded to float32, as most kernels do before they make it a multiplier."""
    return float(np.float32(scale) / np.float32(other))


def activation_bounds(c: Context, code: int) -> tuple[int, int]:
    """Lowest and highest integer of the output behind the fused activation number ``code``.

    Activations that do not clamp leave the range of the output's dtype.
    """
    quant, info = output_quant(c), np.iinfo(c.target().dtype.numpy)
    ranges = {1: (0.0, None), 2: (-1.0, 1.0), 3: (0.0, 6.0), RELU_0_TO_1: (0.0, 1.0)}
    limits = ranges.get(code, (None, None))
    largest = max(abs(limit or 0.0) for limit in limits) / scale_of(quant)
    c.require(bool(largest < 1 << 31), f"has an activation up to {largest:.3g} steps")
    low, high = int(info.min), int(info.max)
    if limits[0] is not None:
        low = max(low, _code_of(limits[0], quant))
    if limits[1] is not None:
        high = min(high, _code_of(limits[1], quant))
    return low, high


def _code_of(real: float, quant: Quant) -> int:
    return zero_of(quant) + int(fp.round_half_away(np.float32(real) / scale_of(quant)))


def integer_multiplier(real: float | np.floating) -> tuple[int, int]:
    """Fixed-point form (q, shift) of ``real`` = q * 2 ** (shift - 31), q below 2 ** 31."""
    q, shift = fp.quantize_multiplier(float(real))
    return int(q), int(shift)


def table_of_int16(c: Context, table: np.ndarray, x: Value) -> Value:
    """``x`` of int16 looked up in a table of 65,536 entries, as int16."""
    return c.add(TableLookup(-32768), x, c.constant(table.astype(np.int16), "table"))


def dequantized(c: Context, number: int) -> Value:
    """Input ``number`` as float32; quantized integers by the one scale and zero point they have."""
    value = c.value(number)
    if value.type.dtype is DType.FLOAT32:
        return value
    if value.type.dtype is DType.FLOAT16:
        return c.add(ew.Cast(DType.FLOAT32), value)
    quant = c.quant(number)
    scale = c.constant(quant.scale.reshape(-1)[0], "scale")
    shifted = c.add(ew.Cast(DType.INT32), value)
    shifted = c.add(ew.Sub(), shifted, c.scalar(zero_of(quant), DType.INT32))
    return c.add(DequantizeLinear(), shifted, scale)
