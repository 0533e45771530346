"""Attention in one dispatch over tiles of keys (shaders/attention/stream.comp), for GPUs."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from vknn.lowering.kernels.attention.sizes import AttentionSizes, mask_steps
from vknn.lowering.kernels.matmul.float_dots import has_dots
from vknn.lowering.kernels.matmul.shared_memory_tiles import FLOAT_DOTS
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read1, read4, write
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.workgroups import allows_groups, fits_loops
from vknn.plan import DeviceLimits

# Constants of the shader.
_LANES, _QUERIES, _KEYS, _CHUNK = 128, 32, 32, 8
#: Bytes of shared memory; rounds of loops for a tile of keys, without those over the width.
_SHARED, _TILE_ROUNDS = 14 << 10, _KEYS + 2
#: vec4s of accumulators that a lane keeps in registers, at the most.
_MOST_COLUMNS = 4
#: Workgroups that keep a GPU busy.
_ENOUGH_GROUPS = 64


def stream_candidates(problem: Problem, sizes: AttentionSizes) -> Sequence[Candidate]:
    """Candidates by vec4s where the heads' widths are multiples of 4, and by scalars.

    None on a CPU, whose drivers take long for every barrier.
    """
    limits = problem.limits
    if limits.kind == "cpu" or not _fits(sizes, problem):
        return []
    groups = _groups(sizes)
    waste = groups[0] * _QUERIES / sizes.queries * (ceil_div(sizes.keys, _KEYS) * _KEYS)
    waste *= max(1.0, _ENOUGH_GROUPS / (groups[0] * groups[1] * groups[2])) / sizes.keys
    inputs = tuple(Layout.LINEAR if t is not None else None for t in problem.inputs)
    found = []
    machine = problem.machine
    for wide in (True, False):
        if wide and (sizes.depth % 4 or sizes.value_depth % 4):
            continue
        cost = machine.dispatch + sizes.flops * machine.flop * waste * (1 if wide else 3)
        name = "stream" if wide else "stream_scalar"
        emit = functools.partial(_emit, sizes=sizes, wide=wide)
        found.append(Candidate(name, inputs, (Layout.LINEAR,), emit, cost))
    return found


def _fits(sizes: AttentionSizes, problem: Problem) -> bool:
    """True where the device allows the workgroups, their memory, their loops and the bindings."""
    limits = problem.limits
    tensors = sum(t is not None for t in problem.inputs) + 1
    rounds = ceil_div(sizes.keys, _KEYS), ceil_div(sizes.depth, 4 * _CHUNK) + _TILE_ROUNDS
    return (
        _lanes_allowed(limits)
        and limits.shared_memory >= _SHARED
        and limits.max_storage_buffers >= tensors
        and _columns(sizes)[1] <= _MOST_COLUMNS
        and allows_groups(_groups(sizes), limits)
        and fits_loops(limits, *rounds)
    )


def _lanes_allowed(limits: DeviceLimits) -> bool:
    return min(limits.max_group_invocations, limits.max_group_size[0]) >= _LANES


def _groups(sizes: AttentionSizes) -> tuple[int, int, int]:
    return ceil_div(sizes.queries, _QUERIES), sizes.heads, sizes.batch


def _columns(sizes: AttentionSizes) -> tuple[int, int]:
    """Lanes that share a row of the output, and vec4s of the row for each lane."""
    width4 = ceil_div(sizes.value_depth, 4)
    lanes = 4
    while lanes < 16 and lanes < width4:
        lanes *= 2
    return lanes, ceil_div(width4, lanes)


def _chunk(sizes: AttentionSizes, dots: bool) -> int:
    """Vec4s of a head's width in shared memory at a time: float16 takes half the room."""
    return 2 * _CHUNK if dots and sizes.depth > 4 * _CHUNK else _CHUNK


def _emit(emitter: Emitter, sizes: AttentionSizes, wide: bool) -> None:
    read = read4 if wide else read1
    bindings = [read(emitter.input(i)) for i in range(3)] + [write(emitter.output())]
    masked = mask_steps(emitter.problem) is not None
    if masked:
        bindings.append(read1(emitter.input(3)))
    lanes, columns = _columns(sizes)
    dots = {"DOTS": FLOAT_DOTS} if wide and has_dots(emitter.problem) else {}
    chunk = _chunk(sizes, bool(dots))
    emitter.dispatch(
        "attention/stream",
        bindings,
        groups=_groups(sizes),
        local=(_LANES, 1, 1),
        push=_push(emitter.problem, sizes, 4 if wide else 1),
        spec={
            "LANES_V": lanes,
            "COLS": columns,
            "ROWS": _QUERIES * lanes // _LANES,
            "EMPTY_ZERO": int(sizes.empty_zero),
            "CHUNK": chunk,
            "WHOLE": int(sizes.depth % (4 * chunk) == 0),
            "ONE_CHUNK": int(sizes.depth <= 4 * chunk),
        },
        defines={"WIDE": int(wide), "MASKED": int(masked), **dots},
        flops=sizes.flops + 20 * sizes.rows * sizes.keys,
    )


def _push(problem: Problem, sizes: AttentionSizes, unit: int) -> dict[str, int | float]:
    """Push constants; strides of tensors count ``unit`` elements."""
    push: dict[str, int | float] = {
        "queries": sizes.queries,
        "keys": sizes.keys,
        "width4": ceil_div(sizes.depth, 4),
        "value_width4": ceil_div(sizes.value_depth, 4),
        "width": sizes.depth,
        "value_width": sizes.value_depth,
        "sharing": sizes.sharing,
        "scale": sizes.scale,
    }
    tensors = {"q": sizes.q(), "k": sizes.k(), "v": sizes.v(), "y": sizes.out()}
    for name, strides in tensors.items():
        push[f"{name}_batch"] = strides.batch // unit
        push[f"{name}_head"] = strides.head // unit
        push[f"{name}_row"] = strides.row // unit
    names = ("mask_batch", "mask_head", "mask_query", "mask_key")
    return push | dict(zip(names, mask_steps(problem) or (0, 0, 0, 0), strict=True))
