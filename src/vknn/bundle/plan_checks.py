"""Checks of a plan's own records: buffers, steps, ports, states and examples.

What ``runner/check.c`` checks in its last part; ``record_checks`` has been through all tables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vknn.bundle import schema
from vknn.bundle.record_rules import BadRecord, Tables, check_all, part
from vknn.bundle.schema import (
    MOST_AXES,
    MOST_BYTES,
    MOST_WORK,
    NONE,
    BufferRole,
    Direction,
    StepKind,
)
from vknn.bundle.shader_rules import STORAGE
from vknn.runtime.recorder import VK_FORMATS

#: Bytes of an element, by its type.
ELEMENT_BYTES = np.array([4, 2, 1, 1, 2, 2, 4, 4, 8, 8, 1, 8], np.uint64)
_BY_NUMBER = {
    number: format_.texel_bytes
    for format_, number in sorted(VK_FORMATS.items(), key=lambda item: item[1])
}
_FORMATS = np.array([*_BY_NUMBER], np.uint32)
_TEXEL_BYTES = np.array([*_BY_NUMBER.values()], np.uint64)
#: Dispatches that are looked at together.
_AT_ONCE = 1 << 14


@dataclass(frozen=True, eq=False)
class PipelineFacts:
    """Facts of pipelines, by their numbers.

    ``features``, ``vulkan`` (its minor version), ``shared_memory``: what they need; ``group_size``:
    in x, y, z; ``views``: how many storage buffers, uniform and storage texel buffers they bind.
    """

    features: np.ndarray
    vulkan: np.ndarray
    shared_memory: np.ndarray
    group_size: np.ndarray
    views: np.ndarray

    @classmethod
    def of(cls, count: int) -> PipelineFacts:
        """Facts of so many pipelines, to be filled in."""
        shapes = (count, count, count, (count, 3), (count, 3))
        return cls(*(np.zeros(shape, np.uint64) for shape in shapes))


def check_plan(plan: np.void, tables: Tables, push_bytes: int, facts: PipelineFacts) -> None:
    """Check of a plan; ``push_bytes``: of their section. Raises BadRecord."""
    buffers, steps = part(tables, plan, "buffers"), part(tables, plan, "steps")
    _check_buffers(plan, buffers, tables[schema.BLOB])
    for field in ("flops", "traffic"):
        if sum(steps[field].tolist()) >= 1 << 64:
            raise BadRecord("step", f"its plan's {field} are more than 64 bits")
    dispatches = steps[steps["kind"] == StepKind.DISPATCH]
    work = _check_dispatches(plan, dispatches, tables, push_bytes, facts)
    _check_bindings(plan, dispatches, buffers, tables)
    copies = steps[steps["kind"] == StepKind.COPY]
    _check_copies(copies, buffers)
    fills = steps[steps["kind"] == StepKind.FILL]
    _written(fills["target"], buffers)
    whole = buffers["nbytes"][fills["target"]] % 4 == 0
    check_all(whole, schema.STEP, "a fill of no whole words")
    _check_submits(part(tables, plan, "submits")["end"].astype(np.int64), len(steps))
    ports = part(tables, plan, "ports")
    states, examples = part(tables, plan, "states"), part(tables, plan, "examples")
    sizes = _check_ports(ports, buffers)
    _check_states(states, buffers, tables[schema.BLOB])
    _check_examples(examples, ports, tables[schema.BLOB])
    for moved in (copies["nbytes"], buffers["nbytes"][fills["target"]], sizes, states["nbytes"]):
        work += sum((moved // 4).tolist())
    work += 16 * sum(tables[schema.BLOB]["nbytes"][examples["blob"]].tolist())
    if work > MOST_WORK:
        raise BadRecord("step", f"a run is work of {work:,}, at most {MOST_WORK:,}")


def _check_submits(ends: np.ndarray, steps: int) -> None:
    ascend = (np.diff(ends, prepend=0) > 0).all() or not steps
    if not ascend or (ends > steps).any() or int(ends[-1] if len(ends) else 0) != steps:
        raise BadRecord("submit", "submits do not ascend to the last step")


def _check_buffers(plan: np.void, buffers: np.ndarray, blobs: np.ndarray) -> None:
    record = schema.BUFFER
    weights = buffers[buffers["role"] == BufferRole.WEIGHT]
    others = buffers[buffers["role"] != BufferRole.WEIGHT]
    check_all(weights["blob"] < len(blobs), record, "a weight has no blob")
    check_all(weights["offset"] == 0, record, "a weight has an offset")
    held = blobs["nbytes"][weights["blob"]]
    check_all(held <= weights["nbytes"], record, "a weight's blob is larger than its buffer")
    if sum(weights["nbytes"].tolist()) > MOST_BYTES:
        raise BadRecord("buffer", "weights of an absurd size in all")
    check_all(others["blob"] == NONE, record, "an activation has a blob")
    arenas = plan["arenas"][others["role"]]
    check_all(others["offset"] <= MOST_BYTES, record, "its offset is absurd")
    check_all(others["offset"] + others["nbytes"] <= arenas, record, "it is outside its arena")


def _check_dispatches(
    plan: np.void, steps: np.ndarray, tables: Tables, push_bytes: int, facts: PipelineFacts
) -> int:
    """The number of invocations."""
    pipelines, record = tables[schema.PIPELINE], schema.STEP
    numbers = steps["pipeline"]
    check_all(numbers < len(pipelines), record, "there is no such pipeline")
    used = pipelines[numbers]
    check_all(steps["bindings"] == used["slots"], record, "its bindings are not its pipeline's")
    ends = steps["push"].astype(np.uint64) + used["push_bytes"]
    check_all(ends <= push_bytes, record, "its push constants are outside their section")
    told = "more {} than told".format
    missing = facts.features[numbers] & ~plan["features"]
    check_all(missing == 0, record, told("features"))
    check_all(facts.vulkan[numbers] <= (plan["vulkan"] >> 12 & 1023), record, told("of Vulkan"))
    check_all(used["push_bytes"] <= plan["push_bytes"], record, told("push constants"))
    shared = facts.shared_memory[numbers] <= plan["shared_memory"]
    check_all(shared, record, told("shared memory"))
    invocations = np.ones(len(steps), np.uint64)
    for axis in range(3):
        size = facts.group_size[numbers, axis]
        fits = (size > 0) & (size <= plan["group_size"][axis])
        check_all(fits, record, "a workgroup of no lanes, or larger than told")
        invocations *= size  # of 32 bits each: they are at most that before
        check_all(invocations <= plan["group_invocations"], record, told("lanes"))
    for axis in range(3):
        groups = steps["groups"][:, axis].astype(np.uint64)
        check_all(groups > 0, record, "a dispatch of no workgroups")
        check_all(groups <= plan["group_count"][axis], record, told("workgroups"))
        fits = invocations <= MOST_WORK // np.maximum(groups, 1)
        check_all(fits, record, f"more than {MOST_WORK:,} invocations")
        invocations *= groups
    for number, field in enumerate(
        ("storage_buffers", "uniform_texel_buffers", "storage_texel_buffers")
    ):
        check_all(facts.views[numbers, number] <= plan[field], record, told(field))
    return sum(invocations.tolist())


def _check_bindings(plan: np.void, steps: np.ndarray, buffers: np.ndarray, tables: Tables) -> None:
    """Check of what dispatches bind, some of them at a time: they may share bindings."""
    for start in range(0, len(steps), _AT_ONCE):
        some = steps[start : start + _AT_ONCE]
        counts = some["bindings"].astype(np.int64)
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        first = tables[schema.PIPELINE][some["pipeline"]]["first_slots"]
        bound = tables[schema.BINDING][np.repeat(some["first_bindings"], counts) + within]
        _check_bound(plan, bound, tables[schema.SLOT][np.repeat(first, counts) + within], buffers)


def _check_bound(plan: np.void, bound: np.ndarray, slots: np.ndarray, buffers: np.ndarray) -> None:
    record = schema.BINDING
    check_all(bound["buffer"] < len(buffers), record, "there is no such buffer")
    _written(bound["buffer"][slots["access"] != 1], buffers)
    is_storage = slots["view"] == STORAGE
    fits = np.where(is_storage, bound["format"] == 0, np.isin(bound["format"], _FORMATS))
    check_all(fits, record, "its format does not suit its kind")
    place = np.minimum(np.searchsorted(_FORMATS, bound["format"]), len(_FORMATS) - 1)
    texel = np.where(is_storage, np.uint64(1), _TEXEL_BYTES[place])
    held = buffers[bound["buffer"]]
    most = np.where(is_storage, plan["storage_range"], plan["texel_elements"])
    fits = (held["nbytes"] % texel == 0) & (held["nbytes"] // texel <= most)
    check_all(fits, record, "its buffer is larger than told, or no whole texels")
    alignment = np.where(is_storage, plan["storage_alignment"], plan["texel_alignment"])
    aligned = held["offset"] % alignment.astype(np.uint64) == 0
    check_all(aligned, record, "its buffer is not as aligned as told")


def _check_copies(copies: np.ndarray, buffers: np.ndarray) -> None:
    record = schema.STEP
    check_all(copies["source"] < len(buffers), record, "a copy reads no buffer")
    _written(copies["target"], buffers)
    for field in ("source_offset", "target_offset", "nbytes"):
        check_all(copies[field] <= MOST_BYTES, record, f"a copy's {field} is absurd")
    check_all(copies["nbytes"] > 0, record, "a copy of nothing")
    starts = []
    for end in ("source", "target"):
        held, offset = buffers[copies[end]], copies[f"{end}_offset"]
        inside = offset + copies["nbytes"] <= held["nbytes"]
        check_all(inside, record, "a copy leaves its buffer")
        starts.append(held["offset"] + offset)
    read, write = buffers[copies["source"]], buffers[copies["target"]]
    apart = (starts[0] + copies["nbytes"] <= starts[1]) | (
        starts[1] + copies["nbytes"] <= starts[0]
    )
    check_all((read["role"] != write["role"]) | apart, record, "a copy overlaps itself")


def _check_ports(ports: np.ndarray, buffers: np.ndarray) -> np.ndarray:
    """Bytes of each."""
    record = schema.PORT
    check_all(ports["buffer"] < len(buffers), record, "there is no such buffer")
    held = buffers[ports["buffer"]]
    # Inputs and outputs have the same numbers among directions and roles.
    check_all(held["role"] == ports["direction"], record, "its buffer is of another role")
    behind = np.arange(MOST_AXES) >= ports["rank"][:, None]
    check_all(((ports["dims"] == 1) | ~behind).all(axis=1), record, "axes behind its last")
    size = ELEMENT_BYTES[ports["type"]]
    for axis in range(MOST_AXES):
        dims = ports["dims"][:, axis]
        fits = (dims <= MOST_BYTES) & (size <= MOST_BYTES // np.maximum(dims, 1))
        check_all(fits | (dims == 0), record, "larger than its buffer")
        size = size * dims
    check_all(size <= held["nbytes"], record, "larger than its buffer")
    counted = ports[ports["count"] != NONE]
    check_all(counted["direction"] == Direction.OUTPUT, record, "an input with a count")
    check_all(counted["count"] < len(buffers), record, "its count is no buffer")
    counts = buffers[counted["count"]]
    is_output = counts["role"] == BufferRole.OUTPUT
    check_all(is_output & (counts["nbytes"] >= 4), record, "its count is no number that comes out")
    check_all(counted["open_axis"] < counted["rank"], record, "its open axis is none")
    front = np.arange(MOST_AXES) < counted["open_axis"][:, None]
    check_all(((counted["dims"] == 1) | ~front).all(axis=1), record, "axes before its open one")
    return size


def _check_states(states: np.ndarray, buffers: np.ndarray, blobs: np.ndarray) -> None:
    record = schema.STATE
    for end, role in (("input", BufferRole.INPUT), ("output", BufferRole.OUTPUT)):
        check_all(states[end] < len(buffers), record, f"its {end} is no buffer")
        held = buffers[states[end]]
        check_all(held["role"] == role, record, f"its {end} is a buffer of another role")
        fits = (states["nbytes"] > 0) & (states["nbytes"] <= held["nbytes"])
        check_all(fits, record, "empty, or larger than its buffer")
    first = states[states["blob"] != NONE]
    check_all(first["blob"] < len(blobs), record, "its first value is no blob")
    same = blobs["nbytes"][first["blob"]] == first["nbytes"]
    check_all(same, record, "its first value's size")


def _check_examples(examples: np.ndarray, ports: np.ndarray, blobs: np.ndarray) -> None:
    """Check of examples: of whole rows where an axis is open, which arrays are."""
    record = schema.EXAMPLE
    check_all(examples["port"] < len(ports), record, "there is no such port")
    of = ports[examples["port"]]
    size = ELEMENT_BYTES[of["type"]] * of["dims"].prod(axis=1, dtype=np.uint64)
    held = blobs["nbytes"][examples["blob"]]
    behind = np.where(np.arange(MOST_AXES) > of["open_axis"][:, None], of["dims"], 1)
    row_bytes = np.maximum(ELEMENT_BYTES[of["type"]] * behind.prod(axis=1, dtype=np.uint64), 1)
    fits = np.where(of["count"] == NONE, held == size, (held <= size) & (held % row_bytes == 0))
    check_all(fits, record, "its size is not its port's")


def _written(targets: np.ndarray, buffers: np.ndarray) -> None:
    check_all(targets < len(buffers), schema.STEP, "it writes no buffer")
    is_weight = buffers["role"][targets] == BufferRole.WEIGHT
    check_all(~is_weight, schema.STEP, "it writes a weight")
