"""Comparing: results of a device held against NumPy's, every element of every operator.

Where outputs differ each operator is held against its reference. A difference is excused where
every operator by itself is right and roundings only add up (the operators in a row on the device
must then differ as well), and by elements where float32 overflowed: NumPy adds up in float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

import vknn
from fuzzing.outcome import Outcome
from fuzzing.overflow import floats, huge, overflowed, subnormal
from vknn.crosscheck.check import GraphCheck
from vknn.crosscheck.comparison import ArrayComparison, compare
from vknn.crosscheck.report import VerifyReport

Feeds = Mapping[str, np.ndarray]


class Elements(GraphCheck):
    """A cross-check that keeps the elements of each row: what is right, allowed and found."""

    def __init__(self, session: vknn.Session, feeds: Feeds) -> None:
        graph = session._engine.program(feeds).graph
        super().__init__(session, graph, feeds)
        self.made: list[tuple[Any, Any, int]] = []
        self.goals: list[np.ndarray] = []
        self.bounds: list[Any] = []
        self.found: list[np.ndarray | None] = []

    def _goals(self, node: Any, inputs: Any, expected: Any) -> Any:
        goals, bounds = super()._goals(node, inputs, expected)
        self.made += [(node.op, inputs, index) for index in range(len(goals))]
        self.goals += goals
        self.bounds += bounds
        return goals, bounds

    def _keep(self, name: str, expected: Any, isolated: Any, cumulative: Any) -> None:
        super()._keep(name, expected, isolated, cumulative)
        self.found.append(isolated)

    def without_overflow(self, number: int) -> ArrayComparison:
        """The comparison of a row with the elements left out that overflowed on the device."""
        goal, found = self.goals[number], self.found[number]
        assert found is not None
        if found.shape != goal.shape or found.dtype != goal.dtype or goal.dtype.kind != "f":
            return compare(found, goal, self.bounds[number])
        op, inputs, index = self.made[number]
        gone = overflowed(op, inputs, index, goal, found)
        rest = np.where(gone, goal, found)
        return compare(rest, goal, self.bounds[number])


def hold_against(
    expected: Any, found: Any, session: vknn.Session, feeds: Feeds, outcome: Outcome
) -> None:
    """Findings where the backends do not agree; ``session`` is the device's."""
    failed = [isinstance(r, vknn.VknnError) for r in (expected, found)]
    if any(failed):
        _failures(expected, found, failed, outcome)
        return
    outcome.both = True
    if all(_alike(expected[n], found[n]) for n in expected):
        return
    session.reset_state()
    check = Elements(session, feeds)
    report = check.report("case")
    wrong = [(i, r) for i, r in enumerate(report.rows) if r.isolated and not r.isolated.ok]
    if wrong and _any_extreme(session, feeds, report):
        compared = [(row, check.without_overflow(i)) for i, row in wrong]
        if any(c.ok for _, c in compared):
            outcome.excuses.append("excused: out of float32's range")
        bad = [(row, c) for row, c in compared if not c.ok]
    else:
        bad = [(row, row.isolated) for _, row in wrong if row.isolated]
    for row, comparison in bad:
        text = f"{row.layer} ({row.op}): {comparison}"
        outcome.add("difference", text, f"{row.op} isolated")
    if not wrong:
        _whole(report, outcome)


def _failures(expected: Any, found: Any, failed: list[bool], outcome: Outcome) -> None:
    if all(failed):
        outcome.excuses.append("not run: refused for these inputs")
    elif any(isinstance(r, vknn.OutOfMemoryError) for r in (expected, found)):
        outcome.excuses.append("not compared: beyond the budget of memory on one side")
    else:
        side, error = ("NumPy", expected) if failed[0] else ("the device", found)
        text = f"only {side} fails: {type(error).__name__}: {error}"
        outcome.add("disagreement", text, text)


def _whole(report: VerifyReport, outcome: Outcome) -> None:
    """A network of right operators: its difference must come of roundings that add up."""
    wrong = [(name, c) for name, c in report.outputs if not c.ok]
    if wrong and all(r.cumulative is None or r.cumulative.ok for r in report.rows):
        text = f"right one by one and in a row, but not as run: {wrong[0]}"
        outcome.add("difference", text, "as run only")
    elif wrong:
        outcome.excuses.append("excused: roundings add up")
    else:
        outcome.excuses.append("excused: within what roundings explain")


def _any_extreme(session: vknn.Session, feeds: Feeds, report: VerifyReport) -> bool:
    arrays = [*feeds.values(), *_constants(session, feeds), *report.arrays.values()]
    return any(huge(a) or subnormal(a).any() for a in arrays)


def _constants(session: vknn.Session, feeds: Feeds) -> Iterator[Any]:
    """Weights of the network, and numbers that are attributes of its operators."""
    for node in session._engine.graph(feeds).nodes:
        yield from floats(node.op)
        yield from (v.constant for v in node.inputs if v is not None and v.constant is not None)


def _alike(expected: Any, found: Any) -> bool:
    """A first look: whether operators need to be held against each other one by one."""
    if isinstance(expected, list) and isinstance(found, list):  # sequences
        return len(expected) == len(found) and all(map(_alike, expected, found))
    first, second = np.asarray(expected), np.asarray(found)
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    if first.dtype.kind not in "fc":
        return bool(np.array_equal(first, second))
    with np.errstate(all="ignore"):
        finite = np.isfinite(first)
        largest = float(np.max(np.abs(first), initial=0.0, where=finite))
        return bool(np.allclose(second, first, 0, 1e-5 * largest + 1e-37, equal_nan=True))
