"""Damaged models: whatever happens to them, nothing but a VknnError comes out, and quickly."""

from __future__ import annotations

import random
import time
import warnings
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from tests.coreml_writer import suppression
from tools.coreml_examples import examples

from vknn.errors import VknnError
from vknn.formats.coreml import coreml_pb2 as pb
from vknn.formats.coreml import layers as _layers  # noqa: F401 (registers the layers)
from vknn.formats.coreml.pipeline import make_model
from vknn.formats.coreml.reader import parse_model
from vknn.graph import DType, TensorType, validate

BYTE_ROUNDS = 4
FIELD_ROUNDS = 14
SECONDS = 2.0
#: Numbers that break what was not written for them.
NUMBERS = (0, 1, 2, 3, 5, 7, 255, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 62) + 1, (1 << 63) - 1)
FLOATS = (0.0, -1.0, 0.5, 1e30, -1e30, float("inf"), float("nan"))
LARGEST = 1 << 20


@pytest.fixture(scope="module")
def seeds() -> list[bytes]:
    """A model or more of each layer, and some that suppress boxes."""
    shapes, labels = {"scores": (7, 3), "boxes": (7, 4)}, ["a", "b", "c"]
    boxes = suppression(shapes, labels=labels), suppression(shapes, by_class=False)
    boxes[0].description.output[1].type.multiArrayType.shape.extend((5, 4))
    boxes += (suppression(shapes, iouThresholdInputFeatureName="iou"),)
    return [m.SerializeToString() for m in (*(e.message for e in examples()), *boxes)]


def attempt(data: bytes) -> bool:
    """Reads and builds a model; True where nothing was wrong with it."""
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = make_model(parse_model(data, "fuzzed"), "fuzzed")
            shapes = {s.name: _shape(model, s) for s in model.inputs}
            if all(np.prod(shape) < LARGEST for shape in shapes.values()):
                types = {
                    s.name: TensorType(shapes[s.name], DType(s.dtype_name)) for s in model.inputs
                }
                validate(model.build(types))
    except VknnError:
        return False
    finally:
        assert time.process_time() - start < SECONDS
    return True


def _shape(model: Any, spec: Any) -> tuple[int, ...]:
    hint = model.shape_hints.get(spec.name, spec.shape)
    return tuple(min(int(d or 1), LARGEST) for d in hint or (1,))


def test_damaged_bytes(seeds: list[bytes]) -> None:
    rng = random.Random(1)
    tried = read = 0
    for seed in seeds:
        for _ in range(BYTE_ROUNDS):
            data = bytearray(seed)
            for _ in range(rng.choice((1, 1, 2, 8))):
                _damage(data, rng)
            tried += 1
            read += attempt(bytes(data))
    assert 0 < read < tried


def _damage(data: bytearray, rng: random.Random) -> None:
    place = rng.randrange(len(data))
    kind = rng.randrange(4)
    if kind == 0:
        data[place] ^= 1 << rng.randrange(8)
    elif kind == 1:
        data[place] = rng.randrange(256)
    elif kind == 2:
        del data[place : place + rng.randrange(1, 9)]
    else:
        data[place:place] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9)))
    if not data:
        data += b"\0"


@pytest.mark.long
def test_damaged_fields(seeds: list[bytes]) -> None:
    """Messages that are well formed, but not what Core ML would write."""
    rng = random.Random(2)
    tried = read = 0
    for seed in seeds:
        for _ in range(FIELD_ROUNDS):
            model = pb.Model()
            model.ParseFromString(seed)
            for _ in range(rng.choice((1, 1, 2, 4))):
                _change(model, rng)
            tried += 1
            read += attempt(model.SerializeToString())
    assert 0 < read < tried


def _change(message: Any, rng: random.Random) -> None:
    """Changes one field somewhere in a message."""
    present = message.ListFields()
    inner = [v for f, v in present if f.message_type is not None]
    if inner and rng.random() < 0.85:
        chosen = rng.choice(inner)
        if hasattr(chosen, "ListFields"):
            return _change(chosen, rng)
        if not hasattr(chosen, "keys") and len(chosen):
            if rng.random() < 0.1:
                return _change_list(chosen, rng)
            return _change(rng.choice(chosen), rng)
    fields = [f for f in message.DESCRIPTOR.fields if f.message_type is None]
    if present and rng.random() < 0.2:
        return message.ClearField(rng.choice(present)[0].name)
    if fields:
        _set(message, rng.choice(fields), rng)
    return None


def _change_list(entries: Any, rng: random.Random) -> None:
    kind = rng.randrange(3)
    place = rng.randrange(len(entries))
    if kind == 0:
        del entries[place]
    elif kind == 1:
        entries.add().CopyFrom(entries[place])
    else:
        entries[place].Clear()


def _set(message: Any, field: Any, rng: random.Random) -> None:
    value = _value(field, rng)
    current = getattr(message, field.name)
    if hasattr(current, "append") and not isinstance(current, str | bytes):
        if current and rng.random() < 0.5:
            del current[rng.randrange(len(current)) :]
        if value is not None and rng.random() < 0.8:
            current.append(value)
    elif value is not None:
        setattr(message, field.name, value)


def _value(field: Any, rng: random.Random) -> Any:
    names = {8: "bool", 9: "string", 12: "bytes", 1: "float", 2: "float"}
    kind = names.get(field.type, "number")
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "string":
        return rng.choice(("", "x", "y", "a", "nothing", "\0", "é" * 9))
    if kind == "bytes":
        return bytes(rng.randrange(256) for _ in range(rng.randrange(40)))
    if kind == "float":
        return rng.choice(FLOATS)
    number = rng.choice(NUMBERS)
    if field.type in (3, 5, 14) and rng.random() < 0.3:  # int64, int32, enum
        number = -number
    if field.type in (5, 13, 14):  # 32 bits
        number = (
            (number + (1 << 31)) % (1 << 32) - (1 << 31) if field.type != 13 else number % 2**32
        )
    return number


@pytest.mark.parametrize("number", [0, 17, 60, 100])
def test_truncated(number: int, seeds: list[bytes]) -> None:
    seed = seeds[number]
    for length in range(0, len(seed), max(1, len(seed) // 300)):
        attempt(seed[:length])


def test_messages_deep_inside_one_another() -> None:
    """A file can nest a hundred thousand messages in as many bytes."""
    data = b""
    for _ in range(20_000):
        data = b"\x0a" + _varint(len(data)) + data
        if len(data) > 60_000:
            break
    with pytest.raises(VknnError):
        parse_model(b"\x08\x04\x12\x00\xa2\x1f" + _varint(len(data)) + data)
    with pytest.raises(DecodeError):
        pb.Model.FromString(b"\x08")


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])
