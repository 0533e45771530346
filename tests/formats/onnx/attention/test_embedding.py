"""EmbedLayerNormalization."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.formats.onnx.attention.one_node import MICROSOFT, close, floats, run_node

from vknn.errors import ShapeError

OP = "EmbedLayerNormalization"
WORDS, PLACES, SEGMENTS = floats(11, 6), floats(7, 6) + 0.2, floats(2, 6) - 0.4
IDS = np.array([[3, 10, 0, 3], [1, 2, 2, 9]], np.int32)
SCALE, BIAS = floats(6), floats(6) + 1


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("places", [None, 1, 2])
def test_sums(segments: bool, mask: bool, places: int | None, backend: str, tmp_path: Path) -> None:
    kinds = np.array([[0, 1, 1, 0], [1, 1, 0, 0]], np.int32)
    ones = np.array([[1, 1, 0, 0], [1, 1, 1, 2]], np.int32)
    rows = np.array([[6, 5, 0, 1], [2, 3, 3, 4]], np.int32)[: places or 0]
    inputs = [IDS, kinds if segments else None, WORDS, PLACES, SEGMENTS if segments else None]
    inputs += [SCALE, BIAS, ones if mask else None, rows if places else None]
    found = run_node(
        tmp_path, backend, OP, inputs, "y m s", opset=21, domain=MICROSOFT, epsilon=1e-3
    )
    total = WORDS[IDS] + (PLACES[rows] if places else PLACES[:4])
    total = total + SEGMENTS[kinds] if segments else total
    wide = total.astype(np.float64)
    middle = wide - wide.mean(-1, keepdims=True)
    wanted = middle / np.sqrt((middle**2).mean(-1, keepdims=True) + 1e-3) * SCALE + BIAS
    close(found[0], wanted, 1e-5)
    assert found[1].dtype == np.int32
    assert found[1].tolist() == ([2, 3] if mask else [0, 0])
    close(found[2], wide)


def test_indices_out_of_range(tmp_path: Path) -> None:
    inputs = [IDS + 1, None, WORDS, PLACES, None, SCALE, BIAS]
    with pytest.raises(ShapeError, match="index 11 is out of range"):
        run_node(tmp_path, "numpy", OP, inputs, domain=MICROSOFT)
    inputs = [IDS, None, WORDS, PLACES[:3], None, SCALE, BIAS]
    with pytest.raises(ShapeError, match="for 4 words"):
        run_node(tmp_path, "numpy", OP, inputs, domain=MICROSOFT)
