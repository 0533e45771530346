"""Recurrent layers over sequences [Seq, Batch, C, 1, 1].

Arguments of the gates' activations are clipped to -50..50. With reverseInput the sequence is read
from its end, and an output sequence has the results in that order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vknn.formats.coreml.context import Context
from vknn.formats.coreml.registry import layer
from vknn.graph import Op, Value
from vknn.ops.movement.shape import Concat, Slice
from vknn.ops.recurrent.rnn import GRU, LSTM, RNN

#: Bound of the arguments of the gates' activations, and of an LSTM's cell by default.
_CLIP = 50.0
#: Activation in the file -> the op's name of it, and the parameters that are alpha and beta there.
_FUNCTIONS = {
    "linear": ("Affine", "alpha", "beta"),
    "ReLU": ("Relu", "", ""),
    "leakyReLU": ("LeakyRelu", "alpha", ""),
    "thresholdedReLU": ("ThresholdedRelu", "alpha", ""),
    "tanh": ("Tanh", "", ""),
    "scaledTanh": ("ScaledTanh", "alpha", "beta"),
    "sigmoid": ("Sigmoid", "", ""),
    "sigmoidHard": ("HardSigmoid", "alpha", "beta"),
    "ELU": ("Elu", "alpha", ""),
    "softsign": ("Softsign", "", ""),
    "softplus": ("Softplus", "", ""),
}
#: What alpha and beta are where the activation's message is empty, as coremltools writes it.
_CUSTOMARY = {"linear": (1.0, 0.0), "scaledTanh": (1.0, 1.0), "sigmoidHard": (0.2, 0.5)}
#: Gates in the order of the ops, by the names of their messages.
_GRU_GATES = ("updateGate", "resetGate", "outputGate")
_LSTM_GATES = ("inputGate", "outputGate", "forgetGate", "blockInput")


@layer("simpleRecurrent", inputs=(1, 2), outputs=(1, 2))
def simple_recurrent(c: Context) -> Sequence[Value]:
    """y = f(W x + R y' + b); inputs x and initial y', outputs y and the last y."""
    p = c.params
    w = _stacked(c, [p], [("weightMatrix", p.inputVectorSize)])
    r = _stacked(c, [p], [("recursionMatrix", p.outputVectorSize)])
    b = _stacked(c, [p], [("biasVector", 0)]) if p.hasBiasVector else None
    op = RNN(**_settings(c, [p.activation], 1), direction=_direction(c))
    y, h = c.add_many(op, _sequence(c), w, r, _doubled(c, b), _state(c, 1))
    return (_result(c, y, h, p.sequenceOutput), _last(c, h, 0))


@layer("gru", inputs=(1, 2), outputs=(1, 2))
def gru(c: Context) -> Sequence[Value]:
    """Update gate z, reset gate r (before the recursion), candidate o: y = (1 - z) o + z y'."""
    p = c.params
    w = _stacked(c, [p], [(f"{g}WeightMatrix", p.inputVectorSize) for g in _GRU_GATES])
    r = _stacked(c, [p], [(f"{g}RecursionMatrix", p.outputVectorSize) for g in _GRU_GATES])
    b = _stacked(c, [p], [(f"{g}BiasVector", 0) for g in _GRU_GATES]) if p.hasBiasVectors else None
    op = GRU(**_settings(c, p.activations, 2), direction=_direction(c))
    y, h = c.add_many(op, _sequence(c), w, r, _doubled(c, b), _state(c, 1))
    return (_result(c, y, h, p.sequenceOutput), _last(c, h, 0))


@layer("uniDirectionalLSTM", inputs=(1, 3), outputs=(1, 3))
def unidirectional_lstm(c: Context) -> Sequence[Value]:
    """LSTM; inputs x, initial y' and c'; outputs y, the last y and the last c."""
    p = c.params
    y, h, cell = _lstm(c, [p.weightParams], p.activations, _direction(c))
    return (_result(c, y, h, p.params.sequenceOutput), _last(c, h, 0), _last(c, cell, 0))


@layer("biDirectionalLSTM", inputs=(1, 5), outputs=(1, 5))
def bidirectional_lstm(c: Context) -> Sequence[Value]:
    """LSTM in both directions, joined along the channels; states of the directions in turn."""
    p = c.params
    parts = list(p.weightParams)
    c.require(len(parts) == 2, f"has weights of {len(parts)} directions, not 2")
    forward = list(p.activationsForwardLSTM)
    backward = list(p.activationsBackwardLSTM) or forward
    if forward == backward:
        y, h, cell = _lstm(c, parts, forward, "bidirectional")
    else:
        ahead = _lstm(c, parts[:1], forward, "forward", ((1,), (2,)))
        back = _lstm(c, parts[1:], backward, "reverse", ((3,), (4,)))
        axes = (1, 0, 0)  # of the directions
        y, h, cell = (c.add(Concat(a), *both) for a, *both in zip(axes, ahead, back, strict=True))
    states = [_last(c, state, d) for d in (0, 1) for state in (h, cell)]
    return (_result(c, y, h, p.params.sequenceOutput), *states)


def _lstm(
    c: Context,
    parts: Sequence[Any],
    activations: Sequence[Any],
    direction: str,
    states: tuple[tuple[int, ...], tuple[int, ...]] = ((1, 3), (2, 4)),
) -> Sequence[Value]:
    """Y [T, D, B, H], the last y and the last c [D, B, H].

    ``parts``: weights of each direction; ``states``: the inputs that hold the initial y and c.
    """
    p, flags = c.params, c.params.params
    gates = list(_LSTM_GATES)
    coupled = "forgetGate" if flags.coupledInputAndForgetGate else ""
    w = _stacked(c, parts, [(f"{g}WeightMatrix", p.inputVectorSize) for g in gates], coupled)
    r = _stacked(c, parts, [(f"{g}RecursionMatrix", p.outputVectorSize) for g in gates], coupled)
    peepholes = None
    if flags.hasPeepholeVectors:
        peepholes = _stacked(c, parts, [(f"{g}PeepholeVector", 0) for g in gates[:3]], coupled)
    threshold = flags.cellClipThreshold or _CLIP
    c.require(threshold > 0, f"its cells are clipped to {threshold}")
    op = LSTM(
        **_settings(c, activations, 3),
        direction=direction,
        input_forget=bool(coupled),
        cell_clip=threshold,
    )
    h0, c0 = (_state(c, *numbers) for numbers in states)
    bias = _doubled(c, _lstm_bias(c, parts, coupled))
    return c.add_many(op, _sequence(c), w, r, bias, h0, c0, peepholes)


def _lstm_bias(c: Context, parts: Sequence[Any], coupled: str) -> Value | None:
    """Biases [D, 4 H]; forgetBias adds 1 to the forget gate's, also without other biases."""
    flags, units = c.params.params, int(c.params.outputVectorSize)
    if not flags.hasBiasVectors and not flags.forgetBias:
        return None
    if flags.hasBiasVectors:
        found = _stacked(c, parts, [(f"{g}BiasVector", 0) for g in _LSTM_GATES], coupled)
        bias = np.array(found.constant)
    else:
        bias = np.zeros((len(parts), 4 * units), np.float32)
    if flags.forgetBias:
        start = _LSTM_GATES.index("forgetGate") * units
        bias[:, start : start + units] += 1
    return c.constant(bias, "bias")


def _settings(c: Context, messages: Sequence[Any], count: int) -> dict[str, Any]:
    """Attributes of the ops: activations with their parameters, and the clip of their arguments."""
    c.require(len(messages) == count, f"has {len(messages)} activations, not {count}")
    names, alphas, betas = zip(*(_function(c, m) for m in messages), strict=True)
    return {
        "activations": names,
        "activation_alpha": alphas,
        "activation_beta": betas,
        "clip": _CLIP,
    }


def _function(c: Context, message: Any) -> tuple[str, float, float]:
    """The op's name of an activation, with its alpha and beta."""
    kind = message.WhichOneof("NonlinearityType")
    if kind is None:
        c.fail("one of its activations names no function")
    if kind == "PReLU":
        return ("LeakyRelu", float(c.weight(message.PReLU.alpha, 1, "alpha")[0]), 0.0)
    if kind not in _FUNCTIONS:
        c.refuse(f"the activation {kind} in a recurrent layer")
    name, *numbers = _FUNCTIONS[kind]
    inner = getattr(message, kind)
    if kind in _CUSTOMARY and not inner.ByteSize():
        return (name, *_CUSTOMARY[kind])
    alpha, beta = (float(getattr(inner, n)) if n else 0.0 for n in numbers)
    return name, alpha, beta


def _direction(c: Context) -> str:
    return "reverse" if c.params.reverseInput else "forward"


def _sequence(c: Context) -> Value:
    """x as [T, B, I]."""
    dims, width = c.x.type.dims, c.params.inputVectorSize
    right = len(dims) == 5 and dims[2:] == (width, 1, 1)
    c.require(right, f"its input {c.x.type} is not [Seq, Batch, {width}, 1, 1]")
    c.require(dims[0] > 0, "its sequence is empty")
    return c.reshape(c.x, dims[:3])


def _state(c: Context, *numbers: int) -> Value | None:
    """Initial states [D, B, H] from inputs of B * H elements in any shape, one per direction."""
    total = len(c.inputs)
    if total == 1:
        return None
    full = {"uniDirectionalLSTM": 3, "biDirectionalLSTM": 5}.get(c.layer.type, 2)
    c.require(total == full, f"has {total} inputs; 1 and {full} are possible")
    c.require(c.x.type.rank == 5, f"its input {c.x.type} is not [Seq, Batch, C, 1, 1]")
    batch, units = c.x.type.dims[1], c.params.outputVectorSize
    parts = []
    for number in numbers:
        if number >= full:
            continue
        value = c.value(number)
        wanted = f"[1, {batch}, {units}, 1, 1]"
        right = value.type.size == batch * units
        c.require(right, f"a state {value.type} has not as many elements as {wanted}")
        parts.append(c.reshape(value, (1, batch, units)))
    return parts[0] if len(parts) == 1 else c.add(Concat(0), *parts)


def _stacked(
    c: Context, parts: Sequence[Any], fields: Sequence[tuple[str, int]], unused: str = ""
) -> Value:
    """Matrices (or vectors: width 0) of all gates, concatenated for each direction.

    ``unused``: a gate without effect on the result; zeros where its weights are missing.
    """
    units = int(c.params.outputVectorSize)
    found = []
    for message in parts:
        rows = []
        for field, width in fields:
            shape = (units, int(width)) if width else (units,)
            values = getattr(message, field)
            if unused and field.startswith(unused) and not c.has_weight(values):
                rows.append(np.zeros(shape, np.float32))
            else:
                rows.append(c.weight(values, shape, field))
        found.append(np.concatenate(rows))
    return c.constant(np.stack(found), fields[0][0])


def _doubled(c: Context, bias: Value | None) -> Value | None:
    """Biases of the input [D, rows] followed by those of the state, which are zeros."""
    if bias is None or bias.constant is None:
        return None
    both = np.concatenate([bias.constant, np.zeros_like(bias.constant)], axis=1)
    return c.constant(both, "bias")


def _result(c: Context, y: Value, last: Value, all_steps: bool) -> Value:
    """Y [T, D, B, H], or the last of it, as [T, B, D H, 1, 1]."""
    steps, directions, batch, units = y.type.dims
    if not all_steps:
        steps, y = 1, c.reshape(last, (1, directions, batch, units))
    elif directions == 1 and c.params.reverseInput:
        y = c.add(_BACKWARDS, y)
    joined = c.transpose(y, (0, 2, 1, 3)) if directions > 1 else y
    return c.reshape(joined, (steps, batch, directions * units, 1, 1))


def _last(c: Context, states: Value, direction: int) -> Value:
    """The state of a direction, [1, B, H, 1, 1]."""
    directions, batch, units = states.type.dims
    if directions > 1:
        states = c.add(Slice((direction,), (direction + 1,), axes=(0,)), states)
    return c.reshape(states, (1, batch, units, 1, 1))


_BACKWARDS: Op = Slice((-1,), (-(1 << 31),), axes=(0,), steps=(-1,))
