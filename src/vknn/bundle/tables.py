"""Tables of a bundle while it is made: records by kind, texts, modules and data, each once."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field

import numpy as np

from vknn.bundle import schema
from vknn.bundle.schema import BLOB_ALIGNMENT, TableRecord

#: First bytes of arrays that are compared before all of them are.
_TOLD_APART_BY = 1024


@dataclass(eq=False)
class Tables:
    """Contents of a bundle to be. Adding something that is there already gives its place.

    Attributes:
        pool: Computes sums, and keeps modules on disk, meanwhile; None: no thread does.
        rows: Records by kind.
        arrays: The arrays of the blobs, in order.
    """

    pool: Executor | None = None
    rows: dict[TableRecord, list[tuple[object, ...]]] = field(
        default_factory=lambda: {record: [] for record in schema.RECORDS}
    )
    arrays: list[np.ndarray] = field(default_factory=list)
    _strings: bytearray = field(default_factory=lambda: bytearray(b"\0"))
    _push: bytearray = field(default_factory=bytearray)
    _spirv: bytearray = field(default_factory=bytearray)
    _known: dict[object, int] = field(default_factory=dict)
    #: Numbers of the blobs by length and first bytes.
    _blobs: dict[tuple[int, bytes], list[int]] = field(default_factory=dict)
    _data_bytes: int = 0
    #: Arrays that are to be blobs, and their sums by place.
    _ahead: list[tuple[list[np.ndarray], Future[dict[tuple[int, int], int]]]] = field(
        default_factory=list
    )

    def add(self, record: TableRecord, rows: Iterable[tuple[object, ...]]) -> tuple[int, int]:
        """The first and the number of these rows, which are added behind those that are there."""
        table = self.rows[record]
        first = len(table)
        table.extend(rows)
        return first, len(table) - first

    def string(self, text: str) -> int:
        """Offset of a text among the strings. Zero characters in it become spaces."""
        if not text:
            return 0
        data = text_bytes(text) + b"\0"
        return self._once((schema.STRINGS, data), self._strings, data)

    def push(self, data: bytes) -> int:
        """Offset of push constants."""
        return self._once((schema.PUSH, data), self._push, data)

    def module(self, spirv: bytes, shared_memory: int) -> int:
        """Number of a module. Its bytes are there once, whatever shared memory plans take of it."""
        key = (schema.MODULE, spirv, shared_memory)
        if key not in self._known:
            offset = self._once((schema.SPIRV, spirv), self._spirv, spirv)
            row = (offset, len(spirv), shared_memory, 0)
            self._known[key] = self.add(schema.MODULE, [row])[0]
        return self._known[key]

    def pipeline(
        self,
        kernel: str,
        module: int,
        constants: Sequence[tuple[int, int]],
        slots: Sequence[tuple[int, int]],
        push_bytes: int,
        full_subgroups: bool,
    ) -> int:
        """Number of a pipeline; ``constants``: (id, word); ``slots``: (descriptor type, access)."""
        key = (module, tuple(constants), tuple(slots), push_bytes, full_subgroups)
        if key not in self._known:
            row = (
                self.string(kernel),
                module,
                *self.add(schema.CONSTANT, constants),
                *self.add(schema.SLOT, slots),
                push_bytes,
                int(full_subgroups),
            )
            self._known[key] = self.add(schema.PIPELINE, [row])[0]
        return self._known[key]

    def blob(self, array: np.ndarray) -> int:
        """Number of the blob with an array's bytes, of which no copy is made."""
        flat = _bytes_of(array)
        same = self._blobs.setdefault((len(flat), flat[:_TOLD_APART_BY].tobytes()), [])
        for number in same:
            if self.arrays[number] is flat or np.array_equal(self.arrays[number], flat):
                return number
        offset = -(-self._data_bytes // BLOB_ALIGNMENT) * BLOB_ALIGNMENT
        self._data_bytes = offset + len(flat)
        self.arrays.append(flat)
        same.append(self.add(schema.BLOB, [(offset, len(flat), 0, 0)])[0])
        return same[-1]

    def sum_ahead(self, arrays: Iterable[np.ndarray]) -> None:
        """Sums of arrays that are to be blobs, begun by a thread."""
        if self.pool is not None:
            found = [_bytes_of(array) for array in arrays if array.flags.c_contiguous]
            self._ahead.append((found, self.pool.submit(_sums, found)))

    def sums(self) -> list[int]:
        """CRC-32 of each blob."""
        known: dict[tuple[int, int], int] = {}
        for _, computed in self._ahead:
            known |= computed.result()

        def sum_of(array: np.ndarray) -> int:
            found = known.get(_place(array)) if known else None
            return zlib.crc32(array.data) if found is None else found

        return [sum_of(array) for array in self.arrays]

    @property
    def data_bytes(self) -> int:
        """Bytes of the data section."""
        return self._data_bytes

    @property
    def spirv(self) -> np.ndarray:
        """The bytes of all modules (uint8)."""
        return np.frombuffer(bytes(self._spirv), np.uint8)

    def arrays_of(self, *records: TableRecord) -> dict[TableRecord, np.ndarray]:
        """Records of some kinds, as a reader has them."""
        return {record: np.array(self.rows[record], record.dtype) for record in records}

    def sections(self, meta: bytes) -> dict[int, bytes]:
        """The bytes of all sections but the data, by their numbers; blobs have no sums yet."""
        found = {
            record.section: np.array(rows, record.dtype).tobytes()
            for record, rows in self.rows.items()
            if rows
        }
        found[schema.STRINGS.section] = bytes(self._strings)
        for blob, data in ((schema.PUSH, self._push), (schema.SPIRV, self._spirv)):
            if data:
                found[blob.section] = bytes(data)
        found[schema.META.section] = meta
        return found

    def _once(self, key: object, room: bytearray, data: bytes) -> int:
        if key not in self._known:
            self._known[key] = len(room)
            room += data
        return self._known[key]


def _bytes_of(array: np.ndarray) -> np.ndarray:
    """An array's bytes (uint8), of which no copy is made where they follow each other."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _place(array: np.ndarray) -> tuple[int, int]:
    """Address and length of bytes."""
    return array.__array_interface__["data"][0], len(array)


def _sums(arrays: Sequence[np.ndarray]) -> dict[tuple[int, int], int]:
    """CRC-32 of bytes, by their places."""
    return {_place(array): zlib.crc32(array.data) for array in arrays}


def text_bytes(text: str) -> bytes:
    """A text as a bundle has it, without the zero behind it."""
    return text.replace("\0", " ").encode("utf-8", "replace")
