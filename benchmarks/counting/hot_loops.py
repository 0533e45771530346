"""Hot loops of a kept comparison: multiply-adds' share of vknn's vector instructions, by time.

A row of a side has the share of a dispatch's hottest loop where machine code was read, and what
bounds the dispatch. Kernels that multiply nothing (maps of elements, copies) are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .report import markdown
from .sides import COLUMNS

#: Least share of a loop that does hardly anything but multiply and add.
GOOD = 0.85
#: What bounds dispatches whose time hangs on how many instructions there are.
_ISSUE = "issue"


@dataclass(frozen=True)
class Loop:
    """The hot loop of equal dispatches; ``time``: of all of them in microseconds."""

    kernel: str
    share: float
    bound: str
    time: float


@dataclass(frozen=True)
class HotLoops:
    """Hot loops of all networks of a document. ``name``: device and precision; ``whole``:
    modelled microseconds of all dispatches whose time does not hang on data, of maps too."""

    name: str
    loops: Sequence[Loop]
    whole: float

    @property
    def time(self) -> float:
        """Microseconds of the dispatches with a loop of multiply-adds."""
        return sum(loop.time for loop in self.loops)

    @property
    def share(self) -> float:
        """Their shares, weighted by their times."""
        return sum(loop.share * loop.time for loop in self.loops) / self.time

    def part(self, *, good: bool, by_issue: bool | None = None) -> float:
        """Part of the time in loops that are good or not; by whether issue bounds the dispatch."""
        wanted = [x for x in self.loops if (x.share >= GOOD) == good]
        known = [x for x in wanted if by_issue is None or (x.bound == _ISSUE) == by_issue]
        return sum(x.time for x in known) / self.time

    def low(self) -> dict[str, list[Loop]]:
        """Loops that are not good by kernel, the kernel with most time first."""
        found: dict[str, list[Loop]] = {}
        for loop in self.loops:
            if loop.share < GOOD:
                found.setdefault(loop.kernel, []).append(loop)
        return dict(sorted(found.items(), key=lambda item: -_time(item[1])))


def hot_loops(document: Mapping[str, Any]) -> HotLoops | None:
    """The hot loops of vknn in a document of modelled.py; None where it keeps no shares."""
    loops: list[Loop] = []
    whole = 0.0
    for engines in document["networks"].values():
        side = engines.get("vknn", {})
        whole += side.get("code_us") or 0.0
        for row in _rows(side):
            if row["kind"] != "map" and row["share"] is not None:
                time = row["us"] * row["times"]
                loops.append(Loop(row["kernel"], row["share"], row["bound"], time))
    return HotLoops(f"{document['null']} {document['precision']}", loops, whole) if loops else None


def _rows(side: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Rows by column; none of a side from before shares were kept."""
    for row in side.get("rows", ()):
        if len(row) == len(COLUMNS):
            yield dict(zip(COLUMNS, row, strict=True))


def hot_table(found: Sequence[HotLoops]) -> str:
    """A table in Markdown: shares of each document, then its kernels that are below."""
    good = f"{100 * GOOD:.0f} %"
    whole: dict[str, Callable[[HotLoops], str]] = {
        "time of products (of all)": lambda f: f"{f.time:,.0f} us ({f.time / f.whole:.0%})",
        "multiply-adds' share, by time": lambda f: f"{f.share:.2f}",
        f"time in loops of {good} and more": lambda f: f"{f.part(good=True):.0%}",
        f"below {good}, bound by issue": lambda f: f"{f.part(good=False, by_issue=True):.0%}",
        f"below {good}, bound otherwise": lambda f: f"{f.part(good=False, by_issue=False):.0%}",
    }
    rows = [[name, *(cell(f) for f in found)] for name, cell in whole.items()]
    for kernel in _most_time_first([f.low() for f in found]):
        rows += [[kernel, *(_cell(f.low().get(kernel, []), f) for f in found)]]
    return markdown(["", *(f.name for f in found)], rows)


def _most_time_first(lows: Sequence[Mapping[str, Sequence[Loop]]]) -> list[str]:
    times: dict[str, float] = {}
    for low in lows:
        for kernel, loops in low.items():
            times[kernel] = max(times.get(kernel, 0.0), _time(loops))
    return sorted(times, key=lambda kernel: -times[kernel])


def _cell(loops: Sequence[Loop], found: HotLoops) -> str:
    """Least and greatest share, and the time with its part of all products'."""
    if not loops:
        return "-"
    least, most = (f"{f(x.share for x in loops):.2f}" for f in (min, max))
    shares = least if least == most else f"{least} to {most}"
    return f"{shares}: {_time(loops):,.0f} us ({_time(loops) / found.time:.0%})"


def _time(loops: Sequence[Loop]) -> float:
    return sum(loop.time for loop in loops)
