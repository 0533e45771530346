"""Devices that allow little and some that allow more, and plans held against their limits."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable

from vknn.graph import Graph
from vknn.lowering import LoweringOptions, candidates, check_plan
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.parameters import parameters_of
from vknn.plan import Binding, DeviceLimits, Dispatch, Plan, View
from vknn.runtime.spirv import glsl
from vknn.runtime.spirv.expanded import expanded_kernel

MINIMUM = DeviceLimits()
DISCRETE = DeviceLimits(
    name="discrete",
    kind="discrete",
    max_storage_buffer_range=(1 << 32) - 1,
    max_texel_buffer_elements=1 << 27,
    storage_alignment=16,
    texel_alignment=16,
    max_push_constants=256,
    max_group_count=((1 << 31) - 1, 65535, 65535),
    max_group_size=(1024, 1024, 64),
    max_group_invocations=1024,
    shared_memory=48 << 10,
    subgroup_size=32,
    features=frozenset(("int64", "fp16_storage", "subgroup_shuffle", "timestamps")),
)
DEVICES = {
    "minimum": MINIMUM,
    "minimum, texels": dataclasses.replace(MINIMUM, preferred_access="texel"),
    "minimum, images": dataclasses.replace(MINIMUM, preferred_access="image"),
    "minimum, cpu": dataclasses.replace(MINIMUM, kind="cpu"),
    "minimum, integrated": dataclasses.replace(MINIMUM, kind="integrated"),
    "discrete": DISCRETE,
    "discrete, subgroups of 64": dataclasses.replace(DISCRETE, subgroup_size=64),
    "cpu": dataclasses.replace(
        DISCRETE, kind="cpu", subgroup_size=8, shared_memory=32 << 10, preferred_access="image"
    ),
}
#: Devices that allow so little that some ops have to stay on the host.
NARROW = {
    "few workgroups": dataclasses.replace(MINIMUM, max_group_count=(5, 4, 3)),
    "few workgroups, cpu": dataclasses.replace(MINIMUM, kind="cpu", max_group_count=(5, 4, 3)),
    "short loops": dataclasses.replace(MINIMUM, max_loop_rounds=24),
    "short loops, cpu": dataclasses.replace(MINIMUM, kind="cpu", max_loop_rounds=24),
    "small buffers": dataclasses.replace(MINIMUM, max_storage_buffer_range=2048),
    "small buffers, cpu": dataclasses.replace(MINIMUM, kind="cpu", max_storage_buffer_range=2048),
    "few texels": dataclasses.replace(
        MINIMUM, max_texel_buffer_elements=100, preferred_access="image"
    ),
}


#: Specialization constants of a dispatch by name.
Constants = dict[str, int | float]


def tile_bytes(spec: Constants) -> int | float:
    """Bytes of shared memory of shared_memory_tiles.glsl, with or without cooperative matrices."""
    rows, columns = spec["ROWS"] * spec["LANES_M"], spec["COLS"] * spec["LANES_N"]
    held = 4 * (columns if spec.get("COLUMNS_ALONG_K") else spec["DEPTH"]) * spec["B_STRIDE"]
    factors = rows * spec["A_STRIDE"] + (1 if spec.get("COLUMNS_IN_MEMORY") else held)
    if "MATRIX_M" not in spec:
        return 16 * factors
    return 8 * factors + 16 * (rows // spec["MATRICES_M"]) * (columns + 1)


def byte_tile_bytes(spec: Constants) -> int | float:
    """Bytes of shared memory of convolution/cooperative_bytes: integers, then their sums."""
    rows, columns = spec["BLOCK_M"], spec["BLOCK_N"]
    factors = (rows + 4 * columns) * (spec["DEPTH"] // 2 + 2)
    return 8 * factors + 16 * (rows // spec["MATRICES_M"]) * (columns + 1)


def row_bytes(each: int) -> Callable[[Constants], int | float]:
    """Bytes of shared memory of kernels with ``each`` bytes for each lane of each row."""
    return lambda spec: each * spec["LANES"] * spec["ROWS"]


def lane_bytes(each: int) -> Callable[[Constants], int | float]:
    """Bytes of shared memory of kernels with ``each`` bytes for each lane."""
    return lambda spec: each * spec["LANES"]


def step_bytes(spec: Constants) -> int | float:
    """Bytes of shared memory of recurrent/steps."""
    lanes = spec["LANES_X"] * spec["LANES_Y"]
    return 16 * (spec.get("SLOTS", 0) + lanes * (1, 4, 2, 3)[int(spec["CELL"])])


def part_bytes(spec: Constants) -> int:
    """Of convolutions whose channels are shared out: the sums of all parts but one."""
    parts, lanes = spec.get("PARTS", 1), spec.get("PART_LANES", 0)
    return int(16 * (parts - 1) * spec["TN"] * spec["TM"] * lanes)


def block_bytes(spec: Constants) -> int:
    """Of chain/inverted in float32, the most of its variants: a slice, or the parts' sums."""
    height, width = (
        (spec[f"TILE_{axis}"] - 1) * spec[f"STRIDE_{axis}"]
        + (spec[f"KERNEL_{axis}"] - 1) * spec[f"DILATION_{axis}"]
        + 1
        for axis in "HW"
    )
    tile = spec["TILE_H"] * spec["TILE_W"]
    columns = -(-spec["M4"] // spec["COLS"]) * spec["COLS"]
    held = height * width * spec["SLICE"] + tile * (spec["SLICE"] + 1)
    return int(16 * max(held, spec["PARTS"] * tile * columns))


#: Bytes of shared memory that a kernel declares, from its specialization constants.
SHARED_MEMORY: dict[str, Callable[[Constants], int | float]] = {
    "pooling/global_shared": lane_bytes(16),
    "matmul/row": lambda spec: 16 * spec["COLS"] * spec["LANES_X"] * spec["LANES_Y"],
    "matmul/shared": tile_bytes,
    "matmul/wide": lambda spec: 16 * spec["LANES_N"] * spec["PARTS"] * spec["CHUNK"],
    "convolution/shared": tile_bytes,
    "convolution/cooperative_bytes": byte_tile_bytes,
    "reduction/softmax": row_bytes(4),
    "reduction/reduce": row_bytes(16),
    "reduction/mean_in_order": lambda spec: 2 * 4 * 4 * (2 * spec["LANES"] + 4),
    "reduction/cumsum": row_bytes(16),
    "normalization/normalize": row_bytes(16),
    "indexing/arg_extreme": row_bytes(32),
    "indexing/topk_pick": lane_bytes(8),
    "detection/greedy": lane_bytes(8),
    "attention/softmax": row_bytes(4),
    "attention/stream": lambda spec: 14 << 10,
    "matmul/quantize_rows": row_bytes(4),
    "matmul/largest": row_bytes(4),
    "quantized/log_softmax_of_row": lane_bytes(4 * 16 + 4),
    "quantized/fixed_byte_softmax_of_row": lane_bytes(4),
    "quantized/blocks_product": lambda spec: 4 * spec["LANES"] * spec["ROWS"] * spec["PARTS"],
    "quantized/dynamic_rows": row_bytes(4),
    "quantized/dynamic_range": lane_bytes(4),
    "recurrent/integer": lambda spec: 4 * spec.get("SLOTS", 0),
    "recurrent/steps": step_bytes,
    "normalization/layer_norm": row_bytes(4),
    "chain/separable": tile_bytes,
    "chain/expanded": lambda spec: 16 * spec["TM"] * (spec["FIELD_H"] * spec["FIELD_W"] + 1),
    "chain/inverted": block_bytes,
    "chain/gate": lambda spec: 16 * (spec["INPUTS"] + spec["HIDDEN"] + spec["LANES"]),
    "chain/head": lambda spec: 16 * (spec["INPUTS"] + spec["LANES"]) + 4 * (spec["LANES"] + 1),
    "convolution/conv": part_bytes,
    "convolution/winograd_input": lambda spec: 16 * 36 * spec.get("HELD", 0),
    "convolution/winograd_output": lambda spec: 16 * 24 * spec.get("HELD", 0),
}


def check_limits(plan: Plan, limits: DeviceLimits) -> None:
    """Asserts that a device with ``limits`` takes every dispatch of the plan."""
    check_plan(plan)
    for dispatch in plan.dispatches:
        _check_dispatch(dispatch, plan, limits)


def _check_dispatch(dispatch: Dispatch, plan: Plan, limits: DeviceLimits) -> None:
    spec = dict(dispatch.specialization)
    local = [int(spec[i]) for i in range(3)]
    named = f"{dispatch.kernel} {dispatch.groups} of {local}"
    pairs = [*zip(dispatch.groups, limits.max_group_count, strict=True)]
    pairs += zip(local, limits.max_group_size, strict=True)
    assert all(0 < size <= most for size, most in pairs), named
    assert math.prod(local) <= limits.max_group_invocations, named
    assert len(dispatch.push) <= limits.max_push_constants, named
    assert len(dispatch.bindings) <= limits.max_storage_buffers, named
    for binding in dispatch.bindings:
        _check_binding(binding, plan, limits, named)
    if dispatch.kernel in SHARED_MEMORY:
        constants = parameters_of(dispatch.kernel).named(spec)
        assert SHARED_MEMORY[dispatch.kernel](constants) <= limits.shared_memory, named
    assert dispatch.variant in _variants(dispatch.kernel), f"{named}: no {dispatch.variant}"
    unknown = set(spec) - _constant_ids(dispatch.kernel)
    assert not unknown, f"{named}: no specialization constants {unknown}"


def _check_binding(binding: Binding, plan: Plan, limits: DeviceLimits, named: str) -> None:
    buffer = plan.buffers[binding.buffer]
    if binding.view is View.STORAGE:
        assert buffer.nbytes <= limits.max_storage_buffer_range, f"{named}: {buffer}"
        assert buffer.offset % limits.storage_alignment == 0, f"{named}: {buffer}"
    else:
        texels = buffer.nbytes // binding.format.texel_bytes
        assert texels <= limits.max_texel_buffer_elements, f"{named}: {buffer}"
        assert buffer.offset % limits.texel_alignment == 0, f"{named}: {buffer}"


@functools.cache
def _variants(kernel: str) -> set[glsl.Variant]:
    return set(expanded_kernel(glsl.source_root(), kernel).variants)


@functools.cache
def source(kernel: str) -> str:
    return expanded_kernel(glsl.source_root(), kernel).text


@functools.cache
def _constant_ids(kernel: str) -> set[int]:
    """Ids of the specialization constants that a kernel's source declares."""
    text = source(kernel)
    found = {0, 1, 2} | {int(i) for i in re.findall(r"constant_id = (\d+)", text)}
    for first in re.findall(r"EPILOGUE_STEP_CONSTANTS\(\d, (\d+)\)", text):
        found |= {int(first) + i for i in range(4)}
    return found


def offers(graph: Graph, limits: DeviceLimits) -> list[Candidate]:
    return candidates(graph.nodes[0], limits, LoweringOptions())
