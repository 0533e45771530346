"""Embed: rows of a table by index."""

from __future__ import annotations

import math

import numpy as np

from vknn.formats.ncnn.context import Context, shape
from vknn.formats.ncnn.params import Params, param, require
from vknn.formats.ncnn.registry import INT32, layer
from vknn.formats.ncnn.weights import WeightSpec
from vknn.graph import Value, attributes
from vknn.ops.elementwise import Add
from vknn.ops.indexing.gather import Gather


@attributes
class EmbedParams(Params):
    """Parameters of Embed."""

    num_output: int = param(0)
    input_dim: int = param(1)
    bias_term: int = param(2)
    weight_data_size: int = param(3)
    int8_scale_term: int = param(18)

    def check(self) -> None:
        sizes = self.num_output, self.input_dim
        require(min(sizes) > 0, f"num_output and input_dim {sizes} must be positive")
        good = self.weight_data_size == math.prod(sizes)
        require(good, f"weight_data_size {self.weight_data_size} is not {sizes[0]} x {sizes[1]}")


def _weights(p: EmbedParams) -> list[WeightSpec]:
    int8 = bool(p.int8_scale_term)
    specs = [WeightSpec("weight", (p.input_dim, p.num_output), tagged=True, int8=int8)]
    if p.bias_term:
        specs.append(WeightSpec("bias", (p.num_output,)))
    return [*specs, WeightSpec("weight_scale", (1,))] if int8 else specs


@layer("Embed", params=EmbedParams, weights=_weights, accepts=INT32)
def embed(c: Context[EmbedParams]) -> Value:
    """Rows of a table: indices (n) -> (n, num_output).

    ncnn differs: indices outside the table give its first or last row.
    """
    total = math.prod(shape(c.x))
    c.require(total == shape(c.x)[-1], f"takes a vector of numbers, not {list(shape(c.x))}")
    weight = c.weight("weight")
    if c.params.int8_scale_term:
        c.require(weight.dtype == np.int8, "weights must be stored as int8 with int8_scale_term")
        weight = weight * (np.float32(1) / c.weight("weight_scale")[0])
    c.require(weight.dtype != np.int8, "int8 weights without int8_scale_term")
    indices = c.reshape(c.x, (1, total))
    y = c.add(Gather(axis=0, from_end=False), c.constant(weight, "weight"), indices)
    bias = c.weight_value("bias")
    return y if bias is None else c.add(Add(), y, bias)
