"""Attention of ONNX's default domain, against scores worked out one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.formats.onnx.attention.one_node import (
    apart,
    close,
    expected,
    floats,
    joined,
    one_node,
    run_node,
)
from tests.onnx_writer import save

from vknn import Session
from vknn.errors import ShapeError, VknnError

RNG = np.random.default_rng(5)
B, S, T, D = 2, 3, 5, 4


def qkv(heads: int = 2, groups: int = 2, width: int = D) -> list[np.ndarray]:
    return [floats(B, heads, S, D), floats(B, groups, T, D) + 0.1, floats(B, groups, T, width)]


@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize(("heads", "groups", "width"), [(2, 2, 4), (6, 2, 3), (3, 1, 5)])
@pytest.mark.parametrize("cap", [0.0, 1.5])
def test_heads(
    rank: int, heads: int, groups: int, width: int, cap: float, backend: str, tmp_path: Path
) -> None:
    given = qkv(heads, groups, width)
    wanted = expected(*given, cap=cap)[0]
    counts: dict[str, Any] = {}
    if rank == 3:
        given, wanted = [joined(x) for x in given], joined(wanted)
        counts = {"q_num_heads": heads, "kv_num_heads": groups}
    (found,) = run_node(tmp_path, backend, "Attention", given, softcap=cap, **counts)
    close(found, wanted)


MASKS = [
    (T,),
    (S, T),
    (1, T),
    (2, S, T),
    (1, S, T),
    (B, 1, S, T),
    (B, 1, 1, T),
    (B, 2, S, T),
]


@pytest.mark.parametrize("kind", ["bool", "float32", "int64"])
@pytest.mark.parametrize("shape", MASKS)
def test_masks_of_every_rank(
    shape: tuple[int, ...], kind: str, backend: str, tmp_path: Path
) -> None:
    mask = (RNG.standard_normal(shape) * 2).astype(kind)
    if kind == "bool":
        mask[..., 0] = True
    bias = np.where(mask, 0.0, -np.inf) if kind == "bool" else mask
    given = qkv()
    (found,) = run_node(tmp_path, backend, "Attention", [*given, mask])
    close(found, expected(*given, bias)[0])


@pytest.mark.parametrize("kind", ["bool", "float32"])
def test_masks_that_are_too_short_hide_the_rest(kind: str, backend: str, tmp_path: Path) -> None:
    mask = RNG.standard_normal((S, T - 2)).astype(kind)
    mask[:, 0] = 1
    bias = np.full((S, T), -np.inf)
    bias[:, : T - 2] = np.where(mask, 0.0, -np.inf) if kind == "bool" else mask
    given = qkv()
    (found,) = run_node(tmp_path, backend, "Attention", [*given, mask])
    close(found, expected(*given, bias)[0])


def seen_bias(offsets: Any, left: int, right: int, keys: int) -> np.ndarray:
    """0 for keys within a window of a query's place, else -infinity: [B, 1, S, keys]."""
    bias = np.full((B, 1, S, keys), -np.inf)
    for b, s, j in np.ndindex(B, S, keys):
        place = s + int(np.broadcast_to(offsets, B)[b])
        if (left < 0 or j >= place - left) and (right < 0 or j <= place + right):
            bias[b, 0, s, j] = 0.0
    return bias


@pytest.mark.parametrize("opset", [23, 24, 25])
@pytest.mark.parametrize("cap", [0.0, 2.0])
def test_causal_behind_a_past(opset: int, cap: float, backend: str, tmp_path: Path) -> None:
    q, k, v = qkv(4, 2, 3)
    past = floats(B, 2, 2, D), floats(B, 2, 2, 3)
    keys, values = np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2)
    rest: dict[str, Any] = {"opset": opset, "is_causal": 1, "softcap": cap}
    found = run_node(tmp_path, backend, "Attention", [q, k, v, None, *past], "y pk pv", **rest)
    wanted = expected(q, keys, values, seen_bias(2, -1, 0, T + 2), cap=cap)[0]
    close(found[0], wanted)
    assert np.array_equal(found[1], keys) and np.array_equal(found[2], values)


def test_present_of_rank_3_has_its_heads_apart(backend: str, tmp_path: Path) -> None:
    given = [joined(x) for x in qkv(4, 2)]
    rest = {"q_num_heads": 4, "kv_num_heads": 2}
    found = run_node(tmp_path, backend, "Attention", given, "y pk pv", **rest)
    assert np.array_equal(found[1], apart(given[1], 2))
    assert np.array_equal(found[2], apart(given[2], 2))


@pytest.mark.parametrize(("left", "right"), [(1, -1), (-1, 1), (2, 0), (0, 0), (1, 2)])
@pytest.mark.parametrize("causal", [0, 1])
def test_windows(left: int, right: int, causal: int, backend: str, tmp_path: Path) -> None:
    given = qkv()
    sides = {"left_window_size": left, "right_window_size": right, "is_causal": causal}
    (found,) = run_node(tmp_path, backend, "Attention", given, **sides)
    most = 0 if causal else right
    close(found, expected(*given, seen_bias(0, left, most, T))[0])
    (old,) = run_node(tmp_path, "numpy", "Attention", given, opset=24, is_causal=causal)
    close(old, expected(*given, seen_bias(0, -1, 0 if causal else -1, T))[0])


