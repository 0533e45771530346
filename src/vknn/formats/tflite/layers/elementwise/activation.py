"""Activations: operators of their own, and those that other operators carry."""

from __future__ import annotations

import numpy as np

from vknn.formats.tflite.context import Context
from vknn.formats.tflite.registry import operator
from vknn.graph import Op, Value
from vknn.ops import elementwise as ew

#: By number of the schema's ActivationFunctionType; 0 is none.
ACTIVATIONS: dict[int, Op] = {
    1: ew.Relu(),
    2: ew.Clip(-1.0, 1.0),
    3: ew.Clip(0.0, 6.0),
    4: ew.Tanh(),
}

#: Those that clamp.
CLAMPS = (1, 2, 3)

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


def activate(c: Context, y: Value, number: int | None = None) -> Value:
    """``y`` behind the activation that the operator's options name (or ``number``).

    Only those that clamp do anything: TensorFlow Lite's kernels pass over TANH and SIGN_BIT here.
    """
    code = c.options["fused_activation_function"] if number is None else number
    return c.add(ACTIVATIONS[code], y) if code in CLAMPS else y


@operator(*_FLOAT)
def activation(c: Context) -> Value:
    """An activation without parameters."""
    return c.add(_FLOAT[c.operator.code], c.x)


@operator("LEAKY_RELU")
def leaky_relu(c: Context) -> Value:
    """x where x > 0, else alpha * x."""
    return c.add(ew.LeakyRelu(c.options["alpha"]), c.x)


def slopes(c: Context) -> None:
    """Refuses slopes that make the output of a PRELU another shape than its input."""
    x, slope = c.x.type, c.value(1).type
    try:
        fits = np.broadcast_shapes(x.dims, slope.dims) == x.dims
    except ValueError:
        fits = False
    c.require(fits, f"has the slopes {slope} for {x}")


@operator("PRELU", inputs=2)
def prelu(c: Context) -> Value:
    """x where x >= 0, else slope * x; the slope broadcasts."""
    slopes(c)
    return c.add(ew.PRelu(), c.x, c.value(1))
