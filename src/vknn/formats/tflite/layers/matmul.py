"""FULLY_CONNECTED and BATCH_MATMUL on floats, by weights of floats or of 8 bits."""

from __future__ import annotations

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.common.activation import CLAMPS, activate
from vknn.formats.tflite.layers.common.matmul import (
    check_matrices,
    fully_connected_shape,
    fully_connected_weights,
    rows,
    zero_depth_output,
)
from vknn.formats.tflite.layers.quantized.hybrid import activate_hybrid, dense, is_hybrid
from vknn.formats.tflite.layers.quantized.hybrid_batch_matmul import hybrid_batch_matmul
from vknn.formats.tflite.registry import operator
from vknn.graph import Value
from vknn.ops.matmul import MatMul


@operator("FULLY_CONNECTED", inputs=(2, 3), outputs=(1, 2))
def fully_connected(c: Context) -> Value:
    """Dense layer: x as rows times weights [units, depth], plus bias."""
    units, depth = fully_connected_weights(c)
    if c.options["weights_format"]:
        c.refuse("shuffled weights")
    if not depth:
        return zero_depth_output(c, units)
    bias = c.optional(2)
    bias = None if bias is None else c.reshape(bias, (bias.type.size,))
    y = dense(c, rows(c, c.x, depth), bias)
    y = c.reshape(y, fully_connected_shape(c, c.x, units, depth))
    if is_hybrid(c, 1):
        return activate_hybrid(c, y)
    code = c.options["fused_activation_function"]
    return activate(c, y) if code in (0, *CLAMPS) else c.refuse(f"the fused activation {code}")


@operator("BATCH_MATMUL", inputs=2)
def batch_matmul(c: Context) -> Value:
    """Matrix product x @ y over the last two axes; the leading axes broadcast.

    TensorFlow Lite differs: with 8-bit matrices of three batch axes it uses sums of rows that it
    has not computed, and with one scale for each column of the second operand of integers it takes
    0 for the scale, so that all of its results are 0.
    """
    check_matrices(c)
    if is_hybrid(c, 1):
        product = MatMul(transpose_b=c.options["adj_y"])
        return hybrid_batch_matmul(c, c.x, c.options["adj_x"], product)
    return c.add(MatMul(c.options["adj_x"], c.options["adj_y"]), c.x, c.value(1))
