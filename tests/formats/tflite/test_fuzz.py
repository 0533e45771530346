"""Damaged files: whatever happens to them, nothing but a VknnError comes out, and quickly."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from tests.formats.tflite.fuzzing import check_damaged, check_truncated

from vknn.formats.tflite.reader import parse_model

pytestmark = pytest.mark.long

#: Small models of many kinds: options, quantization, sparsity, strings, subgraphs, custom ones.
SEEDS = (
    "add/i8*", "conv_2d/*", "densify/*", "while/swap_1", "if/*", "call/*",
    "custom/*", "strided_slice/*", "gather/*", "unidirectional_sequence_lstm/*", "equal/*",
    "fully_connected/*", "net/resnet*", "reshape/*", "concatenation/*",
)  # fmt: skip
#: Of operators with later codes, from the vectors of these.
NEWER_SEEDS = (
    "random_uniform/seed1*", "multinomial/*", "stablehlo_rng_bit_generator/*", "rfft2d/*",
    "bucketize/*", "real/*",
    "stablehlo_add/f32_2", "stablehlo_broadcast_in_dim/*", "stablehlo_case/*",
    "stablehlo_composite/nested", "stablehlo_convolution/nhwc", "stablehlo_gather/f32_window*",
    "stablehlo_pad/i32_crop_interior", "stablehlo_reduce/*", "stablehlo_reduce_window/f32*pad",
    "stablehlo_scatter/f32_add_window", "stablehlo_sort/*", "stablehlo_while/*",
    "var_handle/*", "hashtable_find/*", "fully_connected/*block*", "outside_buffers/*",
)  # fmt: skip


def _seed_name(number: int) -> str:
    return (*SEEDS, *NEWER_SEEDS)[number].split("/")[0]


@pytest.fixture(scope="module")
def seeds(shared: Path) -> list[bytes]:
    """The bytes of one model of each kind."""
    folder = shared / "vectors" / "tflite"
    if not folder.exists():
        pytest.skip("shared/vectors/tflite is not there")
    found = [min(folder.glob(f"{pattern}.npz")) for pattern in SEEDS]
    files = [np.load(path, allow_pickle=True)["model"].tobytes() for path in found]
    newer = shared / "vectors" / "tflite-newer"
    found = [min(newer.glob(f"{pattern}.npz")) for pattern in NEWER_SEEDS]
    return files + [np.load(path)["file/model.tflite"].tobytes() for path in found]


@pytest.mark.parametrize("number", range(len(SEEDS) + len(NEWER_SEEDS)), ids=_seed_name)
def test_damaged_bytes(number: int, seeds: list[bytes]) -> None:
    parse_model(seeds[number])
    check_damaged(seeds[number], random.Random(number))


@pytest.mark.parametrize("number", [0, 3, 9], ids=_seed_name)
def test_truncated(number: int, seeds: list[bytes]) -> None:
    check_truncated(seeds[number])
