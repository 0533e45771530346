"""Outputs in few words: statistics, the best scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.table import Table

from vknn.answers.labels import Labels
from vknn.cli.output import cell

#: Outputs of at most this many elements along one axis are shown as scores.
MAX_SCORES = 1 << 20


def line(row: dict[str, Any]) -> str:
    """An output in few words: its best scores, its text, or what there is of it."""
    if row["top"]:
        best = (f"{e['label'] or e['index']} {e['score']:.4g}" for e in row["top"])
        return f"{row['name']} {', '.join(best)}"
    if "value" in row:
        return f"{row['name']} {row['value']}"
    text = f"{row['name']} {row['dtype']}{row['shape']}"
    return text + (f" from {row['min']:.4g} to {row['max']:.4g}" if "min" in row else "")


def as_array(value: Any) -> np.ndarray:
    """An output as an array: of a dictionary (label -> score) the scores."""
    return np.array(list(value.values())) if isinstance(value, dict) else np.asarray(value)


def summary(name: str, value: Any, top: int, labels: Sequence[str] | None) -> dict[str, Any]:
    """An output's name, shape, dtype, range and best scores, as JSON has them."""
    if isinstance(value, dict):
        labels = labels or [str(label) for label in value]
    array = as_array(value)
    found: dict[str, Any] = {
        "name": name,
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "top": [],
    }
    if array.size and array.dtype.kind in "fiub":
        wide = array.astype(np.float64)
        found.update(min=float(wide.min()), max=float(wide.max()), mean=float(wide.mean()))
    if array.ndim == 0 and array.dtype.kind in "US":
        found["value"] = str(array)
    if _is_scores(array):
        fitted = Labels(labels or ()).fitted(array.size)
        found["top"] = _best(array.reshape(-1), top, fitted)
    return found


def _is_scores(array: np.ndarray) -> bool:
    return array.dtype.kind in "fiu" and 1 < array.size == max(array.shape) <= MAX_SCORES


def _best(scores: np.ndarray, count: int, labels: Labels) -> list[dict[str, Any]]:
    # Stable, so that equal scores come in order of their index; NaN last.
    order = np.argsort(-scores.astype(np.float64), kind="stable")[: max(0, count)]
    return [{"index": int(i), "score": float(scores[i]), "label": labels.of(int(i))} for i in order]


def statistics(rows: Sequence[dict[str, Any]]) -> Table:
    """A table of shapes, dtypes and ranges."""
    table = Table("output", "shape", "dtype", "min", "max", "mean")
    for row in rows:
        numbers = [f"{row[k]:.6g}" if k in row else "" for k in ("min", "max", "mean")]
        shape = row["value"] if "value" in row else ", ".join(map(str, row["shape"]))
        table.add_row(cell(row["name"]), cell(shape), row["dtype"], *numbers)
    return table


def scores(top: Sequence[dict[str, Any]]) -> Table:
    """A table of the best scores."""
    table = Table("index", "score", "label")
    for entry in top:
        table.add_row(str(entry["index"]), f"{entry['score']:.6g}", cell(entry["label"] or ""))
    return table
