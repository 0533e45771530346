"""Trials: the candidates of a problem measured in turn, in a process that may fail."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from vknn.errors import DeviceError
from vknn.runtime.snapshot import Snapshot
from vknn.tuning.child import Child, ChildError
from vknn.tuning.jobs import Contest, Job
from vknn.tuning.worker import Measure, Open, Pose

#: A candidate this many times slower than the best is not measured again after so many rounds.
SLOW_FACTOR, SLOW_ROUNDS = 3.0, 2
#: Times are as good as equal up to this factor: what is left is noise.
MARGIN = 1.03
#: Opening a device, or NumPy's part of a problem, may take this many times a candidate's time.
SETUP_FACTOR = 10.0


@dataclass
class Result:
    """Microseconds of each candidate that works (its best run), and why others were struck off.

    ``names``: all candidates, the lowest estimate first.
    """

    names: tuple[str, ...]
    times: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def winner(self) -> str | None:
        """Winner: of the candidates as good as the fastest, the one of the lowest estimate.

        None where all were struck off.
        """
        enough = MARGIN * min(self.times.values(), default=0.0)
        return next((n for n in self.names if n in self.times and self.times[n] <= enough), None)


class Trials:
    """Measurement of jobs on a device, in a worker replaced when it fails. A context manager.

    ``timeout``: seconds that a candidate may take to be made ready, checked and run.
    """

    def __init__(self, snapshot: Snapshot, *, runs: int, timeout: float, seed: int = 0) -> None:
        self._snapshot, self._runs, self._timeout = snapshot, runs, timeout
        self._seed = seed
        self._child: Child | None = None
        self._posed: Job | None = None
        self._refused: tuple[Job, str] | None = None

    def __enter__(self) -> Trials:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None

    def run(self, job: Job, contest: Contest) -> Result:
        """Rounds in which every candidate runs once: the machine is then alike for all.

        Raises DeviceError where the device cannot be opened.
        """
        result = Result(contest.names)
        for number in range(self._runs):
            best = min(result.times.values(), default=float("inf"))
            for name in contest.names:
                slow = number >= SLOW_ROUNDS and result.times.get(name, 0.0) > SLOW_FACTOR * best
                if not slow and name not in result.failures:
                    self._measure(job, contest, name, result)
        return result

    def _measure(self, job: Job, contest: Contest, name: str, result: Result) -> None:
        reason = self._pose(job)
        if reason is None:
            answer = self._ask(Measure(contest, name), self._timeout)
            if "microseconds" in answer:
                before = result.times.get(name, float("inf"))
                result.times[name] = min(before, float(answer["microseconds"]))
                return
            reason = str(answer.get("failed"))
        result.failures[name] = reason
        result.times.pop(name, None)

    def _pose(self, job: Job) -> str | None:
        """Hands the problem to a worker, if none has it; the reason, where that fails."""
        if self._child is None:
            self._child, self._posed = Child(), None
            uuid = self._snapshot.uuid
            request = Open(f"vulkan:{self._snapshot.index}", uuid, self._timeout)
            answer = self._ask(request, SETUP_FACTOR * self._timeout)
            if "failed" in answer:
                raise DeviceError(f"cannot open {self._snapshot.name}: {answer['failed']}")
        if self._refused is not None and self._refused[0] is job:
            return self._refused[1]
        if self._posed is not job:
            answer = self._ask(Pose(job, self._seed), SETUP_FACTOR * self._timeout)
            if "failed" in answer:
                self._refused = job, f"the reference: {answer['failed']}"
                return self._refused[1]
            self._posed = job
        return None

    def _ask(self, request: Open | Pose | Measure, timeout: float) -> dict[str, Any]:
        """An answer, whatever happens; a worker that failed is gone afterwards."""
        assert self._child is not None
        try:
            answer = self._child.ask(request, timeout)
        except ChildError as error:
            self._child = self._posed = None
            return {"failed": str(error)}
        except BaseException:  # an interrupt: nobody would read the answer that is still to come
            self._child.kill()
            self._child = self._posed = None
            raise
        if answer.get("fatal"):
            self._child.kill()
            self._child = self._posed = None
        return answer
