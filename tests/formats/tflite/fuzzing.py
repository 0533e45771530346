"""Damage to files, and what may come of it: nothing but a VknnError, and quickly."""

from __future__ import annotations

import random
import struct
import time
import warnings

import numpy as np

from vknn.errors import VknnError
from vknn.formats.tflite.loader import check
from vknn.formats.tflite.model import TfliteModel
from vknn.formats.tflite.reader import parse_model
from vknn.graph import DType, TensorType, validate

ROUNDS = 300
SECONDS = 2.0


def attempt(data: bytes) -> bool:
    """Reads a model and builds it by all its signatures; True where nothing was wrong with it."""
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            record = parse_model(data, "fuzzed")
            check(record)
            model = TfliteModel(record)
            _build(model)
            for key in model.signatures:
                _build(model.of_signature(key))
    except VknnError:
        return False
    finally:
        assert time.process_time() - start < SECONDS
    return True


def _build(model: TfliteModel) -> None:
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


def check_damaged(seed: bytes, rng: random.Random, rounds: int = ROUNDS) -> None:
    """Damages a file in many ways, some of which show."""
    read = 0
    for _ in range(rounds):
        data = bytearray(seed)
        for _ in range(rng.choice((1, 1, 2, 8))):
            _damage(data, rng)
        read += attempt(bytes(data))
    assert read < rounds


def check_truncated(seed: bytes) -> None:
    """Cuts a file off in many places."""
    for length in range(0, len(seed), max(1, len(seed) // 300)):
        attempt(seed[:length])


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
