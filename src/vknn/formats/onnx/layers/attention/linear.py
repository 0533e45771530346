"""Layers of models with a state instead of attention to all keys."""

from __future__ import annotations

import math

import numpy as np

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.registry import operator
from vknn.graph import DType, Value
from vknn.ops import elementwise as ew
from vknn.ops.attention import LinearAttention
from vknn.ops.convolution.conv import Conv
from vknn.ops.movement.shape import Concat, Expand, Slice

_RULES = ("linear", "gated", "delta", "gated_delta")


@operator("LinearAttention", 27, inputs=(3, 6), outputs=(1, 2), any_type=True)
def linear_attention(c: Context) -> list[Value]:
    """Sums of k v^T that decay or are corrected step by step, read by the queries"""
    heads, groups = c.int("q_num_heads"), c.int("kv_num_heads")
    c.require(groups > 0 and heads > 0 and heads % groups == 0, f"{heads} heads, {groups} of keys")
    rule = c.text("update_rule", "gated_delta", _RULES)
    decay, beta = c.optional(4), c.optional(5)
    c.require((decay is not None) == ("gated" in rule), f"decay does not suit the rule {rule}")
    c.require((beta is not None) == ("delta" in rule), f"beta does not suit the rule {rule}")
    q, k, v = (c.cast(c.value(number), DType.FLOAT32) for number in range(3))
    c.require(q.type.rank == v.type.rank == 3, f"takes no {q.type} and {v.type}")
    batch, length, width = q.type.dims
    c.require(width % heads == 0 and v.type.dims[2] % groups == 0, "heads do not divide its inputs")
    depth, value_depth = width // heads, v.type.dims[2] // groups
    state, kind = c.optional(3), c.x.type.dtype
    dims = (batch, groups, depth, value_depth)
    if state is None:
        first, state_kind = c.constant(np.zeros(dims, np.float32), "state"), kind
    else:
        first, state_kind = c.cast(state, DType.FLOAT32), state.type.dtype
    if decay is not None:
        decay = c.cast(decay, DType.FLOAT32)
    if beta is not None:
        beta = c.add(Expand((batch, length, groups)), c.cast(beta, DType.FLOAT32))
    scale = c.float("scale", 0.0) or 1.0 / math.sqrt(max(depth, 1))
    op = LinearAttention(heads, groups, float(scale))
    output, present = c.add_many(op, q, k, v, first, decay, beta)
    return [c.cast(output, kind), c.cast(present, state_kind)]


@operator("CausalConvWithState", 27, inputs=(2, 4), outputs=(1, 2))
def causal_conv_with_state(c: Context) -> list[Value]:
    """Conv of each channel over the elements up to each place; the last are carried over"""
    x, weights, past = c.x, c.value(1), c.optional(3)
    c.require(x.type.rank == weights.type.rank == 3, f"takes no {x.type} and {weights.type}")
    batch, channels, _ = x.type.dims
    taps = weights.type.dims[2]
    good = weights.type.dims[:2] == (channels, 1) and taps > 0
    c.require(good, f"has the weights {weights.type} for {x.type}")
    if past is None:
        past = c.constant(np.zeros((batch, channels, taps - 1), x.type.dtype.numpy), "state")
    wanted = (batch, channels, taps - 1)
    c.require(past.type.dims == wanted, f"has the state {past.type}, not {list(wanted)}")
    whole = c.add(Concat(2), past, x) if taps > 1 else x
    found = x
    if x.type.size:
        found = c.add(Conv((1,), (0, 0), (1,), channels), whole, weights, c.optional(2))
    if c.text("activation", "none", ("none", "silu", "swish")) != "none":
        found = c.add(ew.Swish(), found)
    total = whole.type.dims[2]
    return [found, c.add(Slice((total - taps + 1,), (total,), (2,)), whole)]
