"""Job: a source through a model into a folder of answers, begun or taken up again."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from vknn.errors import InputError
from vknn.scale.folder import Folder
from vknn.scale.on_ray import remove_pending
from vknn.scale.options import Predictor, predictor_of
from vknn.scale.outcome import Outcome
from vknn.scale.plan import JobPlan
from vknn.scale.report import Report
from vknn.scale.shares import ErrorBound
from vknn.scale.sources import PARQUET, RecordSource, check_apart, find_source, without_answers
from vknn.scale.steps import AGAIN, FAILED, SUSPECT, JobSteps
from vknn.scale.survey import surveyed

ENGINES = ("auto", "local", "ray")
#: A folder, pattern, file or address, or a list of these.
Given = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def run(
    source: Given,
    model: str | os.PathLike[str] | Predictor,
    output: str | os.PathLike[str],
    weights: str | os.PathLike[str] | None = None,
    *,
    engine: str = "auto",
    address: str | None = None,
    errors: str | float | None = None,
    restart: bool = False,
    redo_suspect: bool = False,
    redo_errors: bool = False,
    progress: Callable[[Outcome], None] | None = None,
    **options: Any,
) -> Report:
    """A model run on all records of a source; the answers become Parquet files.

    A job that was broken off goes on where it was. Every record ends in one row: its id, the
    columns that are kept, each output, what the outputs mean where that is known, the device, the
    batch, and the error where it could not be computed.

    Args:
        source: A folder, a pattern, a file, an address such as s3://bucket/key, or a list of these:
            pictures, Parquet, .npy, .npz or tars.
        model: The model file, or a :class:`Predictor`.
        output: Folder for the answers, or an address.
        weights: The model's second file, where it does not lie beside it.
        engine: "local" (this process, one device), "ray", or "auto".
        address: Of a Ray cluster; None: one is started on this machine where Ray is used.
        errors: How many records may fail: a number, or a share such as "0.1%"; None: all may.
        restart: Whether to remove answers of an earlier run and begin anew.
        redo_suspect: Whether to compute the rows again, elsewhere, that a device wrote which
            disagreed with NumPy later; nothing else is computed then.
        redo_errors: Whether to compute records again whose rows have an error, besides those that
            are left: the new rows are in place of the old ones.
        progress: Told how far the job is, every few seconds.
        options: Those of :class:`Predictor`.

    Returns:
        A report.

    Raises:
        vknn.scale.JobError: More records failed than may, an archive is damaged, or a device
            computes wrong; its report says how far the job came.
        vknn.InputError: Source, columns, ids or options do not fit; nothing was computed.
        vknn.VknnError: The model cannot be opened, or the folder holds another job.
    """
    predictor = predictor_of(model, weights, options)
    if restart + redo_suspect + redo_errors > 1:
        raise InputError("restart, redo_suspect and redo_errors: one of them")
    again = SUSPECT if redo_suspect else FAILED if redo_errors else ""
    found = run_job(
        source, predictor, output, engine=engine, address=address, errors=errors, restart=restart,
        again=again, progress=progress, is_beside=True,
    )  # fmt: skip
    assert isinstance(found, Report)
    return found


def plan(
    source: Given,
    model: str | os.PathLike[str] | Predictor,
    output: str | os.PathLike[str],
    weights: str | os.PathLike[str] | None = None,
    *,
    engine: str = "auto",
    address: str | None = None,
    **options: Any,
) -> JobPlan:
    """Plan of what :func:`run` would do with the same arguments; first records are computed here.

    Raises:
        vknn.VknnError: As :func:`run`; nothing is written.
    """
    predictor = predictor_of(model, weights, options)
    found = run_job(source, predictor, output, engine=engine, address=address, dry_run=True)
    assert isinstance(found, JobPlan)
    return found


def run_job(
    source: Given,
    predictor: Predictor,
    output: str | os.PathLike[str],
    *,
    engine: str = "auto",
    address: str | None = None,
    errors: str | float | None = None,
    restart: bool = False,
    again: str = "",
    progress: Callable[[Outcome], None] | None = None,
    dry_run: bool = False,
    is_beside: bool = False,
    ended: int = 0,
) -> Report | JobPlan:
    """:func:`run`, or with ``dry_run`` :func:`plan`; ``again`` is one of :data:`AGAIN`.

    ``is_beside``: whether a child of this process joins Ray. ``ended``: processes that did this job
    before this one did, and that a driver ended.
    """
    assert again in AGAIN
    if engine not in ENGINES:
        raise InputError(f"engine={engine!r}: expected one of {', '.join(ENGINES)}")
    if progress is not None and not callable(progress):
        raise InputError(f"progress={progress!r}: expected a function")
    bound = ErrorBound.of(errors)
    files = find_source(source)
    predictor = _named(predictor, files)
    folder = Folder(output)
    check_apart(files, folder.filesystem, folder.path, folder.text)
    files = without_answers(files, folder.filesystem, folder.path)
    found = surveyed(files, predictor.id, predictor.kept)
    job = JobSteps(predictor, found, folder, bound, progress)
    if ended:
        were = "1 process was" if ended == 1 else f"{ended} processes were"
        job.outcome.note(f"{were} ended; new rows, times and rates are those of the last one")
    folder.check_own()
    if dry_run:
        return job.plan(engine, address, again)
    folder.create()
    with folder.held():
        if restart:
            job.clear(engine, address)
        folder.sweep()
        remove_pending(folder)
        return job.run(engine, address, again, is_beside)


def _named(predictor: Predictor, source: RecordSource) -> Predictor:
    """The predictor with the column that names the source's records. Raises InputError."""
    if source.kind == PARQUET:
        return predictor
    if predictor.id not in (None, source.id):
        raise InputError(
            f"there is no column {predictor.id!r} to name records: {source.kind} have {source.id!r}"
        )
    return replace(predictor, id=source.id)
