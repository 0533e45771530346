"""Search for inputs that a device gets wrong: hill climbing towards the largest error."""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from vknn.crosscheck.check import CheckOptions
from vknn.crosscheck.checker import InputChecker
from vknn.crosscheck.data_report import DataReport
from vknn.crosscheck.data_rows import SearchTrace
from vknn.crosscheck.gathering import ReportGathering, excess_of
from vknn.crosscheck.metrics import Metric
from vknn.crosscheck.mutations import mutated
from vknn.crosscheck.over_data import Records, device_name, is_fatal, named_records
from vknn.crosscheck.range import LIMITS, OutOfRangeError, RangeLimit
from vknn.crosscheck.report import VerifyReport
from vknn.crosscheck.verify import asked_metrics
from vknn.errors import InputError, VknnError
from vknn.precision import Precision
from vknn.session import Session
from vknn.tool_inputs import ProgressCallback, Shapes, complete_feeds, opened

#: Inputs at most that a search begins with, and of those found that it climbs on from.
MOST_STARTS, _BEST = 16, 8
#: Chances of a step from the best input and from one of the best; else it is from a first one.
_FROM_BEST, _FROM_GOOD = 0.4, 0.7
#: Chance of the mutation that helped last.
_AGAIN = 0.3


def search(
    model: str | os.PathLike[str] | Session,
    records: Records = (),
    *,
    seconds: float | None = None,
    steps: int | None = None,
    limit: int | None = None,
    weights: str | os.PathLike[str] | None = None,
    device: str = "auto",
    precision: Precision = "fp32",
    arithmetic: str = "fp32",
    shapes: Shapes | None = None,
    tolerance: float | None = None,
    cumulative_tolerance: float | None = None,
    passes: bool = True,
    seed: int = 0,
    progress: ProgressCallback | None = None,
    metrics: bool = False,
    metric: Metric | Sequence[Metric] | Mapping[str, Metric] | None = None,
) -> DataReport:
    """Search for the inputs with the largest errors, as multiples of what is allowed.

    It climbs: from random inputs and those that are given, by scaling, thinning out, extremes,
    constants, subnormal numbers and more, and goes on from what made an error larger. Inputs for
    which the reference comes near to overflow are left out, and subnormal numbers may count as
    zeros, as Vulkan allows.

    Args:
        model: A model file or an open session.
        records: Inputs to begin with, as for :func:`vknn.crosscheck.verify_over`.
        seconds: Time that it may take; what is begun is brought to its end.
        steps: Inputs that are tried at most, the first ones among them. Of the same seed, number
            of steps, device and version the same inputs are tried.
        limit: Inputs to begin with at most; None: 16.
        seed: Of all that is random.
        weights: As for :func:`vknn.verify`, and so are the others.

    Returns:
        A report with a ``trace``; ``inputs`` has the worst.

    Raises:
        vknn.InputError: Neither seconds nor steps are given, or they are not above 0.
        vknn.VknnError: As for :func:`vknn.verify`.
    """
    budget = _Budget(seconds, steps)
    with opened(
        model, weights, device=device, precision=precision, arithmetic=arithmetic
    ) as session:
        range_limit = RangeLimit(LIMITS[session.precision, session.arithmetic])
        options = CheckOptions(
            tolerance=tolerance,
            cumulative_tolerance=cumulative_tolerance,
            passes=passes,
            metrics=asked_metrics(metrics, metric),
            keep_arrays=False,
            limit=range_limit,
        )
        name = None if isinstance(model, Session) else str(model)
        with InputChecker(session, options, name, keep=True) as checker:
            climb = _Climb(checker, range_limit, budget, np.random.default_rng(seed), progress)
            given = itertools.islice(named_records(records), limit or MOST_STARTS)
            for start in given:
                if start.error is not None:
                    climb.gathered.add_broken(start.name, start.error)
                    continue
                climb.begin(start.name, complete_feeds(session, start.feeds, shapes, seed))
            if not climb.first:
                climb.begin(f"random {seed}", complete_feeds(session, None, shapes, seed))
            climb.run()
            trace = climb.trace(seed)
            return climb.gathered.report(checker.model_name, device_name(session), trace)


