"""Analysis of a plan's dispatches for a static profile: counts, modelled times, flags."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vknn.plan import Barrier, Copy, DeviceLimits, Dispatch, Fill, Plan
from vknn.profiling.invocation import Counts, NotCounted, TargetSizes, counts
from vknn.profiling.modelled import Assumptions, GpuMachine, ModelledTime, Work, known_machine
from vknn.profiling.modelled.assembly import FORM
from vknn.profiling.modelled.rdna import kernel_cost
from vknn.profiling.modelled.times import from_code, from_counts, of_transfer
from vknn.profiling.static_entry import NAMES, StaticEntry
from vknn.profiling.static_floors import flags, waves_in_flight
from vknn.runtime.executor import Executable
from vknn.runtime.machines import is_rdna
from vknn.runtime.pipeline_statistics import FEATURE, CompiledPipeline
from vknn.runtime.refusals import refusal

#: Flag of a dispatch whose pipeline the driver crashes or hangs at.
NOT_COMPILED = "not compiled"


@dataclass(frozen=True)
class Compiled:
    """A dispatch, its module, its pipeline, and the number of barriers that stand before it."""

    dispatch: Dispatch
    spirv: bytes
    pipeline: CompiledPipeline
    barriers: int


def compiled(executable: Executable, limits: DeviceLimits, *, texts: bool) -> list[Compiled]:
    """The dispatches of a plan; without numbers where the driver does not tell any.

    ``texts``: with the compiler's texts, which :func:`entry` reads where it can, too.
    """
    dispatches = executable.plan.dispatches
    if FEATURE in limits.features:
        machine = known_machine(limits)
        wanted = texts or (machine is not None and machine.reads_code)
        pipelines = executable.compiled(texts=wanted)
    else:
        size = limits.subgroup_size
        pipelines = [CompiledPipeline(size, {}, {}, refusal(d)) for d in dispatches]
    parts = zip(
        dispatches, executable.modules(), pipelines, _barriers(executable.plan), strict=True
    )
    return [Compiled(*part) for part in parts]


def entries(
    executable: Executable,
    made: Sequence[Compiled],
    limits: DeviceLimits,
    assumptions: Assumptions,
    *,
    texts: bool = False,
) -> list[StaticEntry]:
    """Entries of a plan's dispatches (``made``), fills and copies, in its order.

    ``texts``: with the texts of machine code, where ``made`` has them.
    """
    plan, found, dispatches = executable.plan, [], iter(made)
    for step, barriers in _commands(plan):
        if isinstance(step, Dispatch):
            found.append(entry(next(dispatches), limits, assumptions, texts=texts))
        else:
            found.append(_transfer(plan, step, barriers, limits, assumptions))
    return found


def _transfer(
    plan: Plan, step: Fill | Copy, barriers: int, limits: DeviceLimits, assumptions: Assumptions
) -> StaticEntry:
    """Entry of a fill or copy, which the driver's compiler has no part in."""
    machine = known_machine(limits)
    fills = isinstance(step, Fill)
    nbytes = plan.buffers[step.buffer].nbytes if isinstance(step, Fill) else 2 * step.nbytes
    modelled = None if machine is None else of_transfer(nbytes, barriers, machine, assumptions)
    none: dict[str, int | None] = dict.fromkeys(NAMES)
    return StaticEntry(
        step.nodes,
        "fill" if fills else "copy",
        step.label,
        (0, 0, 0),
        (0, 0, 0),
        0,
        None,
        statistics={},
        counts=None,
        hot=None,
        not_counted="",
        modelled=modelled,
        flags=(),
        texts={},
        **none,
    )


