"""Attention layers, and what they are made from, against ncnn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.peers.ncnn.peer import assert_close, check, image, one_layer, run_ncnn, run_vknn

from vknn import formats
from vknn.errors import VknnError
from vknn.graph import TensorType

NOTHING = np.zeros((0,), np.float32)


@pytest.mark.parametrize("mask", [None, (4, 4), (2, 4, 4)])
def test_self_attention(mask: tuple[int, ...] | None, backend: str) -> None:
    inputs = [image(4, 6)] + ([image(*mask, seed=5)] if mask else [])
    check(f"MultiHeadAttention 0=8 1=2 2=48 3=6 4=6 5={int(bool(mask))}", *inputs, backend=backend)


@pytest.mark.parametrize("mask", [False, True])
def test_cross_attention(mask: bool, backend: str) -> None:
    extra = [image(4, 5, seed=5)] if mask else []
    line = f"MultiHeadAttention 0=8 1=4 2=64 5={int(mask)}"
    check(line, image(4, 8), image(5, 8, seed=1), *extra, backend=backend)
    line = f"MultiHeadAttention 0=8 1=2 2=48 3=7 4=9 5={int(mask)} 6=0.3"
    inputs = (image(4, 6), image(5, 7, seed=1), image(5, 9, seed=2))
    check(line, *inputs, *extra, backend=backend)


@pytest.mark.parametrize("storage", ["fp16", "table"])
def test_attention_storage(storage: str, backend: str) -> None:
    line = "MultiHeadAttention 0=8 1=2 2=64"
    check(line, image(4, 8), storage=storage, backend=backend)  # type: ignore[arg-type]


#: Width, heads, q's (sequence, width), k's, v's width, mask.
FORMS = [
    (62, 2, (13, 62), (13, 32), 20, 0),
    (26, 2, (11, 26), (14, 32), 18, 1),
    (64, 16, (27, 48), (27, 64), 64, 1),
    (16, 4, (28, 12), (27, 44), 55, 1),
    (12, 3, (17, 12), (32, 28), 11, 0),
]


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("term", ["", "18=2"], ids=["float", "int8"])
def test_attention_of_three(form: tuple, term: str, backend: str) -> None:  # type: ignore[type-arg]
    width, heads, q, k, v, masked = form
    line = f"MultiHeadAttention 0={width} 1={heads} 2={width * q[1]} 3={k[1]} 4={v} 5={masked}"
    inputs = [image(*q), image(*k, seed=1), image(k[0], v, seed=2)]
    mask = [image(q[0], k[0], seed=3)] if masked else []
    check(f"{line} {term}", *inputs, *mask, backend=backend)


@pytest.mark.parametrize("term", ["", "18=2"], ids=["float", "int8"])
def test_attention_of_one_and_two(term: str, backend: str) -> None:
    line = f"MultiHeadAttention 0=12 1=3 2=144 {term}"
    check(line, image(17, 12), backend=backend)
    line = f"MultiHeadAttention 0=16 1=4 2=192 3=22 4=22 {term}"
    check(line, image(28, 12), image(27, 22, seed=1), backend=backend)


@pytest.mark.parametrize("bits", [4, 6, 8])
@pytest.mark.parametrize("form", [0, 11, 2])
def test_attention_in_blocks(bits: int, form: int, backend: str) -> None:
    line = f"MultiHeadAttention 0=12 1=3 2=840 3=33 4=9 5=1 18={100 * bits + form}"
    inputs = (image(5, 70), image(7, 33, seed=1), image(7, 9, seed=2), image(5, 7, seed=3))
    scales = {f"{n}_weight_scale": image_scales(n, bits, form) for n in ("q", "k", "v", "out")}
    check(line, *inputs, weights=scales, backend=backend)


def image_scales(name: str, bits: int, form: int) -> np.ndarray:
    """Scales of blocks that make the numbers small."""
    rows, columns = {"q": (12, 70), "k": (12, 33), "v": (12, 9), "out": (70, 12)}[name]
    blocks = -(-columns // (32, 64, 128)[form % 10])
    rng = np.random.default_rng(columns)
    return (rng.uniform(5, 9, (rows, blocks)) * 2.0 ** (bits - 2)).astype(np.float32)


# --- kept keys and values -----------------------------------------------------------------------


@pytest.mark.parametrize("term", ["", "18=2"], ids=["float", "int8"])
@pytest.mark.parametrize("masked", [0, 1])
@pytest.mark.parametrize("past", [0, 3, 16])
def test_self_attention_keeps(past: int, masked: int, term: str, backend: str) -> None:
    width, current = 12, 5
    line = f"MultiHeadAttention 0={width} 1=3 2={12 * 10} 3=10 4=10 5={masked} 7=1 {term}"
    mask = [image(current, past + current, seed=3)] if masked else []
    kept = [image(3, past, 4, seed=s) if past else NOTHING for s in (4, 5)]
    check(line, image(current, 10), *mask, *kept, tops=3, backend=backend)


@pytest.mark.parametrize("term", ["", "18=2"], ids=["float", "int8"])
@pytest.mark.parametrize("masked", [0, 1])
@pytest.mark.parametrize("past", [0, 7])
@pytest.mark.parametrize("count", [2, 3])
def test_cross_attention_keeps(count: int, past: int, masked: int, term: str, backend: str) -> None:
    width = 12
    line = f"MultiHeadAttention 0={width} 1=4 2={12 * 10} 3=9 4=9 5={masked} 7=1 {term}"
    mask = [image(5, 7, seed=3)] if masked else []
    kept = [image(4, past, 3, seed=s) if past else NOTHING for s in (4, 5)]
    others = [image(7, 9, seed=s) for s in range(1, count)]
    check(line, image(5, 10), *others, *mask, *kept, tops=3, backend=backend)


# --- SDPA ---------------------------------------------------------------------------------------

#: q, k, width of v, mask, scale
PLAIN = [
    ((8, 66, 32), (8, 66, 32), 20, 0, 0.0),
    ((8, 64, 26), (8, 61, 26), 18, 1, 0.0),
    ((6, 22, 24), (6, 19, 24), 16, 1, 0.0),
    ((12, 28, 64), (2, 27, 64), 64, 0, 0.0),
    ((12, 22, 64), (2, 27, 64), 48, 1, 0.0),
    ((4, 28, 44), (4, 23, 44), 55, 0, 1.0),
    ((15, 17, 28), (5, 32, 28), 11, 1, -0.4),
    ((1, 1, 1), (1, 1, 1), 1, 1, 0.3),
]


@pytest.mark.parametrize("form", PLAIN, ids=str)
@pytest.mark.parametrize("term", ["", "18=2"], ids=["float", "int8"])
def test_sdpa(form: tuple, term: str, backend: str) -> None:  # type: ignore[type-arg]
    q, k, v, masked, scale = form
    line = f"SDPA 5={masked} 6={scale} {term}"
    inputs = [image(*q), image(*k, seed=1), image(*k[:2], v, seed=2)]
    mask = [image(q[1], k[1], seed=3)] if masked else []
    check(line, *inputs, *mask, backend=backend)


@pytest.mark.parametrize("sizes", [(6, 5, 7), (1, 5, 7), (5, 7)], ids=str)
def test_sdpa_masks(sizes: tuple[int, ...], backend: str) -> None:
    inputs = image(6, 5, 8), image(3, 7, 8, seed=1), image(3, 7, 4, seed=2)
    check("SDPA 5=1", *inputs, image(*sizes, seed=3), backend=backend)


@pytest.mark.parametrize("term", ["", "18=2"], ids=["float", "int8"])
def test_rows_without_keys(term: str, backend: str) -> None:
    mask = np.zeros((4, 5), np.float32)
    mask[1, :3] = mask[2] = -np.inf
    inputs = [image(2, 4, 6), image(2, 5, 6, seed=1), image(2, 5, 3, seed=2)]
    check(f"SDPA 5=1 {term}", *inputs, mask, backend=backend)
    line = f"MultiHeadAttention 0=6 1=2 2=36 5=1 {term}"
    check(line, image(4, 6), image(5, 6, seed=1), mask, backend=backend)


def test_sdpa_without_heads(backend: str) -> None:
    check("SDPA", image(5, 8), image(7, 8, seed=1), image(7, 3, seed=2), backend=backend)


def test_sdpa_in_int8_with_wider_keys(backend: str) -> None:
    check("SDPA 18=2", image(4, 7, 6), image(2, 9, 8), image(2, 9, 5), backend=backend)


@pytest.mark.parametrize("masked", [0, 1])
@pytest.mark.parametrize("past", [0, 1, 9])
def test_sdpa_keeps_in_int8(past: int, masked: int, backend: str) -> None:
    inputs = [image(6, 5, 12), image(3, 7, 12, seed=1), image(3, 7, 11, seed=2)]
    mask = [image(5, 7 + past, seed=3)] if masked else []
    kept = [image(3, past, w, seed=4) if past else NOTHING for w in (12, 11)]
    line = f"SDPA 5={masked} 7=1 18=2"
    check(line, *inputs, *mask, *kept, tops=3, backend=backend)


@pytest.mark.parametrize("past", [0, 3])
def test_sdpa_keeps_wider_keys_in_int8(past: int, backend: str) -> None:
    """Kept keys get the width of q, their elements in a row."""
    inputs = [image(4, 9, 5), image(2, 7, 8, seed=1), image(2, 7, 3, seed=2)]
    kept = [image(2, past, w, seed=4) if past else NOTHING for w in (8, 3)]
    check("SDPA 7=1 18=2", *inputs, *kept, tops=3, backend=backend)


@pytest.mark.parametrize("masked", [0, 1])
@pytest.mark.parametrize("past", [0, 1, 9])
def test_sdpa_keeps(past: int, masked: int, backend: str, tmp_path: Path) -> None:
    """As ncnn's attention over the joined keys and values: its CPU path keeps floats packed."""
    q, k, v = image(6, 5, 12), image(3, 7, 12, seed=1), image(3, 7, 11, seed=2)
    before = [image(3, past, w, seed=4) for w in (12, 11)]
    joined = [np.concatenate(pair, axis=1) for pair in zip(before, (k, v), strict=True)]
    mask = [image(5, 7 + past, seed=3)] if masked else []
    path = tmp_path / "net.param"
    inputs = named(q, k, v, *mask, *(b if past else NOTHING for b in before))
    path.write_text(one_layer(f"SDPA 5={masked} 7=1", len(inputs), 3))
    path.with_suffix(".bin").write_bytes(b"")
    results = run_vknn(path, inputs, backend)
    for name, want in zip(("y1", "y2"), joined, strict=True):
        np.testing.assert_array_equal(results[name], want)
    plain = tmp_path / "plain.param"
    plain.write_text(one_layer(f"SDPA 5={masked}", 3 + masked))
    plain.with_suffix(".bin").write_bytes(b"")
    expected = run_ncnn(plain, named(q, *joined, *mask), ["y0"])["y0"]
    assert_close(results["y0"], expected, 1e-4, backend)


