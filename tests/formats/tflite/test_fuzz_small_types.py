"""Damaged files with packed integers, scales of blocks, and constants outside of the FlatBuffer."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from tests.formats.tflite.fuzzing import attempt, check_damaged
from tests.formats.tflite.test_outside import FILE, beside
from tests.formats.tflite.test_packed import blocks

pytestmark = pytest.mark.long

SEEDS = (
    "fully_connected/i4_blockwise*", "fully_connected/i4_hybrid_7x4*", "fully_connected/i2_full*",
    "embedding_lookup/i2*", "dequantize/i4_per_channel_1", "gather/i4", "cast/bf16_const_to_f32",
    "outside_buffers/shared",
)  # fmt: skip
ROUNDS = 120


def _attacked(seed: bytes, number: int) -> None:
    assert attempt(seed)
    check_damaged(seed, random.Random(number), ROUNDS)


@pytest.mark.parametrize("number", range(len(SEEDS)), ids=lambda n: SEEDS[n].replace("/", "-"))
def test_vectors(number: int, shared: Path) -> None:
    folder = shared / "vectors" / "tflite-newer"
    found = sorted(folder.glob(f"{SEEDS[number]}.npz"))
    if not found:
        pytest.skip("shared/vectors/tflite-newer is not there")
    _attacked(np.load(found[0])["file/model.tflite"].tobytes(), number)


def test_files_beside_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.bin").write_bytes(b"1234" + FILE)
    _attacked(beside(), 1)


def test_zero_points_of_blocks() -> None:
    _attacked(blocks({"zero_points": 3, "block_shape": [1, 2]}).file(), 2)
