"""Damaged files of operators with later codes: nothing but a VknnError comes out, and quickly."""

from __future__ import annotations

import base64
import random
import zlib

import pytest
from tests.formats.tflite.fuzzing import attempt, check_damaged
from tools.tflite_later import examples

pytestmark = pytest.mark.long

NAMES = (
    "BITCAST", "BROADCAST_TO", "DILATE", "DYNAMIC_UPDATE_SLICE", "GELU", "REDUCE_ALL",
    "REDUCE_WINDOW", "RIGHT_SHIFT", "UNSORTED_SEGMENT_MAX",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_damaged_bytes(name: str) -> None:
    example = next(iter(examples()[name].values()))
    seed, rng = zlib.decompress(base64.b85decode(example["model"])), random.Random(name)
    assert attempt(seed)
    check_damaged(seed, rng)
