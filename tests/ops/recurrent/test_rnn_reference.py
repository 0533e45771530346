"""The references of RNN, GRU and LSTM, against loops over single numbers and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vknn.errors import ShapeError
from vknn.graph import TensorType
from vknn.ops.recurrent.rnn import ACTIVATIONS, GRU, LSTM, RNN

RNG = np.random.default_rng(23)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def sigmoid(v: float) -> float:
    return 1 / (1 + math.exp(-v))


def dot(row: np.ndarray, vector: list[float]) -> float:
    return sum(float(a) * float(b) for a, b in zip(row, vector, strict=True))


def test_rnn_by_hand() -> None:
    x = np.array([[[1.0]], [[-2.0]]], np.float32)
    w, r = np.full((1, 1, 1), 0.5, np.float32), np.full((1, 1, 1), 2.0, np.float32)
    b, h0 = np.array([[0.25, 0.5]], np.float32), np.full((1, 1, 1), 0.1, np.float32)
    y, last = RNN().reference(x, w, r, b, h0)
    first = math.tanh(0.5 + 0.75 + 0.2)
    second = math.tanh(-1.0 + 0.75 + 2 * first)
    np.testing.assert_allclose(y.ravel(), [first, second], rtol=1e-6)
    assert y.shape == (2, 1, 1, 1) and last.ravel() == pytest.approx(second)


def naive_gru(
    x: np.ndarray, w: np.ndarray, r: np.ndarray, b: np.ndarray, h: list[float], last: bool
) -> list[list[float]]:
    """One direction, one batch entry: x [T, I], w [3H, I], r [3H, H], b [6H]."""
    n, results = len(h), []
    for row in x:
        before = list(h)
        z, reset = (
            [
                sigmoid(dot(w[k], row) + dot(r[k], before) + b[k] + b[3 * n + k])
                for k in range(g * n, g * n + n)
            ]
            for g in (0, 1)
        )
        for i in range(n):
            k = 2 * n + i
            if last:
                state = reset[i] * (dot(r[k], before) + b[3 * n + k])
            else:
                state = dot(r[k], [a * c for a, c in zip(reset, before, strict=True)])
                state += b[3 * n + k]
            new = math.tanh(dot(w[k], row) + b[k] + state)
            h[i] = (1 - z[i]) * new + z[i] * before[i]
        results.append(list(h))
    return results


@pytest.mark.parametrize("last", [False, True])
def test_gru_in_both_directions(last: bool) -> None:
    op = GRU(direction="bidirectional", linear_before_reset=last)
    x, w, r, b = floats(3, 2, 4), floats(2, 9, 4), floats(2, 9, 3), floats(2, 18)
    h0 = floats(2, 2, 3)
    y, final = op.reference(x, w, r, b, h0)
    for d in range(2):
        for entry in range(2):
            walk = x[::-1, entry] if d else x[:, entry]
            steps = naive_gru(walk, w[d], r[d], b[d], [float(v) for v in h0[d, entry]], last)
            np.testing.assert_allclose(final[d, entry], steps[-1], rtol=1e-5, atol=1e-6)
            steps = steps[::-1] if d else steps
            np.testing.assert_allclose(y[:, d, entry], steps, rtol=1e-5, atol=1e-6)


def naive_lstm(op: LSTM, given: dict[str, np.ndarray]) -> tuple[list[float], list[float]]:
    """The last h and c of one direction and batch entry."""
    units, h, c = given["c"].size, list(given["h"]), list(given["c"])
    for row in given["x"]:
        sums = [
            dot(given["w"][k], row)
            + dot(given["r"][k], h)
            + given["b"][k]
            + given["b"][4 * units + k]
            for k in range(4 * units)
        ]
        cell = []
        for u in range(units):
            p_i, p_o, p_f = (given["p"][g * units + u] for g in range(3))
            i = sigmoid(sums[u] + p_i * c[u])
            f = 1 - i if op.input_forget else sigmoid(sums[2 * units + u] + p_f * c[u])
            new = f * c[u] + i * math.tanh(sums[3 * units + u])
            new = max(-op.cell_clip, min(op.cell_clip, new))
            o = sigmoid(sums[units + u] + p_o * new)
            cell.append((new, o * math.tanh(new)))
        c, m = [new for new, _ in cell], [v for _, v in cell]
        h = [dot(a, m) + s for a, s in zip(given["projection"], given["shift"], strict=True)]
        h = [max(-op.projection_clip, min(op.projection_clip, v)) for v in h]
    return h, c


@pytest.mark.parametrize("coupled", [False, True])
def test_lstm_with_everything(coupled: bool) -> None:
    op = LSTM(input_forget=coupled, cell_clip=0.8, projection_clip=0.5, layout=1)
    shapes = {"x": (5, 4), "w": (12, 4), "r": (12, 2), "b": (24,), "h": (2,), "c": (3,), "p": (9,)}
    given = {k: floats(*s) for k, s in {**shapes, "projection": (2, 3), "shift": (2,)}.items()}
    h, c = naive_lstm(op, given)
    ordered = [given[k][None] for k in ("x", "w", "r", "b")]
    ordered += [given[k][None, None] for k in ("h", "c")]
    y, last_h, last_c = op.reference(
        *ordered, *(given[k][None] for k in ("p", "projection", "shift"))
    )
    np.testing.assert_allclose(last_h.ravel(), h, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(last_c.ravel(), c, rtol=1e-5, atol=1e-6)
    assert y.shape == (1, 5, 1, 2)
    np.testing.assert_array_equal(y[0, -1, 0], last_h[0, 0])


def test_clip_bounds_what_the_gates_see() -> None:
    x, w, r = np.full((1, 1, 1), 9, np.float32), np.ones((1, 1, 1)), np.zeros((1, 1, 1))
    y, _ = RNN(clip=0.5).reference(x, w.astype(np.float32), r.astype(np.float32))
    assert y.item() == pytest.approx(math.tanh(0.5))


ACTIVATED = {
    "Sigmoid": (0.5, 1 / (1 + math.exp(-0.5))),
    "Tanh": (0.5, math.tanh(0.5)),
    "Relu": (-0.5, 0.0),
    "Affine": (0.5, 0.5),
    "LeakyRelu": (-0.5, -0.005),
    "ThresholdedRelu": (0.5, 0.0),
    "ScaledTanh": (-0.5, math.tanh(-0.5)),
    "HardSigmoid": (0.5, 0.6),
    "Elu": (-0.5, math.exp(-0.5) - 1),
    "Softsign": (-0.5, -1 / 3),
    "Softplus": (0.5, math.log(1 + math.exp(0.5))),
    "Clip": (1.5, 1.0),
    "SignBit": (-0.5, 1.0),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_by_hand(name: str) -> None:
    value, expected = ACTIVATED[name]
    one, zero = np.ones((1, 1, 1), np.float32), np.zeros((1, 1, 1), np.float32)
    y, _ = RNN(activations=(name,)).reference(one * np.float32(value), one, zero)
    assert y.item() == pytest.approx(expected, rel=1e-6)


def test_rounded_states_by_hand() -> None:
    # 127 levels for 254: steps of 2, halves away from zero; x is not rounded.
    h = np.array([[[254.0, 3.0, -3.0, 0.9]]], np.float32)
    r = np.zeros((1, 4, 4), np.float32)
    r[0, 0] = [0.0, 1.0, 10.0, 100.0]
    op = RNN(activations=("Affine",), state_rounding="symmetric")
    x, w = np.full((1, 1, 1), 0.3, np.float32), np.ones((1, 4, 1), np.float32)
    y, _ = op.reference(x, w, r, None, h)
    np.testing.assert_allclose(y.ravel(), [4.0 - 40.0 + 0.3, 0.3, 0.3, 0.3], rtol=1e-6)


def test_normalized_gates_by_hand() -> None:
    # Two units whose sums are 1 and 3 become -1 and 1; norm and bias come after.
    w = np.array([[[1.0], [3.0]] * 4], np.float32)
    bias = np.zeros((1, 16), np.float32)
    bias[0, :8] = 0.25
    bias[0, 8:] = 0.5
    norm = np.repeat(np.array([[2.0, 3.0, 4.0, 5.0]], np.float32), 2, axis=1)  # i, o, f, g
    c0 = np.full((1, 1, 2), 0.5, np.float32)
    op = LSTM(activations=("Affine",) * 3, norm_epsilon=0.0)
    zeros = np.zeros((1, 8, 2), np.float32)
    one = np.ones((1, 1, 1), np.float32)
    y, _, c = op.reference(one, w, zeros, bias, None, c0, None, None, None, norm)
    i, o, f, g = (np.array([-s, s]) + 0.75 for s in (2.0, 3.0, 4.0, 5.0))
    np.testing.assert_allclose(c.ravel(), f * 0.5 + i * g, rtol=1e-6)
    np.testing.assert_allclose(y.ravel(), o * (f * 0.5 + i * g), rtol=1e-6)


def test_rounded_projections_by_hand() -> None:
    # o act(c') is (8, 0.1): the second becomes 2 of its 127 steps.
    c0 = np.array([[[8.0, 0.1]]], np.float32)
    bias = np.zeros((1, 16), np.float32)
    bias[0, 2:6] = 1.0  # o, f
    op = LSTM(activations=("Affine",) * 3, projection_rounding="symmetric")
    x, w, r = np.zeros((1, 1, 1)), np.zeros((1, 8, 1)), np.zeros((1, 8, 1))
    projection = np.array([[[0.0, 1.0]]])
    given = [x, w, r, bias, None, c0, None, projection]
    y, _, _ = op.reference(*(None if a is None else a.astype(np.float32) for a in given))
    assert y.item() == pytest.approx(2 * 8 / 127, rel=1e-6)


def types(*shapes: tuple[int, ...] | None) -> list[TensorType | None]:
    return [None if s is None else TensorType(s) for s in shapes]


BAD = {
    "no direction 'sideways'": (RNN(direction="sideways"), types((2, 1, 3), (1, 4, 3), (1, 4, 4))),
    "no layout 2": (RNN(layout=2), types((2, 1, 3), (1, 4, 3), (1, 4, 4))),
    "no activation 'Sine'": (
        RNN(activations=("Sine",)),
        types((2, 1, 3), (1, 4, 3), (1, 4, 4)),
    ),
    "takes 2 activations": (GRU(activations=("Tanh",)), types((2, 1, 3), (1, 3, 3), (1, 3, 1))),
    "not of rank 3": (RNN(), types((2, 3), (1, 4, 3), (1, 4, 4))),
    "W is": (RNN(), types((2, 1, 3), (1, 4, 2), (1, 4, 4))),
    "no units": (GRU(), types((2, 1, 3), (1, 2, 3), (1, 2, 1))),
    "R is": (RNN(direction="bidirectional"), types((2, 1, 3), (2, 4, 3), (1, 4, 4))),
    "does not suit": (LSTM(), types((2, 1, 3), (1, 8, 3), (1, 8, 5))),
    "B is": (RNN(), types((2, 1, 3), (1, 4, 3), (1, 4, 4), (1, 4))),
    "initial_h is": (RNN(), types((2, 1, 3), (1, 4, 3), (1, 4, 4), None, (4,))),
    "without a projection": (
        LSTM(projection_clip=1.0),
        types((2, 1, 3), (1, 8, 3), (1, 8, 2)),
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_nonsense_is_refused(message: str) -> None:
    op, given = BAD[message]
    with pytest.raises(ShapeError, match=message):
        op.infer(*given)
