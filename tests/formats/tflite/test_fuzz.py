"""Damaged files: whatever happens to them, nothing but a VknnError comes out, and quickly."""

from __future__ import annotations

import random
import struct
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.formats.tflite import resource_nets as nets

from vknn.errors import VknnError
from vknn.formats.tflite.loader import _CALLS, check_calls, check_operators
from vknn.formats.tflite.model import TfliteModel
from vknn.formats.tflite.reader import parse_model
from vknn.formats.tflite.resource_checks import check_resources
from vknn.graph import DType, TensorType, validate

pytestmark = pytest.mark.long


def growing() -> bytes:
    """Variables of open shape, a CALL_ONCE."""
    return nets.growing().file()


def initialized() -> bytes:
    """A variable that a CALL_ONCE fills."""
    return nets.totals().file()


def table() -> bytes:
    """A hash table."""
    return nets.looked_up([(["a", "b"], [1, 2])], nets.STRING).file()


#: Small models of many kinds: options, quantization, sparsity, strings, subgraphs, custom ones.
SEEDS = (
    "add/i8*", "conv_2d/*", "densify/*", "while/swap_1", "if/*", "call/*",
    "custom/*", "strided_slice/*", "gather/*", "unidirectional_sequence_lstm/*", "equal/*",
    "fully_connected/*", "net/resnet*", "reshape/*", "concatenation/*",
)  # fmt: skip
#: Models with variables, tables and signatures.
RESOURCES = (nets.cached_attention, nets.two_signatures, growing, table, initialized)
ROUNDS = 300
SECONDS = 2.0


def _seed_name(number: int) -> str:
    return SEEDS[number].split("/")[0]


@pytest.fixture(scope="module")
def seeds(shared: Path) -> list[bytes]:
    """The bytes of one model of each kind."""
    folder = shared / "vectors" / "tflite"
    if not folder.exists():
        pytest.skip("shared/vectors/tflite is not there")
    found = [min(folder.glob(f"{pattern}.npz")) for pattern in SEEDS]
    return [np.load(path, allow_pickle=True)["model"].tobytes() for path in found]


def attempt(data: bytes) -> bool:
    """Reads and builds a model; True where nothing was wrong with it."""
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            record = parse_model(data, "fuzzed")
            check_operators(record)
            check_calls(record)
            check_resources(record, _CALLS)
            model = TfliteModel(record)
            build(model)
            for key in model.signatures:
                build(model.of_signature(key))
    except VknnError:
        return False
    finally:
        assert time.process_time() - start < SECONDS
    return True


def build(model: TfliteModel) -> None:
    """Builds the graphs of a model's first run and of the next, where its inputs are small."""
    if not all(np.prod([d or 1 for d in s.shape or ()]) < 1 << 20 for s in model.inputs):
        return
    types = {
        s.name: TensorType(tuple(d or 1 for d in s.shape or ()), DType(s.dtype_name))
        for s in model.inputs
    }
    graph = model.build(types)
    validate(graph)
    held = {n: v.type for n, v in graph.outputs.items() if n in model.variables}
    if held and all(type_.is_static for type_ in held.values()):
        validate(model.build(types | held))


@pytest.mark.parametrize("make", RESOURCES)
def test_damaged_resources(make: Callable[[], bytes]) -> None:
    assert attempt(make())
    damaged(make(), random.Random(make.__name__))


@pytest.mark.parametrize("number", range(len(SEEDS)), ids=_seed_name)
def test_damaged_bytes(number: int, seeds: list[bytes]) -> None:
    damaged(seeds[number], random.Random(number))


def damaged(seed: bytes, rng: random.Random) -> None:
    """Attempts with a model's bytes after damages of many kinds."""
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
