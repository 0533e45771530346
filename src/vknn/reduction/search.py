"""Search: candidates tried one after another; the last that still failed is the best."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from vknn.errors import VknnError
from vknn.formats.graph_folder.writer import save
from vknn.reduction.cases import GraphCase
from vknn.reduction.judges import Judge
from vknn.reduction.verdict import Verdict

Tell = Callable[[int, int, str], None]
T = TypeVar("T")


class OutOfTime(Exception):
    """The time that the search may take is over."""


@dataclass(eq=False)
class Search:
    """Search for the least case that fails as ``failure`` does.

    ``folder``: for candidates. ``keep`` is called with each that is better than those before it.
    ``end``: ``time.perf_counter`` from which on nothing more is tried.
    """

    judge: Judge
    folder: Path
    best: GraphCase
    failure: Verdict
    end: float
    tell: Tell
    keep: Callable[[GraphCase], None]
    trials: int = 0
    #: What is being made smaller, in words.
    step: str = ""
    _seen: set[object] = field(default_factory=set)

    def take(self, case: GraphCase) -> bool:
        """Trial of a candidate; where it still fails it is the best from now on.

        Raises OutOfTime.
        """
        if not self.fails(case):
            return False
        self.best = case
        self.keep(case)
        return True

    def fails(self, case: GraphCase) -> bool:
        """Whether a candidate fails as the first case does. Raises OutOfTime."""
        return self.failure.is_like(self.outcome(case))

    def outcome(self, case: GraphCase) -> Verdict:
        """Verdict of a candidate. Raises OutOfTime."""
        self.check_time()
        self.trials += 1
        size = f"{len(self.best.graph.nodes)} nodes, {self.best.elements:,} elements"
        self.tell(self.trials, self.trials, f"{self.step}: {size}")
        return tried(self.judge, case, self.folder)

    def check_time(self) -> None:
        """Check of the time. Raises OutOfTime."""
        if time.perf_counter() > self.end:
            raise OutOfTime


def tried(judge: Judge, case: GraphCase, folder: Path) -> Verdict:
    """Verdict of a case, tried in a folder that is replaced."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        save(folder, case.graph, case.feeds, compressed=case.is_small)
    except VknnError as error:
        return Verdict("error", str(error), "unwritten")
    return judge(folder)


def least(items: Sequence[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """The items that are left when no part can be done without: delta debugging.

    Zeller and Hildebrandt 2002, "Simplifying and Isolating Failure-Inducing Input", ddmin.
    """
    kept, parts = list(items), 2
    while len(kept) > 1:
        size = -(-len(kept) // parts)
        chunks = [kept[i : i + size] for i in range(0, len(kept), size)]
        found = next((chunk for chunk in chunks if fails(chunk)), None)
        if found is not None:
            kept, parts = found, 2
            continue
        rests = ([x for c in chunks if c is not chunk for x in c] for chunk in chunks)
        found = next((rest for rest in rests if len(chunks) > 2 and fails(rest)), None)
        if found is not None:
            kept, parts = found, max(parts - 1, 2)
        elif size == 1:
            break
        else:
            parts = min(2 * parts, len(kept))
    return kept
