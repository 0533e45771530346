"""Checks of a bundle's records: ranges, roles, sizes, and what steps may do with buffers.

What a runner checks too (``runner/check.c``), so that tools refuse what it refuses. That states are
of whole words, which is a rule of the format, is checked here alone. Sums are of 64 bits, of
numbers that are below the file's size or of 32 bits, and so cannot overflow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vknn.bundle import schema
from vknn.bundle.schema import (
    BLOB_ALIGNMENT,
    MOST_AXES,
    MOST_TOLERANCE,
    NONE,
    BufferRole,
    StepKind,
    TableRecord,
)
from vknn.runtime.recorder import VK_FORMATS

Tables = Mapping[TableRecord, np.ndarray]
REMEDY = "copy or export the bundle again"
#: Bytes of an element, by its type.
ELEMENT_BYTES = np.array([4, 2, 1, 1, 2, 2, 4, 4, 8, 8, 1, 8], np.uint64)
#: No buffer, arena or offset is larger: sums of a few of them stay below 64 bits.
_MOST_BYTES = 1 << 60
_STORAGE, _VIEWS = 7, (4, 5, 7)
#: A plan's ranges -> the table that they are of.
_RANGES = {
    "buffers": schema.BUFFER, "steps": schema.STEP, "submits": schema.SUBMIT,
    "ports": schema.PORT, "states": schema.STATE, "examples": schema.EXAMPLE,
    "matrices": schema.MATRIX,
}  # fmt: skip
_STRINGS = {
    schema.PLAN: ("name", "target", "shapes", "precision"), schema.BUFFER: ("name",),
    schema.STEP: ("label", "op"), schema.PIPELINE: ("kernel",),
    schema.PORT: ("name", "layout", "picture"), schema.LABEL: ("text",), schema.STATE: ("name",),
}  # fmt: skip


class BadRecord(Exception):
    """Something in a section that is not as the format says."""

    def __init__(self, section: str, text: str, remedy: str = f": {REMEDY}") -> None:
        super().__init__(f"section {section}: {text}{remedy}")


def check_records(tables: Tables, sections: Mapping[str, np.ndarray]) -> None:
    """Check of all records; raises BadRecord for the first that does not fit."""
    for record, fields in _STRINGS.items():
        for field in fields:
            _all(tables[record][field] < len(sections["strings"]), record, f"{field} is no text")
    _check_shared(tables, sections)
    plans = tables[schema.PLAN]
    if not len(plans):
        raise BadRecord("plan", "there is none")
    for field, of in _RANGES.items():
        _within(plans, field, len(tables[of]), schema.PLAN)
        if int(plans[field].sum(dtype=np.uint64)) > len(tables[of]):
            raise BadRecord("plan", f"plans share {field}")
    for number in range(len(plans)):
        _check_plan(plans[number], tables, sections)


def part(tables: Tables, plan: np.void, field: str) -> np.ndarray:
    """A plan's own records: "buffers", "steps", "submits", "ports", ..."""
    start = int(plan[f"first_{field}"])
    return tables[_RANGES[field]][start : start + int(plan[field])]


def _check_shared(tables: Tables, sections: Mapping[str, np.ndarray]) -> None:
    blobs, modules = tables[schema.BLOB], tables[schema.MODULE]
    _placed(blobs, len(sections["data"]), BLOB_ALIGNMENT, schema.BLOB)
    _placed(modules, len(sections["spirv"]), 4, schema.MODULE)
    _all(modules["nbytes"] % 4 == 0, schema.MODULE, "it has no whole words")
    pipelines, slots = tables[schema.PIPELINE], tables[schema.SLOT]
    _all(pipelines["module"] < len(modules), schema.PIPELINE, "there is no such module")
    _within(pipelines, "constants", len(tables[schema.CONSTANT]), schema.PIPELINE)
    _within(pipelines, "slots", len(slots), schema.PIPELINE)
    _all(pipelines["flags"] <= 1, schema.PIPELINE, "it has unknown flags")
    _all(np.isin(slots["view"], _VIEWS), schema.SLOT, "its descriptor type is unknown")
    _all((slots["access"] >= 1) & (slots["access"] <= 3), schema.SLOT, "its access is unknown")


