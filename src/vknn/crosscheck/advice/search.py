"""Search for a short list of layers: as many as it takes by their shares, then fewer of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

#: Lists that are tried at most.
MOST_TRIALS = 256

#: Whether a list of layers is enough.
Passes = Callable[[Sequence[str]], bool]


class SearchBudget:
    """Seconds and trials that a search may take."""

    def __init__(self, seconds: float, trials: int = MOST_TRIALS) -> None:
        self._end, self._trials = time.perf_counter() + seconds, trials

    @property
    def spent(self) -> bool:
        """Whether nothing is left."""
        return self._trials <= 0 or time.perf_counter() >= self._end

    def take(self) -> bool:
        """Whether one more trial may be made; counts it."""
        left = not self.spent
        self._trials -= 1
        return left


@dataclass(frozen=True)
class FoundList:
    """Result of a search. ``layers``: None: no list was found. ``complete``: nothing was cut."""

    layers: tuple[str, ...] | None
    complete: bool


def shortest(order: Sequence[str], passes: Passes, budget: SearchBudget) -> FoundList:
    """A list of layers that passes and of which none can be left out.

    ``order``: all of them, those first that are the most likely to be needed. That all layers pass
    and that none of them does not is to be known before.
    """
    low, high = 0, 1
    while high < len(order) and budget.take() and not passes(order[:high]):
        low, high = high, min(2 * high, len(order))
    if budget.spent:
        return FoundList(None, False)
    while high - low > 1 and budget.take():
        middle = (low + high) // 2
        low, high = (low, middle) if passes(order[:middle]) else (middle, high)
    return _fewer(list(order[:high]), passes, budget)


def _fewer(kept: list[str], passes: Passes, budget: SearchBudget) -> FoundList:
    """The list without what can be left out: halves of it first, then smaller parts, then each."""
    size = max(1, len(kept) // 2)
    while kept:
        place = len(kept)
        while place > 0:  # those first that are the least likely to be needed
            begin = max(0, place - size)
            fewer = kept[:begin] + kept[place:]
            place = begin
            if not fewer:
                continue  # none at all does not pass
            if not budget.take():
                return FoundList(tuple(kept), False)
            if passes(fewer):
                kept = fewer
        if size == 1:
            break
        size = max(1, size // 2)
    return FoundList(tuple(kept), True)
