"""Bundles read again by the schema alone, for tests of what writes them."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vknn.bundle import schema

#: Shapes of the benchmarks' networks where their files leave them open.
OPEN_SHAPES = {"vision_transformer": {"input": (3, 384, 384)}}


@dataclass(frozen=True)
class Sections:
    """A bundle's header, its tables by name, and its sections' bytes by name."""

    header: np.ndarray
    tables: dict[str, np.ndarray]
    parts: dict[str, bytes]

    def string(self, offset: int) -> str:
        """The text at an offset among the strings."""
        data = self.parts["strings"]
        return data[offset : data.index(b"\0", offset)].decode()

    def blob(self, number: int) -> bytes:
        """The bytes of a blob."""
        row = self.tables["blob"][number]
        return self.parts["data"][int(row["offset"]) :][: int(row["nbytes"])]


def read_sections(data: bytes | Path) -> Sections:
    """The parts of a bundle, whose sums, sizes, alignments and reserved zeros are asserted."""
    data = data.read_bytes() if isinstance(data, Path) else data
    header = np.frombuffer(data, schema.HEADER.dtype, 1)[0]
    assert header["magic"].tobytes() == schema.MAGIC
    assert header["file_bytes"] == len(data)
    assert header["header_bytes"] == schema.HEADER.dtype.itemsize
    _check_sha256(data, header["sha256"].tobytes())
    assert not header["reserved"].any()
    start, size = schema.HEADER.dtype.itemsize, schema.SECTION.dtype.itemsize
    count = int(header["sections"])
    assert header["table_crc"] == zlib.crc32(data[start : start + count * size])
    entries = np.frombuffer(data, schema.SECTION.dtype, count, start)
    kinds = {part.section: part for part in (*schema.RECORDS, *schema.BLOBS)}
    tables = {r.name: np.zeros(0, r.dtype) for r in schema.RECORDS}
    parts = {blob.name: b"" for blob in schema.BLOBS}
    behind = start + count * size
    for entry in sorted(entries, key=lambda e: int(e["offset"])):
        part, offset, nbytes = kinds[int(entry["kind"])], int(entry["offset"]), int(entry["nbytes"])
        whole = schema.DATA_ALIGNMENT if part is schema.DATA else schema.ALIGNMENT
        assert offset % whole == 0
        assert not any(data[behind:offset])
        behind = offset + nbytes
        body = data[offset:behind]
        if part is schema.DATA:
            given = header["data_sha256"].tobytes()
            assert given in (bytes(32), hashlib.sha256(body).digest())
        else:
            assert zlib.crc32(body) == entry["crc"]
        if isinstance(part, schema.TableRecord):
            assert entry["record_bytes"] == part.dtype.itemsize
            tables[part.name] = np.frombuffer(body, part.dtype)
            assert len(tables[part.name]) == entry["count"]
        else:
            parts[part.name] = body
    assert behind == len(data)
    for table in tables.values():
        if table.dtype.names and "reserved" in table.dtype.names:
            assert not table["reserved"].any()
    for row in tables["blob"]:
        at, end = int(row["offset"]), int(row["offset"]) + int(row["nbytes"])
        assert at % schema.BLOB_ALIGNMENT == 0
        assert zlib.crc32(parts["data"][at:end]) == row["crc"]
    return Sections(header, tables, parts)


def _check_sha256(data: bytes, told: bytes) -> None:
    at = schema.HEADER.dtype.fields["sha256"][1]
    plain = data[:at] + bytes(32) + data[at + 32 :]
    assert hashlib.sha256(plain).digest() == told
