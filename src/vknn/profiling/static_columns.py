"""Columns of what the driver's compiler made of dispatches, beside their measured times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from vknn.profiling.labels import named_cell

#: Numbers of an entry that are columns, where some dispatch has them.
_NUMBERS = ("registers", "spills", "scratch", "shared", "waves")
#: Numbers that are columns only where some are above 0.
_SELDOM = ("scratch",)
_KEPT = ("registers", "spills", "scratch", "shared", "code", "instructions", "waves")
MODELLED, _BOUND = "model us", "bound"

Compiled = Mapping[str, Any] | None


def columns_of(entries: Sequence[Compiled]) -> list[str]:
    """Names of the columns that there is something to show in."""
    there = [entry for entry in entries if entry is not None]
    found = [
        name
        for name in _NUMBERS
        if any(e.get(name) or (e.get(name) == 0 and name not in _SELDOM) for e in there)
    ]
    return found + ([MODELLED, _BOUND] if any(e.get("modelled") for e in there) else [])


def cells_of(entry: Compiled, columns: Sequence[str]) -> list[str | Text]:
    """Cells of a dispatch in these columns; what spilled is marked."""
    if entry is None:
        return [""] * len(columns)
    modelled = entry.get("modelled") or {}
    known = {name: _number(entry.get(name)) for name in _NUMBERS}
    if entry.get("spills"):
        known["spills"] = f"⚠ {known['spills']}"
    if entry.get("scratch"):
        known["scratch"] = f"⚠ {known['scratch']}"
    known[MODELLED] = f"{modelled['time']:,.1f}" if modelled else ""
    bound = named_cell(modelled["bound"]) if modelled else ""
    return [bound if name == _BOUND else known[name] for name in columns]


def is_spilling(entry: Compiled) -> bool:
    """Whether a dispatch keeps values in memory that found no room in registers."""
    return entry is not None and bool(entry.get("spills") or entry.get("scratch"))


def compiled_document(entry: Compiled) -> dict[str, Any] | None:
    """Fields that a measured profile's JSON has of a dispatch; None where nothing is known."""
    if entry is None:
        return None
    modelled = entry.get("modelled") or {}
    kept = {name: entry.get(name) for name in _KEPT}
    return {
        **kept,
        "modelled": modelled.get("time"),
        "bound": modelled.get("bound"),
        "flags": list(entry.get("flags") or ()),
    }


def modelled_sum(entries: Sequence[Compiled]) -> float | None:
    """Modelled microseconds of all; None where one has none."""
    times = [(e.get("modelled") or {}).get("time") for e in entries if e is not None]
    known = [t for t in times if t is not None]
    return sum(known) if entries and len(known) == len(entries) else None


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,}"
