"""Work of a null device, in a process of its own: what crashes or hangs there ends nobody else.

    python -m tests.null_devices.child '[{"model": ..., ...}, ...]'

A job prints a line before it starts and a line of JSON when it has ended. The environment picks the
device (tools/null_devices) and switches validation on: any message of its layer is an error.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tests import frozen
from tests.lowering.op_cases import with_epilogues
from tests.null_devices import memory_paths
from tests.null_devices.compiling import FOUND, Compiling, below_floors
from tests.null_devices.gpu_cases import FAMILIES

from vknn.formats.ncnn.random_weights import write_random_weights
from vknn.lowering import LoweringOptions, candidates, lower
from vknn.ops.convolution.conv import Conv
from vknn.ops.elementwise import Fused, FusedStep, Relu
from vknn.plan import Dispatch, Plan
from vknn.profiling import StaticEntry, static, static_analysis
from vknn.profiling.modelled.assumptions import Assumptions
from vknn.runtime import Device, Executable, open_device
from vknn.runtime.pipeline_statistics import FEATURE
from vknn.runtime.snapshot import Snapshot
from vknn.session import Session
from vknn.tool_inputs import complete_feeds

DEVICE = "vulkan:0"
#: Kernels whose loops are more than this multiply; others move or compare.
LEAST_SHARE = 0.2


@contextmanager
def opened(job: dict[str, Any], folder: Path) -> Iterator[tuple[Session, dict[str, Any]]]:
    """The job's model and the shapes of its inputs, weights made up where there are none."""
    weights = None
    model = Path(job["model"])
    if model.suffix == ".param" and not model.with_suffix(".bin").exists():
        weights = folder / f"{model.stem}.bin"
        if not weights.exists():
            write_random_weights(model, weights)
    options = {"precision": job["precision"], "arithmetic": job["arithmetic"]}
    with Session(
        model, weights, device=DEVICE, disable=job.get("disable", ()), **options
    ) as session:
        shapes = {spec.name: tuple(job["shape"]) for spec in session.inputs} if job["shape"] else {}
        yield session, shapes


def stored_feeds(job: dict[str, Any]) -> dict[str, Any]:
    """Inputs of the first run that the file of expected results holds, if the job names one.

    ONNX files leave sizes open, and have inputs whose numbers decide what is run.
    """
    if not job["arrays"]:
        return {}
    with np.load(job["arrays"]) as stored:
        keys = {key: re.fullmatch(r"(?:r0_)?in_(.+?)(_u8)?", key) for key in stored}
        return {
            name[1]: stored[key].astype(np.float32) if name[2] else stored[key]
            for key, name in keys.items()
            if name
        }


