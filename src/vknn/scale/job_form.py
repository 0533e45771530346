"""Form of job.json: what is read of it has the types that it is written with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vknn.batching import MOST_STACKED


def is_job(document: Any) -> bool:
    """Whether a document has the form of a job.json, whatever job it says; parts may be missing."""
    if not isinstance(document, Mapping):
        return False
    own = {name: document.get(name, {}) for name in ("options", "stacked", "devices")}
    own["place"] = document.get("place") or {}
    if not all(isinstance(value, Mapping) for value in own.values()):
        return False
    layout = document.get("layout")
    return all(map(_is_count, own["stacked"].values())) and (layout is None or _is_layout(layout))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and 1 <= value <= MOST_STACKED


def _is_layout(document: Any) -> bool:
    """Whether it is what JobLayout.to_json() gives."""
    if not isinstance(document, Mapping) or not isinstance(document.get("outputs"), list):
        return False
    task = document.get("task", 0)
    return (task is None or isinstance(task, str)) and all(map(_is_column, document["outputs"]))


def _is_column(document: Any) -> bool:
    if not isinstance(document, Mapping):
        return False
    if not all(isinstance(document.get(name), str) for name in ("name", "output", "dtype")):
        return False
    shape = document.get("shape", 0)
    sizes = shape is None or (
        isinstance(shape, list)
        and all(size is None or (isinstance(size, int) and size >= 0) for size in shape)
    )
    return sizes and (document["dtype"] in ("text", "bytes") or _is_number(document["dtype"]))


def _is_number(dtype: str) -> bool:
    try:
        return np.dtype(dtype).kind in "fiub"
    except TypeError:
        return False
