"""Tuning database: results of ``vknn tune``, a JSON file for each device and driver.

Keys and candidates are plain names here: the runtime does not know what they stand for.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vknn import environment
from vknn.runtime.cachefile import device_key
from vknn.runtime.json_cache import JsonCache
from vknn.runtime.snapshot import Snapshot

#: What stands in ``TuningEntry.tried`` for a candidate that cannot be used.
FAILED = "failed"


@dataclass(frozen=True)
class TuningEntry:
    """The fastest candidate, its microseconds, and those of all that were tried (or FAILED)."""

    candidate: str
    microseconds: float
    tried: Mapping[str, float | str]


def database_file(folder: Path, snapshot: Snapshot) -> Path:
    """File of the results for this device with this driver version."""
    return folder / "tuning" / f"{device_key(snapshot)}.json"


def tuning_choices(snapshot: Snapshot) -> dict[str, str]:
    """The names of the fastest candidates by key, as measured earlier on this device."""
    entries = load(database_file(environment.read().cache_path(), snapshot))
    return {key: entry.candidate for key, entry in entries.items()}


def tuned_switch(key: str) -> str:
    """Name in VKNN_DISABLE of the choice of this key."""
    return f"tuned:{hashlib.sha256(key.encode()).hexdigest()[:8]}"


def load(path: Path) -> dict[str, TuningEntry]:
    """The entries of a database; none, with a warning, where the file is damaged."""
    return _CACHE.load(path) or {}


def store(path: Path, entries: Mapping[str, TuningEntry]) -> None:
    """Addition of entries to a database, in place of those with the same keys. Raises VknnError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a damaged file is replaced here
        merged = {**load(path), **entries}
    _CACHE.store(path, {key: asdict(entry) for key, entry in sorted(merged.items())})


def _parse(entries: Any) -> dict[str, TuningEntry]:
    if not isinstance(entries, dict):
        raise ValueError("it has no entries")
    return {key: _entry(key, value) for key, value in entries.items()}


def _entry(key: str, value: Any) -> TuningEntry:
    if isinstance(value, dict) and value.keys() == {"candidate", "microseconds", "tried"}:
        entry = TuningEntry(**value)
        if (
            isinstance(entry.candidate, str)
            and _is_time(entry.microseconds)
            and isinstance(entry.tried, dict)
            and all(_is_time(t) or t == FAILED for t in entry.tried.values())
        ):
            return entry
    raise ValueError(f"the entry of {key!r} makes no sense")


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


_CACHE = JsonCache("vknn tuning", 1, "entries", _parse, "`vknn tune` writes a new one")
