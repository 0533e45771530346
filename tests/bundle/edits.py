"""Bundles changed in their tables, with sums that fit again."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from vknn.bundle import schema

_RECORDS = {record.name: record for record in schema.RECORDS}
_NUMBERS = {r.name: r.section for r in (*schema.RECORDS, *schema.BLOBS)}


def sections(raw: bytes | bytearray) -> np.ndarray:
    """The section table."""
    header = np.frombuffer(raw, schema.HEADER.dtype, 1)[0]
    start = schema.HEADER.dtype.itemsize
    return np.frombuffer(raw, schema.SECTION.dtype, int(header["sections"]), start)


def section(raw: bytes | bytearray, name: str) -> tuple[int, int]:
    """Offset and bytes of a section."""
    table = sections(raw)
    [row] = table[table["kind"] == _NUMBERS[name]]
    return int(row["offset"]), int(row["nbytes"])


def records(raw: bytes | bytearray, name: str) -> np.ndarray:
    """The records of a table, in place."""
    offset, nbytes = section(raw, name)
    dtype = _RECORDS[name].dtype
    return np.frombuffer(raw, dtype, nbytes // dtype.itemsize, offset)


def edited(path: Path, target: Path, name: str, change: Callable[[np.ndarray], None]) -> Path:
    """``target`` with the records of a table changed, and the sums of the sections made anew."""
    raw = bytearray(path.read_bytes())
    offset, nbytes = section(raw, name)
    change(records(raw, name))
    header = np.frombuffer(raw, schema.HEADER.dtype, 1)
    start = schema.HEADER.dtype.itemsize
    count = int(header["sections"][0])
    table = np.frombuffer(raw, schema.SECTION.dtype, count, start)
    row = np.flatnonzero(table["kind"] == _NUMBERS[name])[0]
    table["crc"][row] = zlib.crc32(raw[offset : offset + nbytes])
    header["table_crc"][0] = zlib.crc32(raw[start : start + count * table.dtype.itemsize])
    target.write_bytes(raw)
    return target


def without_barriers(path: Path, target: Path) -> Path:
    """A bundle whose barriers are its first dispatch instead, a hazard with what follows."""

    def change(steps: np.ndarray) -> None:
        dispatch = np.flatnonzero(steps["kind"] == schema.StepKind.DISPATCH)[0]
        for index in np.flatnonzero(steps["kind"] == schema.StepKind.BARRIER):
            steps[index] = steps[dispatch]

    return edited(path, target, "step", change)
