"""Reader of bundles: a file, mapped, as tables of records. Everything is checked before use."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from vknn.bundle import schema
from vknn.bundle.record_checks import check_records
from vknn.bundle.record_rules import BadRecord
from vknn.bundle.records import BundlePlan
from vknn.bundle.schema import ALIGNMENT, DATA_ALIGNMENT, TableRecord
from vknn.errors import ModelFormatError, naming
from vknn.named_files import is_endless, named

#: Name of each section by its number.
SECTIONS = {part.section: part.name for part in (*schema.RECORDS, *schema.BLOBS)}
_RECORDS = {record.section: record for record in schema.RECORDS}
_HEADER, _ENTRY = schema.HEADER.dtype, schema.SECTION.dtype
_CHUNK = 1 << 20
#: Where the header's own SHA-256 lies, which counts as zeros.
_HASH = slice(_HEADER.fields["sha256"][1], _HEADER.fields["sha256"][1] + 32)  # type: ignore[index]


@dataclass(frozen=True, eq=False)
class Bundle:
    """A bundle: plans of a network for devices, their SPIR-V and weights.

    Attributes:
        file: Name of the file.
        version: Version of its format.
        sections: Bytes (uint8) of each section by its name, mapped from the file.
        tables: Records by their kind, structured arrays.
    """

    file: str
    version: int
    sections: Mapping[str, np.ndarray] = field(repr=False)
    tables: Mapping[TableRecord, np.ndarray] = field(repr=False)
    _bytes: np.ndarray = field(repr=False)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Bundle:
        """The bundle of a file, which is mapped: weights are read when they are asked for.

        Raises:
            vknn.ModelFormatError: It is no bundle, damaged, cut off or of a newer version.
            OSError: It cannot be read.
        """
        name = os.fspath(path)
        if is_endless(path):
            raise ModelFormatError("this is no plain file", file=name)
        with named(path):
            size = os.stat(path).st_size
            # An empty file cannot be mapped.
            data = np.memmap(path, np.uint8, "r") if size else np.zeros(0, np.uint8)
        return cls.of(data, name)

    @classmethod
    def of(cls, data: np.ndarray | bytes, name: str = "a bundle in memory") -> Bundle:
        """The bundle of these bytes; ``name`` stands in errors. Raises as :meth:`open`."""
        array = np.frombuffer(data, np.uint8)
        try:
            version = _check_header(array)
            sections = _sections(array)
            tables = {r: _table(r, sections[r.name]) for r in schema.RECORDS}
            check_records(tables, sections)
        except BadRecord as wrong:
            raise ModelFormatError(str(wrong), file=name) from None
        return cls(name, version, sections, tables, array)

    @cached_property
    def plans(self) -> list[BundlePlan]:
        """The plans; a runner takes the first that suits its device."""
        count = len(self.tables[schema.PLAN])
        return [BundlePlan(n, self.tables, self.string, self.blob) for n in range(count)]

    @property
    def nbytes(self) -> int:
        """Bytes of the file."""
        return len(self._bytes)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 in hexadecimal by which an app pins the bundle, computed from its bytes.

        Raises ModelFormatError where the file tells another: it was changed.
        """
        digest = hashlib.sha256()
        head = self._bytes[: _HEADER.itemsize].copy()
        told = head[_HASH].tobytes().hex()
        head[_HASH] = 0
        digest.update(head.data)
        for start in range(_HEADER.itemsize, self.nbytes, _CHUNK):
            digest.update(self._bytes[start : start + _CHUNK].data)
        found = digest.hexdigest()
        if found != told:
            raise ModelFormatError(
                f"section header: the SHA-256 is {found}, the file says {told}: "
                "it was changed; copy or export it again",
                file=self.file,
            )
        return found

    @cached_property
    def meta(self) -> dict[str, Any]:
        """Notes of the exporter for people and tools; empty where it noted nothing."""
        try:
            found = json.loads(self.sections["meta"].tobytes() or b"{}")
        except (ValueError, RecursionError) as error:
            found = str(error)[:200]
        if not isinstance(found, dict):
            raise ModelFormatError(f"section meta: no JSON object ({found!r:.200})", file=self.file)
        return found

    def string(self, offset: int) -> str:
        """The text that begins at this offset of the strings."""
        strings = self.sections["strings"]
        start, end = int(offset), int(offset)
        while strings[end]:  # texts are short, and the last has an end
            step = strings[end : end + 256]
            zeros = np.flatnonzero(step == 0)
            end += int(zeros[0]) if len(zeros) else len(step)
        return strings[start:end].tobytes().decode("utf-8", "replace")

    def blob(self, number: int) -> np.ndarray:
        """The bytes (uint8) of a blob, mapped. Raises ModelFormatError where their sum is wrong."""
        row = self.tables[schema.BLOB][number]
        start = int(row["offset"])
        data = self.sections["data"][start : start + int(row["nbytes"])]
        if zlib.crc32(data.data) != row["crc"]:
            raise ModelFormatError(
                f"section data: blob {number} is damaged; copy or export the bundle again",
                file=self.file,
            )
        return data

    def module(self, number: int) -> bytes:
        """SPIR-V of a module."""
        row = self.tables[schema.MODULE][number]
        start = int(row["offset"])
        return self.sections["spirv"][start : start + int(row["nbytes"])].tobytes()

    def check_data(self) -> None:
        """Check of all blobs' sums, and of the SHA-256. Raises ModelFormatError."""
        with naming(self.file):
            for number in range(len(self.tables[schema.BLOB])):
                self.blob(number)
        assert self.sha256


