"""Worker: the process in which candidates are tried, so that a crash is not the user's.

Requests come in pickled, behind their length, through standard input; answers go out as JSON, a
line each, through what was standard output.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import struct
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from vknn.crosscheck.comparison import compare
from vknn.crosscheck.storage import HALF_SUMS, UNITS, as_held
from vknn.crosscheck.tolerance import allowances
from vknn.errors import DeviceError, DeviceLostError, DeviceTimeoutError, VknnError
from vknn.formats import TensorSpec
from vknn.lowering import candidates, lower
from vknn.lowering.choose.tuned_choices import form_of
from vknn.runtime import Device, Executable, open_device
from vknn.tool_inputs import random_array
from vknn.tuning.jobs import LAYER, Contest, Job

#: A candidate runs at most so many times in a row, for so many seconds.
REPEATS, SHORT = 5, 0.005
#: Bytes of a request.
HEAD = struct.Struct("<Q")
#: Errors after which the device cannot be used for the next candidate.
FATAL = (DeviceLostError, DeviceTimeoutError)


@dataclass(frozen=True)
class Open:
    """Opening of the device of this selector, which must have this UUID. ``timeout``: of a run."""

    selector: str
    uuid: bytes
    timeout: float


@dataclass(frozen=True, eq=False)
class Pose:
    """The problem that measurements are made of from now on."""

    job: Job
    seed: int = 0


@dataclass(frozen=True)
class Measure:
    """A run of a candidate; the first time it is made ready and its results are checked."""

    contest: Contest
    name: str


Request = Open | Pose | Measure


@dataclass(eq=False)
class _Posed:
    """The problem at hand: its arrays, and the candidates that are ready."""

    job: Job
    inputs: list[np.ndarray | None]
    expected: tuple[np.ndarray, ...]
    ready: dict[tuple[str, str], Executable] = field(default_factory=dict)

    @property
    def feeds(self) -> dict[str, np.ndarray]:
        pairs = zip(self.inputs, self.job.constants, strict=True)
        return {f"x{i}": a for i, (a, c) in enumerate(pairs) if a is not None and c is None}


class TuningWorker:
    """Worker that answers requests."""

    def __init__(self) -> None:
        self._device: Device | None = None
        self._timeout = 0.0
        self._posed: _Posed | None = None
        self._made = ExitStack()

    def answer(self, request: Request) -> dict[str, Any]:
        """The answer to a request; its "failed" says why the request came to nothing."""
        try:
            match request:
                case Open():
                    return self._open(request)
                case Pose():
                    return self._pose(request)
                case Measure():
                    return {"microseconds": self._measure(request)}
        except FATAL as error:
            return {"failed": _describe(error), "fatal": True}
        except Exception as error:
            return {"failed": _describe(error)}

    def _open(self, request: Open) -> dict[str, Any]:
        self._device = open_device(request.selector)
        self._timeout = request.timeout
        if self._device.snapshot.uuid != request.uuid:
            raise DeviceError(f"{request.selector} is {self._device.name} now, another device")
        return {}

    def _pose(self, request: Pose) -> dict[str, Any]:
        self._made.close()
        self._made, self._posed = ExitStack(), None
        job = request.job
        random = np.random.default_rng(request.seed)
        inputs: list[np.ndarray | None] = []
        for index, (type_, constant) in enumerate(zip(job.types, job.constants, strict=True)):
            made = None
            if type_ is not None and constant is None:
                spec = TensorSpec(f"x{index}", type_.shape, type_.dtype.numpy)
                made = random_array(spec, type_.shape, random)
            inputs.append(constant if made is None else made)
        if job.options.half:
            inputs = as_held(job.op, inputs, job.options.precision)
        with np.errstate(all="ignore"):
            expected = tuple(np.asarray(r) for r in job.op.reference(*inputs))
        self._posed = _Posed(job, inputs, expected)
        return {}

    def _measure(self, request: Measure) -> float:
        """Microseconds from the begin of the candidate's first command to the end of its last.

        Short candidates are run several times over: other work of the machine disturbs them more.
        """
        posed = self._posed
        assert posed is not None
        place = (request.contest.form, request.name)
        if place not in posed.ready:
            posed.ready[place] = self._prepare(posed, request)
        executable = posed.ready[place]
        own = np.array([LAYER in c.nodes for c in executable.plan.commands], bool)
        times: list[float] = []
        start = time.perf_counter()
        while not times or (len(times) < REPEATS and time.perf_counter() - start < SHORT):
            spans = executable.profile(posed.feeds).spans[own]
            times.append(float(spans.max() - spans.min()) / 1e3 if spans.size else 0.0)
        return min(times)

    def _prepare(self, posed: _Posed, request: Measure) -> Executable:
        assert self._device is not None
        job, contest = posed.job, request.contest
        options = dataclasses.replace(
            job.options, algorithm=request.name, layout=contest.layout, choices={}
        )
        graph, limits = job.graph(), self._device.limits
        offered = candidates(graph.nodes[0], limits, options)
        if [(c.name, form_of(c)) for c in offered] != [(request.name, contest.form)]:
            raise VknnError("it is not offered")
        plan = lower(graph, limits, options)
        executable = Executable(self._device, plan, timeout=self._timeout)
        with ExitStack() as undo:
            undo.callback(executable.close)
            _check(posed, executable.run(posed.feeds))
            executable.check_guards()
            undo.pop_all()
        self._made.callback(executable.close)
        return executable


def _check(posed: _Posed, results: Mapping[str, np.ndarray]) -> None:
    """Raises VknnError where results are further from the reference than arithmetic explains."""
    storage = UNITS[posed.job.options.precision]
    sums = HALF_SUMS if posed.job.options.half_sums else 0.0
    bounds = allowances(posed.job.op, posed.inputs, posed.expected, storage=storage, sums=sums)
    for index, (expected, bound) in enumerate(zip(posed.expected, bounds, strict=True)):
        result = compare(results[f"y{index}"], expected, bound)
        if not result.ok:
            found = result.problem or (
                f"{result.actual!r} instead of {result.expected!r} at {list(result.worst or ())}, "
                f"{result.excess:.2g} times what is allowed"
            )
            raise VknnError(f"wrong results: {found}")


def _describe(error: Exception) -> str:
    return str(error) if isinstance(error, VknnError) else f"{type(error).__name__}: {error}"


class Answering(Protocol):
    """Whoever answers requests; an answer that is "fatal" is the last one."""

    def answer(self, request: Any) -> dict[str, Any]: ...


def main() -> None:
    """The process of a tuning worker."""
    serve(TuningWorker())


def serve(worker: Answering) -> None:
    """Loop of answers until standard input ends or the device is of no more use."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever libraries print must not mix with the answers
    while head := sys.stdin.buffer.read(HEAD.size):
        raw = sys.stdin.buffer.read(HEAD.unpack(head)[0])
        answer = _answer(worker, raw)
        print(json.dumps(answer), file=answers, flush=True)
        if answer.get("fatal"):
            os._exit(1)  # closing would wait for a device that does not answer


def _answer(worker: Answering, raw: bytes) -> dict[str, Any]:
    try:
        request = pickle.loads(raw)
    except Exception as error:  # an op's module may be out of reach
        return {"failed": f"the problem cannot be handed over: {_describe(error)}"}
    return worker.answer(request)
