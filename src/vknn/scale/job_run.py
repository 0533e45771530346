"""Run of a job: what both engines are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from vknn.scale.folder import Folder
from vknn.scale.options import Predictor
from vknn.scale.outcome import Outcome
from vknn.scale.shares import ErrorBound
from vknn.scale.sources import RecordSource

#: Seconds after which a job that is told tells how far it is.
TELL_SECONDS = 2.0
#: Note of a job without columns of outputs.
NONE_COMPUTED = "no record could be computed; the first: {}"


@dataclass
class JobRun:
    """A run of a job.

    Attributes:
        predictor: What is computed.
        source: Where records come from.
        folder: Where answers go.
        schema: The source's columns.
        done: Names of the records that have answers.
        bound: How many records may fail.
        outcome: What was done so far.
        stored: The outputs' columns as an earlier run wrote them; None where there was none.
        stacked: Name of a device -> records that one run computes on it, where that was measured.
        tell: Told how far the job is, every few seconds.
    """

    predictor: Predictor
    source: RecordSource
    folder: Folder
    schema: dict[str, Any]
    done: set[Any]
    bound: ErrorBound
    outcome: Outcome
    stored: dict[str, Any] | None = None
    stacked: dict[str, int] = field(default_factory=dict)
    tell: Callable[[Outcome], None] | None = None
