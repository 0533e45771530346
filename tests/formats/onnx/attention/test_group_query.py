"""GroupQueryAttention and SparseAttention, sequence by sequence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
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

from vknn.errors import ShapeError, VknnError

H, G, D = 4, 2, 8
RNG = np.random.default_rng(7)
TABLES = floats(23, 3), floats(23, 3) + 0.3
OP = "GroupQueryAttention"


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


def inputs_of(batch: int, steps: int, lengths: Any, total: int, room: int | None) -> list[Any]:
    """Inputs: queries, keys, values, caches of ``room`` or none, and the lengths."""
    q, k = floats(batch, steps, H * D), floats(batch, steps, G * D) + 0.1
    v = floats(batch, steps, G * D) - 0.2
    past = [None, None] if room is None else [floats(batch, G, room, D) + n for n in (0.1, 0.3)]
    scalar = np.array(total, np.int32)
    return [q, k, v, *past, ints(*lengths) - 1, scalar, *[None] * 10]


def run(folder: Path, backend: str, given: Any, outputs: str = "y pk pv", **rest: Any) -> Any:
    rest = {"num_heads": H, "kv_num_heads": G, "domain": MICROSOFT, "opset": 21, **rest}
    return run_node(folder, backend, rest.pop("op", OP), given, outputs, **rest)


def one(given: list[Any], b: int, end: int, **rest: Any) -> tuple[np.ndarray, ...]:
    """Output [1, steps, H * D], keys and values [1, G, end, D], scores and weights of a sequence.

    ``rotate``: interleaved or not; ``window``, ``bias`` [H, steps, end], ``cap``, ``sink``.
    """
    q, k, v = (
        apart(x[b : b + 1].astype(np.float64), n) for x, n in zip(given, (H, G, G), strict=False)
    )
    steps = q.shape[2]
    new = min(steps, end)
    first = end - new
    if "rotate" in rest:
        places = rest.get("places", np.arange(first, first + steps))
        tables = [np.asarray(t[places][None]) for t in TABLES]
        q, k = (turned(x, *tables, rest["rotate"]) for x in (q, k))
    if given[3] is not None:
        k, v = (
            np.concatenate([past[b : b + 1, :, :first], x[:, :, :new]], 2)
            for past, x in zip(given[3:5], (k, v), strict=True)
        )
    else:
        k, v = k[:, :, :new], v[:, :, :new]
    place = np.arange(steps)[:, None] + first
    seen = np.arange(end) <= place
    if rest.get("window", -1) > 0:
        seen &= np.arange(end) > place - rest["window"]
    if not rest.get("causal", 1):
        seen = np.ones((steps, end), np.bool_)
    bias = np.where(seen, 0.0, -np.inf) + rest.get("bias", 0.0)
    scores = expected(q, k, v, bias, cap=rest.get("cap", 0.0), sink=rest.get("sink"))
    return joined(scores[0]), k, v, scores[3], scores[4]


def check(given: list[Any], found: Any, lengths: Any, **rest: Any) -> None:
    """Comparison of valid rows and of what the caches hold of each sequence."""
    for b, end in enumerate(lengths):
        y, k, v, *_ = one(given, b, end, **rest)
        new = min(y.shape[1], end)
        close(found[0][b : b + 1, :new], y[:, :new], 5e-6)
        close(found[1][b : b + 1, :, :end], k, 5e-6)
        close(found[2][b : b + 1, :, :end], v, 5e-6)


@pytest.mark.parametrize("rotate", [None, False, True])
@pytest.mark.parametrize(
    ("steps", "lengths", "total", "room"),
    [
        (5, (5,), 5, None),
        (5, (5, 3), 5, None),
        (5, (5, 3), 5, 9),
        (1, (5,), 5, 4),
        (1, (5, 3), 5, 4),
        (1, (5, 3), 5, 9),
        (3, (7,), 7, 4),
        (3, (7,), 7, 12),
    ],
)
def test_steps(
    steps: int,
    lengths: Any,
    total: int,
    room: int | None,
    rotate: Any,
    backend: str,
    tmp_path: Path,
) -> None:
    given, rest, more = inputs_of(len(lengths), steps, lengths, total, room), {}, {}
    if rotate is not None:
        given[7:9] = TABLES
        rest, more = {"rotate": rotate}, {"do_rotary": 1, "rotary_interleaved": int(rotate)}
    found = run(tmp_path, backend, given, **more)
    assert found[1].shape == (len(lengths), G, max(total, room or 0), D)
    check(given, found, lengths, **rest)
    filled = max(max(lengths), steps)
    assert not found[1][:, :, filled:].any()  # whatever was there


@pytest.mark.parametrize("window", [-1, 1, 3])
@pytest.mark.parametrize("cap", [0.0, 1.5])
@pytest.mark.parametrize("sink", [None, "zero", "given"])
def test_scores(window: int, cap: float, sink: Any, backend: str, tmp_path: Path) -> None:
    given, lengths = inputs_of(1, 3, (7,), 7, 4), (7,)
    given[10] = floats(1, H, 3, 7)
    rest = {"local_window_size": window, "softcap": cap, "smooth_softmax": int(sink == "zero")}
    numbers = np.zeros(H) if sink == "zero" else None
    if sink == "given":
        numbers = given[11] = floats(H)
    found = run(tmp_path, backend, given, **rest)
    bias = given[10][0]
    check(given, found, lengths, window=window, cap=cap, sink=numbers, bias=bias)


@pytest.mark.parametrize("kept", [1, 2])
def test_scores_are_an_output(kept: int, backend: str, tmp_path: Path) -> None:
    given = inputs_of(1, 3, (7,), 7, 4)
    found = run(tmp_path, backend, given, "y pk pv qk", qk_output=kept, softcap=1.1)
    wanted = one(given, 0, 7, cap=1.1)
    scores = np.where(np.isneginf(wanted[3]), 0.0, wanted[3]) if kept == 1 else wanted[4]
    close(found[3], scores, 5e-6)


def test_without_causality(backend: str, tmp_path: Path) -> None:
    given = inputs_of(2, 5, (5, 3), 5, None)
    check(given, run(tmp_path, backend, given, causal=0), (5, 3), causal=0)


def test_places(backend: str, tmp_path: Path) -> None:
    """Given for each query; of the first step the first one counts alone."""
    given = inputs_of(1, 3, (7,), 7, 4)
    given[7:9], given[9] = TABLES, np.array([[3, 1, 4]])
    places = np.array([3, 1, 4])
    found = run(tmp_path, backend, given, do_rotary=1)
    check(given, found, (7,), rotate=False, places=places)
    given = inputs_of(1, 3, (3,), 3, None)
    given[7:9], given[9] = TABLES, np.array([[3, 1, 4]])
    found = run(tmp_path, backend, given, do_rotary=1)
    check(given, found, (3,), rotate=False, places=np.arange(3, 6))


def test_packed_and_normalized(backend: str, tmp_path: Path) -> None:
    given = inputs_of(1, 3, (7,), 7, 4)
    whole, weights = list(given), [floats(D), floats(D) + 1]
    whole[:3] = [np.concatenate(given[:3], 2), None, None]
    whole[14:16] = weights
    found = run(tmp_path, backend, whole, qk_norm_epsilon=1e-2, k_norm_epsilon=0.1)
    for number, (n, weight, epsilon) in enumerate(((H, weights[0], 1e-2), (G, weights[1], 0.1))):
        x = given[number].reshape(1, 3, n, D).astype(np.float64)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * weight
        given[number] = x.reshape(1, 3, n * D)
    check(given, found, (7,))


def test_chunks_with_padding(backend: str, tmp_path: Path) -> None:
    """query_seqlens: 2 and 3 of 3 queries count."""
    given, lengths, news = inputs_of(2, 3, (5, 6), 8, 9), (5, 6), (2, 3)
    given[7:9], given[16] = TABLES, ints(*news)
    found = run(tmp_path, backend, given, do_rotary=1)
    for b, (end, new) in enumerate(zip(lengths, news, strict=True)):
        part = [x[b : b + 1, :new] for x in given[:3]] + [x[b : b + 1] for x in given[3:5]]
        y, k, v, *_ = one(part, 0, end, rotate=False)
        close(found[0][b : b + 1, :new], y, 5e-6)
        close(found[1][b : b + 1, :, :end], k, 5e-6)
        close(found[2][b : b + 1, :, :end], v, 5e-6)


def held(total: int, room: int, window: int) -> int:
    step = room - window + 1
    return total if total <= room else total - step * -(-(total - room) // step)


@pytest.mark.parametrize(("room", "window"), [(5, 3), (5, 5), (4, 1)])
@pytest.mark.parametrize("chunks", [(1,) * 9, (3, 1, 4, 1), (8, 1)])
def test_caches_of_a_window(
    room: int, window: int, chunks: Any, backend: str, tmp_path: Path
) -> None:
    """A sequence in steps gives what it gives whole, and caches with its last entries."""
    steps = sum(chunks)
    whole = inputs_of(1, steps, (steps,), steps, None)
    bias = floats(1, H, steps, steps)
    y, k, v, *_ = one(whole, 0, steps, rotate=False, window=window, bias=bias[0])
    caches, end = [np.full((1, G, room, D), np.nan, np.float32)] * 2, 0
    rest = {"sliding_window_cache": 1, "local_window_size": window, "do_rotary": 1}
    for count in chunks:
        begin, end = end, end + count
        given = [x[:, begin:end] for x in whole[:3]] + [np.nan_to_num(c) for c in caches]
        given += [ints(end - 1), np.array(end, np.int32), *TABLES, None]
        given += [np.ascontiguousarray(bias[:, :, begin:end, :end]), *[None] * 6]
        found = run(tmp_path, backend, given, **rest)
        close(found[0], y[:, begin:end], 1e-5)
        last = held(end, room, window)
        for cache, entries in zip(found[1:], (k, v), strict=True):
            assert cache.shape == (1, G, room, D)
            close(cache[:, :, :last], entries[:, :, end - last : end], 5e-6)
        caches = found[1:]


@pytest.mark.parametrize("kind", ["PER_TENSOR", "PER_CHANNEL"])
@pytest.mark.parametrize("form", ["int8", "int4", "float8"])
def test_quantized_caches(form: str, kind: str, backend: str, tmp_path: Path) -> None:
    given = inputs_of(1, 3, (7,), 7, 4)
    shape = (1,) if kind == "PER_TENSOR" else (1, G, 1, D)
    unit = {"int8": 0.02, "int4": 0.3, "float8": 0.01}[form]
    scales = [(np.abs(floats(*shape)) + 0.5).astype(np.float32) * unit for _ in range(2)]
    given[12:14] = scales
    low, high = (-8, 7) if form == "int4" else (-128, 127)
    codes, packed = [], []
    for x, scale in zip(given[1:3], scales, strict=True):
        old = RNG.integers(low, high + 1, (1, G, 4, D)).astype(np.float64)
        new = apart(x, G) / scale
        if form == "float8":
            old, new = (a.astype(ml_dtypes.float8_e4m3fn).astype(np.float64) for a in (old, new))
        else:
            new = np.clip(np.rint(new), low, high)
        codes.append(np.concatenate([old, new], 2))
        packed.append(stored(codes[-1], form))
    given[3:5] = [p[:, :, :4] for p in packed]
    rest = {"k_quant_type": kind, "v_quant_type": kind}
    bits = 4 if form == "int4" else 8
    found = run(tmp_path, backend, given, kv_cache_bit_width=bits, **rest)
    for cache, wanted in zip(found[1:], packed, strict=True):
        assert cache.dtype == wanted.dtype and np.array_equal(cache, wanted)
    k, v = (c * s for c, s in zip(codes, scales, strict=True))
    bias = np.where(np.arange(7) <= np.arange(3)[:, None] + 4, 0.0, -np.inf)
    close(found[0], joined(expected(apart(given[0], H), k, v, bias)[0]), 5e-6)


def stored(codes: np.ndarray, form: str) -> np.ndarray:
    if form == "int8":
        return codes.astype(np.int8)
    if form == "float8":
        return codes.astype(ml_dtypes.float8_e4m3fn)
    halves = (codes + 8).astype(np.uint8)
    return halves[..., 0::2] | (halves[..., 1::2] << 4)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("cap", [0.0, 1.2])
def test_small_floats(dtype: Any, cap: float, backend: str, tmp_path: Path) -> None:
    given = inputs_of(1, 3, (7,), 7, 4)
    given[7:9] = TABLES
    typed = [x.astype(dtype) if x is not None and x.dtype == np.float32 else x for x in given]
    found = run(tmp_path, backend, typed, softcap=cap, do_rotary=1)
    assert all(x.dtype == dtype for x in found)
    y, k, *_ = one(given, 0, 7, cap=cap, rotate=False)
    close(found[0].astype(np.float32), y, 4 * float(ml_dtypes.finfo(dtype).eps))
    close(found[1].astype(np.float32), k, 4 * float(ml_dtypes.finfo(dtype).eps))


def test_what_does_not_fit(tmp_path: Path) -> None:
    given = inputs_of(1, 3, (7,), 7, 4)
    with pytest.raises(ShapeError, match="window of -1 in a cache of 4"):
        run(tmp_path, "numpy", given, sliding_window_cache=1)
    with pytest.raises(VknnError, match="not one of NONE"):
        run(tmp_path, "numpy", given, k_quant_type="OTHER")
    with pytest.raises(ShapeError, match="do not divide|heads"):
        run(tmp_path, "numpy", given, num_heads=3)
    given[7:9] = [t[:3] for t in TABLES]
    with pytest.raises(ShapeError, match="tables of 3 places"):
        run(tmp_path, "numpy", given, do_rotary=1)


@pytest.mark.parametrize("layouts", [1, 2, 4])
@pytest.mark.parametrize("rotate", [None, False])
@pytest.mark.parametrize(("steps", "lengths"), [(13, (13, 10)), (1, (13, 6))])
def test_sparse_attention(
    layouts: int, rotate: Any, steps: int, lengths: Any, backend: str, tmp_path: Path
) -> None:
    size, blocks, total = 4, 5, 13
    given = inputs_of(2, steps, lengths, total, size * blocks)
    seen = np.tril(RNG.integers(0, 2, (layouts, blocks, blocks)) > 0) | np.eye(blocks, dtype=bool)
    columns = [np.nonzero(table)[1] for table in seen]
    longest = max(map(len, columns))
    table = np.stack([np.pad(c, (0, longest - len(c)), constant_values=-1) for c in columns])
    begins = np.concatenate([np.zeros((layouts, 1), int), seen.sum(2).cumsum(1)], 1)
    inputs = [*given[:5], begins.astype(np.int32), table.astype(np.int32)]
    inputs += [ints(total), ints(*lengths)]
    rest: dict[str, Any] = {"op": "SparseAttention", "sparse_block_size": size}
    more = {}
    if rotate is not None:
        inputs, rest, more = [*inputs, *TABLES], {**rest, "do_rotary": 1}, {"rotate": rotate}
    found = run(tmp_path, backend, inputs, **rest)
    for b, end in enumerate(lengths):
        first = max(end - steps, 0)
        row, column = (np.arange(first, first + steps)) // size, np.arange(end) // size
        bias = np.where(seen[:, row][..., column], 0.0, -np.inf)
        y, k, v, *_ = one(given, b, end, bias=np.tile(bias, (H // layouts, 1, 1)), **more)
        new = min(steps, end)
        close(found[0][b : b + 1, :new], y[:, :new], 1e-5)
        close(found[1][b : b + 1, :, :end], k, 5e-6)
        close(found[2][b : b + 1, :, :end], v, 5e-6)