def _check_plan(plan: np.void, tables: Tables, sections: Mapping[str, np.ndarray]) -> None:
    buffers, steps = part(tables, plan, "buffers"), part(tables, plan, "steps")
    _check_buffers(plan, buffers, tables[schema.BLOB])
    _all(steps["kind"] <= max(StepKind), schema.STEP, "its kind is unknown")
    dispatches = steps[steps["kind"] == StepKind.DISPATCH]
    _check_dispatches(plan, dispatches, buffers, tables, len(sections["push"]))
    _check_copies(steps[steps["kind"] == StepKind.COPY], buffers)
    fills = steps[steps["kind"] == StepKind.FILL]
    _written(fills["target"], buffers)
    _all(buffers["nbytes"][fills["target"]] % 4 == 0, schema.STEP, "a fill of no whole words")
    ends = part(tables, plan, "submits")["end"].astype(np.int64)
    if len(ends) and ((np.diff(ends) < 0).any() or ends[-1] != len(steps)):
        raise BadRecord("submit", "submits do not ascend to the last step")
    if len(steps) and not len(ends):
        raise BadRecord("submit", "steps that no submit has")
    ports = part(tables, plan, "ports")
    _check_ports(ports, buffers, len(tables[schema.LABEL]))
    _check_states(part(tables, plan, "states"), buffers, tables[schema.BLOB])
    _check_examples(part(tables, plan, "examples"), ports, tables[schema.BLOB])


def _check_buffers(plan: np.void, buffers: np.ndarray, blobs: np.ndarray) -> None:
    record = schema.BUFFER
    _all(buffers["role"] <= BufferRole.WEIGHT, record, "its role is unknown")
    _all((buffers["nbytes"] > 0) & (buffers["nbytes"] < _MOST_BYTES), record, "its size is absurd")
    _all(buffers["offset"] % 4 == 0, record, "its offset is not a multiple of 4")
    weights = buffers[buffers["role"] == BufferRole.WEIGHT]
    others = buffers[buffers["role"] != BufferRole.WEIGHT]
    _all(weights["blob"] < len(blobs), record, "a weight has no blob")
    _all(weights["offset"] == 0, record, "a weight has an offset")
    held = blobs["nbytes"][weights["blob"]]
    _all(held <= weights["nbytes"], record, "a weight's blob is larger than its buffer")
    _all(others["blob"] == NONE, record, "an activation has a blob")
    arenas = plan["arenas"][others["role"]]
    _all(others["offset"] < _MOST_BYTES, record, "its offset is absurd")
    _all(others["offset"] + others["nbytes"] <= arenas, record, "it is outside its arena")


def _check_dispatches(
    plan: np.void, steps: np.ndarray, buffers: np.ndarray, tables: Tables, push_bytes: int
) -> None:
    pipelines, slots, record = tables[schema.PIPELINE], tables[schema.SLOT], schema.STEP
    _all(steps["pipeline"] < len(pipelines), record, "there is no such pipeline")
    _within(steps, "bindings", len(tables[schema.BINDING]), record)
    _all((steps["groups"] > 0).all(axis=1), record, "a dispatch of no workgroups")
    used = pipelines[steps["pipeline"]]
    _all(steps["bindings"] == used["slots"], record, "its bindings are not its pipeline's")
    ends = steps["push"].astype(np.uint64) + used["push_bytes"]
    _all(ends <= push_bytes, record, "its push constants are outside their section")
    _all(used["push_bytes"] <= plan["push_bytes"], record, "more push constants than told")
    counts = steps["bindings"].astype(np.int64)
    if int(counts.sum()) > len(tables[schema.BINDING]):
        raise BadRecord("step", "dispatches share bindings")
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    bound = tables[schema.BINDING][np.repeat(steps["first_bindings"], counts) + within]
    seen = slots[np.repeat(used["first_slots"], counts) + within]
    _all(bound["buffer"] < len(buffers), schema.BINDING, "there is no such buffer")
    storage = seen["view"] == _STORAGE
    known = np.isin(bound["format"], list(VK_FORMATS.values()))
    fits = np.where(storage, bound["format"] == 0, known)
    _all(fits, schema.BINDING, "its format does not suit its kind")
    _written(bound["buffer"][seen["access"] != 1], buffers)


def _check_copies(copies: np.ndarray, buffers: np.ndarray) -> None:
    record = schema.STEP
    _all(copies["source"] < len(buffers), record, "a copy reads no buffer")
    _written(copies["target"], buffers)
    for field in ("source_offset", "target_offset", "nbytes"):
        _all(copies[field] < _MOST_BYTES, record, f"a copy's {field} is absurd")
    _all(copies["nbytes"] > 0, record, "a copy of nothing")
    starts = []
    for end in ("source", "target"):
        held, offset = buffers[copies[end]], copies[f"{end}_offset"]
        _all(offset + copies["nbytes"] <= held["nbytes"], record, "a copy leaves its buffer")
        starts.append(held["offset"] + offset)
    read, write = buffers[copies["source"]], buffers[copies["target"]]
    apart = (starts[0] + copies["nbytes"] <= starts[1]) | (
        starts[1] + copies["nbytes"] <= starts[0]
    )
    _all((read["role"] != write["role"]) | apart, record, "a copy overlaps itself")


