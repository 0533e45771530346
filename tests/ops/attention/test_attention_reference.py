"""Attention against its formula, head by head and row by row."""

from __future__ import annotations

import numpy as np
import pytest

from reference_helper import check, data, f32, i32, refuses
from vknn.graph import TensorType
from vknn.ops.attention import Attention, LinearAttention, RotaryEmbedding


def naive(op: Attention, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None):  # type: ignore[no-untyped-def]
    q, k, v = (m.astype(np.float64) for m in (q, k, v))
    (b, s, e), (_, t, ev), heads = q.shape, v.shape, op.num_heads
    bias = np.zeros((b, heads, s, t)) if mask is None else np.broadcast_to(mask, (b, heads, s, t))
    y = np.empty((b, s, ev), np.float32)
    for n, h, i in np.ndindex(b, heads, s):
        part = slice(h * e // heads, (h + 1) * e // heads)
        out = slice(h * ev // heads, (h + 1) * ev // heads)
        scores = [op.scale * sum(q[n, i, part] * row[part]) for row in k[n]] + bias[n, h, i]
        powers = np.exp(scores)
        y[n, i, out] = sum(p * row[out] for p, row in zip(powers, v[n], strict=True)) / sum(powers)
    return y


# B, S, T, E, Ev, heads, shape of the mask
CASES = [
    (1, 5, 5, 6, 6, 1, None),
    (1, 5, 5, 6, 6, 3, None),
    (2, 3, 7, 4, 6, 2, (3, 7)),
    (2, 3, 7, 4, 6, 2, (2, 1, 3, 7)),
    (1, 2, 3, 4, 4, 4, (4, 2, 3)),
    (1, 1, 1, 2, 2, 1, (1, 1)),
    (1, 2, 3, 4, 4, 2, ()),
]


@pytest.mark.parametrize(("b", "s", "t", "e", "ev", "heads", "mask_shape"), CASES)
def test_attention(b, s, t, e, ev, heads, mask_shape) -> None:  # type: ignore[no-untyped-def]
    q, k, v = data(b, s, e), data(b, t, e, seed=1), data(b, t, ev, seed=2)
    mask = None if mask_shape is None else data(*mask_shape, seed=3)
    op = Attention(heads, 0.7)
    check(op, q, k, v, mask, expected=naive(op, q, k, v, mask))
    if mask is None:
        check(op, q, k, v, expected=naive(op, q, k, v, mask))


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_heads_that_share_keys(groups: int) -> None:
    """As attention of as many heads with those of k and v repeated, in either arrangement."""
    heads, s, t, d, dv = 6, 3, 5, 2, 4
    q, k, v = data(2, heads, s, d), data(2, groups, t, d, seed=1), data(2, groups, t, dv, seed=2)
    mask = data(2, heads, s, t, seed=3)
    rows = [m.swapaxes(1, 2).reshape(2, m.shape[2], -1) for m in (q, k, v)]
    repeated = [np.repeat(m, heads // groups, axis=1) for m in (k, v)]
    flat = [m.swapaxes(1, 2).reshape(2, t, -1) for m in repeated]
    y = naive(Attention(heads, 0.7), rows[0], *flat, mask)
    op = Attention(heads, 0.7, groups)
    check(op, *rows, mask, expected=y)
    check(op, q, k, v, mask, expected=y.reshape(2, s, heads, dv).swapaxes(1, 2))


def test_masked_places_have_no_weight() -> None:
    q, k, v = data(1, 2, 4), data(1, 3, 4, seed=1), data(1, 3, 4, seed=2)
    mask = np.array([[0, -np.inf, -np.inf], [-np.inf, -np.inf, 0]], np.float32)
    check(Attention(2, 1.0), q, k, v, mask, expected=v[:, [0, 2]])


def test_rows_without_keys_are_zero_on_request() -> None:
    q, k, v = data(1, 2, 4), data(1, 3, 4, seed=1), data(1, 3, 4, seed=2)
    mask = np.array([[0, -np.inf, -np.inf], [-np.inf, -np.inf, -np.inf]], np.float32)
    expected = v[:, [0, 0]] * np.array([[1], [0]], np.float32)
    check(Attention(2, 1.0, empty_zero=True), q, k, v, mask, expected=expected)


def test_empty_sequences() -> None:
    check(Attention(2, 1.0), data(1, 0, 4), data(1, 3, 4), data(1, 3, 6), expected=data(1, 0, 6))
    zero = np.zeros((1, 2, 6), np.float32)
    check(Attention(2, 1.0), data(1, 2, 4), data(1, 0, 4), data(1, 0, 6), expected=zero)


Q = f32(1, 5, 6)
REFUSED = [
    ((4, [Q, Q, Q]), "4 heads do not divide"),
    ((0, [Q, Q, Q]), "heads"),
    ((2, [f32(5, 6), Q, Q]), "not of rank 3"),
    ((2, [Q, f32(1, 2, 5, 3), Q]), "not of rank 3"),
    ((3, [f32(1, 2, 5, 6)] * 3), "not 3 heads"),
    ((2, [Q, f32(1, 5, 4), Q]), "do not fit together"),
    ((2, [Q, f32(1, 4, 6), Q]), "do not fit together"),
    ((2, [Q, f32(2, 5, 6), f32(2, 5, 6)]), "do not fit together"),
    ((2, [Q, Q, Q, f32(3, 5, 5)]), "broadcast"),
    ((2, [Q, Q, Q, f32(2, 1, 1, 1, 1)]), "does not broadcast to"),
    ((2, [Q, Q, Q, i32(5, 5)]), "wants float32"),
    ((2, [Q, Q]), "takes 3 to 4"),
]


@pytest.mark.parametrize(("case", "words"), REFUSED, ids=lambda v: str(v)[:40])
def test_infer_refuses(case: tuple[int, list[TensorType]], words: str) -> None:
    heads, types = case
    refuses(Attention(heads, 1.0), *types, match=words)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary(interleaved: bool) -> None:
    """Pair by pair as complex numbers; tables for all and for each batch entry."""
    x, angle = data(2, 3, 5, 6), data(2, 5, 3, seed=1)
    for tables in (angle, angle[1]):
        y = np.empty_like(x)
        for b, h, s, i in np.ndindex(2, 3, 5, 3):
            at = [2 * i, 2 * i + 1] if interleaved else [i, i + 3]
            turn = np.exp(1j * np.float64(tables[b, s, i] if tables.ndim == 3 else tables[s, i]))
            z = complex(*x[b, h, s, at]) * turn
            y[b, h, s, at] = z.real, z.imag
        op = RotaryEmbedding(interleaved)
        check(op, x, np.cos(tables), np.sin(tables), expected=y)
        if tables.ndim == 2:
            check(op, x[0, 0], np.cos(tables), np.sin(tables), expected=y[0, 0])


def test_rotary_refuses() -> None:
    refuses(RotaryEmbedding(), f32(2, 5, 5), f32(5, 2), f32(5, 2), match="whole pairs")
    refuses(RotaryEmbedding(), f32(2, 5, 6), f32(5, 3), f32(4, 3), match="sin")
    refuses(RotaryEmbedding(), f32(2, 5, 6), f32(3, 5, 3), f32(3, 5, 3), match="cos")


def floats(numbers: list[object]) -> np.ndarray:
    return np.array(numbers, np.float32)


def test_linear_attention_by_hand() -> None:
    """Two steps of one head: states and outputs worked out by hand."""
    q, k = floats([[[1, 2], [1, 0]]]), floats([[[1, 0], [1, 1]]])
    v, state = floats([[[3], [5]]]), floats([[[[1], [2]]]])
    # S = [1, 2] + [1, 0] * 3 = [4, 2], then + [1, 1] * 5 = [9, 7].
    wanted = floats([[[4], [4.5]]]), floats([[[[9], [7]]]])
    check(LinearAttention(1, 1, 0.5), q, k, v, state, expected=wanted)
    decay = np.log(floats([[[0.5], [0.25]]]))
    # S = [0.5, 1] + [3, 0] = [3.5, 1], then [0.875, 0.25] + [5, 5].
    y, last = LinearAttention(1, 1, 1.0).reference(q, k, v, state, decay)
    assert np.allclose(y.reshape(-1), [5.5, 5.875])
    assert np.allclose(last.reshape(-1), [5.875, 5.25])
    beta = floats([[[1], [0.5]]])
    # S = [1, 2] + [1, 0] * (3 - 1) = [3, 2], then + [1, 1] * (5 - 5) / 2.
    y, last = LinearAttention(1, 1, 1.0).reference(q, k, v, state, None, beta)
    assert np.allclose(y.reshape(-1), [7, 3]) and np.allclose(last.reshape(-1), [3, 2])
    # S = [0.5, 1] + [1, 0] * (3 - 0.5) = [3, 1], then [0.75, 0.25] + [1, 1] * (5 - 1) / 2.
    y, last = LinearAttention(1, 1, 1.0).reference(q, k, v, state, decay, beta)
    assert np.allclose(y.reshape(-1), [5, 2.75]) and np.allclose(last.reshape(-1), [2.75, 2.25])


def test_linear_attention_refuses() -> None:
    op, state = LinearAttention(2, 1, 1.0), f32(1, 1, 4, 5)
    q, k, v = f32(1, 3, 8), f32(1, 3, 4), f32(1, 3, 5)
    refuses(op, q, k, v, f32(1, 4, 5), match="not of rank 4")
    refuses(op, f32(1, 3, 7), k, v, state, match="q is")
    refuses(op, q, k, v, state, f32(1, 3, 2), match="decay is")
    refuses(op, q, k, v, state, None, f32(1, 3, 2), match="beta is")
    refuses(LinearAttention(2, 3, 1.0), q, k, v, state, match="do not suit")
    assert op.infer(q, k, v, state) == (f32(1, 3, 10), state)
