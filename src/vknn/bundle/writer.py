"""Writer of bundles: tables become a file, which is whole or not there."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vknn.bundle import schema
from vknn.bundle.schema import ALIGNMENT, DATA_ALIGNMENT
from vknn.bundle.tables import Tables
from vknn.named_files import replacing

_RECORD_BYTES = {record.section: record.dtype.itemsize for record in schema.RECORDS}


@dataclass(frozen=True)
class Written:
    """A file as it was written: its size in bytes and its SHA-256, as its header has it."""

    nbytes: int
    sha256: bytes


def write(path: Path, tables: Tables, meta: bytes) -> Written:
    """The bundle of these tables as a file, in place of one that is there.

    ``meta``: JSON. Raises OSError; nothing half-written stays.
    """
    parts = _parts(tables, meta)
    header = next(parts)
    with replacing(path, whole=True) as file:
        file.write(header)
        for part in parts:
            file.write(part)
    [record] = np.frombuffer(header, schema.HEADER.dtype)
    return Written(int(record["file_bytes"]), record["sha256"].tobytes())


def _parts(tables: Tables, meta: bytes) -> Iterator[bytes | memoryview]:
    """The file's bytes, in order; the data, which may be large, are gone through twice."""
    sections = tables.sections(meta)
    count = len(sections) + bool(tables.arrays)
    at = schema.HEADER.dtype.itemsize + count * schema.SECTION.dtype.itemsize
    entries, bodies = [], bytearray()
    start = at
    for kind, body in sorted(sections.items()):
        offset = _aligned(at, ALIGNMENT)
        bodies += bytes(offset - at) + body
        at = offset + len(body)
        size = _RECORD_BYTES.get(kind, 1)
        entries.append((kind, zlib.crc32(body), offset, len(body), size, _count(body, size)))
    hashed = b""
    if tables.arrays:
        offset = _aligned(at, DATA_ALIGNMENT)
        bodies += bytes(offset - at)
        at = offset + tables.data_bytes
        size = tables.data_bytes
        entries.append((schema.DATA.section, 0, offset, size, 1, size if size < 1 << 32 else 0))
        digest = hashlib.sha256()
        for part in _data(tables):
            digest.update(part)
        hashed = digest.digest()
    table = np.array(entries, schema.SECTION.dtype).tobytes()
    assert start == schema.HEADER.dtype.itemsize + len(table)
    plain = _header(at, len(entries), zlib.crc32(table), bytes(32), hashed)
    digest = hashlib.sha256(plain + table)
    digest.update(bodies)
    for part in _data(tables):
        digest.update(part)
    yield _header(at, len(entries), zlib.crc32(table), digest.digest(), hashed)
    yield table
    yield bytes(bodies)
    yield from _data(tables)


def _header(nbytes: int, sections: int, crc: int, sha256: bytes, data_sha256: bytes) -> bytes:
    header = np.zeros((), schema.HEADER.dtype)
    header["magic"] = np.frombuffer(schema.MAGIC, np.uint8)
    header["version"], header["header_bytes"] = schema.VERSION, schema.HEADER.dtype.itemsize
    header["file_bytes"], header["sections"], header["table_crc"] = nbytes, sections, crc
    header["sha256"] = np.frombuffer(sha256, np.uint8)
    header["data_sha256"] = np.frombuffer(data_sha256 or bytes(32), np.uint8)
    return header.tobytes()


def _data(tables: Tables) -> Iterator[bytes | memoryview]:
    """The data section, blob by blob with the room between them."""
    at = 0
    for array in tables.arrays:
        offset = _aligned(at, schema.BLOB_ALIGNMENT)
        yield bytes(offset - at)
        yield array.data
        at = offset + array.nbytes


def _count(body: bytes, size: int) -> int:
    return len(body) // size


def _aligned(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment
