"""Rules of recurrent operators and attention."""

from __future__ import annotations

from vknn.batching.case import Case, Ruling, rule, shared
from vknn.ops.attention import Attention, LinearAttention, RotaryEmbedding
from vknn.ops.recurrent.integer_lstm import IntegerLSTM
from vknn.ops.recurrent.rnn import GRU, LSTM, RNN


@rule(RNN, GRU, LSTM)
def _recurrent(case: Case) -> Ruling:
    """Sequences and initial states have a batch axis, weights are of all examples."""
    op = case.op
    assert isinstance(op, RNN | GRU | LSTM)
    axis = 1 if op.layout == 0 else 0
    results = (2 if op.layout == 0 else 0, *[axis] * (len(case.results) - 1))
    return shared(case, axis, (0, 4, 5) if isinstance(op, LSTM) else (0, 4), results)


@rule(IntegerLSTM)
def _integer_lstm(case: Case) -> Ruling:
    op = case.op
    assert isinstance(op, IntegerLSTM)
    along = 1 if op.layout == 0 else 0
    x, h, c = case.axes[0], case.axes[5], case.axes[6]
    others = [a for i, a in enumerate(case.axes) if i not in (0, 5, 6) and a is not None]
    if x not in (None, along) or h not in (None, 0) or c not in (None, 0) or others:
        case.refuse("takes examples along another axis than the batch's")
    places = ((0, along), (5, 0), (6, 0))
    spread = {number: axis for number, axis in places if case.axes[number] is None}
    return Ruling(op, (along, 0, 0), spread)


@rule(Attention)
def _attention(case: Case) -> Ruling:
    """q, k and v have a batch axis; the mask may, or is broadcast along it."""
    inputs = [0, 1, 2]
    mask = case.types[3] if len(case.types) > 3 else None
    if mask is not None:
        batched = mask.rank == 4 and mask.dims[0] == case.type(0).dims[0]
        if case.axes[3] is not None and not batched:
            case.refuse("broadcasts the axis of its mask that holds examples")
        if case.axes[3] is not None or (batched and mask.dims[0] != 1):
            inputs.append(3)
    return shared(case, 0, inputs, (0,))


@rule(RotaryEmbedding)
def _rotary(case: Case) -> Ruling:
    """Tables [S, D / 2] of all examples, or [B, S, D / 2]."""
    rank = case.rank()
    if case.rank(1) == 3:
        return shared(case, 0, (0, 1, 2), (0,))
    return Ruling(case.op, (case.beside(case.only(), {rank - 1, rank - 2}),))


@rule(LinearAttention)
def _linear_attention(case: Case) -> Ruling:
    return shared(case, 0, range(len(case.types)), (0, 0))
