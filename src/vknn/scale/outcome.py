"""Outcome of a job while it runs: counts, errors, and the error that ends it."""

from __future__ import annotations

import os
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from vknn.errors import VknnError
from vknn.host_memory import peak_memory
from vknn.scale.optional import arrow
from vknn.scale.options import ERROR
from vknn.scale.report import DeviceReport, Report
from vknn.scale.shares import ErrorBound

#: Records among which a share of errors is taken at least, where nobody knows how many come.
UNCOUNTED_ROWS = 10_000
_E = TypeVar("_E", bound=BaseException)


class JobError(VknnError):
    """A job ended before all of its records were computed; it can be taken up again.

    Attributes:
        report: What was done until then; None where that is not known.
    """

    report: Report | None = None


@dataclass
class Outcome:
    """State of a job so far.

    Attributes:
        total: Records that the source has; None where that is not known.
        rows: Records with an answer or an error, those of earlier runs counted.
        new_rows: Those of this run.
        errors: Records that could not be computed, by type of error, those of earlier runs counted.
        devices: What each device did.
        waiting: Seconds in which devices waited for inputs.
        writing: Seconds that writing took.
        peak: Bytes of memory that another process of the job had at most.
        suspects: Rows that a device wrote which disagreed later.
        notes: What else there is to say.
        begin: ``time.perf_counter()`` when the run began.
        run: Name of this run.
    """

    total: int | None = None
    rows: int = 0
    new_rows: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    devices: dict[str, DeviceReport] = field(default_factory=dict)
    waiting: float = 0.0
    writing: float = 0.0
    peak: int = 0
    suspects: int = 0
    notes: list[str] = field(default_factory=list)
    begin: float = field(default_factory=time.perf_counter)
    run: str = field(default_factory=lambda: secrets.token_hex(4))

    @property
    def errors_now(self) -> int:
        """Records that could not be computed."""
        return sum(self.errors.values())

    def note(self, text: str) -> None:
        """Note of what else there is to say, once."""
        if text not in self.notes:
            self.notes.append(text)

    def count(self, errors: Iterable[dict[str, Any] | None]) -> None:
        """Counting of rows by their errors; None for rows that have none."""
        for error in errors:
            self.rows += 1
            self.new_rows += 1
            if error is not None:
                self.errors[error["type"]] += 1

    def uncount(self, tables: Iterable[Any]) -> None:
        """Counting of rows undone: tables that were not written."""
        for table in tables:
            self.rows -= table.num_rows
            self.new_rows -= table.num_rows
            for error in table.column(ERROR).to_pylist():
                if error is not None:
                    self.errors[error["type"]] -= 1
        self.errors = +self.errors

    def excess(self, bound: ErrorBound, is_end: bool = False) -> str:
        """The reason to end the job: too many records failed. Empty where they did not."""
        rows = self.total or (self.rows if is_end else max(self.rows, UNCOUNTED_ROWS))
        if self.errors_now <= bound.most(rows):
            return ""
        return (
            f"{self.errors_now} of {self.rows} records could not be computed, and errors={bound} "
            "are allowed"
        )

    def report(self, output: str, state: str, engine: str) -> Report:
        """The report so far."""
        return Report(
            output=output,
            state=state,
            engine=engine,
            rows=self.rows,
            new_rows=self.new_rows,
            errors=dict(self.errors),
            seconds=time.perf_counter() - self.begin,
            waiting_seconds=self.waiting,
            writing_seconds=self.writing,
            peak_memory=max(self.peak, peak_memory()),
            devices=self.devices,
            suspects=self.suspects,
            notes=list(self.notes),
        )


def without_frames(error: _E) -> _E:
    """An error without the frames that it went through.

    They hold who called, and that holds the error: a worker of Ray's whose last record failed would
    not be released when its pool ends, nor tell what it did.
    """
    chain: list[BaseException | None] = [error]
    seen: set[int] = set()
    while chain:
        one = chain.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = None
            chain += [one.__cause__, one.__context__]
    return error


def error_row(error: BaseException, attempts: int, model: str | None = None) -> dict[str, Any]:
    """An error as rows tell it: the ``model`` by its name, wherever a machine has its file."""
    text = " ".join(str(error).split()) or type(error).__name__
    if model:
        text = text.replace(model, os.path.basename(model))
    without_frames(error)
    kind = getattr(error, "kind", type(error).__name__)  # as another process named it
    return {"type": kind, "message": text, "attempts": attempts}


def last_error(
    errors: Sequence[Mapping[str, Any] | None], names: Sequence[Any]
) -> tuple[str, str] | None:
    """Type and message of the last error of some rows, with the record's name, where it has one.

    ``errors``: as of :func:`error_row`, None for good rows. ``names``: empty where there are none.
    """
    for number in reversed(range(len(errors))):
        error = errors[number]
        if error is not None:
            name = f" (record {names[number]!r})" if names else ""
            return error["type"], error["message"] + name
    return None


@cache
def error_type() -> Any:
    """The Arrow type of :func:`error_row`."""
    pa = arrow()
    return pa.struct([("type", pa.string()), ("message", pa.string()), ("attempts", pa.int32())])
