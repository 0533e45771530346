"""Rotary embeddings, against pairs turned one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.onnx.attention.one_node import (
    MICROSOFT,
    close,
    floats,
    joined,
    run_node,
    turned,
)

from vknn.errors import ShapeError

B, H, S, D = 2, 3, 5, 8
TABLES = floats(11, D // 2), floats(11, D // 2) + 0.2
PLACES = np.array([[3, 1, 4, 1, 5], [10, 0, 2, 6, 5]])


@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("pairs", [0, 1])
@pytest.mark.parametrize("width", [0, 4])
@pytest.mark.parametrize("places", [False, True])
def test_default_domain(
    rank: int, pairs: int, width: int, places: bool, backend: str, tmp_path: Path
) -> None:
    x, half = floats(B, H, S, D), (width or D) // 2
    if places:
        cos, sin = (t[:, :half].copy() for t in TABLES)
        at = cos[PLACES], sin[PLACES]
    else:
        at = cos, sin = floats(B, S, half), floats(B, S, half) + 0.5
    wanted = turned(x, *at, bool(pairs))
    rest: dict[str, Any] = {"interleaved": pairs, "rotary_embedding_dim": width}
    if rank == 3:
        x, wanted, rest = joined(x), joined(wanted), {**rest, "num_heads": H}
    inputs = [x, cos, sin, *([PLACES] if places else [])]
    (found,) = run_node(tmp_path, backend, "RotaryEmbedding", inputs, **rest)
    close(found, wanted)


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("pairs", [0, 1])
@pytest.mark.parametrize("form", ["rank 4", "heads by the table", "parts of heads"])
def test_contrib(form: str, pairs: int, offset: bool, backend: str, tmp_path: Path) -> None:
    x, places = floats(B, H, S, D), PLACES
    half = 2 if form == "parts of heads" else D // 2
    cos, sin = (t[:, :half].copy() for t in TABLES)
    if offset:
        places = np.array([6])
        at = [np.broadcast_to(t[6 : 6 + S], (B, S, half)) for t in (cos, sin)]
    else:
        at = [t[PLACES] for t in (cos, sin)]
    wanted, rest = turned(x, at[0], at[1], bool(pairs)), {"interleaved": pairs}
    if form != "rank 4":
        x, wanted = joined(x), joined(wanted)
    if form == "parts of heads":
        rest |= {"num_heads": H, "rotary_embedding_dim": 4}
    inputs = [x, places, cos, sin]
    (found,) = run_node(tmp_path, backend, "RotaryEmbedding", inputs, domain=MICROSOFT, **rest)
    close(found, wanted)


def test_half_floats(backend: str, tmp_path: Path) -> None:
    x, at = floats(B, H, S, D).astype(np.float16), floats(B, S, D // 2).astype(np.float16)
    (found,) = run_node(tmp_path, backend, "RotaryEmbedding", [x, at, at])
    assert found.dtype == np.float16
    close(found, turned(x, at, at), 1e-3)


def test_given_angles(backend: str, tmp_path: Path) -> None:
    angles, q, k = floats(B, S, D), floats(B, H, S, D), floats(B, 1, S, D)
    given = [angles, q, q[..., ::-1].copy(), k, -k]
    found = run_node(
        tmp_path, backend, "GemmaRotaryEmbedding", given, "a b", domain=MICROSOFT, opset=21
    )
    cos, sin = (f(angles.astype(np.float64))[:, None] for f in (np.cos, np.sin))
    close(found[0], q * cos + given[2] * sin)
    close(found[1], k * cos - k * sin)


def test_places_beyond_the_tables(tmp_path: Path) -> None:
    x = floats(B, H, S, D)
    with pytest.raises(ShapeError, match="index 11 is out of range: 0 to 10"):
        run_node(tmp_path, "numpy", "RotaryEmbedding", [x, *TABLES, PLACES + 1])
    inputs = [x, np.array([7]), *TABLES]
    with pytest.raises(ShapeError, match="index 7 is out of range: 0 to 6"):
        run_node(tmp_path, "numpy", "RotaryEmbedding", inputs, domain=MICROSOFT)
    with pytest.raises(ShapeError, match="has the table"):
        run_node(tmp_path, "numpy", "RotaryEmbedding", [x, *TABLES])
    with pytest.raises(ShapeError, match="3 of 8 elements"):
        run_node(tmp_path, "numpy", "RotaryEmbedding", [x, *TABLES], rotary_embedding_dim=3)
