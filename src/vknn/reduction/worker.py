"""Worker: the process in which cases are tried, as they may crash it or hang the driver."""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vknn import __version__, environment, reference
from vknn.crosscheck.comparison import compare
from vknn.crosscheck.cumulative import check_tolerances, widened
from vknn.crosscheck.report import VerifyReport
from vknn.crosscheck.tolerance import Allowance
from vknn.crosscheck.verify import verify
from vknn.errors import DeviceLostError, DeviceTimeoutError, RunTimeoutError, VknnError
from vknn.forked_work import Ended, Forked, signal_name
from vknn.formats.graph_folder.writer import GRAPH
from vknn.formats.layer_files import run_layer_files
from vknn.graph import DType, Graph, Node
from vknn.lowering.choose.candidates import make_problem
from vknn.lowering.choose.tuned_choices import problem_key, problem_of_choice
from vknn.opening import choose_device
from vknn.precision import CUMULATIVE
from vknn.program import Program
from vknn.reduction.spawned import Spawned
from vknn.reduction.verdict import Verdict
from vknn.runtime import Device
from vknn.runtime.quirks import QUIRKS
from vknn.session import Session, engine_of
from vknn.tuning.worker import serve

#: Rewrites add up in another order, and fold factors into weights: each result may be this many
#: times further off than one that was computed in the same order.
_REORDERED = 10.0


@dataclass(frozen=True)
class TrialSetting:
    """Setting of trials: options as of :func:`vknn.verify`, and files of layers."""

    device: str = "auto"
    precision: str = "fp32"
    arithmetic: str = "fp32"
    disable: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    tolerance: float | None = None
    cumulative_tolerance: float | None = None

    def __post_init__(self) -> None:
        check_tolerances(tolerance=self.tolerance, cumulative_tolerance=self.cumulative_tolerance)


@dataclass(frozen=True)
class Begin:
    """Opening of the device of a setting, once its files of layers have run."""

    setting: TrialSetting
    timeout: float


@dataclass(frozen=True)
class Try:
    """Trial of the case in a folder, in ``timeout`` seconds.

    ``disable``: for VKNN_DISABLE, besides what stands there; it counts for the device, too.
    """

    folder: str
    timeout: float
    disable: tuple[str, ...] = ()


class ForkingWorker:
    """Worker that has each setting of the environment tried by a process of its own, forked if it
    can be."""

    def __init__(self) -> None:
        self._trials = CaseTrials(TrialSetting())
        self._forked: Forked | Spawned | None = None

    def answer(self, request: Begin | Try) -> dict[str, Any]:
        """Facts about the device, or an outcome; "failed" says why the layers' files failed."""
        if isinstance(request, Try):
            return self._asked(request.folder, request.timeout, request.disable)
        self._trials = CaseTrials(request.setting)
        try:
            run_layer_files(request.setting.layers)
        except Exception as error:
            return {"failed": str(error)}
        return self._asked("", request.timeout, ())

    def _asked(self, folder: str, timeout: float, disable: tuple[str, ...]) -> dict[str, Any]:
        names = [*sorted(environment.disabled()), *disable]
        variables = {"VKNN_DISABLE": ",".join(names)}
        if self._forked is not None and self._forked.variables != variables:
            self._forked.close()
            self._forked = None
        if self._forked is None:
            if hasattr(os, "fork"):
                self._forked = Forked(self._trials.answer, variables)
            else:
                self._forked = Spawned(self._trials.setting, variables)
        answer = self._forked.ask(folder, timeout)
        if isinstance(answer, Ended):
            self._forked = None
            return _ended(answer.code, timeout).to_dict()
        if answer.pop("fatal", False):
            self._forked.close()
            self._forked = None
        return answer


def _ended(code: int | None, timeout: float) -> Verdict:
    if code is None:
        return Verdict("hung", f"no answer within {timeout:g} s")
    return Verdict("died", f"the process died: {signal_name(code)}", signal_name(code))


@dataclass(eq=False)
class CaseTrials:
    """Trials of cases, on a device that is opened at the first."""

    setting: TrialSetting
    device: Device | None = None
    opened: bool = False

    def answer(self, folder: str) -> dict[str, Any]:
        """The outcome of a folder's case; of none facts about the device."""
        try:
            if not self.opened:
                self.device, self.opened = choose_device(self.setting.device), True
            if not folder:
                return {"facts": facts(self.device)}
            return self._try(folder).to_dict()
        except (DeviceTimeoutError, RunTimeoutError) as error:
            return Verdict("hung", str(error)).to_dict() | {"fatal": True}
        except DeviceLostError as error:
            return _raised(error, folder).to_dict() | {"fatal": True}
        except Exception as error:
            return _raised(error, folder).to_dict()

    def _try(self, folder: str) -> Verdict:
        own = self.setting
        with Session(
            Path(folder),
            device=self.device or "numpy",
            precision=own.precision,
            arithmetic=own.arithmetic,
            disable=own.disable,
        ) as session:
            report = verify(
                session,
                tolerance=own.tolerance,
                cumulative_tolerance=own.cumulative_tolerance,
            )
            program = engine_of(session).program(session.model.recorded)
            outcome = self._outcome(session, report, program)
            return dataclasses.replace(outcome, choices=_choices(session, program))

    def _outcome(self, session: Session, report: VerifyReport, program: Program) -> Verdict:
        if not report.ok:
            return _wrong(report, program)
        other = _rewritten(session, program)
        if other is not None:
            return dataclasses.replace(other, kernels=_kernels(program, other.layers))
        kind = "agrees" if report.checked else "unchecked"
        return Verdict(kind, report.summary(), kernels=_kernels(program, ""))


