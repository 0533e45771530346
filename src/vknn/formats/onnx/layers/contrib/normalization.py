"""Normalisations of sums, as language models saved by onnxruntime have them."""

from __future__ import annotations

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers.normalization import layer_normalized, rms_normalized
from vknn.formats.onnx.registry import MICROSOFT, operator
from vknn.formats.onnx.steps import Item
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew


@operator("SkipLayerNormalization", 1, inputs=(3, 5), outputs=(1, 4), domain=MICROSOFT)
def skip_layer_normalization(c: Context) -> list[Item]:
    """LayerNormalization over the last axis of a sum, which is the fourth output"""
    total, wide = _sum(c, 4)
    scale, bias = (_wide(c, c.optional(i), wide) for i in (2, 3))
    x = c.cast(total, wide)
    found = layer_normalized(c, x, c.rank - 1, c.float("epsilon", 1e-12), scale, bias)
    return _outputs(c, c.cast(found, total.type.dtype), total)


@operator("SkipSimplifiedLayerNormalization", 1, inputs=(3, 4), outputs=(1, 4), domain=MICROSOFT)
def skip_simplified_layer_normalization(c: Context) -> list[Item]:
    """RMSNormalization over the last axis of a sum, which is the fourth output"""
    total, wide = _sum(c, 3)
    x, scale = c.cast(total, wide), _wide(c, c.value(2), wide)
    found = rms_normalized(c, x, c.rank - 1, c.float("epsilon", 1e-12), scale)
    return _outputs(c, c.cast(found, total.type.dtype), total)


def _sum(c: Context, bias: int) -> tuple[Value, DType]:
    """The sum of the first two inputs and a bias, and the type to normalise it in."""
    total = c.add(ew.Add(), c.value(0), c.value(1))
    if c.optional(bias) is not None:
        total = c.add(ew.Add(), total, c.value(bias))
    wide = DType.FLOAT64 if total.type.dtype is DType.FLOAT64 else DType.FLOAT32
    return total, wide


def _wide(c: Context, value: Value | None, wide: DType) -> Value | None:
    return None if value is None else c.cast(value, wide)


def _outputs(c: Context, found: Value, total: Value) -> list[Item]:
    if c.wants(1) or c.wants(2):
        c.refuse("the outputs mean and inv_std_var, which training alone reads")
    return [found, None, None, total]
