"""Fused activations: those that an operator applies to its own output."""

from __future__ import annotations

from vknn.formats.tflite.context import Context
from vknn.graph import Op, Value
from vknn.ops import elementwise as ew

#: Op by the number of the schema's ActivationFunctionType; 0 is no activation.
ACTIVATIONS: dict[int, Op] = {
    1: ew.Relu(),
    2: ew.Clip(-1.0, 1.0),
    3: ew.Clip(0.0, 6.0),
    4: ew.Tanh(),
}
#: The number of SIGN_BIT, which is not one op.
SIGN_BIT = 5
#: Numbers of the activations that clamp: RELU, RELU_N1_TO_1 and RELU6.
CLAMPS = (1, 2, 3)


def activate(c: Context, y: Value, number: int | None = None) -> Value:
    """``y`` behind the fused activation of the operator's options (or behind ``number``).

    Only activations that clamp are applied: TensorFlow Lite's kernels ignore TANH and SIGN_BIT
    here.
    """
    code = c.options["fused_activation_function"] if number is None else number
    return c.add(ACTIVATIONS[code], y) if code in CLAMPS else y
