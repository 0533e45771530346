"""Writer of bundles: tables become a file, which is whole or not there."""

from __future__ import annotations

import errno
import hashlib
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

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


@dataclass(frozen=True)
class _Layout:
    """Offsets in the file of all sections but the data, by number, of the data, and of the end."""

    sections: Mapping[int, int]
    data: int
    end: int


def write(path: Path, tables: Tables, meta: bytes) -> Written:
    """The bundle of these tables as a file, in place of one that is there.

    ``meta``: JSON. Raises OSError; nothing half-written stays. The data, most of the file, are
    written by a thread while this one computes the hash of all, which the file begins with; those
    of a pipe after.
    """
    sections = dict(sorted(tables.sections(meta).items()))
    layout = _layout(sections, tables)
    with replacing(path, whole=True) as file, ThreadPoolExecutor(1, "vknn-write") as pool:
        seekable = file.seekable()

        def write_data() -> None:
            _reserve(file, layout.end)
            file.seek(layout.data)
            file.writelines(_data(tables))

        written = pool.submit(write_data) if seekable else None
        front, sha256 = _front(sections, layout, tables)
        if written is not None:
            written.result()
            file.seek(0)
        file.write(front)
        if not seekable:
            file.writelines(_data(tables))
    return Written(layout.end, sha256)


def _reserve(file: IO[bytes], nbytes: int) -> None:
    """Room on the disk for a file: one that is full says so now.

    Else ext4 looks for it when the file takes another one's name, for longer than writing takes.
    """
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file.fileno(), 0, nbytes)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise


def _layout(sections: Mapping[int, bytes], tables: Tables) -> _Layout:
    count = len(sections) + bool(tables.arrays)
    at = schema.HEADER.dtype.itemsize + count * schema.SECTION.dtype.itemsize
    places = {}
    for kind, body in sections.items():
        places[kind] = _aligned(at, ALIGNMENT)
        at = places[kind] + len(body)
    data = _aligned(at, DATA_ALIGNMENT) if tables.arrays else at
    return _Layout(places, data, data + tables.data_bytes)


def _front(
    sections: Mapping[int, bytes],
    layout: _Layout,
    tables: Tables,
) -> tuple[bytes, bytes]:
    """All that stands in front of the data, and the SHA-256 of the whole."""
    filled = {**sections}
    if tables.arrays:
        blobs = np.frombuffer(sections[schema.BLOB.section], schema.BLOB.dtype).copy()
        blobs["crc"] = tables.sums()
        filled[schema.BLOB.section] = blobs.tobytes()
    entries = []
    for kind, body in filled.items():
        offset, size = layout.sections[kind], _RECORD_BYTES.get(kind, 1)
        entries.append((kind, zlib.crc32(body), offset, len(body), size, len(body) // size))
    if tables.arrays:
        size = tables.data_bytes
        entries.append(
            (schema.DATA.section, 0, layout.data, size, 1, size if size < 1 << 32 else 0)
        )
    table = np.array(entries, schema.SECTION.dtype).tobytes()
    start = schema.HEADER.dtype.itemsize + len(table)
    bodies = bytearray(layout.data - start)
    for kind, body in filled.items():
        at = layout.sections[kind] - start
        bodies[at : at + len(body)] = body
    about = (layout.end, len(entries), zlib.crc32(table))
    plain = _header(*about, bytes(32))
    sha256 = _sha256((plain, table, bodies), _data(tables))
    return _header(*about, sha256) + table + bodies, sha256


def _header(nbytes: int, sections: int, crc: int, sha256: bytes) -> bytes:
    header = np.zeros((), schema.HEADER.dtype)
    header["magic"] = np.frombuffer(schema.MAGIC, np.uint8)
    header["version"], header["header_bytes"] = schema.VERSION, schema.HEADER.dtype.itemsize
    header["file_bytes"], header["sections"], header["table_crc"] = nbytes, sections, crc
    header["sha256"] = np.frombuffer(sha256, np.uint8)
    return header.tobytes()


def _sha256(*several: Iterable[bytes | bytearray | memoryview]) -> bytes:
    """SHA-256 of parts that follow each other."""
    digest = hashlib.sha256()
    for parts in several:
        for part in parts:
            digest.update(part)
    return digest.digest()


def _data(tables: Tables) -> Iterator[bytes | memoryview]:
    """The data section, blob by blob with the room between them."""
    at = 0
    for array in tables.arrays:
        offset = _aligned(at, schema.BLOB_ALIGNMENT)
        yield bytes(offset - at)
        yield array.data
        at = offset + array.nbytes


def _aligned(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment
