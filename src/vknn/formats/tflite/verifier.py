"""FlatBuffer verification: every offset of a file is checked before an accessor follows it.

The accessors do no bounds checks. The verifier visits all tables, vtables, vectors, strings and
unions by the layouts of the schema. A table starts with the distance back to its vtable; the vtable
holds its own size, the table's size and the offset of each field; vectors and strings start with
their length (flatbuffers.dev, "FlatBuffer Internals").
"""

from __future__ import annotations

import struct

from vknn.formats.tflite.generated.layout import TABLES, UNIONS, Slot

ROOT = "Model"
IDENTIFIER = b"TFL3"
#: Far beyond any model. Without a limit a damaged file could use each of its bytes as a table.
MAX_TABLES = 2_000_000
_U16, _U32, _I32 = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<i")


class Damaged(ValueError):
    """A file that is not a valid model; ``offset``: the byte where that shows."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


def verify(data: bytes | memoryview) -> None:
    """Check: Damaged unless every offset of the model in ``data`` stays inside it."""
    _Verifier(data).run()


class _Verifier:
    """Traversal of all tables; each pair of offset and table type is checked once."""

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = data
        self.size = len(data)
        self.seen: set[tuple[str, int]] = set()
        self.waiting: list[tuple[str, int]] = []

    def run(self) -> None:
        """Checks the header and everything that is reachable from the root table."""
        self.need(0, 8, "the header")
        if bytes(self.data[4:8]) != IDENTIFIER:
            raise Damaged(f"the identifier is {bytes(self.data[4:8])!r}, not {IDENTIFIER!r}", 4)
        self.follow(ROOT, 0)
        while self.waiting:
            name, position = self.waiting.pop()
            self.table(name, position)

    def need(self, position: int, size: int, what: str) -> None:
        """Raises Damaged unless ``size`` bytes at ``position`` are inside the file."""
        if position < 0 or position + size > self.size:
            raise Damaged(f"{what} lies outside the file ({self.size} bytes)", max(position, 0))

    def follow(self, name: str, position: int) -> None:
        """Queues the table that the offset at ``position`` points to, once."""
        key = (name, self.target(position, name))
        if key not in self.seen:
            if len(self.seen) >= MAX_TABLES:
                raise Damaged(f"more than {MAX_TABLES} tables", position)
            self.seen.add(key)
            self.waiting.append(key)

    def target(self, position: int, what: str) -> int:
        """The position that the offset at ``position`` points to."""
        self.need(position, 4, f"the offset of a {what}")
        target: int = position + _U32.unpack_from(self.data, position)[0]
        self.need(target, 4, f"a {what}")
        return target

    def table(self, name: str, position: int) -> None:
        """Checks a table's vtable and its fields."""
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
        """Checks what a field points to; ``places``: positions of the fields so far, by name."""
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
            if 0 < number <= len(members):  # members of newer schemas are never read
                self.follow(members[number - 1], place)

    def vector(
        self, place: int, itemsize: int, what: str, terminated: bool = False
    ) -> tuple[int, int]:
        """Position of the first element, and length, of the vector that ``place`` points to."""
        start = self.target(place, what)
        count: int = _U32.unpack_from(self.data, start)[0]
        self.need(start + 4, count * itemsize + terminated, f"{what} ({count} elements)")
        return start + 4, count
