"""Fused activations: those that a layer applies to its own output."""

from __future__ import annotations

from vknn.formats.ncnn.context import Context
from vknn.formats.ncnn.params import P, require
from vknn.graph import Op, Value
from vknn.ops.elementwise import Clip, HardSwish, LeakyRelu, Mish, Relu, Sigmoid

#: activation_type -> number of parameters that it needs.
_PARAMETERS = {0: 0, 1: 0, 2: 1, 3: 2, 4: 0, 5: 0, 6: 2}


def check_activation(kind: int, parameters: tuple[float, ...]) -> None:
    """Check: Malformed for an unknown activation or one that lacks parameters."""
    require(kind in _PARAMETERS, f"unknown activation type {kind}")
    needed = _PARAMETERS[kind]
    require(
        len(parameters) >= needed,
        f"activation type {kind} needs {needed} parameters and has {len(parameters)}",
    )


def activate(c: Context[P], x: Value, kind: int, parameters: tuple[float, ...]) -> Value:
    """``x`` behind the activation of type ``kind``."""
    if kind == 0:
        return x
    a, b, *_ = (*parameters, 0.0, 0.0)
    op: Op
    if kind == 1:
        op = Relu()
    elif kind == 2:
        op = LeakyRelu(alpha=a)
    elif kind == 3:
        op = Clip(min=a, max=b)
    elif kind == 4:
        op = Sigmoid()
    elif kind == 5:
        op = Mish()
    else:
        op = HardSwish(alpha=a, beta=b)
    return c.add(op, x)
