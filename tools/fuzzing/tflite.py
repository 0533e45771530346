"""Mutators of TensorFlow Lite files: fields of the tables, by the schema."""

from __future__ import annotations

import copy
import functools
import random
import struct
from collections.abc import Callable, Mapping

from fuzzing import flatbuffer
from fuzzing.flatbuffer import Table
from fuzzing.values import clipped, integer, real, spoiled_weights
from vknn.formats.tflite.generated.layout import ENUMS, TABLES, UNIONS

Files = Mapping[str, bytes]
#: Tables that are worth most; the others are chosen by their number.
_LIKELY = ("Operator", "Tensor", "QuantizationParameters", "OperatorCode", "SubGraph")
_MOST_OPERATOR = 206


def mutated(
    rng: random.Random, files: Files, other: Callable[[], Files], count: int
) -> tuple[Files, list[str]]:
    """The file with ``count`` fields changed, and what was done."""
    root = flatbuffer.read(files[".tflite"])
    donor = functools.cache(lambda: flatbuffer.read(other()[".tflite"]))
    done = [_mutate(rng, root, donor) for _ in range(count)]
    return {".tflite": flatbuffer.write(root)}, done


def _mutate(rng: random.Random, root: Table, other: Callable[[], Table]) -> str:
    tables = list(root.tables())
    likely = [t for t in tables if t.kind in _LIKELY or t.kind.endswith("Options")]
    table = rng.choice(likely if likely and rng.random() < 0.8 else tables)
    if rng.random() < 0.12:
        every = [*tables, *other().tables()]
        if donors := [t for t in every if t.kind == table.kind and t is not table]:
            table.fields = copy.deepcopy(rng.choice(donors).fields)
            return f"splice {table.kind}"
    slots = {name: (way, detail) for name, way, detail in TABLES[table.kind]}
    if not slots:
        return "nothing"
    present = [name for name in slots if name in table.fields]
    if not present or rng.random() < 0.1:
        return _added(rng, table, slots)
    name = rng.choice(present)
    if rng.random() < 0.08:
        del table.fields[name]
        return f"delete {table.kind}.{name}"
    way, detail = slots[name]
    table.fields[name] = _changed(rng, table, name, way, detail)
    return f"{way} {table.kind}.{name}"


def _added(rng: random.Random, table: Table, slots: Mapping[str, tuple[str, int | str]]) -> str:
    """A field that the table has not yet, or has by another value."""
    name = rng.choice(list(slots))
    way, detail = slots[name]
    if way == "scalar":
        table.fields[name] = _scalar(rng, table.kind, name, bytes(int(detail)))
    elif way == "vector":
        numbers = [integer(rng) for _ in range(rng.randrange(5))]
        table.fields[name] = b"".join(_bytes(n, int(detail)) for n in numbers)
    elif way == "table":
        table.fields[name] = Table(str(detail))
    elif way == "union":
        number = rng.randrange(len(UNIONS[str(detail)]))
        table.fields[name] = Table(UNIONS[str(detail)][number])
        table.fields[f"{name}_type"] = bytes([number + 1])
    return f"add {table.kind}.{name}"


def _changed(rng: random.Random, table: Table, name: str, way: str, detail: int | str) -> object:
    value = table.fields[name]
    if way == "scalar":
        return _scalar(rng, table.kind, name, value)
    if way == "vector":
        return _vector(rng, table.kind, name, value, int(detail))
    if way == "tables":
        return _listed(rng, value)
    if way == "string":
        return rng.choice((b"", b"x" * 300, b"\xff\xfe", value + b"1", value[:1]))
    return Table(value.kind)


def _scalar(rng: random.Random, kind: str, name: str, old: bytes) -> bytes:
    size = len(old)
    if kind == "OperatorCode":
        number = rng.randrange(_MOST_OPERATOR)
        return _bytes(min(number, 127) if size == 1 else number, size)
    if name in ENUMS.get(kind, {}):
        return _bytes(rng.randrange(24), size)
    if size == 4 and rng.random() < 0.25:
        return struct.pack("<f", struct.unpack("<f", struct.pack("<f", _float(rng, old)))[0])
    return _bytes(integer(rng, int.from_bytes(old, "little", signed=True)), size)


def _float(rng: random.Random, old: bytes) -> float:
    value = real(rng, struct.unpack("<f", old)[0])
    return value if value != value or abs(value) < 3.4e38 else float("inf")


def _vector(rng: random.Random, kind: str, name: str, value: bytes, size: int) -> bytes:
    if kind == "Buffer" and rng.random() < 0.8:
        return spoiled_weights(rng, value)
    count = len(value) // size
    parts = [value[i * size : (i + 1) * size] for i in range(min(count, 4096))]
    rest = value[len(parts) * size :]
    way = rng.random()
    place = rng.randrange(len(parts)) if parts else 0
    if not parts or way < 0.1:
        parts.insert(place, _bytes(integer(rng, 1), size))
    elif way < 0.2:
        del parts[place]
    elif way < 0.25:
        rng.shuffle(parts)
    elif way < 0.3:
        parts, rest = [], b""
    else:
        parts[place] = _scalar(rng, kind, name, parts[place])
    return b"".join(parts) + rest


def _listed(rng: random.Random, tables: list[Table]) -> list[Table]:
    found = list(tables)
    if not found:
        return found
    way, place = rng.randrange(4), rng.randrange(len(found))
    if way == 0:
        del found[place]
    elif way == 1:
        found.insert(place, copy.deepcopy(found[place]))
    elif way == 2:
        second = rng.randrange(len(found))
        found[place], found[second] = found[second], found[place]
    else:
        found.append(copy.deepcopy(found[place]))
    return found


def _bytes(value: int, size: int) -> bytes:
    return clipped(value, 8 * size, signed=False).to_bytes(size, "little")
