"""Attention on the device, against NumPy."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.helpers import check_op, shared_device, single_op_graph
from tests.lowering.plan_texts import MATRICES

from vknn.lowering import LoweringOptions, candidates, lower
from vknn.lowering.kernels.attention import rule, stream
from vknn.ops.attention import Attention, LinearAttention, RotaryEmbedding
from vknn.plan import Dispatch

RNG = np.random.default_rng(11)
DOTS = ("float_dot", "fp16_storage", "fp16_arithmetic")


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    "batch, heads, queries, keys, depth, value_depth",
    [
        (1, 1, 1, 1, 1, 1),
        (1, 3, 5, 7, 4, 8),
        (2, 2, 3, 8, 8, 4),
        (2, 3, 7, 5, 3, 5),
        (1, 2, 17, 19, 16, 16),
    ],
)
@pytest.mark.parametrize("masked", [False, True])
def test_sizes(
    batch: int, heads: int, queries: int, keys: int, depth: int, value_depth: int, masked: bool
) -> None:
    q, k = floats(batch, queries, heads * depth), floats(batch, keys, heads * depth)
    v = floats(batch, keys, heads * value_depth)
    mask = floats(batch, heads, queries, keys) if masked else None
    op = Attention(heads, depth**-0.5)
    check_op(op, q, k, v, mask)
    check_op(op, q, k, v, mask, access=("storage",), kind="discrete")


@pytest.mark.parametrize(
    "shape", [(7,), (5, 7), (3, 5, 7), (2, 1, 1, 7), (1, 3, 5, 1), (2, 3, 1, 7)]
)
def test_mask_broadcasts(shape: tuple[int, ...]) -> None:
    q, k, v = floats(2, 5, 12), floats(2, 7, 12), floats(2, 7, 12)
    check_op(Attention(3, 0.5), q, k, v, floats(*shape), constants=(3,), access=("image",))


def test_masked_out_keys() -> None:
    mask = np.where(np.tri(6, dtype=bool), 0, -np.inf).astype(np.float32)
    check_op(Attention(2, 0.5), floats(1, 6, 8), floats(1, 6, 8), floats(1, 6, 8), mask)


@pytest.mark.parametrize("hidden", [-1e9, -3.4e38])
def test_rows_of_which_all_is_hidden_give_the_mean(hidden: float) -> None:
    """Numbers that hide keys take the scores up, as in engines that add in float32."""
    q, k, v = floats(1, 3, 8), floats(1, 5, 8), floats(1, 5, 8)
    mask = np.zeros((3, 5), np.float32)
    mask[1] = hidden
    op = Attention(2, 0.5)
    (y,) = op.reference(q, k, v, mask)
    np.testing.assert_allclose(y[0, 1], v[0].mean(0), rtol=1e-5, atol=1e-6)
    check_op(op, q, k, v, mask, tolerance=1e-5)


def test_large_scores_do_not_overflow() -> None:
    q, k = 100 * floats(1, 5, 8), 100 * floats(1, 9, 8)
    check_op(Attention(1, 1.0), q, k, floats(1, 9, 8), tolerance=1e-3)


@pytest.mark.parametrize("depth", [3, 4])
def test_more_keys_than_the_loops_of_a_lane_take(depth: int) -> None:
    """Scalars stay on the host beyond 65,535 keys, vec4s beyond four times as many."""
    for keys, host in ((50_000, False), (70_000, depth == 3), (270_000, True)):
        q, k, v = floats(1, 2, depth), floats(1, keys, depth), floats(1, keys, depth)
        check_op(Attention(1, 0.5), q, k, v, host=host, tolerance=1e-4, access=("storage",))


@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
@pytest.mark.parametrize(
    "heads, groups, queries, keys, depth, value_depth",
    [(6, 2, 5, 7, 4, 8), (6, 3, 3, 5, 3, 5), (4, 1, 2, 9, 8, 4), (2, 2, 7, 3, 4, 3)],
)
def test_heads_on_an_axis_of_their_own(
    heads: int, groups: int, queries: int, keys: int, depth: int, value_depth: int, masked: bool
) -> None:
    q, k = floats(2, heads, queries, depth), floats(2, groups, keys, depth)
    v = floats(2, groups, keys, value_depth)
    mask = floats(heads, queries, keys) if masked else None
    op = Attention(heads, 0.5, groups)
    for kind in ("cpu", "discrete"):
        check_op(op, q, k, v, mask, kind=kind, access=("storage",))


def test_heads_share_keys_in_a_row() -> None:
    q, k, v = floats(2, 5, 6 * 4), floats(2, 7, 2 * 4), floats(2, 7, 2 * 3)
    for kind in ("cpu", "discrete"):
        check_op(Attention(6, 0.5, 2), q, k, v, floats(5, 7), kind=kind, access=("texel",))


@pytest.mark.parametrize(
    "depth, value_depth", [(4, 256), (32, 12), (256, 12), (130, 131), (37, 61)]
)
def test_streams_of_several_tiles(depth: int, value_depth: int) -> None:
    """More queries and keys than a workgroup looks at, and widths of more than one chunk."""
    heads, queries, keys = 2, 37, 71
    q, k = floats(1, queries, heads * depth), floats(1, keys, heads * depth)
    v, mask = floats(1, keys, heads * value_depth), floats(queries, keys)
    op = Attention(heads, depth**-0.5)
    check_op(op, q, k, v, mask, kind="discrete", access=("storage",))
    names = names_of(op, q, k, v, mask, kind="discrete")
    assert ("stream_scalar" in names) and ("stream" in names) == (depth % 4 + value_depth % 4 == 0)


@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
@pytest.mark.parametrize("depth", [12, 44, 64, 128])
def test_streams_by_dots(monkeypatch: pytest.MonkeyPatch, depth: int, masked: bool) -> None:
    """Scores by dot products of float16, written out for devices without the instruction."""
    monkeypatch.setattr(stream, "FLOAT_DOTS", 2)
    q, k, v = floats(1, 37, 2 * depth), floats(1, 71, 2 * depth), floats(1, 71, 2 * 20)
    mask = floats(37, 71) if masked else None
    half = {"precision": "fp16", "features": DOTS}
    check_op(Attention(2, 0.15), q, k, v, mask, kind="discrete", access=("storage",), **half)


@pytest.mark.host
@pytest.mark.parametrize("precision, dots", [("fp16", "1"), ("fp32", None)])
def test_streams_take_dots_of_float16(precision: str, dots: str | None) -> None:
    a = np.zeros((1, 37, 12 * 8), np.float32)
    graph = single_op_graph(Attention(12, 1.0), [a, a, a])
    limits = dataclasses.replace(MATRICES, kind="discrete", features=frozenset(DOTS))
    options = LoweringOptions(precision=precision, algorithm="stream")
    (dispatch,) = lower(graph, limits, options).dispatches
    assert dict(dispatch.variant).get("DOTS") == dots


def names_of(op: Attention, *arrays: np.ndarray | None, kind: str) -> list[str]:
    limits = dataclasses.replace(shared_device().limits, kind=kind)
    graph = single_op_graph(op, arrays)
    return [c.name for c in candidates(graph.nodes[0], limits, LoweringOptions())]


def test_streams_over_keys_that_are_masked_out() -> None:
    """Whole tiles without a key that counts, at the beginning and later; the largest score last."""
    mask = np.full((3, 100), -np.inf, np.float32)
    mask[0, 97], mask[1, 5], mask[2] = 0, 1, np.arange(100)
    q, k, v = floats(1, 3, 8), floats(1, 100, 8), floats(1, 100, 8)
    check_op(Attention(2, 0.5), q, k, v, mask, kind="discrete", access=("storage",))


@pytest.mark.parametrize("kind", ["cpu", "discrete"])
@pytest.mark.parametrize("width", [4, 3])
def test_rows_without_keys(width: int, kind: str) -> None:
    """Zero where the op says so, in all candidates."""
    mask = np.zeros((3, 40), np.float32)
    mask[0, :35] = mask[1] = -np.inf
    q, k, v = floats(1, 3, 2 * width), floats(1, 40, 2 * width), floats(1, 40, 2 * width)
    check_op(Attention(2, 0.5, empty_zero=True), q, k, v, mask, kind=kind, access=("storage",))


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("depth", [4, 5])
def test_blocks(monkeypatch: pytest.MonkeyPatch, depth: int, precision: str) -> None:
    """Little room for scores: blocks of batch entries, heads and queries."""
    for heads, queries, rank in ((6, 150, 3), (6, 150, 4), (64, 3, 4)):
        groups = heads // 3 if heads % 3 == 0 else heads
        shapes = [(heads, queries), (groups, 11), (groups, 11)]
        arrays = [
            floats(2, n, t, depth) if rank == 4 else floats(2, t, n * depth) for n, t in shapes
        ]
        mask = floats(2, heads, queries, 11)
        for room in (1, 48 * 1000):
            monkeypatch.setattr(rule, "CPU_BLOCK", room)
            op = Attention(heads, 0.5, groups)
            check_op(op, *arrays, mask, kind="cpu", access=("image",), precision=precision)
            if room == 1 and queries == 150:
                plan = lower(
                    single_op_graph(op, [*arrays, mask]),
                    dataclasses.replace(shared_device().limits, kind="cpu"),
                )
                assert sum(isinstance(step, Dispatch) for step in plan.steps) > 3


@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
@pytest.mark.parametrize("depth", [8, 7])
def test_fp16(depth: int, masked: bool) -> None:
    q, k, v = floats(2, 35, 3 * depth), floats(2, 39, 3 * depth), floats(2, 39, 3 * depth)
    mask = floats(1, 3, 35, 39) if masked else None
    for kind in ("cpu", "discrete"):
        op = Attention(3, depth**-0.5)
        check_op(op, q, k, v, mask, kind=kind, precision="fp16", access=("image",))


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("interleaved", [False, True], ids=["halves", "interleaved"])
def test_rotary(interleaved: bool, precision: str) -> None:
    op = RotaryEmbedding(interleaved)
    for shape in ((3, 2), (2, 5, 6), (2, 3, 7, 10), (1, 2, 3, 5, 4)):
        table = (shape[-2], shape[-1] // 2)
        check_op(op, floats(*shape), floats(*table), floats(*table), precision=precision)
        if len(shape) > 2:
            table = (shape[0], *table)
            check_op(op, floats(*shape), floats(*table), floats(*table), precision=precision)


def linear_inputs(
    batch: int, steps: int, heads: int, groups: int, depth: int, width: int, rates: int, beta: bool
) -> list[np.ndarray | None]:
    """q, k, v, state, decay (``rates`` numbers for each head) and beta."""
    k = floats(batch, steps, groups * depth) * depth**-0.5
    state = floats(batch, groups, depth, width)
    decay = -np.abs(floats(batch, steps, groups * rates)) if rates else None
    corrections = np.abs(floats(batch, steps, groups)) * 0.5 if beta else None
    q, v = floats(batch, steps, heads * depth), floats(batch, steps, groups * width)
    return [q, k, v, state, decay, corrections]


@pytest.mark.parametrize("beta", [False, True], ids=["plain", "corrected"])
@pytest.mark.parametrize("rates", [0, 1, 2], ids=["kept", "by head", "by row"])
@pytest.mark.parametrize(
    "batch, steps, heads, groups, depth, width",
    [(1, 1, 1, 1, 1, 1), (2, 5, 6, 2, 3, 7), (1, 7, 3, 3, 8, 37)],
)
def test_linear_attention(
    batch: int, steps: int, heads: int, groups: int, depth: int, width: int, rates: int, beta: bool
) -> None:
    rates = depth if rates == 2 else rates
    inputs = linear_inputs(batch, steps, heads, groups, depth, width, rates, beta)
    check_op(LinearAttention(heads, groups, 0.5), *inputs, tolerance=1e-5)


def test_linear_attention_in_fp16() -> None:
    inputs = linear_inputs(2, 5, 2, 2, 3, 5, 1, True)
    check_op(LinearAttention(2, 2, 0.5), *inputs, precision="fp16", tolerance=1e-2)


@pytest.mark.parametrize("steps, depth, host", [(500, 64, False), (3, 30_000, True)])
def test_linear_attention_of_more_than_a_dispatch(steps: int, depth: int, host: bool) -> None:
    """Many steps are shared out; one that is too long for a lane's loops stays on the host."""
    inputs = linear_inputs(1, steps, 2, 1, depth, 3, 1, True)
    op = LinearAttention(2, 1, 0.5)
    check_op(op, *inputs, host=host, tolerance=1e-4, access=("storage",))
