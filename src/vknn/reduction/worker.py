"""Worker: the process in which cases are tried, as they may crash it or hang the driver."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from vknn import __version__, reference
from vknn.crosscheck.comparison import compare
from vknn.crosscheck.report import VerifyReport
from vknn.crosscheck.tolerance import Allowance
from vknn.crosscheck.verify import CUMULATIVE, verify, widened
from vknn.errors import DeviceLostError, DeviceTimeoutError, RunTimeoutError, VknnError
from vknn.formats.layer_files import run_layer_files
from vknn.graph import DType, Graph
from vknn.opening import choose_device
from vknn.program import Program
from vknn.reduction.outcome import Outcome
from vknn.runtime import Device
from vknn.runtime.quirks import QUIRKS
from vknn.session import Session, engine_of
from vknn.tuning.worker import serve

#: Rewrites add up in another order, and fold factors into weights: each result may be this many
#: times further off than one that was computed in the same order.
_REORDERED = 10.0


@dataclass(frozen=True)
class Setting:
    """How cases are run and judged: options as of :func:`vknn.verify`, and files of layers."""

    device: str = "auto"
    precision: str = "fp32"
    arithmetic: str = "fp32"
    disable: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    tolerance: float | None = None
    cumulative_tolerance: float | None = None


@dataclass(frozen=True)
class Open:
    """Opening of the device of a setting, once its files of layers have run."""

    setting: Setting


@dataclass(frozen=True)
class Try:
    """Trial of the case in a folder."""

    folder: str


@dataclass(eq=False)
class ReductionWorker:
    """Worker that answers requests."""

    setting: Setting = field(default_factory=Setting)
    device: Device | None = None

    def answer(self, request: Open | Try) -> dict[str, Any]:
        """What came of a request: facts about the device, or an outcome; "failed" says why not."""
        try:
            if isinstance(request, Open):
                return self._open(request.setting)
            return self._try(request.folder).to_dict()
        except (DeviceTimeoutError, RunTimeoutError) as error:
            return Outcome("hung", str(error)).to_dict() | {"fatal": True}
        except DeviceLostError as error:
            return _raised(error).to_dict() | {"fatal": True}
        except Exception as error:
            return _raised(error).to_dict()

    def _open(self, setting: Setting) -> dict[str, Any]:
        self.setting = setting
        run_layer_files(setting.layers)
        self.device = choose_device(setting.device)
        return {"facts": facts(self.device)}

    def _try(self, folder: str) -> Outcome:
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
            if not report.ok:
                return _wrong(report, program)
            text = _rewritten(session, program)
            if text is not None:
                return Outcome("rewritten", text, kernels=_kernels(program, ""))
            kind = "agrees" if report.checked else "unchecked"
            return Outcome(kind, report.summary(), kernels=_kernels(program, ""))


def facts(device: Device | None) -> dict[str, Any]:
    """What a report says of where it was made."""
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


def _wrong(report: VerifyReport, program: Program) -> Outcome:
    row = report.first_failure
    if row is None or row.isolated is None or row.isolated.ok:
        kernels = _kernels(program, "")
        return Outcome("wrong", report.summary(), "together", kernels=kernels)
    kernels = _kernels(program, row.layer)
    return Outcome("wrong", report.summary(), "alone", row.layer, row.op, kernels)


def _raised(error: Exception) -> Outcome:
    name = type(error).__name__
    text = str(error) if isinstance(error, VknnError) else f"{name}: {error}"
    return Outcome("error", text, name)


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


def _rewritten(session: Session, program: Program) -> str | None:
    """What the rewritten graph computes otherwise than the graph as it was read, both with NumPy.

    None where they agree, and where roundings to integers or chance decide.
    """
    engine = engine_of(session)
    feeds: Mapping[str, np.ndarray] = session.model.recorded
    graph, after = engine.graph(feeds), program.graph
    if graph.continuation is not None or not _comparable(graph, after):
        return None
    arrays = engine.encode(feeds)
    wanted = reference.run(graph, arrays)
    found = reference.run(after, arrays)
    halves = any(v.type.dtype is DType.FLOAT16 for v in graph.values())
    share = _REORDERED * CUMULATIVE["fp16" if halves else "fp32", "fp32"]
    for name, expected in wanted.items():
        if expected.dtype.kind not in "fiub" or not graph.outputs[name].type.is_static:
            continue
        exact = Allowance(np.abs(expected), np.zeros(1))
        bound = widened(exact, expected, share)
        result = compare(found[name], expected, bound)
        if not result.ok:
            seen = result.problem or (
                f"{result.actual!r} instead of {result.expected!r} at {list(result.worst or ())}"
            )
            return f"output {name!r} of the rewritten graph is another, with NumPy alone: {seen}"
    return None


def _comparable(graph: Graph, after: Graph) -> bool:
    """Whether the same graphs give the same numbers but for the order in which they add up."""
    before = {node.op.type_name for node in graph.nodes}
    integers = {n.op.type_name for n in after.nodes if n.op.type_name.startswith("Quantized")}
    return integers <= before and all(node.op.deterministic for node in graph.nodes)


def main() -> None:
    """The process of a worker."""
    serve(ReductionWorker())
