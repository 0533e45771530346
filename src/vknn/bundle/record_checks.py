"""Checks of a bundle's records: each table by itself, shaders, and how plans divide the tables.

What a runner checks too (``runner/check.c``), so that tools refuse what it refuses, and nothing
else, but for examples that end within a row of an open axis, which are no arrays. ``plan_checks``
has the rules of a plan's own records, ``shader_rules`` those of modules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vknn.bundle import schema
from vknn.bundle.module_structure import check_module
from vknn.bundle.needs import MOST_ALIGNMENT
from vknn.bundle.plan_checks import PipelineFacts, check_plan
from vknn.bundle.record_rules import (
    RANGES,
    BadRecord,
    Tables,
    check_all,
    check_placed,
    check_range,
)
from vknn.bundle.schema import (
    BLOB_ALIGNMENT,
    MOST_AXES,
    MOST_BYTES,
    MOST_NAME,
    MOST_PORTS,
    MOST_TOLERANCE,
    BufferRole,
    Direction,
    Feature,
    PortElement,
    StepKind,
    TableRecord,
)
from vknn.bundle.shader_rules import (
    MOST_CONSTANTS,
    MOST_SLOTS,
    MOST_VISITS,
    STORAGE,
    STORAGE_TEXEL,
    UNIFORM_TEXEL,
    PipelineParts,
    check_pipeline,
    module_needs,
)
from vknn.errors import ShaderError

_STRINGS = {
    schema.PLAN: ("name", "target", "shapes", "precision"), schema.BUFFER: ("name",),
    schema.STEP: ("label", "op"), schema.PIPELINE: ("kernel",),
    schema.PORT: ("name", "layout", "picture"), schema.LABEL: ("text",), schema.STATE: ("name",),
}  # fmt: skip
_VIEWS = (STORAGE, UNIFORM_TEXEL, STORAGE_TEXEL)


def check_records(tables: Tables, sections: Mapping[str, np.ndarray]) -> None:
    """Check of all records; raises BadRecord for the first that does not fit."""
    _check_texts(tables, sections["strings"])
    _check_reserved(tables)
    _check_stored(tables, sections)
    _check_pipelines(tables)
    _check_steps(tables)
    _check_ports(tables, sections["strings"])
    _check_plans(tables)
    facts = check_shaders(tables, sections["spirv"])
    plans = tables[schema.PLAN]
    for number in range(len(plans)):
        check_plan(plans[number], tables, len(sections["push"]), facts)


def _check_texts(tables: Tables, strings: np.ndarray) -> None:
    for record, fields in _STRINGS.items():
        for field in fields:
            check_all(tables[record][field] < len(strings), record, f"{field} is no text")
    try:
        strings.tobytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRecord("strings", f"no UTF-8 near byte {error.start}") from None


def _check_reserved(tables: Tables) -> None:
    for record in schema.RECORDS:
        if any(field.name == "reserved" for field in record.fields):
            check_all(tables[record]["reserved"] == 0, record, "its reserved bytes are not 0")


def _check_stored(tables: Tables, sections: Mapping[str, np.ndarray]) -> None:
    """Buffers, blobs and modules."""
    buffers, record = tables[schema.BUFFER], schema.BUFFER
    check_all(buffers["role"] <= max(BufferRole), record, "its role is unknown")
    size_fits = (buffers["nbytes"] > 0) & (buffers["nbytes"] <= MOST_BYTES)
    check_all(size_fits, record, "its size is absurd")
    check_all(buffers["offset"] % 4 == 0, record, "its offset is not a multiple of 4")
    blobs, room = tables[schema.BLOB], len(sections["data"])
    check_placed(blobs, room, BLOB_ALIGNMENT, schema.BLOB)
    if sum(blobs["nbytes"].tolist()) > room:
        raise BadRecord("blob", "some lie over each other")
    modules = tables[schema.MODULE]
    check_placed(modules, len(sections["spirv"]), 4, schema.MODULE)
    whole = (modules["nbytes"] % 4 == 0) & (modules["nbytes"] > 20)
    check_all(whole, schema.MODULE, "it is no header and whole words")


def _check_pipelines(tables: Tables) -> None:
    pipelines, slots, record = tables[schema.PIPELINE], tables[schema.SLOT], schema.PIPELINE
    check_all(pipelines["module"] < len(tables[schema.MODULE]), record, "there is no such module")
    check_range(pipelines, "constants", len(tables[schema.CONSTANT]), record)
    check_range(pipelines, "slots", len(slots), record)
    check_all(pipelines["constants"] <= MOST_CONSTANTS, record, f"over {MOST_CONSTANTS} constants")
    check_all(pipelines["slots"] <= MOST_SLOTS, record, f"over {MOST_SLOTS} slots")
    check_all(pipelines["push_bytes"] % 4 == 0, record, "its push constants are no whole words")
    check_all(pipelines["flags"] <= 1, record, "it has unknown flags")
    check_all(np.isin(slots["view"], _VIEWS), schema.SLOT, "its descriptor type is unknown")
    most = np.where(slots["view"] == UNIFORM_TEXEL, 1, 3)
    known = (slots["access"] >= 1) & (slots["access"] <= most)
    check_all(known, schema.SLOT, "its access is unknown, or writes uniform texels")


def _check_steps(tables: Tables) -> None:
    steps = tables[schema.STEP]
    check_all(steps["kind"] <= max(StepKind), schema.STEP, "its kind is unknown")
    check_range(steps, "bindings", len(tables[schema.BINDING]), schema.STEP)
    check_all(steps["push"] % 4 == 0, schema.STEP, "its push constants are no whole words")


def _check_ports(tables: Tables, strings: np.ndarray) -> None:
    """Ports, examples and matrices."""
    ports, record = tables[schema.PORT], schema.PORT
    check_all(ports["direction"] <= max(Direction), record, "its direction is unknown")
    check_all(ports["type"] <= max(PortElement), record, "its type is unknown")
    check_all(ports["rank"] <= MOST_AXES, record, f"it has more than {MOST_AXES} axes")
    check_range(ports, "labels", len(tables[schema.LABEL]), record)
    most = np.float32(MOST_TOLERANCE)
    scaled = (ports["scale"] >= 0) & (ports["scale"] < most)
    check_all((ports["quantized"] <= 1) & scaled, record, "its scale is no number from 0 to 1e30")
    ends = np.flatnonzero(strings == 0)  # the last byte is one
    named, laid = (
        ends[np.searchsorted(ends, ports[field])] - ports[field] for field in ("name", "layout")
    )
    check_all(named < MOST_NAME, record, f"its name has {MOST_NAME} bytes or more")
    # A letter an axis, or none.
    check_all((laid == 0) | (laid == ports["rank"]), record, "its layout is of another rank")
    examples = tables[schema.EXAMPLE]
    check_all(examples["blob"] < len(tables[schema.BLOB]), schema.EXAMPLE, "there is no such blob")
    for field in ("absolute", "relative"):
        good = (examples[field] >= 0) & (examples[field] < most)
        check_all(good, schema.EXAMPLE, f"its {field} tolerance is no number from 0 to 1e30")
    for field in ("m", "n", "k"):
        sizes = tables[schema.MATRIX][field]
        check_all((sizes >= 1) & (sizes <= 1024), schema.MATRIX, f"its {field} is not 1 to 1024")


def _check_plans(tables: Tables) -> None:
    """Plans by themselves, and that each has the records behind those of the one before it."""
    plans, record = tables[schema.PLAN], schema.PLAN
    if not len(plans):
        raise BadRecord("plan", "there is none")
    for field, of in RANGES.items():
        check_range(plans, field, len(tables[of]), record)
        ends = np.cumsum(plans[field], dtype=np.uint64)
        if (plans[f"first_{field}"] != ends - plans[field]).any():
            raise BadRecord("plan", f"plans share {field}, or leave some out between them")
        if int(ends[-1]) != len(tables[of]):
            raise BadRecord(of.name, "there are records of no plan")
    check_all((plans["arenas"] <= MOST_BYTES).all(axis=1), record, "its arenas are absurd")
    known = plans["features"] < 2 * max(Feature)
    check_all(known, record, "it needs features that are not known")
    matrices = (plans["features"] & np.uint64(Feature.COOPERATIVE_MATRIX)) != 0
    check_all(matrices | (plans["matrices"] == 0), record, "it has matrices without the feature")
    check_all(plans["ports"] <= MOST_PORTS, record, f"it has more than {MOST_PORTS} ports")
    check_all(plans["examples"] <= plans["ports"], record, "it has more examples than ports")
    check_all(plans["vulkan"] >> 22 == 1, record, "it needs another Vulkan than 1")
    for field in ("storage_alignment", "texel_alignment"):
        values = plans[field]
        good = _are_powers_of_two(values) & (values <= MOST_ALIGNMENT)
        check_all(good, record, f"its {field} is no power of two up to {MOST_ALIGNMENT}")
    sizes = plans["subgroup_size"]
    check_all((sizes == 0) | _are_powers_of_two(sizes), record, "its subgroup_size is odd")


def check_shaders(tables: Tables, spirv: np.ndarray) -> PipelineFacts:
    """Facts of all pipelines, whose modules are checked with them. Raises BadRecord."""
    bodies, seen = [], 0
    for number, row in enumerate(tables[schema.MODULE]):
        start = int(row["offset"])
        bodies.append(spirv[start : start + int(row["nbytes"])].tobytes())
        seen += _shader(schema.MODULE, number, check_module, bodies[-1])
    pipelines = tables[schema.PIPELINE]
    facts = PipelineFacts.of(len(pipelines))
    if seen >= MOST_VISITS:
        raise BadRecord("module", "modules of an absurd size in all")
    # In the order of their modules, of which few are kept as they were read.
    for number in np.argsort(pipelines["module"], kind="stable").tolist():
        row = pipelines[number]
        parts, module = _parts(tables, number), bodies[int(row["module"])]
        seen += _shader(schema.PIPELINE, number, check_pipeline, module, parts)
        if seen >= MOST_VISITS:
            raise BadRecord("pipeline", f"record {number}: too many pipelines of long modules")
        asked = module_needs(module)
        features = asked.features | (Feature.FULL_SUBGROUPS if row["flags"] else Feature(0))
        facts.features[number], facts.vulkan[number] = int(features), asked.vulkan
        facts.group_size[number] = parts.group_size
        facts.shared_memory[number] = tables[schema.MODULE]["shared_memory"][row["module"]]
        facts.views[number] = [list(parts.views).count(view) for view in _VIEWS]
    return facts


def _parts(tables: Tables, number: int) -> PipelineParts:
    row = tables[schema.PIPELINE][number]
    first = int(row["first_constants"])
    constants = tables[schema.CONSTANT][first : first + int(row["constants"])]
    if len(np.unique(constants["id"])) != len(constants):
        raise BadRecord("pipeline", f"record {number}: it has a constant twice")
    first = int(row["first_slots"])
    views = tables[schema.SLOT]["view"][first : first + int(row["slots"])]
    words = dict(zip(constants["id"].tolist(), constants["word"].tolist(), strict=True))
    return PipelineParts(words, views.tolist(), int(row["push_bytes"]))


def _shader(record: TableRecord, number: int, check: Callable[..., Any], *given: object) -> Any:
    try:
        return check(*given)
    except ShaderError as error:
        raise BadRecord(record.name, f"record {number}: its shader {error}") from None


def _are_powers_of_two(values: np.ndarray) -> np.ndarray:
    found: np.ndarray = (values > 0) & (values & (np.maximum(values, 1) - 1) == 0)
    return found