def _choices(session: Session, program: Program) -> dict[str, str]:
    """The choices of ``vknn tune`` for problems of a program's nodes."""
    options = engine_of(session).target.options
    if not options.choices or session.device is None:
        return {}
    limits = session.device.limits
    problems = {
        problem_key(make_problem(node, limits, options))
        for node in program.graph.nodes
        if program.placement[node] == "vulkan"
    }
    return {k: c for k, c in options.choices.items() if problem_of_choice(k) in problems}


def facts(device: Device | None) -> dict[str, Any]:
    """Facts about where a report was made: device, driver, versions."""
    found: dict[str, Any] = {
        "device": "NumPy",
        "driver": "",
        "vulkan": "",
        "quirks": {},
        "vknn": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }
    if device is None:
        return found
    own = device.snapshot
    quirks = {q.name: sorted(q.disables) for q in QUIRKS if q.applies(own)}
    return found | {
        "device": own.name,
        "driver": f"{own.driver_name} {own.driver_info}".strip(),
        "vulkan": ".".join(map(str, own.api_version)),
        "quirks": quirks,
    }


def _wrong(report: VerifyReport, program: Program) -> Verdict:
    row = report.first_failure
    if row is None or row.isolated is None or row.isolated.ok:
        kernels = _kernels(program, "")
        return Verdict("wrong", report.summary(), "together", kernels=kernels)
    kernels = _kernels(program, row.layer)
    return Verdict("wrong", report.summary(), "alone", row.layer, row.op, kernels)


def _raised(error: Exception, folder: str) -> Verdict:
    name = type(error).__name__
    text = str(error) if isinstance(error, VknnError) else f"{name}: {error}"
    return Verdict("error", text.replace(f"{folder}/{GRAPH}: ", ""), name)


def _kernels(program: Program, layer: str) -> tuple[str, ...]:
    """Labels of the kernels of a layer (empty: of all), each once."""
    labels = [
        step.label
        for plan in program.plans
        for step in plan.commands
        if not layer or layer in step.nodes
    ]
    for further in program.subprograms:
        labels += _kernels(further, layer)
    return tuple(dict.fromkeys(labels))


def _rewritten(session: Session, program: Program) -> Verdict | None:
    """How the rewritten graph computes something else than the graph as it was read, with NumPy.

    None where they agree, and where roundings to integers or chance decide.
    """
    engine = engine_of(session)
    feeds: Mapping[str, np.ndarray] = session.model.recorded
    graph, after = engine.graph(feeds), program.graph
    if graph.continuation is not None or not _comparable(graph, after):
        return None
    arrays = engine.encode(feeds)
    halves = any(v.type.dtype is DType.FLOAT16 for v in graph.values())
    share = _REORDERED * CUMULATIVE["fp16" if halves else "fp32", "fp32"]
    wanted: dict[str, np.ndarray] = {}
    ends = reference.run(graph, arrays, observe=_keep(wanted))
    values: dict[str, np.ndarray] = {}
    found = reference.run(after, arrays, observe=_keep(values))
    for name, expected in ends.items():
        seen = _unlike(found[name], expected, share)
        if seen is not None:
            text = f"output {name!r} of the rewritten graph is another, with NumPy alone: {seen}"
            return Verdict("rewritten", text, layers=_first_unlike(after, values, wanted, share))
    return None


def _keep(arrays: dict[str, np.ndarray]) -> reference.Observer:
    """Observer of a run that keeps results by the names of values."""

    def keep(node: Node, results: tuple[np.ndarray, ...]) -> None:
        arrays.update((v.name, r) for v, r in zip(node.outputs, results, strict=True))

    return keep


def _first_unlike(
    graph: Graph, values: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray], share: float
) -> str:
    """The first layer whose result is another, among those of the same name; or ""."""
    for node in graph.nodes:
        for name in (v.name for v in node.outputs if v.name in wanted):
            same = values[name].shape == wanted[name].shape
            if same and _unlike(values[name], wanted[name], share) is not None:
                return node.origin.name
    return ""


def _unlike(found: np.ndarray, expected: np.ndarray, share: float) -> str | None:
    """How an array is another than the one expected; None where it is not, or no numbers."""
    if expected.dtype.kind not in "fiub":
        return None
    exact = Allowance(np.abs(expected), np.zeros(1))
    result = compare(found, expected, widened(exact, expected, share))
    if result.ok:
        return None
    at = list(result.worst or ())
    return result.problem or f"{result.actual!r} instead of {result.expected!r} at {at}"


def _comparable(graph: Graph, after: Graph) -> bool:
    """Whether the same graphs give the same numbers but for the order in which they add up."""
    before = {node.op.type_name for node in graph.nodes}
    integers = {n.op.type_name for n in after.nodes if n.op.type_name.startswith("Quantized")}
    return integers <= before and all(node.op.deterministic for node in graph.nodes)


def main() -> None:
    """The process of a worker."""
    serve(ForkingWorker())
