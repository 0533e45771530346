"""Difference of two static profiles: the same model by two versions, options, or devices."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from vknn.errors import VknnError
from vknn.printable import one_line
from vknn.profiling.labels import first_rows, named_cell
from vknn.profiling.static import StaticProfile
from vknn.profiling.static_entry import NAMES, StaticEntry
from vknn.rich_text import text_of


@dataclass(frozen=True)
class StaticPair:
    """A dispatch before and after; None on the side that lacks it.

    Attributes:
        before: That of the first profile.
        after: That of the second, of the same layers.
    """

    before: StaticEntry | None
    after: StaticEntry | None

    @property
    def changed(self) -> bool:
        """Whether kernel, candidate, workgroups, a number of the driver's or a count differs.

        Modelled times alone are no difference: they follow from the rest, or from assumptions.
        """
        if self.before is None or self.after is None:
            return True
        return any(getattr(self.before, n) != getattr(self.after, n) for n in _COMPARED)

    def document(self) -> dict[str, Any]:
        """Both sides as JSON takes them, without the compiler's texts."""
        sides = {"before": self.before, "after": self.after}
        return {
            "changed": self.changed,
            **{name: None if e is None else _numbers(e) for name, e in sides.items()},
        }


_COMPARED = ("kernel", "label", "groups", "local", "subgroup_size", *NAMES, "counts", "hot")
#: Columns: the driver's numbers, counts of an invocation, modelled microseconds.
_SHOWN = (*NAMES, "multiply_adds", "nbytes", "time")
#: Fewest characters of a line of names.
_NAME_WIDTH = 12


@dataclass(frozen=True)
class StaticDifference:
    """Result of :func:`static_difference`. ``print`` shows what changed as a table.

    Attributes:
        before: The first profile.
        after: The second.
        pairs: Their dispatches side by side, in the order of the second.
    """

    before: StaticProfile
    after: StaticProfile
    pairs: tuple[StaticPair, ...]

    @property
    def changed(self) -> list[StaticPair]:
        """Pairs that differ."""
        return [pair for pair in self.pairs if pair.changed]

    @property
    def remarks(self) -> list[str]:
        """Differences in assumptions and in what is left out, beside those of dispatches."""
        found = []
        for name in ("assumptions", "left_out"):
            texts = [getattr(profile, name) or "none" for profile in (self.before, self.after)]
            if texts[0] != texts[1]:
                found.append(f"{name.replace('_', ' ')}: {' -> '.join(texts)}")
        return found

    def to_json(self) -> str:
        """JSON of everything; sizes in bytes, modelled times in microseconds."""
        document = {
            **{name: _head(getattr(self, name)) for name in ("before", "after")},
            "changed": len(self.changed),
            "pairs": [pair.document() for pair in self.pairs],
        }
        return json.dumps(document, indent=2)

    def table(self, limit: int | None = None) -> Table:
        """Table of the changed dispatches (``limit``: the most, None for all), with the sums of all
        as the last row."""
        title = f"{self.before.device} -> {self.after.device}: {len(self.changed)} of "
        title = escape(one_line(f"{title}{len(self.pairs)} dispatches differ"))
        table = Table(title=title, title_justify="left", caption_justify="left")
        if self.remarks:
            table.caption = escape(one_line("; ".join(self.remarks)))
        for name in ("layers", "what"):
            table.add_column(name, overflow="fold", min_width=_NAME_WIDTH)
        # Numbers before and after may stand below each other: of two devices all of them differ.
        for name in (*_SHOWN, "bound"):
            title = name.replace("_", "-").replace("nbytes", "bytes").replace("time", "us")
            table.add_column(title, justify="right")
        for pair in first_rows(self.changed, limit):
            entry = pair.after or pair.before
            assert entry is not None
            cells = [
                _cell(*(_value(e, name) for e in (pair.before, pair.after))) for name in _SHOWN
            ]
            names = (named_cell(*entry.layers), named_cell(_what(pair)))
            table.add_row(*names, *cells, _bound(pair))
        sums = [_cell(_sum(self.before, name), _sum(self.after, name)) for name in _SHOWN]
        table.add_row("all", "", *sums)
        return table

    def __rich__(self) -> RenderableType:
        return self.table()

    def __str__(self) -> str:
        return text_of(self, 200)


def static_difference(before: StaticProfile, after: StaticProfile) -> StaticDifference:
    """Two static profiles of a model side by side.

    Dispatches belong together that compute the same layers; of several for the same layers the
    first is held against the first, and so on. Raises VknnError for what is no static profile.
    """
    for profile in (before, after):
        if not isinstance(profile, StaticProfile):
            raise VknnError(f"{profile!r:.80} is no StaticProfile: static() or load() gives one")
    old = dict(_numbered(before.entries))
    pairs = [StaticPair(old.pop(key, None), entry) for key, entry in _numbered(after.entries)]
    pairs += [StaticPair(entry, None) for entry in old.values()]
    return StaticDifference(before, after, tuple(pairs))


def _head(profile: StaticProfile) -> dict[str, Any]:
    """What was compiled, with the sums of all dispatches."""
    sums = {name: _sum(profile, name) for name in _SHOWN}
    names = ("model", "device", "assumptions", "left_out")
    return {**{name: getattr(profile, name) for name in names}, "sums": sums}


def _numbers(entry: StaticEntry) -> dict[str, Any]:
    return {name: value for name, value in entry.document().items() if name != "texts"}


def _numbered(
    entries: Sequence[StaticEntry],
) -> Iterator[tuple[tuple[tuple[str, ...], int], StaticEntry]]:
    seen: Counter[tuple[str, ...]] = Counter()
    for entry in entries:
        yield (entry.layers, seen[entry.layers]), entry
        seen[entry.layers] += 1


def _what(pair: StaticPair) -> str:
    before = pair.before.label if pair.before is not None else "(none)"
    after = pair.after.label if pair.after is not None else "(none)"
    return before if before == after else f"{before} -> {after}"


def _value(entry: StaticEntry | None, name: str) -> float | None:
    return None if entry is None else getattr(entry, name)


def _cell(old: float | None, new: float | None) -> str:
    if old == new:
        return "" if new is None else f"{new:,}"
    return " -> ".join("" if number is None else f"{number:,}" for number in (old, new))


def _bound(pair: StaticPair) -> str:
    entries = (pair.before, pair.after)
    found = ["" if e is None or e.modelled is None else e.modelled.bound for e in entries]
    return found[1] if found[0] == found[1] else " -> ".join(found)


def _sum(profile: StaticProfile, name: str) -> float | None:
    """The sum of a number over all dispatches, None where none has it."""
    if name == "time":  # not of rounded ones: the verdict of --fail-over has the same sum
        known = [e.modelled.time for e in profile.entries if e.modelled is not None]
    else:
        known = [n for n in (getattr(e, name) for e in profile.entries) if n is not None]
    return round(sum(known), 1) if known else None
