"""InnerProduct: the fully connected (dense) layer."""

from __future__ import annotations

import math

import numpy as np

from vknn.formats.ncnn.context import Context, rank, shape
from vknn.formats.ncnn.layers.common.activation import activate, check_activation
from vknn.formats.ncnn.layers.quantized.int8 import (
    check_term,
    dequantize,
    quantize,
    quantized_weight,
    scale_specs,
)
from vknn.formats.ncnn.params import Params, param, require
from vknn.formats.ncnn.registry import FLOAT_OR_INT8, layer
from vknn.formats.ncnn.weights import WeightSpec
from vknn.graph import DType, Value, attributes
from vknn.ops.matmul import MatMul, MatMulInteger


@attributes
class InnerProductParams(Params):
    """Parameters of InnerProduct."""

    num_output: int = param(0)
    bias_term: int = param(1)
    weight_data_size: int = param(2)
    int8_scale_term: int = param(8)
    activation_type: int = param(9)
    activation_params: tuple[float, ...] = param(10, ())

    @property
    def num_input(self) -> int:
        """Elements of an input row."""
        return self.weight_data_size // self.num_output

    def check(self) -> None:
        require(self.num_output > 0, f"num_output {self.num_output} must be positive")
        require(
            self.weight_data_size > 0 and self.weight_data_size % self.num_output == 0,
            f"weight_data_size {self.weight_data_size} is not a multiple of num_output",
        )
        check_activation(self.activation_type, self.activation_params)
        check_term(self.int8_scale_term)


def _weights(p: InnerProductParams) -> list[WeightSpec]:
    specs = [WeightSpec("weight", (p.num_output, p.num_input), tagged=True)]
    if p.bias_term:
        specs.append(WeightSpec("bias", (p.num_output,)))
    # The output is always float, so that it has no scale, whatever the term is.
    return specs + scale_specs(min(p.int8_scale_term, 1), p.num_output)


@layer(
    "InnerProduct",
    params=InnerProductParams,
    weights=_weights,
    accepts=FLOAT_OR_INT8,
    quantized=lambda p: bool(p.int8_scale_term),
)
def inner_product(c: Context[InnerProductParams]) -> Value:
    """Dense layer on each row of a 2-D blob that has num_input columns, else on all elements."""
    p, x = c.params, c.x
    if not (rank(x) == 2 and shape(x)[1] == p.num_input):
        total = math.prod(shape(x))
        c.require(total == p.num_input, f"takes {p.num_input} elements, the input has {total}")
        x = c.reshape(x, (1, total))
    return activate(c, _dense(c, x), p.activation_type, p.activation_params)


def _dense(c: Context[InnerProductParams], x: Value) -> Value:
    """Rows of ``x`` times ``weight`` plus ``bias``, in float32 or int8."""
    if c.params.int8_scale_term:
        scales = c.weight("weight_scale")
        weight = quantized_weight(c, scales)
        x = quantize(c, x, c.weight("bottom_scale"))
        total = c.add(MatMulInteger(transpose_b=True), x, c.constant(weight, "weight"))
        return dequantize(c, total, scales, axis=x.type.rank - 1)
    c.require(x.type.dtype is DType.FLOAT32, "takes float32 without int8_scale_term")
    weight = c.weight("weight")
    c.require(weight.dtype != np.int8, "int8 weights without int8_scale_term")
    matrix = c.constant(weight, "weight")
    return c.add(MatMul(transpose_b=True), x, matrix, c.weight_value("bias"))
