"""Activations with a factor 0, spelled out so that the zero is an input of a kernel."""

from __future__ import annotations

import numpy as np

from vknn.graph import Node, Op, TensorType, Value
from vknn.ops.elementwise.activation import (
    Clip,
    Elu,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    Selu,
)
from vknn.ops.elementwise.binary import Add, Mul, PRelu
from vknn.ops.elementwise.zeros import has_zero_factor

#: An operator and its other operand: a number, or the input of the activation (None).
_Step = tuple[Op, float | None]


def spell_out(node: Node) -> list[Node] | None:
    """The nodes that an activation with a factor 0 stands for; None for all other nodes.

    Compilers that know the factor hide NaN and infinities (:mod:`vknn.ops.elementwise.zeros`).
    """
    steps = _steps(node.op) if has_zero_factor(node.op) else []
    if not steps:
        return None
    (x,), (type_,) = node.inputs, node.output_types
    assert x is not None
    value, nodes = x, []
    for number, (op, operand) in enumerate(steps):
        last = number == len(steps) - 1
        name = node.name if last else f"{node.name}.{number}"
        inputs = [value]
        if not isinstance(op, Elu | Clip):
            inputs.append(x if operand is None else _number(operand, type_, name))
        value = node.outputs[0] if last else Value(name, type_)
        nodes.append(Node(op, tuple(inputs), (value,), name, node.origin))
    return nodes


def _steps(op: Op) -> list[_Step]:
    if isinstance(op, LeakyRelu):
        return [(PRelu(), op.alpha)]
    if isinstance(op, Selu):
        return [(Elu(op.alpha), None), (Mul(), op.gamma)]
    if isinstance(op, HardSigmoid | HardSwish):
        share: list[_Step] = [(Mul(), op.alpha), (Add(), op.beta), (Clip(0.0, 1.0), None)]
        return [*share, (Mul(), None)] if isinstance(op, HardSwish) else share
    return []


def _number(number: float, type_: TensorType, name: str) -> Value:
    array = np.asarray(number, type_.dtype.numpy)
    return Value(f"{name}.number", TensorType.of(array), array)
