"""Attention, MultiHeadAttention and its kin of com.microsoft."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.onnx.attention.one_node import (
    MICROSOFT,
    apart,
    close,
    expected,
    floats,
    joined,
    run_node,
    turned,
)

from vknn.errors import ShapeError

RNG = np.random.default_rng(6)
B, H, S, P = 2, 2, 3, 4
SUM = P + S


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


def bits(*shape: int) -> np.ndarray:
    """Zeros and ones, of which the first of each row is a one."""
    found = RNG.integers(0, 2, shape).astype(np.int32)
    found[..., 0] = 1
    return found


def causal(queries: int, keys: int, before: int) -> np.ndarray:
    seen = np.arange(keys) <= np.arange(queries)[:, None] + before
    return np.where(seen, 0.0, -np.inf)


def hidden(seen: np.ndarray, value: float = -10000.0) -> np.ndarray:
    return np.where(seen, 0.0, value)


def run(folder: Path, backend: str, op: str, inputs: Any, outputs: str = "y", **rest: Any) -> Any:
    rest = {"num_heads": H, **rest}
    return run_node(folder, backend, op, inputs, outputs, domain=MICROSOFT, opset=21, **rest)


X, W, BIAS = floats(B, S, 5), floats(5, 24) * 0.6, floats(24)
PAST = floats(2, B, H, P, 4)


def projected(sizes: tuple[int, ...] = (8, 8, 8), bias: np.ndarray = BIAS) -> list[np.ndarray]:
    weights = W if sum(sizes) == 24 else floats(5, sum(sizes)) * 0.6
    whole = X.astype(np.float64) @ weights + bias
    return [apart(part, H) for part in np.split(whole, np.cumsum(sizes)[:-1], 2)]


LENGTHS = np.arange(S) < np.array([2, 3])[:, None]
FROM_TO = (np.arange(S) < np.array([2, 3])[:, None]) & (np.arange(S) >= np.array([1, 0])[:, None])
ROWS, PLANES = bits(B, S), bits(B, S, S)
ALL = bits(B, 1, 6, 6)


@pytest.mark.parametrize("unidirectional", [0, 1])
@pytest.mark.parametrize(
    ("mask", "seen"),
    [
        (None, np.ones((1, 1, 1, 1))),
        (ints(2, 3), LENGTHS[:, None, None]),
        (ints(2, 3, 1, 0), FROM_TO[:, None, None]),
        (ints(2, 3, 0, 3, 6, 0, 2, 5), LENGTHS[:, None, None]),
        (ROWS, ROWS[:, None, None]),
        (PLANES, PLANES[:, None]),
        (ALL, ALL[:, :, :S, :S]),
    ],
    ids=["none", "lengths", "from to", "packed", "rows", "planes", "all places"],
)
def test_masks(
    mask: Any, seen: np.ndarray, unidirectional: int, backend: str, tmp_path: Path
) -> None:
    rest = {"unidirectional": unidirectional, "mask_filter_value": -3.0}
    (found,) = run(tmp_path, backend, "Attention", [X, W, BIAS, mask], **rest)
    bias = hidden(seen > 0, -3.0)
    wanted = expected(*projected(), bias + causal(S, S, 0) if unidirectional else bias)[0]
    close(found, joined(wanted))


@pytest.mark.parametrize("unidirectional", [0, 1])
def test_past(unidirectional: int, backend: str, tmp_path: Path) -> None:
    mask, bias = bits(B, SUM), floats(1, 1, S, SUM)
    inputs = [X, W, BIAS, mask, PAST, bias]
    rest = {"unidirectional": unidirectional, "scale": 0.3}
    y, present = run(tmp_path, backend, "Attention", inputs, "y p", **rest)
    q, k, v = projected()
    keys, values = np.concatenate([PAST[0], k], 2), np.concatenate([PAST[1], v], 2)
    whole = bias + hidden(mask[:, None, None] > 0)
    whole = whole + (causal(S, SUM, P) if unidirectional else 0.0)
    close(y, joined(expected(q, keys, values, whole, scale=0.3)[0]))
    close(present, np.stack([keys, values]))


def test_past_in_a_longer_buffer(backend: str, tmp_path: Path) -> None:
    inputs = [X, W, BIAS, None, PAST, None, np.array(1, np.int32)]
    rest = {"past_present_share_buffer": 1}
    y, present = run(tmp_path, backend, "Attention", inputs, "y p", **rest)
    q, k, v = projected()
    keys, values = (np.concatenate([a[:, :, :1], b], 2) for a, b in zip(PAST, (k, v), strict=True))
    close(y, joined(expected(q, keys, values)[0]))
    close(present, np.stack([keys, values]))
    inputs[-1] = np.array(2, np.int32)
    with pytest.raises(ShapeError, match="a past of 2"):
        run(tmp_path, backend, "Attention", inputs, "y p", **rest)


def test_parts_of_different_sizes(backend: str, tmp_path: Path) -> None:
    sizes, weights, bias = (8, 8, 12), floats(5, 28) * 0.6, floats(28)
    inputs = [X, weights, bias]
    (found,) = run(tmp_path, backend, "Attention", inputs, qkv_hidden_sizes=list(sizes))
    close(found, joined(expected(*projected(sizes, bias))[0]))
    with pytest.raises(ShapeError, match="caches"):
        run(tmp_path, backend, "Attention", inputs, "y p", qkv_hidden_sizes=list(sizes))


@pytest.mark.parametrize("width", [0, 2])
def test_rotations_inside(width: int, backend: str, tmp_path: Path) -> None:
    inputs = [X, W, BIAS, None, PAST]
    rest = {"do_rotary": 1, "rotary_embedding_dim": width}
    y, present = run(tmp_path, backend, "Attention", inputs, "y p", **rest)
    q, k, v = projected()
    half = (width or 4) // 2
    angles = np.arange(P, SUM)[:, None] / 10000.0 ** (np.arange(half) / half)
    tables = [np.broadcast_to(f(angles), (B, S, half)) for f in (np.cos, np.sin)]
    q, k = (turned(x, *tables) for x in (q, k))
    keys, values = np.concatenate([PAST[0], k], 2), np.concatenate([PAST[1], v], 2)
    close(present[0], keys)
    close(y, joined(expected(q, keys, values)[0]))


T = 5
Q, K, V = floats(B, S, 8), floats(B, T, 8) + 0.1, floats(B, T, 12)


def heads(*arrays: np.ndarray) -> list[np.ndarray]:
    return [apart(x, H) for x in arrays]


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("form", ["apart", "packed kv", "packed qkv", "one behind the other", "4d"])
def test_forms_of_inputs(form: str, biased: bool, backend: str, tmp_path: Path) -> None:
    q, k, v = Q, floats(B, S, 8) + 0.1, floats(B, S, 8) - 0.1
    bias = floats(24) if biased else None
    parts = np.split(bias, 3) if bias is not None else [np.zeros(8)] * 3
    kv = np.stack([x.reshape(B, S, H, 4) for x in (k, v)], 3)
    qkv = np.concatenate([q.reshape(B, S, H, 1, 4), kv], 3)
    inputs = {
        "apart": [q, k, v],
        "packed kv": [q, kv, None],
        "packed qkv": [qkv, None, None],
        "one behind the other": [np.concatenate([q, k, v], 2), None, None],
        "4d": [q, *heads(k, v)],
    }[form]
    if form == "4d":  # these are biased already
        parts = [parts[0], np.zeros(8), np.zeros(8)]
    found = run(tmp_path, backend, "MultiHeadAttention", [*inputs, bias], "y pk pv")
    q, k, v = (x + part for x, part in zip((q, k, v), parts, strict=True))
    close(found[0], joined(expected(*heads(q, k, v))[0]))
    close(found[1], apart(k, H))
    close(found[2], apart(v, H))


def masks(name: str | None, total: int) -> tuple[np.ndarray | None, np.ndarray]:
    """A mask, and where it lets keys be seen."""
    if name == "lengths":
        return ints(total, 2), np.arange(total) < np.array([total, 2])[:, None, None, None]
    if name == "rows":
        rows = bits(B, total)
        return rows, rows[:, None, None]
    if name == "planes":
        planes = bits(B, S, total)
        return planes, planes[:, None]
    return None, np.ones((1, 1, 1, 1))


@pytest.mark.parametrize("mask", [None, "lengths", "rows", "planes"])
@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_multi_head_attention(
    mask: Any, past: bool, unidirectional: int, backend: str, tmp_path: Path
) -> None:
    before = P if past else 0
    total = before + T
    caches = [floats(B, H, P, 4), floats(B, H, P, 6)] if past else [None, None]
    given, seen = masks(mask, total)
    more, rest = floats(1, H, S, total), {"unidirectional": unidirectional}
    inputs = [Q, K, V, None, given, more, *caches]
    found = run(tmp_path, backend, "MultiHeadAttention", inputs, "y pk pv qk", **rest)
    q, k, v = heads(Q, K, V)
    if past:
        k, v = (np.concatenate([a, b], 2) for a, b in zip(caches, (k, v), strict=True))
    bias = more + hidden(seen > 0)
    if unidirectional:
        steps = causal(S, total, before)
        steps[-1] = 0.0  # onnxruntime masks nothing for the last query
        bias = bias + steps
    wanted = expected(q, k, v, bias)
    close(found[0], joined(wanted[0]), 1e-5)
    close(found[1], k)
    close(found[2], v)
    lowest = float(np.finfo(np.float32).min)
    assert np.allclose(found[3], np.maximum(wanted[3], lowest), rtol=1e-5, atol=1e-2)


@pytest.mark.parametrize("op", ["MultiHeadAttention", "DecoderMaskedMultiHeadAttention"])
@pytest.mark.parametrize("beams", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_caches_in_longer_buffers(
    op: str, beams: bool, biased: bool, backend: str, tmp_path: Path
) -> None:
    q, k, v, bias = floats(4, 1, 8), floats(4, 1, 8) + 1, floats(4, 1, 8) - 1, floats(24)
    old = [floats(4, H, 7, 4), floats(4, H, 7, 4) + 0.3]
    table = RNG.integers(0, 2, (2, 2, 7)).astype(np.int32) if beams else None
    added = bias if biased else None
    if op == "MultiHeadAttention":
        inputs = [q, k, v, added, None, None, *old, ints(3), table]
    else:
        inputs = [q, k, v, None, None, *old, ints(3), ints(2), table, added]
    rest = {} if op == "MultiHeadAttention" else {"past_present_share_buffer": 1}
    found = run(tmp_path, backend, op, inputs, "y pk pv", **rest)
    parts = np.split(bias, 3) if biased else [np.zeros(8)] * 3
    q, k, v = (apart(x + part, H) for x, part in zip((q, k, v), parts, strict=True))
    for number, (cache, new) in enumerate(zip(old, (k, v), strict=True)):
        wanted = cache.copy()
        wanted[:, :, 3:4] = new
        close(found[1 + number], wanted)
    read = [
        np.concatenate([cache[:, :, :3], new], 2) for cache, new in zip(old, (k, v), strict=True)
    ]
    if table is not None:
        for cache, mixed in zip(old, read, strict=True):
            for b, w, t in np.ndindex(2, 2, 3):
                mixed[2 * b + w, :, t] = cache[2 * b + table[b, w, t], :, t]
    close(found[0], joined(expected(q, *read)[0]))


def test_decoder_on_another_sequence(backend: str, tmp_path: Path) -> None:
    q, (k, v), mask = floats(B, 1, 8), heads(K, K - 0.5), bits(B, T)
    op, rest = "DecoderMaskedMultiHeadAttention", {"output_qk": 1}
    found = run(tmp_path, backend, op, [q, k, v, mask], "y - - qk", **rest)
    wanted = expected(apart(q, H), k, v, hidden(mask[:, None, None] > 0))
    close(found[0], joined(wanted[0]))
    close(found[1], wanted[3])


def test_packed_sequences(backend: str, tmp_path: Path) -> None:
    x, bias = floats(5, 5), floats(1, H, S, S)
    offsets = ints(0, 1, 3, 4, 5, 2).reshape(B, S)  # sequences of 2 and of 3
    inputs = [x, W, BIAS, offsets, ints(0, 2, 5), bias]
    (found,) = run(tmp_path, backend, "PackedAttention", inputs)
    whole = x.astype(np.float64) @ W + BIAS
    for begin, end in ((0, 2), (2, 5)):
        q, k, v = (apart(part[None, begin:end], H) for part in np.split(whole, 3, 1))
        size = end - begin
        wanted = expected(q, k, v, bias[..., :size, :size])[0]
        close(found[begin:end], joined(wanted)[0])


def test_what_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match=r"the mask of keys is int32\[2, 4\], it has to be"):
        run(tmp_path, "numpy", "Attention", [X, W, BIAS, bits(B, S + 1)])
    with pytest.raises(ShapeError, match="has 3 lengths for 2"):
        run(tmp_path, "numpy", "Attention", [X, W, BIAS, ints(1, 2, 3)])
    with pytest.raises(ShapeError, match="parts 24 columns"):
        run(tmp_path, "numpy", "Attention", [X, W, BIAS], num_heads=5)
    with pytest.raises(ShapeError, match="half of a past"):
        run(tmp_path, "numpy", "MultiHeadAttention", [Q, K, V, *[None] * 3, floats(B, H, P, 4)])
