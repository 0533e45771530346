"""Activation operators: RELU and its kin, LOGISTIC, TANH, ELU, HARD_SWISH, LEAKY_RELU, PRELU."""

from __future__ import annotations

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.layers.common.activation import ACTIVATIONS
from vknn.formats.tflite.registry import operator
from vknn.graph import Op, Value
from vknn.ops import elementwise as ew

_FLOAT: dict[str, Op] = {
    "RELU": ACTIVATIONS[1],
    "RELU_N1_TO_1": ACTIVATIONS[2],
    "RELU6": ACTIVATIONS[3],
    "RELU_0_TO_1": ew.Clip(0.0, 1.0),
    "TANH": ACTIVATIONS[4],
    "LOGISTIC": ew.Sigmoid(),
    "ELU": ew.Elu(1.0),
    "HARD_SWISH": ew.HardSwish(1 / 6, 0.5),
}


@operator(*_FLOAT)
def activation(c: Context) -> Value:
    """Activations without parameters."""
    return c.add(_FLOAT[c.operator.code], c.x)


@operator("GELU")
def gelu(c: Context) -> Value:
    """GELU: x times the normal distribution's share below it; by its tanh form if approximate."""
    return c.add(ew.Gelu("tanh" if c.options["approximate"] else "none"), c.x)


@operator("LEAKY_RELU")
def leaky_relu(c: Context) -> Value:
    """Leaky ReLU: x where x > 0, else alpha * x."""
    return c.add(ew.LeakyRelu(c.options["alpha"]), c.x)


def check_slopes(c: Context) -> None:
    """Check: Malformed for slopes of PRELU that would broadcast the input to another shape."""
    x, slope = c.x.type, c.value(1).type
    try:
        fits = np.broadcast_shapes(x.dims, slope.dims) == x.dims
    except ValueError:
        fits = False
    c.require(fits, f"has the slopes {slope} for {x}")


@operator("PRELU", inputs=2)
def prelu(c: Context) -> Value:
    """Parametric ReLU: x where x >= 0, else slope * x; the slope broadcasts."""
    check_slopes(c)
    return c.add(ew.PRelu(), c.x, c.value(1))