def run_static(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A model's static profile: modelled time, floors that it is below, what is not counted."""
    with opened(job, folder) as (session, shapes):
        profile = static(session, shapes=shapes)
        entries = profile.entries
        missing = sorted({e.not_counted for e in entries if e.not_counted})
        found = {"time": profile.time, "violations": profile.violations()}
        found["spilling"] = [e.label for e in entries if e.spilling]
        found["share"] = share_of(entries)
        found["waves"] = min((e.waves for e in entries if e.waves is not None), default=None)
        found["code"] = max((e.code for e in entries if e.code is not None), default=None)
        return {**found, "not_counted": missing, "dispatches": len(entries)}


def share_of(entries: Sequence[StaticEntry]) -> float | None:
    """Multiply-adds' part of the vector instructions' cycles in hot loops, by time; None where no
    machine code is read. Loops of few multiply-adds do not count."""
    pairs = [(e.modelled.busy, e.modelled.share or 0.0) for e in entries if e.modelled is not None]
    products = [(time, share) for time, share in pairs if share > LEAST_SHARE]
    whole = sum(time for time, _ in products)
    return sum(time * share for time, share in products) / whole if whole else None


def run_model(device: Device, job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A model opened, run, streamed and closed, and then its plans by the other way to memory.

    Found are counts of what the plans ask of the device, and by each way which of inputs and
    outputs are staged, of any plan.
    """
    with ExitStack() as undo:
        if job["frozen"]:
            undo.enter_context(frozen.instead())
        with memory_paths.mapped(device), opened(job, folder) as (session, shapes):
            feeds = complete_feeds(session, stored_feeds(job), shapes)
            for _ in range(2):
                session.run(feeds)
            for _ in session.stream([feeds] * 3, errors="raise"):
                pass
            program = session._engine.program(feeds)
            host = {n.op.type_name for n, at in program.placement.items() if at == "host"}
            made = [s.executable for s in program.segments if s.executable is not None]
            mapped = [any(each) for each in zip(*(e._host_io.staged for e in made), strict=True)]
            plans, segments = program.plans, len(program.segments)
        ways = {"mapped": mapped, "staged": _staged(device, plans)}
    return {"host": sorted(host), "segments": segments, **ways, **_counts(plans)}


def _staged(device: Device, plans: list[Plan]) -> list[bool]:
    """Plans run and streamed; whether inputs and outputs were staged."""
    found = []
    for plan in plans:
        feeds = {name: _zeros(port.type) for name, port in plan.inputs.items()}
        with Executable(device, plan) as executable:
            found.append(executable._host_io.staged)
            executable.run(feeds)
            _stream(executable, feeds)
    return [any(each) for each in zip(*found, strict=True)]


def _stream(executable: Executable, feeds: dict[str, Any]) -> None:
    with executable.stream() as stream:
        for _ in range(3):
            while stream.full:
                stream.pop()
            stream.push(feeds)


def run_floors(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Floors that a model's pipelines are below, those of parts that a run compiles included.

    A pipeline that an earlier job of this process had is not looked at again.
    """
    compiling.below, compiling.dispatches = set(), 0
    with compiling.instead(), opened(job, folder) as (session, shapes):
        session.run(complete_feeds(session, stored_feeds(job), shapes))
    return {"below": sorted(compiling.below), "dispatches": compiling.dispatches}


compiling = Compiling()


def of_executable(executable: Executable) -> set[str]:
    """Floors that a plan's pipelines are below."""
    if FEATURE not in executable.device.limits.features:
        return set()
    told = zip(executable.plan.dispatches, executable.compiled(), strict=True)
    return below_floors(executable.device, told)


def run_ops(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Every op case of a family by every candidate: planned, compiled, recorded, run, released."""
    done, below = 0, set[str]()
    options = LoweringOptions(precision=job["precision"], arithmetic=job["arithmetic"])
    with open_device(DEVICE) as device:
        for graph, feeds in _cases(job["family"]):
            for candidate in candidates(graph.nodes[0], device.limits, options):
                wanted = replace(options, algorithm=candidate.name, layout=candidate.outputs[0])
                plan = lower(graph, device.limits, wanted)
                with Executable(device, plan) as executable:
                    executable.run(feeds)
                    below |= {f"{candidate.name}: {text}" for text in of_executable(executable)}
                done += 1
    return {"candidates": done, "below": sorted(below)}


def run_convolutions(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What the compiler made of 3x3 convolutions by a candidate: the dispatches of each."""
    from tests.helpers import single_op_graph

    options = LoweringOptions(precision=job["precision"], algorithm=job["algorithm"])
    op = Fused(Conv((1, 1), (1, 1, 1, 1), (1, 1)), (FusedStep(Relu(), None),))
    found = []
    with open_device(DEVICE) as device:
        for channels_in, channels_out, size in job["convolutions"]:
            shapes = (1, channels_in, size, size), (channels_out, channels_in, 3, 3)
            graph = single_op_graph(op, [np.zeros(s, np.float32) for s in shapes], [1])
            with Executable(device, lower(graph, device.limits, options)) as executable:
                made = static_analysis.compiled(executable, device.limits, texts=False)
                entries = [static_analysis.entry(c, device.limits, Assumptions()) for c in made]
                found.append([{name: getattr(e, name) for name in FOUND} for e in entries])
    return {"dispatches": found}


def run_stream(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A stream of a chain whose copies go by a queue of the family that the job names, if any."""
    from tests.runtime.chains import WEIGHT
    from tests.runtime.plans import chain_plan, shaders

    if job["family"] is not None:
        Snapshot.copy_family = job["family"]
    with open_device(DEVICE) as device:
        core = device.shared.core
        plan = chain_plan(WEIGHT)
        with Executable(device, plan, shaders=shaders) as executable:
            _stream(executable, {"x": WEIGHT})
        return {"families": core.families, "own_queue": core.copies not in (None, core.queue)}


def run_chain(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A chain of dispatches, with the barriers between them or, which is wrong, without."""
    from tests.runtime.chains import WEIGHT
    from tests.runtime.plans import chain_plan, shaders

    with open_device(DEVICE) as device:
        plan = chain_plan(WEIGHT, barriers=job["barriers"])
        with Executable(device, plan, shaders=shaders) as executable:
            executable.run({"x": WEIGHT})
    return {}


def _cases(family: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    cases = list(FAMILIES[family]())
    for case in [*cases, *with_epilogues(cases)]:
        graph = case.graph()
        yield graph, {value.name: _zeros(value.type) for value in graph.inputs}


def _zeros(type_: Any) -> Any:
    return np.zeros(type_.dims, type_.dtype.numpy)


def _counts(plans: list[Plan]) -> dict[str, int]:
    steps = [step for plan in plans for step in plan.steps]
    return {"dispatches": sum(isinstance(step, Dispatch) for step in steps), "steps": len(steps)}


KINDS: dict[str, Callable[[dict[str, Any], Path], dict[str, Any]]] = {
    "static": run_static,
    "floors": run_floors,
    "ops": run_ops,
    "convolutions": run_convolutions,
    "stream": run_stream,
    "chain": run_chain,
}


def main(jobs: list[dict[str, Any]]) -> None:
    # That nothing is computed, and what NumPy says of what comes of that. All else on stderr is
    # the driver's.
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    kinds = dict(KINDS)
    with ExitStack() as undo:
        folder = Path(undo.enter_context(tempfile.TemporaryDirectory()))
        if jobs[0]["kind"] == "model":  # then all are
            kinds["model"] = partial(run_model, undo.enter_context(memory_paths.held(DEVICE)))
        for job in jobs:
            print(f"start {job['name']}", flush=True)
            try:
                found = kinds[job["kind"]](job, folder)
            except Exception as error:
                found = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps({"name": job["name"], **found}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
