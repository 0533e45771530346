"""Tuning: every candidate of every problem of a network measured, the fastest kept."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import numpy as np

from vknn import environment
from vknn.errors import DeviceError, NullDeviceError, VknnError
from vknn.graph import Node
from vknn.precision import Precision
from vknn.program import Program
from vknn.runtime import Device
from vknn.runtime.tuning_database import FAILED, TuningEntry, database_file, store, tuning_choices
from vknn.session import Session, engine_of
from vknn.tool_inputs import ProgressCallback, Shapes, complete_feeds, opened
from vknn.tuning.jobs import Contest, Job, find_jobs
from vknn.tuning.report import TuneReport, TuneRow
from vknn.tuning.trial import Result, Trials


def tune(
    model: str | os.PathLike[str] | Session,
    inputs: Mapping[str, np.ndarray] | None = None,
    *,
    runs: int = 5,
    timeout: float = 60.0,
    weights: str | os.PathLike[str] | None = None,
    device: str = "auto",
    precision: Precision = "fp32",
    arithmetic: str = "fp32",
    shapes: Shapes | None = None,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> TuneReport:
    """Measurement of every kernel that could run a layer; later sessions take the fastest.

    Each distinct problem is measured alone, on random data, with all its candidates in turn; the
    shortest time counts. A candidate whose results are wrong, or that fails or takes too long, is
    struck off: candidates run in a process of their own. The winners go into a database in the
    user's cache directory, by device and driver version; sessions opened from then on use them.

    Args:
        model: A model file or an open session.
        inputs: Arrays by name; their shapes are what matters. Random ones stand in for those that
            are missing.
        runs: How often each candidate is timed.
        timeout: Seconds that a candidate may take to get ready and run.
        weights: The model's second file, as for :class:`vknn.Session`.
        device: As for :class:`vknn.Session`; not used where ``model`` is a session. So are
            ``precision`` and ``arithmetic``.
        precision: As for :class:`vknn.Session`.
        arithmetic: As for :class:`vknn.Session`.
        shapes: Shapes of random inputs by name, where the model leaves them open.
        seed: Of random inputs and data.
        progress: Told the number of problems done, of all problems, and what is being measured.

    Returns:
        A report with a row for each problem.

    Raises:
        vknn.DeviceError: There is no Vulkan device that has timestamps.
        vknn.NullDeviceError: The device computes nothing.
        vknn.VknnError: ``runs`` or ``timeout`` is not above 0, the results cannot be kept, or what
            :class:`vknn.Session` and its ``run`` raise.
    """
    if runs < 1 or timeout <= 0:
        raise VknnError(f"runs={runs}, timeout={timeout}: both must be above 0")
    with opened(
        model, weights, device=device, precision=precision, arithmetic=arithmetic
    ) as session:
        device_ = _device(session)
        feeds = complete_feeds(session, inputs, shapes, seed)
        program = engine_of(session).program(feeds)
        goes_on = program.graph.continuation is not None
        if goes_on or not all(node.is_static for node in program.graph.nodes):
            session.run(feeds)  # what lies behind data, branches too, is compiled by running
        jobs = find_jobs(_static_nodes(program), device_.limits, engine_of(session).target.options)
        name = program.graph.name if isinstance(model, Session) else str(model)
        return tune_jobs(
            jobs, device_, name, runs=runs, timeout=timeout, seed=seed, progress=progress
        )


def tune_jobs(
    jobs: list[Job],
    device: Device,
    model: str,
    *,
    runs: int = 5,
    timeout: float = 60.0,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> TuneReport:
    """Measurement of jobs on a device; remembers the winners as they come."""
    tell = progress or (lambda done, total, what: None)
    path = database_file(environment.read().cache_path(), device.snapshot)
    before = tuning_choices(device.snapshot)
    rows = []
    with Trials(device.snapshot, runs=runs, timeout=timeout, seed=seed) as trials:
        for number, job in enumerate(jobs):
            tell(number, len(jobs), job.layers[0] if job.layers else job.op.type_name)
            results = [(contest, trials.run(job, contest)) for contest in job.contests]
            store(path, {job.choice_key(c): _entry(r) for c, r in results if r.winner is not None})
            rows += [_row(job, contest, result, before) for contest, result in results]
    tell(len(jobs), len(jobs), "done")
    return TuneReport(model, device.name, str(path), tuple(rows))


def _device(session: Session) -> Device:
    if session.device is None:
        raise DeviceError("NumPy has no kernels to choose from: tuning needs a Vulkan device")
    if session.device.snapshot.is_null:
        raise NullDeviceError(f"{session.device.name} computes nothing: it has no times to measure")
    if "timestamps" not in session.device.limits.features:
        raise DeviceError(f"{session.device.name} has no timestamps: its kernels cannot be timed")
    return session.device


def _static_nodes(program: Program) -> Iterator[Node]:
    """The nodes whose types are known, those of subprograms included."""
    yield from (node for node in program.graph.nodes if node.is_static)
    for subprogram in program.subprograms:
        yield from _static_nodes(subprogram)


def _entry(result: Result) -> TuningEntry:
    assert result.winner is not None
    tried: dict[str, float | str] = dict(result.times)
    tried.update(dict.fromkeys(result.failures, FAILED))
    return TuningEntry(result.winner, result.times[result.winner], tried)


def _row(job: Job, contest: Contest, result: Result, before: Mapping[str, str]) -> TuneRow:
    ordered = dict(sorted(result.times.items(), key=lambda item: item[1]))
    return TuneRow(
        op=job.op.type_name,
        layers=tuple(job.layers),
        key=job.key,
        form=contest.form,
        times=ordered,
        failures=result.failures,
        winner=result.winner,
        previous=job.before(contest, before),
    )