def entry(
    compiled: Compiled, limits: DeviceLimits, assumptions: Assumptions, *, texts: bool = False
) -> StaticEntry:
    """The entry of a dispatch: the driver's numbers, counts, modelled time and flags."""
    dispatch, pipeline = compiled.dispatch, compiled.pipeline
    size = pipeline.subgroup_size
    numbers = {name: _number(pipeline.statistics, named) for name, named in NAMES.items()}
    found, why = counted(compiled, limits)
    missing = (NOT_COMPILED,) if pipeline.refusal else ()
    constants = dict(dispatch.specialization)
    x, y, z = (int(constants.get(number, 1)) for number in range(3))
    subgroups = math.prod(dispatch.groups) * -(-x * y * z // size) if size else None
    return StaticEntry(
        dispatch.nodes,
        dispatch.kernel,
        dispatch.label,
        dispatch.groups,
        (x, y, z),
        size,
        subgroups,
        statistics=pipeline.statistics,
        counts=None if found is None else found.whole,
        hot=None if found is None else found.hot,
        not_counted=why,
        modelled=None if missing else modelled(compiled, found, limits, assumptions),
        flags=(*missing, *flags(numbers, pipeline.statistics, size, rdna=is_rdna(limits.name))),
        texts=_machine_code(pipeline) if texts else {},
        **numbers,
    )


def counted(compiled: Compiled, limits: DeviceLimits) -> tuple[Counts | None, str]:
    """Counts of an invocation, or None and why there are none."""
    dispatch = compiled.dispatch
    texels = tuple((n, b.format.texel_bytes) for n, b in enumerate(dispatch.bindings))
    target = TargetSizes(compiled.pipeline.subgroup_size or limits.subgroup_size, texels)
    constants = dict(dispatch.specialization)
    try:
        return counts(compiled.spirv, constants, dispatch.push, dispatch.groups, target), ""
    except NotCounted as error:
        return None, str(error)


def modelled(
    compiled: Compiled, found: Counts | None, limits: DeviceLimits, assumptions: Assumptions
) -> ModelledTime | None:
    """Modelled time of a dispatch of such counts; None for devices that the model does not know."""
    machine = known_machine(limits)
    if machine is None or found is None:
        return None
    size = compiled.pipeline.subgroup_size or limits.subgroup_size
    groups = math.prod(compiled.dispatch.groups)
    work = Work(
        counts=found,
        waves=groups * -(-math.prod(found.local) // size),
        groups=groups,
        wave=size,
        held=_held(compiled.pipeline, machine, size, assumptions),
        nbytes=compiled.dispatch.nbytes,
        barriers=compiled.barriers,
    )
    text = compiled.pipeline.texts.get(FORM)
    if not machine.reads_code or text is None:
        return from_counts(work, machine, assumptions)
    return from_code(kernel_cost(text, size, machine, assumptions), work, machine, assumptions)


def _held(
    pipeline: CompiledPipeline, machine: GpuMachine, size: int, assumptions: Assumptions
) -> int:
    """Waves of a SIMD that may be in flight."""
    waves = _number(pipeline.statistics, NAMES["waves"])
    if waves is None:
        return assumptions.waves
    held = waves_in_flight(waves, size, rdna=machine.rdna > 0)
    return max(1, held // machine.counted_by)


def _barriers(plan: Plan) -> list[int]:
    """Barriers before each dispatch, since the command before it."""
    return [barriers for step, barriers in _commands(plan) if isinstance(step, Dispatch)]


def _commands(plan: Plan) -> Iterator[tuple[Dispatch | Fill | Copy, int]]:
    """The commands, each with the barriers between it and the one before it."""
    barriers = 0
    for step in plan.steps:
        if isinstance(step, Barrier):
            barriers += 1
        else:
            yield step, barriers
            barriers = 0


def _machine_code(pipeline: CompiledPipeline) -> dict[str, str]:
    """The last of the compiler's forms, which is the one that runs."""
    return dict(list(pipeline.texts.items())[-1:])


def _number(statistics: Mapping[str, float], names: Sequence[str]) -> int | None:
    return next((int(statistics[name]) for name in names if name in statistics), None)
