"""Campaign: many cases in a child process, which is forked again after a crash or a hang."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from fuzzing.process import Worker
from fuzzing.settings import Settings
from fuzzing.summary import Summary

#: Cases that are handed to a child at once, so that it seldom waits for the next one.
BATCH = 50


class Campaign:
    """A series of cases with one child at a time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._worker: Worker | None = None
        self.summary = Summary()

    def outcomes(self, numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
        """The outcomes of cases; one that ended the child is tried once more, by itself."""
        source = iter(numbers)
        while batch := list(itertools.islice(source, min(BATCH, self._settings.per_process))):
            while batch:
                for outcome in self._ready().ask(tuple(batch)):
                    del batch[0]
                    if ended(outcome):
                        self._worker = None
                        outcome = self._alone(outcome)
                    self.summary.add(outcome)
                    yield outcome

    def close(self) -> None:
        """End of the child."""
        worker, self._worker = self._worker, None
        if worker is not None and (left := worker.end()):
            self.summary.note("leak", f"leak: of the device: {left}")

    def _ready(self) -> Worker:
        """The child, or a new one where there is none or it has had its number of cases."""
        if self._worker is None or self._worker.asked >= self._settings.per_process:
            self.close()
            self._worker = Worker(self._settings)
            self.summary.device = self._worker.device
        return self._worker

    def _alone(self, first: dict[str, Any]) -> dict[str, Any]:
        """The outcome of the case in a child of its own; the first one where that is none."""
        worker = Worker(self._settings)
        outcome = next(worker.ask([first["case"]]))
        worker.stop()
        if ended(outcome):
            return outcome
        finding = first["findings"][0]
        finding["kind"] = f"{finding['kind']}, not repeated"
        finding["signature"] = f"{finding['kind']}: {finding['signature']}"
        return {**outcome, "findings": [*outcome["findings"], finding]}


def ended(outcome: dict[str, Any]) -> bool:
    """Whether the child did not survive the case."""
    return any(f["kind"] in ("time", "crash") for f in outcome["findings"])
