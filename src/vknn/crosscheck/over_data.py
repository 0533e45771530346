"""Verification over data: every operator, for many inputs, in one report."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from vknn.answers import Recipe
from vknn.crosscheck.check import CheckOptions
from vknn.crosscheck.checker import InputChecker
from vknn.crosscheck.data_report import DataReport
from vknn.crosscheck.gathering import ReportGathering
from vknn.crosscheck.metrics import Metric, MetricError
from vknn.crosscheck.verify import asked_metrics
from vknn.errors import (
    DeviceError,
    ModelFormatError,
    OutOfMemoryError,
    RunCancelledError,
    RunTimeoutError,
    UnsupportedLayerError,
    VknnError,
)
from vknn.precision import Precision
from vknn.session import Session
from vknn.tool_inputs import ProgressCallback, Shapes, complete_feeds, opened

#: Errors that are not an input's own.
_FATAL = (
    DeviceError,
    MetricError,
    ModelFormatError,
    RunCancelledError,
    RunTimeoutError,
    UnsupportedLayerError,
)


@dataclass(frozen=True, eq=False)
class InputRecord:
    """One set of inputs.

    Attributes:
        name: Its name in reports.
        feeds: Its arrays by input.
        error: Why it could not be read, else None.
    """

    name: str
    feeds: Mapping[str, np.ndarray] = field(default_factory=dict)
    error: Exception | None = None


#: Inputs as users have them; those without a name are called by their numbers, from 0.
Records = Iterable[InputRecord | Mapping[str, np.ndarray]]


def verify_over(
    model: str | os.PathLike[str] | Session,
    records: Records,
    *,
    limit: int | None = None,
    signature: str | None = None,
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
    recipe: Recipe | str | os.PathLike[str] | None = None,
) -> DataReport:
    """Comparison of every operator of a model with NumPy for many inputs, as :func:`vknn.verify`.

    Of each operator the worst input is kept. An input that cannot be read or that the model refuses
    is named in the report and counted, and the others are compared.

    Args:
        model: A model file or an open session.
        records: Inputs one after the other: arrays by name, or
            :class:`vknn.crosscheck.InputRecord`, which has a name and may stand for one that could
            not be read. An iterator is read as far as it is needed.
        limit: Inputs at most; None: all.
        signature: Key of the signature that is run, as for :meth:`vknn.Session.run`.
        weights: As for :func:`vknn.verify`, and so are the others; ``progress`` is told the number
            of inputs done.

    Raises:
        vknn.VknnError: As for :func:`vknn.verify`, but for errors of single inputs.
    """
    options = CheckOptions(
        tolerance=tolerance,
        cumulative_tolerance=cumulative_tolerance,
        passes=passes,
        metrics=asked_metrics(metrics, metric),
        keep_arrays=False,
    )
    with opened(
        model,
        weights,
        device=device,
        precision=precision,
        arithmetic=arithmetic,
        signature=signature,
    ) as session:
        name = None if isinstance(model, Session) else str(model)
        gathered = ReportGathering()
        with InputChecker(session, options, name, recipe, keep=True) as checker:
            for number, record in enumerate(itertools.islice(named_records(records), limit)):
                if progress is not None:
                    progress(number, limit or number + 1, record.name)
                try:
                    if record.error is not None:
                        raise record.error
                    feeds = complete_feeds(session, record.feeds, shapes, seed)
                    gathered.add(record.name, feeds, checker.check(feeds))
                except (VknnError, MemoryError) as error:
                    if is_fatal(error):
                        raise
                    gathered.add_broken(record.name, error)
            return gathered.report(checker.model_name, device_name(session))


def named_records(records: Records) -> Iterator[InputRecord]:
    """The inputs, each with a name."""
    for number, record in enumerate(records):
        yield record if isinstance(record, InputRecord) else InputRecord(f"{number}", record)


def device_name(session: Session) -> str:
    """Name of a session's device in reports."""
    return session.device.name if session.device is not None else "NumPy"


def is_fatal(error: BaseException) -> bool:
    """Whether an error will meet the next inputs, too."""
    return isinstance(error, _FATAL) and not isinstance(error, OutOfMemoryError)
