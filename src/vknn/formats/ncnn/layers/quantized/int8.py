"""Int8 convolutions and inner products.

q = clamp(round half away from zero(x * bottom scale)), products summed in int32, then
y = sum / (bottom scale * weight scale) + bias, the activation, and, where the layer gives int8,
clamp(round(y * top scale)).
"""

from __future__ import annotations

import numpy as np

from vknn.formats.ncnn.context import Context
from vknn.formats.ncnn.params import P, require
from vknn.formats.ncnn.weights import WeightSpec
from vknn.graph import DType, Value
from vknn.ops.quantized.linear import DequantizeLinear, QuantizeLinear

TERMS = (0, 1, 2, 101, 102)
_LIMIT = 127


def check_term(term: int) -> None:
    """Check: Malformed unless ``term`` is an int8_scale_term."""
    require(term in TERMS, f"unknown int8_scale_term {term}")


def scale_specs(term: int, weight_scales: int) -> list[WeightSpec]:
    """Specs of the scales, which follow the bias in the file."""
    if not term:
        return []
    specs = [WeightSpec("weight_scale", (weight_scales,)), WeightSpec("bottom_scale", (1,))]
    return [*specs, WeightSpec("top_scale", (1,))] if term > 100 else specs


def quantize(c: Context[P], x: Value, scale: np.ndarray | float, axis: int = 1) -> Value:
    """``x`` quantized to int8, or itself where it is int8 already."""
    if x.type.dtype is DType.INT8:
        return x
    op = QuantizeLinear(
        dtype=DType.INT8,
        low=-_LIMIT,
        high=_LIMIT,
        rounding="half_away",
        multiply=True,
        axis=axis,
    )
    array = np.asarray(scale, np.float32)
    return c.add(op, x, c.constant(array.reshape(()) if array.size == 1 else array, "scale"), None)


def quantized_weight(c: Context[P], scales: np.ndarray) -> np.ndarray:
    """The layer's ``weight`` as int8; float weights are quantized by a scale for each output."""
    weight = c.weight("weight")
    if weight.dtype == np.int8:
        return weight
    columns = scales.reshape((-1,) + (1,) * (weight.ndim - 1))
    # The product is float32 as in ncnn; halves are then found exactly in float64.
    with np.errstate(all="ignore"):
        scaled = np.nan_to_num((weight * columns).astype(np.float64))
    rounded = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)
    return np.clip(rounded, -_LIMIT, _LIMIT).astype(np.int8)


def dequantize(c: Context[P], total: Value, scales: np.ndarray, axis: int) -> Value:
    """int32 sums as float32 plus bias; ``scales``: weight scales, one for each output."""
    bottom = c.weight("bottom_scale")[0]
    with np.errstate(all="ignore"):
        factor = np.float32(1) / (bottom * scales)
    factor = np.where(scales == 0, np.float32(0), factor).astype(np.float32)
    bias = c.weight_value("bias")
    return c.add(DequantizeLinear(axis=axis), total, c.constant(factor, "dequantize"), bias)
