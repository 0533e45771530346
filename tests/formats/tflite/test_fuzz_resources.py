"""Damaged files with variables, tables and signatures: nothing but a VknnError, and quickly."""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from tests.formats.tflite import resource_nets as nets
from tests.formats.tflite.test_fuzz import ROUNDS, SECONDS, _damage

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


def attempt(data: bytes) -> bool:
    """Reads a model and builds it by all its signatures; True where nothing was wrong with it."""
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


@pytest.mark.parametrize(
    "make", [nets.cached_attention, nets.two_signatures, growing, initialized, table]
)
def test_damaged_bytes(make: Callable[[], bytes]) -> None:
    seed, rng = make(), random.Random(make.__name__)
    read = 0
    for _ in range(ROUNDS):
        data = bytearray(seed)
        for _ in range(rng.choice((1, 1, 2, 8))):
            _damage(data, rng)
        read += attempt(bytes(data))
    assert read < ROUNDS  # some of it did damage


@pytest.mark.parametrize("make", [nets.two_signatures, growing, initialized, table])
def test_truncated(make: Callable[[], bytes]) -> None:
    seed = make()
    for length in range(0, len(seed), max(1, len(seed) // 300)):
        attempt(seed[:length])
    assert attempt(seed)
