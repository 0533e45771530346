"""Counts of networks as kept files: JSON, equal dispatches as one row, a line a row."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .work import Work

#: Columns of a row.
COLUMNS = ("kind", "macs", "nbytes", "lanes", "times")


def rows_of(works: Sequence[Work]) -> list[list[Any]]:
    """Rows of COLUMNS, the first ones first."""
    counts = Counter(works)
    return [[w.kind, w.macs, w.nbytes, w.lanes, count] for w, count in counts.items()]


def works_of(rows: Sequence[Sequence[Any]]) -> list[Work]:
    """The dispatches that rows stand for. Their order is not that of the run."""
    return [Work(*row[:4]) for row in rows for _ in range(row[4])]


def write(path: Path, document: Mapping[str, Any]) -> None:
    """JSON with a line for each list or object of plain values."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_text(document, 0) + "\n", encoding="utf-8")


def _text(value: Any, depth: int) -> str:
    nested = isinstance(value, (dict, list)) and any(
        isinstance(v, (dict, list)) for v in (value.values() if isinstance(value, dict) else value)
    )
    if not nested:
        return json.dumps(value)
    space = " " * (depth + 1)
    if isinstance(value, dict):
        parts = [f"{json.dumps(k)}: {_text(v, depth + 1)}" for k, v in value.items()]
    else:
        parts = [_text(v, depth + 1) for v in value]
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}\n{space}" + f",\n{space}".join(parts) + f"\n{' ' * depth}{last}"
