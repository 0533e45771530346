"""Tuning database: results of ``vknn tune``, a JSON file for each device and driver.

Keys and candidates are plain names here: the runtime does not know what they stand for.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vknn import environment
from vknn.errors import VknnError
from vknn.runtime.cachefile import device_key, replace
from vknn.runtime.snapshot import Snapshot

FORMAT = "vknn tuning"
VERSION = 1
MAX_BYTES = 64 << 20
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


def load(path: Path) -> dict[str, TuningEntry]:
    """The entries of a database; none, with a warning, where the file is damaged."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES} bytes")
        return _parse(json.loads(path.read_bytes()))
    except OSError:
        return {}
    except (ValueError, RecursionError) as error:
        warnings.warn(
            f"{path} is damaged and is ignored ({error}); `vknn tune` writes a new one",
            RuntimeWarning,
            stacklevel=2,
        )
        return {}


def store(path: Path, entries: Mapping[str, TuningEntry]) -> None:
    """Addition of entries to a database, in place of those with the same keys. Raises VknnError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a damaged file is replaced here
        merged = {**load(path), **entries}
    document = {
        "format": FORMAT,
        "version": VERSION,
        "entries": {key: asdict(entry) for key, entry in sorted(merged.items())},
    }
    try:
        replace(path, json.dumps(document, indent=1, allow_nan=False).encode())
    except OSError as error:
        raise VknnError(
            f"tuning results cannot be kept: {error}; VKNN_CACHE_DIR names another directory"
        ) from error


def _parse(document: Any) -> dict[str, TuningEntry]:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError("it is no tuning database")
    if document.get("version") != VERSION:
        raise ValueError(f"it has version {document.get('version')!r}, not {VERSION}")
    entries = document.get("entries")
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
