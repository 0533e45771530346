"""TensorFlow Lite files as trees of tables, read and written by the layouts of the schema."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import flatbuffers

from vknn.formats.tflite.generated.layout import TABLES, UNIONS

_U16, _U32, _I32 = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<i")
_DATA_ALIGNMENT = 16


@dataclass
class Table:
    """A table: scalars and vectors of them as raw bytes, other fields as tables and lists."""

    kind: str
    fields: dict[str, Any] = field(default_factory=dict)

    def tables(self) -> Iterator[Table]:
        """The table and all below it."""
        yield self
        for value in self.fields.values():
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, Table):
                    yield from part.tables()


def read(data: bytes) -> Table:
    """The root table of a right file."""
    return _read(data, _U32.unpack_from(data, 0)[0], "Model")


def write(root: Table) -> bytes:
    """The bytes of a file."""
    builder = flatbuffers.Builder(1024)
    builder.Finish(_write(builder, root), file_identifier=b"TFL3")
    return bytes(builder.Output())


def _read(data: bytes, at: int, kind: str) -> Table:
    vtable = at - _I32.unpack_from(data, at)[0]
    size = _U16.unpack_from(data, vtable)[0]
    found = Table(kind)
    for number, (name, way, detail) in enumerate(TABLES[kind]):
        entry = 4 + 2 * number
        offset = _U16.unpack_from(data, vtable + entry)[0] if entry < size else 0
        if not offset:
            continue
        place = at + offset
        if way == "scalar":
            found.fields[name] = data[place : place + int(detail)]
            continue
        target = place + _U32.unpack_from(data, place)[0]
        if way == "union":
            chosen = found.fields.get(f"{name}_type", b"\0")[0]
            if 0 < chosen <= len(UNIONS[str(detail)]):
                found.fields[name] = _read(data, target, UNIONS[str(detail)][chosen - 1])
        elif way == "table":
            found.fields[name] = _read(data, target, str(detail))
        else:
            count, start = _U32.unpack_from(data, target)[0], target + 4
            if way == "tables":
                places = [start + 4 * i for i in range(count)]
                targets = [p + _U32.unpack_from(data, p)[0] for p in places]
                found.fields[name] = [_read(data, t, str(detail)) for t in targets]
            else:
                found.fields[name] = data[start : start + count * int(detail)]
    return found


def _write(builder: flatbuffers.Builder, table: Table) -> int:
    slots = TABLES[table.kind]
    made: dict[int, Any] = {}
    for number, (name, way, detail) in enumerate(slots):
        if name in table.fields:
            made[number] = _part(builder, way, detail, table.fields[name])
    builder.StartObject(len(slots))
    for number, value in made.items():
        if slots[number][1] == "scalar":
            size = len(value)
            prepend = getattr(builder, f"PrependUint{8 * size}")
            prepend(int.from_bytes(value, "little"))
        else:
            builder.PrependUOffsetTRelative(value)
        builder.Slot(number)
    return int(builder.EndObject())


def _part(builder: flatbuffers.Builder, way: str, detail: int | str, value: Any) -> Any:
    """A scalar as it is; what else stands in a file of its own, written: its offset."""
    if way == "scalar":
        return value
    if way in ("table", "union"):
        return _write(builder, value)
    if way == "tables":
        offsets = [_write(builder, part) for part in value]
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return builder.EndVector()
    if way == "string":
        return builder.CreateString(value)
    size = int(detail)
    builder.StartVector(size, len(value) // size, _DATA_ALIGNMENT)
    builder.head -= len(value)
    builder.Bytes[builder.head : builder.head + len(value)] = value
    return builder.EndVector()