@pytest.mark.parametrize("lengths", [(5, 3), (2, 5), (0, 1)])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("left", [-1, 1])
def test_keys_of_each_length(
    lengths: tuple[int, int], causal: int, left: int, backend: str, tmp_path: Path
) -> None:
    given, counts = qkv(4, 2), np.array(lengths, np.int64)
    offsets = counts - S
    bias = seen_bias(offsets, left, 0 if causal else -1, T)
    for b, count in enumerate(lengths):
        bias[b, ..., count:] = -np.inf
    inputs = [*given, None, None, None, counts]
    rest = {"is_causal": causal, "left_window_size": left}
    (found,) = run_node(tmp_path, backend, "Attention", inputs, **rest)
    wanted = expected(*given, bias)[0]
    close(found, wanted)
    if min(lengths) == 0:
        assert not found[0].any()  # rows without keys are zero


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_scores_are_an_output(mode: int, backend: str, tmp_path: Path) -> None:
    given, mask = qkv(4, 2), np.full((S, T), -np.inf, np.float32)
    mask[0], mask[1, 2] = 0.5, 0.0  # the last row has no keys
    rest = {"qk_matmul_output_mode": mode, "softcap": 1.2, "scale": 0.7}
    found = run_node(tmp_path, backend, "Attention", [*given, mask], "y - - qk", **rest)
    wanted = expected(*given, mask, scale=float(np.float32(0.7)), cap=1.2)
    close(found[0], wanted[0])
    close(found[1], wanted[1 + mode])
    assert not found[0][:, :, 2].any()


@pytest.mark.parametrize("cap", [0.0, 1.5])
def test_a_row_without_keys_is_zero(cap: float, backend: str, tmp_path: Path) -> None:
    given, mask = qkv(), np.ones((S, T), np.bool_)
    mask[1] = False
    (found,) = run_node(tmp_path, backend, "Attention", [*given, mask], softcap=cap)
    assert not found[:, :, 1].any()
    assert np.isfinite(found).all() and found[:, :, 0].any()


@pytest.mark.parametrize(("number", "dtype"), [(10, np.float16), (16, ml_dtypes.bfloat16)])
def test_softmax_in_less_than_float32(
    number: int, dtype: Any, backend: str, tmp_path: Path
) -> None:
    given = qkv()
    rest = {"softmax_precision": number, "qk_matmul_output_mode": 3}
    weights = run_node(tmp_path, backend, "Attention", given, "y - - qk", **rest)[1]
    assert weights.dtype == np.float32
    assert np.array_equal(weights, weights.astype(dtype).astype(np.float32))
    close(weights, expected(*given)[4], 2 * float(ml_dtypes.finfo(dtype).eps))


def test_element_types(backend: str, tmp_path: Path) -> None:
    given = qkv(4, 2)
    wanted = expected(*given)[0]
    for dtype, tolerance in ((np.float16, 2e-3), (ml_dtypes.bfloat16, 1e-2), (np.float64, 1e-12)):
        typed = [x.astype(dtype) for x in given]
        (found,) = run_node(tmp_path, backend, "Attention", typed)
        assert found.dtype == dtype
        exact = expected(*(x.astype(np.float64) for x in typed))[0]
        close(found.astype(np.float64), exact, tolerance)
    mixed = [given[0], given[1], given[2].astype(np.float16)]
    found = run_node(tmp_path, backend, "Attention", mixed, "y pk pv")
    assert [x.dtype for x in found] == [np.float32, np.float32, np.float16]
    close(found[0], wanted, 2e-3)


@pytest.mark.parametrize(("cap", "fused"), [(0.0, True), (1.0, False)])
def test_the_plain_case_is_one_op(cap: float, fused: bool, tmp_path: Path) -> None:
    given = [*qkv(), floats(S, T)]
    path = save(one_node("Attention", given, "y", softcap=cap, is_causal=1), tmp_path)
    with Session(path, device="numpy") as session:
        nodes = session._engine.graph({f"x{i}": x for i, x in enumerate(given)}).nodes
    types = {n.op.type_name for n in nodes}
    assert ("Attention" in types) == fused and ("Softmax" in types) != fused


@pytest.mark.parametrize("shape", [(0, 3, 5), (2, 0, 5), (2, 3, 0)])
@pytest.mark.parametrize("cap", [0.0, 1.0])
def test_nothing(shape: tuple[int, int, int], cap: float, backend: str, tmp_path: Path) -> None:
    batch, queries, keys = shape
    given = [np.ones((batch, 2, n, D), np.float32) for n in (queries, keys, keys)]
    (found,) = run_node(tmp_path, backend, "Attention", given, is_causal=1, softcap=cap)
    assert found.shape == (batch, 2, queries, D) and not found.any()


Q = floats(1, 2, 3, 4)


@pytest.mark.parametrize(
    ("inputs", "rest", "text"),
    [
        ([Q, floats(1, 3, 3, 4), floats(1, 3, 3, 4)], {}, "do not divide 2"),
        ([Q, Q, Q, floats(3, 4)], {}, "do not broadcast"),
        ([Q, Q, Q, None, Q], {}, "half of a past"),
        ([Q, Q, Q, None, Q, Q, np.ones(1, np.int64)], {}, "nonpad_kv_seqlen and a past"),
        ([Q, np.repeat(Q, 2, 0), np.repeat(Q, 2, 0)], {"softcap": 1.0}, "together"),
        ([Q[0], Q[0], Q[0]], {}, "q_num_heads"),
        ([Q, Q, Q], {"qk_matmul_output_mode": 4}, "qk_matmul_output_mode 4"),
        ([Q, Q, Q], {"left_window_size": -2}, "windows"),
    ],
)
def test_what_does_not_fit(
    inputs: list[np.ndarray | None], rest: dict[str, Any], text: str, tmp_path: Path
) -> None:
    with pytest.raises(VknnError, match=text) as caught:
        run_node(tmp_path, "numpy", "Attention", inputs, "y - - qk", **rest)
    assert isinstance(caught.value, ShapeError)
