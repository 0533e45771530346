"""Plans as records of a bundle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vknn.bundle import schema
from vknn.bundle.module_rules import facts_of, words_of
from vknn.bundle.needs import Needs, needs
from vknn.bundle.plan_rules import check_plan
from vknn.bundle.schema import NONE, BufferRole, StepKind
from vknn.bundle.tables import Tables
from vknn.plan import Access, Barrier, Copy, DeviceLimits, Dispatch, Fill, Plan, Role, Step
from vknn.runtime.pipelines import DESCRIPTOR_TYPES, PipelineKey
from vknn.runtime.recorder import VK_FORMATS
from vknn.runtime.spirv.cooperative import has_matrices

_ROLES = {
    Role.INPUT: BufferRole.INPUT,
    Role.OUTPUT: BufferRole.OUTPUT,
    Role.ACTIVATION: BufferRole.ACTIVATION,
    Role.WEIGHT: BufferRole.WEIGHT,
}
_ACCESS = {Access.READ: 1, Access.WRITE: 2, Access.READ_WRITE: 3}
_NO_STEP: dict[str, object] = {f.name: 0 for f in schema.STEP.fields} | {"groups": [0, 0, 0]}


@dataclass(frozen=True)
class Portrait:
    """A plan and all that a bundle says of it beside its steps.

    ``keys``: the key of each dispatch's pipeline, ``ports``, ``states`` and ``examples`` rows of
    these records; ``limits``: what the plan was made for.
    """

    plan: Plan
    keys: Sequence[PipelineKey]
    limits: DeviceLimits
    target: str
    shapes: str
    precision: str
    ports: Sequence[tuple[object, ...]]
    states: Sequence[tuple[object, ...]] = ()
    examples: Sequence[tuple[object, ...]] = ()


def add_plan(tables: Tables, portrait: Portrait) -> Needs:
    """The records of a plan added to the tables; what it needs.

    Raises ExportError for shaders, work and sizes that no bundle can have.
    """
    plan = portrait.plan
    check_plan(plan, len(portrait.ports))
    facts = facts_of(plan.dispatches, portrait.keys)
    asked = needs(plan, facts, portrait.limits)
    shared: dict[bytes, int] = {}
    for key, fact in zip(portrait.keys, facts, strict=True):
        shared[key.spirv] = max(fact.shared_memory, shared.get(key.spirv, 0))
    pipelines = _pipelines(tables, plan.dispatches, portrait.keys, shared)
    steps = [_step(tables, step, pipelines) for step in plan.steps]
    matrices = [(m.m, m.n, m.k, m.factors, m.sums, 0) for m in asked.matrices]
    row = (
        tables.string(plan.name),
        tables.string(portrait.target),
        tables.string(portrait.shapes),
        tables.string(portrait.precision),
        *tables.add(schema.BUFFER, [_buffer(tables, plan, i) for i in range(len(plan.buffers))]),
        *tables.add(schema.STEP, steps),
        *tables.add(schema.SUBMIT, [(end, 0) for end in plan.submits]),
        *tables.add(schema.PORT, portrait.ports),
        *tables.add(schema.STATE, portrait.states),
        *tables.add(schema.EXAMPLE, portrait.examples),
        *tables.add(schema.MATRIX, matrices),
        [plan.arenas.get(role, 0) for role in (Role.INPUT, Role.OUTPUT, Role.ACTIVATION)],
        int(asked.features),
        asked.storage_range,
        sum(d.flops for d in plan.dispatches),
        asked.vulkan,
        asked.texel_elements,
        list(asked.group_size),
        asked.group_invocations,
        list(asked.group_count),
        asked.shared_memory,
        asked.push_bytes,
        asked.storage_buffers,
        asked.uniform_texel_buffers,
        asked.storage_texel_buffers,
        asked.storage_alignment,
        asked.texel_alignment,
        asked.subgroup_size,
        asked.loop_rounds,
    )
    tables.add(schema.PLAN, [row])
    return asked


def _buffer(tables: Tables, plan: Plan, index: int) -> tuple[object, ...]:
    buffer = plan.buffers[index]
    is_weight = buffer.role is Role.WEIGHT
    blob = tables.blob(plan.constants[index]) if is_weight else NONE
    offset = 0 if is_weight else buffer.offset
    return tables.string(buffer.name), int(_ROLES[buffer.role]), offset, buffer.nbytes, blob, 0


def _step(tables: Tables, step: Step, pipelines: Iterator[int]) -> tuple[object, ...]:
    """The record of a step; ``pipelines``: of the dispatches that are left."""
    row: dict[str, object] = {**_NO_STEP}
    if not isinstance(step, Barrier):
        row["label"] = tables.string(", ".join(step.nodes))
        row["op"] = tables.string(step.label)
    match step:
        case Barrier():
            row["kind"] = int(StepKind.BARRIER)
        case Copy():
            row |= {
                "kind": int(StepKind.COPY), "source": step.source, "target": step.target,
                "source_offset": step.source_offset, "target_offset": step.target_offset,
                "nbytes": step.nbytes,
            }  # fmt: skip
        case Fill():
            row |= {
                "kind": int(StepKind.FILL),
                "target": step.buffer,
                "word": step.word & 0xFFFFFFFF,
            }
        case Dispatch():
            first, count = tables.add(
                schema.BINDING,
                [
                    (b.buffer, 0 if b.view.name == "STORAGE" else VK_FORMATS[b.format])
                    for b in step.bindings
                ],
            )
            row |= {
                "kind": int(StepKind.DISPATCH), "pipeline": next(pipelines),
                "first_bindings": first, "bindings": count, "push": tables.push(step.push),
                "groups": list(step.groups), "flops": step.flops, "traffic": step.nbytes,
            }  # fmt: skip
    return tuple(row.values())


def _pipelines(
    tables: Tables,
    dispatches: Sequence[Dispatch],
    keys: Sequence[PipelineKey],
    shared: Mapping[bytes, int],
) -> Iterator[int]:
    """The pipeline of each dispatch."""
    known: dict[tuple[object, ...], int] = {}
    for step, key in zip(dispatches, keys, strict=True):
        access = tuple(b.access for b in step.bindings)
        if (key, access) not in known:
            known[key, access] = _pipeline(tables, step, key, shared)
        yield known[key, access]


def _pipeline(tables: Tables, step: Dispatch, key: PipelineKey, shared: Mapping[bytes, int]) -> int:
    slots = [(DESCRIPTOR_TYPES[b.view], _ACCESS[b.access]) for b in step.bindings]
    module, full = tables.module(key.spirv, shared[key.spirv]), has_matrices(key.spirv)
    constants = list(words_of(key).items())
    return tables.pipeline(step.kernel, module, constants, slots, key.push, full)
