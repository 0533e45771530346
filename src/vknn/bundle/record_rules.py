"""Rules that checks of a bundle's records are made of, and the error for what breaks one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vknn.bundle import schema
from vknn.bundle.schema import TableRecord

Tables = Mapping[TableRecord, np.ndarray]
REMEDY = "copy or export the bundle again"
#: A plan's ranges -> the table that they are of.
RANGES = {
    "buffers": schema.BUFFER, "steps": schema.STEP, "submits": schema.SUBMIT,
    "ports": schema.PORT, "states": schema.STATE, "examples": schema.EXAMPLE,
    "matrices": schema.MATRIX,
}  # fmt: skip


class BadRecord(Exception):
    """Something in a section that is not as the format says."""

    def __init__(self, section: str, text: str, remedy: str = f": {REMEDY}") -> None:
        super().__init__(f"section {section}: {text}{remedy}")


def part(tables: Tables, plan: np.void, field: str) -> np.ndarray:
    """A plan's own records: "buffers", "steps", "submits", "ports", ..."""
    start = int(plan[f"first_{field}"])
    return tables[RANGES[field]][start : start + int(plan[field])]


def check_all(good: Any, record: TableRecord, text: str) -> None:
    """Check of a rule of a table's records, one by one; BadRecord names the first that breaks it.

    ``good``: by record, or one for all of them.
    """
    if not np.all(good):
        raise BadRecord(record.name, f"record {int(np.argmin(good))}: {text}")


def check_range(rows: np.ndarray, field: str, count: int, record: TableRecord) -> None:
    """Check that records have ranges of a table of ``count`` records."""
    ends = rows[f"first_{field}"].astype(np.uint64) + rows[field]
    check_all(ends <= count, record, f"there are not so many {field}")


def check_placed(rows: np.ndarray, size: int, alignment: int, record: TableRecord) -> None:
    """Check that records are bytes of a section of ``size`` bytes."""
    check_all(rows["offset"] % alignment == 0, record, f"its offset is no multiple of {alignment}")
    inside = (rows["offset"] <= size) & (rows["nbytes"] <= size - np.minimum(rows["offset"], size))
    check_all(inside, record, "it is outside its section")
