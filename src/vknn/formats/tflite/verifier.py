"""Checks that a FlatBuffer stays inside itself, before any accessor reads it.

The accessors follow every offset without a look. Here each one is followed first: tables, their
vtables, vectors, strings and unions, as the layouts of the schema say. The format: a table starts
with the distance back to its vtable; the vtable holds its own size, the table's size and the place
of each slot; vectors and strings start with their length (flatbuffers.dev, "FlatBuffer Internals").
"""

from __future__ import annotations

import struct

from vknn.formats.tflite.generated.layout import TABLES, UNIONS, Slot

ROOT = "Model"
IDENTIFIER = b"TFL3"
#: Far beyond any model; a damaged file could otherwise name every byte of itself a table.
MAX_TABLES = 2_000_000
_U16, _U32, _I32 = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<i")


class Damaged(ValueError):
    """The file contradicts itself at ``offset``."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


def verify(data: bytes | memoryview) -> None:
    """Raises Damaged unless every offset of the model in ``data`` stays inside it."""
    _Verifier(data).run()


class _Verifier:
    """Walks the tables breadth first; each place is looked at once a table type."""

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = data
        self.size = len(data)
        self.seen: set[tuple[str, int]] = set()
        self.waiting: list[tuple[str, int]] = []

    def run(self) -> None:
        self.need(0, 8, "the header")
        if bytes(self.data[4:8]) != IDENTIFIER:
            raise Damaged(f"the identifier is {bytes(self.data[4:8])!r}, not {IDENTIFIER!r}", 4)
        self.follow(ROOT, 0)
        while self.waiting:
            name, position = self.waiting.pop()
            self.table(name, position)

    def need(self, position: int, size: int, what: str) -> None:
        if position < 0 or position + size > self.size:
            raise Damaged(f"{what} lies outside the file ({self.size} bytes)", max(position, 0))

    def follow(self, name: str, position: int) -> None:
        """Notes the table that the offset at ``position`` leads to."""
        key = (name, self.target(position, name))
        if key not in self.seen:
            if len(self.seen) >= MAX_TABLES:
                raise Damaged(f"more than {MAX_TABLES} tables", position)
            self.seen.add(key)
            self.waiting.append(key)

    def target(self, position: int, what: str) -> int:
        self.need(position, 4, f"the offset of a {what}")
        target: int = position + _U32.unpack_from(self.data, position)[0]
        self.need(target, 4, f"a {what}")
        return target

    def table(self, name: str, position: int) -> None:
        vtable = position - _I32.unpack_from(self.data, position)[0]
        self.need(vtable, 4, f"the vtable of a {name}")
        vtable_size: int = _U16.unpack_from(self.data, vtable)[0]
        table_size: int = _U16.unpack_from(self.data, vtable + 2)[0]
        if vtable_size < 4 or vtable_size % 2 or table_size < 4:
            raise Damaged(f"the vtable of a {name} has impossible sizes", vtable)
        self.need(vtable, vtable_size, f"the vtable of a {name}")
        self.need(position, table_size, f"a {name}")
        places: dict[str, int] = {}
        for number, slot in enumerate(TABLES[name]):
            entry = 4 + 2 * number
            if entry >= vtable_size:
                break
            place: int = _U16.unpack_from(self.data, vtable + entry)[0]
            if place:
                size = slot[2] if slot[1] == "scalar" else 4
                if not 4 <= place <= table_size - int(size):
                    raise Damaged(f"{name}.{slot[0]} lies outside its table", vtable + entry)
                places[slot[0]] = position + place
                self.slot(name, slot, places)

    def slot(self, name: str, slot: Slot, places: dict[str, int]) -> None:
        label, kind, detail = slot
        place = places[label]
        if kind in ("vector", "string"):
            self.vector(place, int(detail), f"{name}.{label}", terminated=kind == "string")
        elif kind == "table":
            self.follow(str(detail), place)
        elif kind == "tables":
            start, count = self.vector(place, 4, f"{name}.{label}")
            for index in range(count):
                self.follow(str(detail), start + 4 * index)
        elif kind == "union":
            members = UNIONS[str(detail)]
            chosen = places.get(f"{label}_type")
            number = self.data[chosen] if chosen is not None else 0
            if 0 < number <= len(members):  # others belong to newer schemas and are not read
                self.follow(members[number - 1], place)

    def vector(
        self, place: int, itemsize: int, what: str, terminated: bool = False
    ) -> tuple[int, int]:
        """Where the elements of the vector behind the offset at ``place`` start, and how many."""
        start = self.target(place, what)
        count: int = _U32.unpack_from(self.data, start)[0]
        self.need(start + 4, count * itemsize + terminated, f"{what} ({count} elements)")
        return start + 4, count