def _check_header(data: np.ndarray) -> int:
    """The version of the format."""
    magic = np.frombuffer(schema.MAGIC, np.uint8)
    if len(data) < len(magic) or (data[: len(magic)] != magic).any():
        raise BadRecord("header", "this is no bundle (.vkb): `vknn export` writes them", "")
    if len(data) < _HEADER.itemsize:
        raise BadRecord("header", f"it is cut off after {len(data)} bytes")
    header = data[: _HEADER.itemsize].view(_HEADER)[0]
    version = int(header["version"])
    if version > schema.VERSION:
        raise BadRecord(
            "header",
            f"version {version} of the format is newer than this vknn, which reads up to "
            f"{schema.VERSION}: upgrade it (pip install -U vknn)",
            "",
        )
    if version < 1 or header["header_bytes"] != _HEADER.itemsize:
        raise BadRecord(
            "header", f"version {version} with {header['header_bytes']} bytes of header"
        )
    if header["file_bytes"] != len(data):
        raise BadRecord("header", f"the file has {len(data)} bytes of {header['file_bytes']}")
    if header["reserved"].any():
        raise BadRecord("header", "its reserved bytes are not 0")
    return version


def _sections(data: np.ndarray) -> dict[str, np.ndarray]:
    """The bytes of each section; missing ones are empty."""
    header = data[: _HEADER.itemsize].view(_HEADER)[0]
    count = int(header["sections"])
    end = _HEADER.itemsize + count * _ENTRY.itemsize
    if count > len(SECTIONS) or end > len(data):
        raise BadRecord("header", f"a table of {count} sections")
    table = data[_HEADER.itemsize : end]
    if zlib.crc32(table.data) != header["table_crc"]:
        raise BadRecord("header", "the table of sections is damaged")
    found = {name: np.zeros(0, np.uint8) for name in SECTIONS.values()}
    reached, seen = end, set[str]()
    for row in sorted(table.view(_ENTRY), key=lambda row: (int(row["offset"]), int(row["nbytes"]))):
        kind, offset, nbytes = (int(row[field]) for field in ("kind", "offset", "nbytes"))
        name = SECTIONS.get(kind)
        if name is None or name in seen:
            raise BadRecord(name or str(kind), "there is no such section, or it is there twice")
        seen.add(name)
        alignment = DATA_ALIGNMENT if kind == schema.DATA.section else ALIGNMENT
        if offset % alignment or offset < reached or offset + nbytes > len(data):
            raise BadRecord(
                name, f"{nbytes} bytes at {offset} lie over others or outside of the file"
            )
        reached = offset + nbytes
        found[name] = data[offset:reached]
        _check_section(name, kind, row, found[name])
    if not len(found["strings"]) or found["strings"][-1] or found["strings"][0]:
        raise BadRecord("strings", "they begin with no empty text, or the last has no end")
    return found


def _check_section(name: str, kind: int, row: np.void, body: np.ndarray) -> None:
    size = _RECORDS[kind].dtype.itemsize if kind in _RECORDS else 1
    count = len(body) // size
    if row["record_bytes"] != size or len(body) % size:
        raise BadRecord(name, f"{len(body)} bytes of records of {row['record_bytes']}, not {size}")
    if row["count"] != (count if count < 1 << 32 else 0):
        raise BadRecord(name, f"{row['count']} records where there are {count}")
    if row["crc"] != (0 if kind == schema.DATA.section else zlib.crc32(body.data)):
        raise BadRecord(name, "the bytes are damaged")


def _table(record: TableRecord, body: np.ndarray) -> np.ndarray:
    return body.view(record.dtype)