def _check_ports(ports: np.ndarray, buffers: np.ndarray, labels: int) -> None:
    record = schema.PORT
    _all(ports["direction"] <= 1, record, "its direction is unknown")
    _all(ports["type"] < len(ELEMENT_BYTES), record, "its type is unknown")
    _all(ports["rank"] <= MOST_AXES, record, f"it has more than {MOST_AXES} axes")
    _all(ports["buffer"] < len(buffers), record, "there is no such buffer")
    _within(ports, "labels", labels, record)
    scaled = (ports["scale"] >= 0) & (ports["scale"] < np.float32(MOST_TOLERANCE))
    _all((ports["quantized"] <= 1) & scaled, record, "its scale is no number from 0 to 1e30")
    behind = np.arange(MOST_AXES) >= ports["rank"][:, None]
    _all(((ports["dims"] == 1) | ~behind).all(axis=1), record, "axes behind its last")
    size = ELEMENT_BYTES[ports["type"]]
    held = buffers["nbytes"][ports["buffer"]]
    for axis in range(MOST_AXES):
        dims = ports["dims"][:, axis]
        # Before the product: it is at most that of two numbers below 2^60, or is not made.
        _all((dims == 0) | (size <= held // np.maximum(dims, 1)), record, "larger than its buffer")
        size = size * dims
    counted = ports[ports["count"] != NONE]
    _all(counted["count"] < len(buffers), record, "its count is no buffer")
    _all(buffers["nbytes"][counted["count"]] >= 4, record, "its count is no number")
    _all(counted["open_axis"] < counted["rank"], record, "its open axis is none")
    if len(counted):
        front = np.arange(MOST_AXES) < counted["open_axis"][:, None]
        _all(((counted["dims"] == 1) | ~front).all(axis=1), record, "axes before its open one")


def _check_states(states: np.ndarray, buffers: np.ndarray, blobs: np.ndarray) -> None:
    record = schema.STATE
    for end in ("input", "output"):
        _all(states[end] < len(buffers), record, f"its {end} is no buffer")
        _all(states["nbytes"] <= buffers["nbytes"][states[end]], record, "larger than its buffer")
    _written(states["input"], buffers)
    _all(states["nbytes"] % 4 == 0, record, "its size is not a multiple of 4")
    first = states[states["blob"] != NONE]
    _all(first["blob"] < len(blobs), record, "its first value is no blob")
    _all(blobs["nbytes"][first["blob"]] == first["nbytes"], record, "its first value's size")


def _check_examples(examples: np.ndarray, ports: np.ndarray, blobs: np.ndarray) -> None:
    record = schema.EXAMPLE
    _all(examples["port"] < len(ports), record, "there is no such port")
    _all(examples["blob"] < len(blobs), record, "there is no such blob")
    of = ports[examples["port"]]
    size = ELEMENT_BYTES[of["type"]] * of["dims"].prod(axis=1, dtype=np.uint64)
    held = blobs["nbytes"][examples["blob"]]
    behind = np.where(np.arange(MOST_AXES) > of["open_axis"][:, None], of["dims"], 1)
    row_bytes = np.maximum(ELEMENT_BYTES[of["type"]] * behind.prod(axis=1, dtype=np.uint64), 1)
    fits = np.where(of["count"] == NONE, held == size, (held <= size) & (held % row_bytes == 0))
    _all(fits, record, "its size is not its port's")
    for field in ("absolute", "relative"):
        good = (examples[field] >= 0) & (examples[field] < np.float32(MOST_TOLERANCE))
        _all(good, record, f"its {field} tolerance is no number from 0 to 1e30")


def _written(targets: np.ndarray, buffers: np.ndarray) -> None:
    _all(targets < len(buffers), schema.STEP, "it writes no buffer")
    _all(buffers["role"][targets] != BufferRole.WEIGHT, schema.STEP, "it writes a weight")


def _placed(rows: np.ndarray, size: int, alignment: int, record: TableRecord) -> None:
    _all(rows["offset"] % alignment == 0, record, f"its offset is no multiple of {alignment}")
    inside = (rows["offset"] <= size) & (rows["nbytes"] <= size - np.minimum(rows["offset"], size))
    _all(inside, record, "it is outside its section")


def _within(rows: np.ndarray, field: str, count: int, record: TableRecord) -> None:
    ends = rows[f"first_{field}"].astype(np.uint64) + rows[field]
    _all(ends <= count, record, f"there are not so many {field}")


def _all(good: Any, record: TableRecord, text: str) -> None:
    if not np.all(good):
        raise BadRecord(record.name, f"record {int(np.argmin(good))}: {text}")
