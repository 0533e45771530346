"""L2_NORMALIZATION and LOCAL_RESPONSE_NORMALIZATION on floats."""

from __future__ import annotations

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.registry import operator
from vknn.graph import Value
from vknn.ops import elementwise as ew
from vknn.ops import reduction as rd
from vknn.ops.normalization import LRN


@operator("L2_NORMALIZATION")
def l2_normalization(c: Context) -> Value:
    """L2 normalization: x / max(sqrt(sum of squares), 1e-6) along the last axis."""
    c.require(not c.options["fused_activation_function"], "has a fused activation")
    squares = c.add(rd.ReduceSumSquare((c.x.type.rank - 1,), True), c.x)
    bounded = c.add(ew.Max(), squares, c.scalar(1e-12))
    return c.add(ew.Mul(), c.x, c.add(ew.Rsqrt(), bounded))


@operator("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(c: Context) -> Value:
    """LRN: x / (bias + alpha * sum of squares of 2 * radius + 1 channels) ** beta.

    TensorFlow Lite differs: its reference kernel leaves out the last channel of each window, its
    optimized one, which vknn follows, does not.
    """
    o = c.options
    c.require(c.x.type.rank == 4, f"takes a tensor of rank 4, not {c.x.type}")
    c.require(o["radius"] >= 0, f"has a radius of {o['radius']}")
    op = LRN((1,), (o["radius"],), (o["radius"],), o["alpha"], o["beta"], o["bias"])
    return c.channels_last(c.add(op, c.channels_second(c.x)))
