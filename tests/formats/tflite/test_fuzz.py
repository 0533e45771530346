"""Damaged files: whatever happens to them, nothing but a VknnError comes out, and quickly."""

from __future__ import annotations

import random
import struct
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from vknn.errors import VknnError
from vknn.formats.tflite.loader import check_calls, check_operators
from vknn.formats.tflite.model import TfliteModel
from vknn.formats.tflite.reader import parse_model
from vknn.graph import DType, TensorType, validate

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
ROUNDS = 300
SECONDS = 2.0


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


def attempt(data: bytes) -> bool:
    """Reads and builds a model; True where nothing was wrong with it."""
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            record = parse_model(data, "fuzzed")
            check_operators(record)
            check_calls(record)
            model = TfliteModel(record)
            small = all(np.prod([d or 1 for d in s.shape or ()]) < 1 << 20 for s in model.inputs)
            if small:
                types = {
                    s.name: TensorType(tuple(d or 1 for d in s.shape or ()), DType(s.dtype_name))
                    for s in model.inputs
                }
                validate(model.build(types))
    except VknnError:
        return False
    finally:
        assert time.process_time() - start < SECONDS
    return True


@pytest.mark.parametrize("number", range(len(SEEDS) + len(NEWER_SEEDS)), ids=_seed_name)
def test_damaged_bytes(number: int, seeds: list[bytes]) -> None:
    rng, seed = random.Random(number), seeds[number]
    parse_model(seed)
    read = 0
    for _ in range(ROUNDS):
        data = bytearray(seed)
        for _ in range(rng.choice((1, 1, 2, 8))):
            _damage(data, rng)
        read += attempt(bytes(data))
    assert read < ROUNDS  # some of it did damage


def _damage(data: bytearray, rng: random.Random) -> None:
    # The tables stand at the ends of a file, the weights between them.
    place = rng.randrange(len(data) if rng.random() < 0.5 else min(len(data), 2048))
    kind = rng.randrange(5)
    if kind == 0:
        data[place] ^= 1 << rng.randrange(8)
    elif kind == 1:
        data[place] = rng.randrange(256)
    elif kind == 2:
        word = rng.choice((0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, len(data), 4))
        data[place : place + 4] = struct.pack("<I", word)[: len(data) - place]
    elif kind == 3:
        del data[place : place + rng.randrange(1, 9)]
    else:
        data[place:place] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9)))
    if not data:
        data += b"\0"


@pytest.mark.parametrize("number", [0, 3, 9], ids=_seed_name)
def test_truncated(number: int, seeds: list[bytes]) -> None:
    seed = seeds[number]
    steps = max(1, len(seed) // 300)
    for length in range(0, len(seed), steps):
        attempt(seed[:length])
