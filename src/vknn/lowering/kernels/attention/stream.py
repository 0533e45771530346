"""Attention in one dispatch that walks over the keys (shaders/attention/stream.comp), for GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vknn.lowering.kernels.attention.sizes import Sizes, mask_steps
from vknn.lowering.kernels.matmul.gemm import allows_groups
from vknn.lowering.kit.candidate import DISPATCH_COST, FLOP_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, ceil_div, read1, read4, write
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.workgroups import fits_loops
from vknn.plan import DeviceLimits

# As the shader has them.
_LANES, _QUERIES, _KEYS, _CHUNK = 128, 32, 32, 8
#: Bytes of shared memory, and rounds of loops for a tile of keys but those over the width.
_SHARED, _TILE_ROUNDS = 14 << 10, _KEYS + 2
#: vec4s of accumulators that a lane keeps in registers, at the most.
_MOST_COLUMNS = 4
#: Workgroups that keep a GPU busy.
_ENOUGH_GROUPS = 64


def stream_candidates(problem: Problem, sizes: Sizes) -> Sequence[Candidate]:
    """By vec4s where a head's width is a multiple of 4, by scalars anywhere; none on a CPU, whose
    drivers pay much for every barrier."""
    limits = problem.limits
    if limits.kind == "cpu" or not _fits(sizes, problem):
        return []
    groups = _groups(sizes)
    waste = groups[0] * _QUERIES / sizes.queries * (ceil_div(sizes.keys, _KEYS) * _KEYS)
    waste *= max(1.0, _ENOUGH_GROUPS / (groups[0] * groups[1] * groups[2])) / sizes.keys
    inputs = tuple(Layout.LINEAR if t is not None else None for t in problem.inputs)
    found = []
    for wide in (True, False):
        if wide and (sizes.depth % 4 or sizes.value_depth % 4):
            continue
        cost = DISPATCH_COST + sizes.flops * FLOP_COST * waste * (1 if wide else 3)
        name = "stream" if wide else "stream_scalar"
        found.append(Candidate(name, inputs, (Layout.LINEAR,), _Emit(sizes, wide), cost))
    return found


def _fits(sizes: Sizes, problem: Problem) -> bool:
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


def _groups(sizes: Sizes) -> tuple[int, int, int]:
    return ceil_div(sizes.queries, _QUERIES), sizes.heads, sizes.batch


def _columns(sizes: Sizes) -> tuple[int, int]:
    """Lanes that share a row of the output, and vec4s of it that each of them has."""
    width4 = ceil_div(sizes.value_depth, 4)
    lanes = 4
    while lanes < 16 and lanes < width4:
        lanes *= 2
    return lanes, ceil_div(width4, lanes)


@dataclass(frozen=True)
class _Emit:
    sizes: Sizes
    wide: bool

    def __call__(self, emitter: Emitter) -> None:
        sizes, unit = self.sizes, 4 if self.wide else 1
        read = read4 if self.wide else read1
        bindings = [read(emitter.input(i)) for i in range(3)] + [write(emitter.output())]
        masked = mask_steps(emitter.problem)
        if masked is not None:
            bindings.append(read1(emitter.input(3)))
        steps = [
            step // unit
            for s in (sizes.q(), sizes.k(), sizes.v(), sizes.out())
            for step in (s.batch, s.head, s.row)
        ]
        lanes, columns = _columns(sizes)
        emitter.dispatch(
            "attention/stream",
            bindings,
            groups=_groups(sizes),
            local=(_LANES, 1, 1),
            push=[
                *(sizes.queries, sizes.keys),
                *(ceil_div(sizes.depth, 4), ceil_div(sizes.value_depth, 4)),
                *(sizes.depth, sizes.value_depth, sizes.sharing, sizes.scale),
                *steps,
                *(masked or (0, 0, 0, 0)),
            ],
            spec={
                10: lanes,
                11: columns,
                12: _QUERIES * lanes // _LANES,
                13: int(sizes.empty_zero),
            },
            defines={"WIDE": int(self.wide), "MASKED": int(masked is not None)},
            flops=sizes.flops + 20 * sizes.rows * sizes.keys,
        )
