"""Entries of a static profile matched with the commands of a profile that was measured."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any


def matched_entries(
    static: Mapping[str, Any] | None, segments: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any] | None]:
    """The entry of each command of the segments, in order; None where there is none.

    They are matched in order among dispatches of the same kind.
    """
    waiting: dict[tuple[Any, ...], deque[Mapping[str, Any]]] = defaultdict(deque)
    for entry in static["dispatches"] if static else ():
        waiting[_identity(entry)].append(entry)
    found = []
    for segment in segments:
        for command in segment["commands"]:
            left = waiting.get(_identity(command))
            found.append(left.popleft() if left else None)
    return found


def _identity(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    # Not by layers: several of them are one name in a static profile.
    groups = entry.get("groups")
    counts = tuple(groups) if groups and any(groups) else ()  # of copies there are none
    return entry["kernel"], entry["label"], counts