def named(*arrays: np.ndarray) -> dict[str, np.ndarray]:
    return {f"x{i}": a for i, a in enumerate(arrays)}


# --- RotaryEmbed, Embed -------------------------------------------------------------------------


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("shape", [(8, 66, 32), (3, 5, 26), (15, 17, 28), (1, 1, 2), (5, 6)])
def test_rotary_embed(shape: tuple[int, ...], interleaved: int, backend: str) -> None:
    tables = [image(shape[-2], shape[-1] // 2, seed=s) for s in (1, 2)]
    check(f"RotaryEmbed 0={interleaved}", image(*shape), *tables, backend=backend)


def test_rotary_embed_of_a_longer_table(backend: str) -> None:
    tables = [image(9, 4, seed=s) for s in (1, 2)]
    check("RotaryEmbed", image(3, 5, 8), *tables, backend=backend)


@pytest.mark.parametrize("bias", [0, 1])
@pytest.mark.parametrize("width", [1, 7, 12])
def test_embed(width: int, bias: int, backend: str) -> None:
    words = np.array([3, 0, 10, -1, 4, 4, 11, 250], np.int32)
    line = f"Embed 0={width} 1=11 2={bias} 3={11 * width}"
    check(line, words, backend=backend)
    check(line, words, storage="fp16", backend=backend)
    check(f"{line} 18=2", words, backend=backend)


# --- refusals -----------------------------------------------------------------------------------

REFUSED = [
    ("MultiHeadAttention 0=8 1=3 2=64", [(4, 8)], "heads do not divide"),
    ("MultiHeadAttention 0=8 1=2 2=64 18=5", [(4, 8)], "quantize_term"),
    ("MultiHeadAttention 0=8 1=2 2=64", [(4, 7)], "width"),
    ("MultiHeadAttention 0=8 1=2 2=64 5=1", [(4, 8)], "inputs"),
    ("MultiHeadAttention 0=8 1=2 2=64 5=1", [(4, 8), (1, 4, 4)], "mask"),
    ("MultiHeadAttention 0=8 1=2 2=64 7=1", [(4, 8), (2, 3, 4), (2, 3, 4)], "outputs"),
    ("SDPA", [(6, 5, 8), (4, 7, 8), (4, 7, 8)], "4 heads"),
    ("SDPA 5=1", [(6, 5, 8), (2, 7, 8), (2, 7, 8), (4, 7)], "mask"),
    ("SDPA 5=1", [(6, 5, 8), (2, 7, 8), (2, 7, 8), (1, 7)], "mask"),
    ("SDPA 7=1", [(6, 5, 8), (2, 7, 8), (2, 7, 8), (2, 3, 8), (2, 3, 8)], "outputs"),
    ("RotaryEmbed", [(3, 5, 7), (5, 3), (5, 3)], "whole pairs"),
    ("RotaryEmbed", [(3, 5, 8), (4, 4), (5, 4)], "does not suit"),
    ("Embed 0=3 1=4 3=13", [(3,)], "13"),
    ("Embed 0=3 1=4 3=12", [(3, 2)], "int32|vector"),
]


@pytest.mark.parametrize(("line", "shapes", "words"), REFUSED, ids=str)
def test_refused(line: str, shapes: list[tuple[int, ...]], words: str, tmp_path: Path) -> None:
    """Without asking ncnn, which ends some of these in a crash."""
    path = tmp_path / "net.param"
    path.write_text(one_layer(line, len(shapes)))
    path.with_suffix(".bin").write_bytes(bytes(4096))
    types = {f"x{i}": TensorType(s) for i, s in enumerate(shapes)}
    with pytest.raises(VknnError, match=words):
        formats.load(path).build(types)
