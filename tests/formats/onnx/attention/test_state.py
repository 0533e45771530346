"""Caches of a fixed length, and layers with a state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.formats.onnx.attention.one_node import close, floats, run_node

from vknn.errors import ShapeError, VknnError


def scattered(
    past: np.ndarray, update: np.ndarray, first: Any, axis: int, ring: bool
) -> np.ndarray:
    y = past.copy()
    for b in range(len(past)):
        for n in range(update.shape[axis]):
            place = int(first[b]) + n
            place = place % past.shape[axis] if ring else place
            key = (b, *[slice(None)] * (axis - 1))
            y[(*key, place)] = update[(*key, n)]
    return y


@pytest.mark.parametrize("axis", [1, 2, 3, -2, -1])
@pytest.mark.parametrize(
    ("first", "mode"),
    [(None, "linear"), ((3, 1), "linear"), ((4, 2), "circular"), ((9, 14), "circular")],
)
def test_tensor_scatter(axis: int, first: Any, mode: str, backend: str, tmp_path: Path) -> None:
    dims, small = [2, 3, 3, 3], [2, 3, 3, 3]
    dims[axis], small[axis] = 5, 2
    past, update = floats(*dims), floats(*small) + 9
    inputs: list[np.ndarray | None] = [past, update]
    if first is not None:
        inputs.append(np.array(first))
    rest: dict[str, Any] = {"axis": axis, "mode": mode}
    (found,) = run_node(tmp_path, backend, "TensorScatter", inputs, **rest)
    wanted = scattered(past, update, first or (0, 0), axis % 4, mode == "circular")
    assert np.array_equal(found, wanted)


KINDS = [np.bool_, np.int8, np.uint16, np.int64, np.float16, np.float64, np.complex64, object]
SMALL = [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4]


@pytest.mark.parametrize("kind", [*KINDS, *SMALL])
def test_tensor_scatter_takes_all_element_types(kind: Any, backend: str, tmp_path: Path) -> None:
    past = np.arange(12).reshape(2, 3, 2) % 3
    update = (np.arange(4) % 2).reshape(2, 1, 2)
    if kind is object:
        past, update = (a.astype(str).astype(object) for a in (past, update))
    past, update, first = past.astype(kind), update.astype(kind), np.array([2, 0])
    (found,) = run_node(tmp_path, backend, "TensorScatter", [past, update, first])
    assert found.dtype == past.dtype
    assert np.array_equal(found, scattered(past, update, first, 1, False))


def test_tensor_scatter_beyond_the_end(tmp_path: Path) -> None:
    past, update = floats(2, 5, 3), floats(2, 3, 3)
    with pytest.raises(ShapeError, match="index 3 is out of range: 0 to 2"):
        run_node(tmp_path, "numpy", "TensorScatter", [past, update, np.array([2, 3])])
    with pytest.raises(ShapeError, match="along the batch"):
        run_node(tmp_path, "numpy", "TensorScatter", [past, update], axis=0)
    with pytest.raises(ShapeError, match="writes"):
        run_node(tmp_path, "numpy", "TensorScatter", [update, past])


RULES = {"linear": (False, False), "gated": (True, False), "delta": (False, True)}
RULES["gated_delta"] = (True, True)


@pytest.mark.parametrize("rule", list(RULES))
@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize(("heads", "groups", "wide"), [(2, 2, False), (6, 2, True), (3, 1, False)])
def test_linear_attention(
    rule: str, past: bool, heads: int, groups: int, wide: bool, backend: str, tmp_path: Path
) -> None:
    batch, steps, depth, width = 2, 5, 3, 4
    q, k = floats(batch, steps, heads, depth), floats(batch, steps, groups, depth) * 0.4
    v = floats(batch, steps, groups, width)
    state = floats(batch, groups, depth, width) if past else np.zeros((batch, groups, depth, width))
    decay = -np.abs(floats(batch, steps, groups, depth if wide else 1))
    beta = np.abs(floats(batch, steps, 1 if groups == 1 else groups)) * 0.5
    gated, corrected = RULES[rule]
    inputs: list[np.ndarray | None] = [x.reshape(batch, steps, -1) for x in (q, k, v)]
    inputs += [
        state.astype(np.float32) if past else None,
        decay.reshape(batch, steps, -1) if gated else None,
        beta if corrected else None,
    ]
    rest: dict[str, Any] = {"q_num_heads": heads, "kv_num_heads": groups, "update_rule": rule}
    found = run_node(tmp_path, backend, "LinearAttention", inputs, "y s", opset=27, **rest)
    wanted, now = np.zeros((batch, steps, heads, width)), state.astype(np.float64)
    for b, t, g in np.ndindex(batch, steps, groups):
        if gated:
            now[b, g] *= np.exp(decay[b, t, g].astype(np.float64))[:, None]
        added = v[b, t, g].astype(np.float64)
        if corrected:
            added = beta[b, t, min(g, beta.shape[2] - 1)] * (added - k[b, t, g] @ now[b, g])
        now[b, g] += np.outer(k[b, t, g], added)
        for h in range(g * heads // groups, (g + 1) * heads // groups):
            wanted[b, t, h] = q[b, t, h] @ now[b, g] / np.sqrt(depth)
    close(found[0], wanted.reshape(batch, steps, -1), 1e-5)
    close(found[1], now, 1e-5)


def test_linear_attention_keeps_the_state_s_type(backend: str, tmp_path: Path) -> None:
    x = floats(1, 3, 4).astype(np.float16)
    for state, kind in ((None, np.float16), (np.ones((1, 2, 2, 2), np.float32), np.float32)):
        rest: dict[str, Any] = {"update_rule": "linear", "q_num_heads": 2, "kv_num_heads": 2}
        inputs = [x, x, x, state]
        found = run_node(tmp_path, backend, "LinearAttention", inputs, "y s", opset=27, **rest)
        assert [a.dtype for a in found] == [np.float16, kind]


def test_linear_attention_wants_what_its_rule_reads(tmp_path: Path) -> None:
    x = floats(1, 3, 4)
    rest: dict[str, Any] = {"opset": 27, "q_num_heads": 2, "kv_num_heads": 2}
    with pytest.raises(ShapeError, match="decay does not suit the rule gated_delta"):
        run_node(tmp_path, "numpy", "LinearAttention", [x, x, x], **rest)
    with pytest.raises(VknnError, match="not one of linear"):
        run_node(tmp_path, "numpy", "LinearAttention", [x, x, x], update_rule="other", **rest)


@pytest.mark.parametrize("taps", [1, 2, 4])
@pytest.mark.parametrize("length", [1, 6])
@pytest.mark.parametrize("rest", [{}, {"activation": "silu"}, {"activation": "swish"}])
@pytest.mark.parametrize("more", [False, True])
def test_causal_conv(
    taps: int, length: int, rest: dict[str, Any], more: bool, backend: str, tmp_path: Path
) -> None:
    x, weights = floats(2, 3, length), floats(3, 1, taps)
    bias = floats(3) if more else None
    past = floats(2, 3, taps - 1) if more else None
    before = past if past is not None else np.zeros((2, 3, taps - 1), np.float32)
    whole = np.concatenate([before, x], 2)
    wanted = np.zeros((2, 3, length)) if bias is None else np.tile(bias[:, None], (2, 1, length))
    for t in range(length):
        wanted[..., t] += (whole[..., t : t + taps] * weights[:, 0]).sum(-1)
    if rest:
        wanted = wanted / (1 + np.exp(-wanted))
    inputs = [x, weights, bias, past]
    found = run_node(tmp_path, backend, "CausalConvWithState", inputs, "y s", opset=27, **rest)
    close(found[0], wanted, 1e-5)
    assert np.array_equal(found[1], whole[..., length:])


@pytest.mark.parametrize("alpha", [1.0, 0.3])
def test_swiglu(alpha: float, backend: str, tmp_path: Path) -> None:
    a, b = floats(3, 5), floats(3, 5) + 0.5
    (found,) = run_node(tmp_path, backend, "SwiGLU", [a, b], opset=28, alpha=alpha)
    close(found, a.astype(np.float64) / (1 + np.exp(-np.float32(alpha) * a)) * b)
    with pytest.raises(ShapeError, match="takes no"):
        run_node(tmp_path, "numpy", "SwiGLU", [a, b[:1]], opset=28)