class _Budget:
    """Time and steps that a search may take."""

    def __init__(self, seconds: float | None, steps: int | None) -> None:
        if seconds is None and steps is None:
            raise InputError("a search needs a time or a number of steps")
        endless = seconds is not None and not 0 < seconds < math.inf
        if endless or (steps is not None and steps < 1):
            raise InputError("time and number of steps of a search must be above 0")
        self.seconds, self.steps, self.taken = seconds, steps, 0
        self.begun = time.perf_counter()

    @property
    def spent(self) -> float:
        """Seconds since the search began."""
        return time.perf_counter() - self.begun

    def take(self) -> bool:
        """Whether there is another step, which then is taken."""
        late = self.seconds is not None and self.spent >= self.seconds
        if late or (self.steps is not None and self.taken >= self.steps):
            return False
        self.taken += 1
        return True

    def told(self) -> tuple[int, int]:
        """Done and all, in steps or else in seconds."""
        if self.steps is not None:
            return self.taken, self.steps
        assert self.seconds is not None
        return min(int(self.spent), int(self.seconds)), max(1, int(self.seconds))


@dataclass(eq=False)
class _Found:
    """Inputs that were tried, and their largest error that is finite."""

    score: float
    feeds: Mapping[str, np.ndarray]
    first: Mapping[str, np.ndarray]


@dataclass(eq=False)
class _Climb:
    checker: InputChecker
    limit: RangeLimit
    budget: _Budget
    random: np.random.Generator
    progress: ProgressCallback | None
    gathered: ReportGathering = field(default_factory=ReportGathering)
    first: list[_Found] = field(default_factory=list)
    best: list[_Found] = field(default_factory=list)
    climbed: list[tuple[int, float]] = field(default_factory=list)
    out_of_range: int = 0
    again: str | None = None

    def begin(self, name: str, feeds: Mapping[str, np.ndarray]) -> None:
        """First try of inputs that were given or made up."""
        if self.budget.take():
            found = self._tried(name, feeds, feeds)
            if found is not None:
                self.first.append(found)

    def run(self) -> None:
        """All steps behind the first tries."""
        self.limit.learning = False
        while self.first and self.budget.take():
            parent = self._parent()
            wanted = self.again if self.random.random() < _AGAIN else None
            feeds, how = mutated(self.random, parent.feeds, parent.first, wanted)
            before = self.best[0].score
            found = self._tried(f"step {self.budget.taken} ({how})", feeds, parent.first)
            self.again = how if found is not None and found.score > before else self.again

    def trace(self, seed: int) -> SearchTrace:
        """What was done."""
        return SearchTrace(
            seed, self.budget.taken, self.budget.spent, self.out_of_range, tuple(self.climbed)
        )

    def _parent(self) -> _Found:
        chance = self.random.random()
        if chance < _FROM_BEST:
            return self.best[0]
        known = self.best if chance < _FROM_GOOD else self.first
        return known[int(self.random.integers(len(known)))]

    def _tried(
        self, name: str, feeds: Mapping[str, np.ndarray], first: Mapping[str, np.ndarray]
    ) -> _Found | None:
        """Check of inputs; None where there is none for them."""
        if self.progress is not None:
            self.progress(*self.budget.told(), name)
        try:
            report = self.checker.check(feeds)
        except OutOfRangeError:
            self.out_of_range += 1
            return None
        except (VknnError, MemoryError) as error:
            if is_fatal(error):
                raise
            self.gathered.add_broken(name, error)
            return None
        self.gathered.add(name, feeds, report)
        errors = list(_errors(report))
        largest = max(errors, default=0.0)
        if not self.climbed or largest > self.climbed[-1][1]:
            self.climbed.append((self.budget.taken, largest))
        # An infinite error is as large as can be: the climb goes on towards others.
        score = max((e for e in errors if e < math.inf), default=0.0)
        found = _Found(score, feeds, first)
        self.best = sorted([*self.best, found], key=lambda f: -f.score)[:_BEST]
        return found


def _errors(report: VerifyReport) -> Iterator[float]:
    for row in report.rows:
        for comparison in (row.isolated, row.cumulative):
            if comparison is not None:
                yield excess_of(comparison)
    for _, comparison in report.outputs:
        yield excess_of(comparison)
