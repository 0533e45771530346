"""Sequences, states and activations of recurrent operators.

States are variable tensors: they are the initial states, and the last states are assigned to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from vknn.formats.tflite.context import Context
from vknn.graph import Value
from vknn.ops.movement.shape import Concat
from vknn.ops.recurrent.rnn import Recurrent

#: Name, alpha and beta of an activation of recurrent ops.
ActivationSpec = tuple[str, float, float]
_Op = TypeVar("_Op", bound=Recurrent)

#: Number of the schema's ActivationFunctionType -> activation of recurrent ops, alpha, beta.
RECURRENT_ACTIVATIONS: dict[int, ActivationSpec] = {
    0: ("Affine", 1.0, 0.0),
    1: ("Relu", 0.0, 0.0),
    2: ("Clip", -1.0, 1.0),
    3: ("Clip", 0.0, 6.0),
    4: ("Tanh", 0.0, 0.0),
    5: ("SignBit", 0.0, 0.0),
}


@dataclass(frozen=True)
class Sequences:
    """Sequences (steps, batch, size) with layout 0, (batch, steps, size) with layout 1.

    ``squeezed``: the file has a matrix (batch, size), a single step.
    """

    x: Value
    layout: int
    squeezed: bool = False

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.x.type.dims[self.layout]


def sequences(c: Context, time_major: bool) -> Sequences:
    """The first input as :class:`Sequences`; a matrix is one step."""
    if c.x.type.rank == 2:
        return Sequences(c.reshape(c.x, (1, *c.x.type.dims)), 0, True)
    c.require(c.x.type.rank == 3, f"takes sequences of rank 3, not {c.x.type}")
    return Sequences(c.x, 0 if time_major else 1)


def activation_of(c: Context) -> ActivationSpec:
    """The fused activation of the operator, for a recurrent op."""
    code = c.options["fused_activation_function"]
    return (
        RECURRENT_ACTIVATIONS[code]
        if code in RECURRENT_ACTIVATIONS
        else c.refuse(f"the activation number {code}")
    )


def with_activations(op: _Op, *used: ActivationSpec) -> _Op:
    """``op`` with these activations."""
    names, alphas, betas = zip(*used, strict=True)
    return replace(op, activations=names, activation_alpha=alphas, activation_beta=betas)


def state(c: Context, number: int, s: Sequences) -> Value:
    """The state at input ``number`` as [1, B, units], or as [B, 1, units] for layout 1."""
    batch, layout = s.x.type.dims[1 - s.layout], s.layout
    value = rows_of(c, c.value(number), batch)
    units = value.type.dims[1]
    return c.reshape(value, (1, batch, units) if layout == 0 else (batch, 1, units))


def rows_of(c: Context, value: Value, batch: int) -> Value:
    """A state as a matrix of ``batch`` rows. Raises Malformed where it does not fit."""
    fits = batch > 0 and value.type.rank > 0 and value.type.size % batch == 0
    c.require(fits, f"has a state {value.type} for {batch} sequences")
    return c.reshape(value, (batch, value.type.size // batch))


def assign_state(c: Context, number: int, value: Value) -> None:
    """Assignment of a last state to the variable tensor at input ``number``, in its shape."""
    c.assign_variable(number, c.reshape(value, c.value(number).type.dims))


def result(c: Context, y: Value, s: Sequences) -> Value:
    """Output ``y`` of a recurrent op without the axis of directions."""
    first, second, size = s.x.type.dims[0], s.x.type.dims[1], y.type.dims[-1]
    return c.reshape(y, (second, size) if s.squeezed else (first, second, size))


def joined_outputs(c: Context, forward: Value, backward: Value) -> Sequence[Value]:
    """Both outputs of a bidirectional operator, concatenated where merge_outputs is set."""
    if not c.options["merge_outputs"]:
        return forward, backward
    return (c.add(Concat(2), forward, backward),)
