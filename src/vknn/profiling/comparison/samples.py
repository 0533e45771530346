"""Times of one side of a comparison: of rows and of whole runs, process by process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.profiling.profile import Profile
from vknn.profiling.records import TimedRun


@dataclass(eq=False)
class Samples:
    """Seconds of a side.

    Attributes:
        rows: Of each process, of each timed run and row, [runs, rows].
        plain: Of each process, of each plain run, [runs].
        parts: What a run's time was spent on, as of ``Profile.total``: medians over processes.
    """

    rows: list[np.ndarray]
    plain: list[np.ndarray]
    parts: dict[str, float]

    @property
    def processes(self) -> int:
        """Number of processes."""
        return len(self.plain)

    def medians(self) -> tuple[np.ndarray, np.ndarray]:
        """Medians of each process: of rows, [processes, rows], and of plain runs, [processes]."""
        rows = np.stack([np.median(r, axis=0) for r in self.rows])
        return rows, np.array([np.median(p) for p in self.plain])

    def ratios(self, other: Samples) -> tuple[np.ndarray, np.ndarray]:
        """Medians of ``other`` over this, run by run, of pairs of processes: of rows and plain.

        The runs of a pair took turns: the machine treated neighbours alike.
        """
        rows = zip(self.rows, other.rows, strict=True)
        plain = zip(self.plain, other.plain, strict=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            return (
                np.stack([np.median(b / a, axis=0) for a, b in map(_as_many, rows)]),
                np.array([np.median(b / a) for a, b in map(_as_many, plain)]),
            )

    def pooled(self) -> tuple[np.ndarray, np.ndarray]:
        """All runs of all processes: of rows, [runs, rows], and plain, [runs]."""
        return np.concatenate(self.rows), np.concatenate(self.plain)


def samples_of(profiles: Sequence[Profile], place: np.ndarray, count: int) -> Samples:
    """Samples of the profiles of a side; ``place``: the row, below ``count``, of each command."""
    rows = [np.stack([_by_row(run, place, count) for run in p.runs]) for p in profiles]
    plain = [np.array(p.plain) for p in profiles]
    totals = [p.total for p in profiles]
    parts = {name: float(np.median([t[name] for t in totals])) * 1e-6 for name in totals[0]}
    return Samples(rows, plain, parts)


def _as_many(pair: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The last runs of both, as many of one as of the other: odd ones at the start are left out."""
    count = min(map(len, pair))
    return pair[0][-count:], pair[1][-count:]


def _by_row(run: TimedRun, place: np.ndarray, count: int) -> np.ndarray:
    spans = np.concatenate([np.zeros((0, 2)), *(s.spans for s in run.segments)])
    return np.bincount(place, weights=spans[:, 1] - spans[:, 0], minlength=count)
