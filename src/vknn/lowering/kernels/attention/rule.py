"""Attention: as three dispatches for blocks of rows (scores, softmax, weighted values) whose scores
lie in scratch of bounded size; on a GPU also as one dispatch that streams over the keys."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vknn.lowering.kernels.attention.sizes import Block, Sizes, Steps, mask_steps, sizes_of
from vknn.lowering.kernels.attention.stream import stream_candidates
from vknn.lowering.kernels.matmul.gemm import Product, fits_device, subgroup_tile
from vknn.lowering.kernels.matmul.rule import emit_scalar, emit_tile
from vknn.lowering.kernels.reduction.rows import row_shape
from vknn.lowering.kit.candidate import BYTE_COST, DISPATCH_COST, FLOP_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, ceil_div, read1, read4, write
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_buffer, fits_loops
from vknn.ops.attention import Attention

#: Bytes that the scores of a block should not exceed: a part of a CPU's cache; on a GPU enough rows
#: to keep it busy.
CPU_BLOCK, GPU_BLOCK = 4 << 20, 32 << 20
#: Blocks that a problem is cut into before its blocks get larger than that.
_MOST_BLOCKS = 256
#: Queries that share what a block reads of k and v, at the least.
_LEAST_QUERIES = 16


@lowers(Attention)
def attention(problem: Problem) -> Sequence[Candidate]:
    """Blocks by vec4s where a head's width is a multiple of 4, by scalars anywhere; streams."""
    sizes = sizes_of(problem)
    blocks = _blocks(sizes, problem)
    if not _fit(sizes, blocks, problem):
        return stream_candidates(problem, sizes)
    scores_bytes = 4 * sizes.rows * sizes.padded
    inputs = tuple(Layout.LINEAR if t is not None else None for t in problem.inputs)
    work = sizes.flops * FLOP_COST + 4 * scores_bytes * BYTE_COST
    found = []
    for wide in (True, False):
        if wide and (sizes.depth % 4 or sizes.value_depth % 4):
            continue
        depths = sizes.depth, sizes.keys
        if not all(fits_loops(problem.limits, ceil_div(k, 4) if wide else k) for k in depths):
            continue
        cost = 3 * len(blocks) * DISPATCH_COST + work * (1 if wide else 3)
        name = "vec4" if wide else "scalar"
        emit = _Emit(sizes, tuple(blocks), wide)
        found.append(Candidate(name, inputs, (Layout.LINEAR,), emit, cost))
    return [*found, *stream_candidates(problem, sizes)]


def _fit(sizes: Sizes, blocks: Sequence[Block], problem: Problem) -> bool:
    """True where the device can have the scratch and the workgroups of the largest block."""
    limits, largest = problem.limits, blocks[0]
    rows, width = sizes.block_rows(largest), sizes.padded // 4
    if not fits_buffer(limits, rows * sizes.padded):
        return False
    if not all(fits_device(p, limits) for p in (sizes.scores(largest), sizes.values(largest))):
        return False
    return row_shape(rows, width, limits).fits(rows, width, limits)


def _blocks(sizes: Sizes, problem: Problem) -> list[Block]:
    """The problem in blocks of at most so many rows; the first is the largest.

    Each begins where a shader may begin to look at q, k, v and the output: batch entries, heads and
    queries come in such numbers that their bytes are a multiple of the device's alignment.
    """
    limits = problem.limits
    room = (CPU_BLOCK if limits.kind == "cpu" else GPU_BLOCK) // (4 * sizes.padded)
    room = max(room, ceil_div(sizes.rows, _MOST_BLOCKS))
    room = max(1, min(room, limits.max_storage_buffer_range // (4 * sizes.padded)))
    width = problem.element_bytes(problem.outputs[0])
    alignment = max(1, limits.alignment // width)
    own, shared = (sizes.q(), sizes.out()), (sizes.k(), sizes.v())
    r = sizes.sharing
    units = (
        _unit(alignment, [s.batch for s in (*own, *shared)]),
        _unit(alignment, [r * s.head for s in own] + [s.head for s in shared]),
        _unit(alignment, [s.row for s in own], _LEAST_QUERIES),
    )
    extents = (sizes.batch, sizes.groups, sizes.queries)
    rows = (r * sizes.groups * sizes.queries, r * sizes.queries, r)  # of one of each
    each = []
    for extent, unit, below in zip(extents, units, rows, strict=True):
        each.append(min(extent, max(unit, room // below // unit * unit)))
        room = max(1, room // each[-1])
    return [Block(*ranges) for ranges in itertools.product(*map(_cut, extents, each))]


def _unit(alignment: int, steps: Sequence[int], least: int = 1) -> int:
    """The smallest number of such steps that is a multiple of the alignment, for each of them; a
    multiple of it that is at least ``least``."""
    unit = math.lcm(*(alignment // math.gcd(alignment, step) for step in steps))
    return ceil_div(least, unit) * unit


def _cut(extent: int, each: int) -> Iterator[range]:
    return (range(i, min(i + each, extent)) for i in range(0, extent, each))


@dataclass(frozen=True)
class _Emit:
    sizes: Sizes
    blocks: tuple[Block, ...]
    wide: bool

    def __call__(self, emitter: Emitter) -> None:
        sizes = self.sizes
        count = sizes.block_rows(self.blocks[0]) * sizes.padded
        scores, weights = (emitter.scratch(name, count) for name in ("scores", "weights"))
        q, k, v = (emitter.input(i) for i in range(3))
        out = emitter.output()
        for block in self.blocks:
            rows = functools.partial(_begin, block=block, heads=sizes.sharing)
            own = q.window(rows(sizes.q())), out.window(rows(sizes.out()))
            keys = functools.partial(_begin, block=block, heads=1, queries=False)
            shared = k.window(keys(sizes.k())), v.window(keys(sizes.v()))
            self._product(emitter, sizes.scores(block), own[0], shared[0], scores, "scores")
            self._softmax(emitter, block, scores, weights)
            self._product(emitter, sizes.values(block), weights, shared[1], own[1], "values")

    def _product(
        self, emitter: Emitter, product: Product, a: Ref, b: Ref, c: Ref, what: str
    ) -> None:
        label = f"Attention {what}"
        if self.wide:
            subgroup = subgroup_tile(product, emitter.problem.limits) is not None
            emit_tile(emitter, product, a, b, c, subgroup=subgroup, label=label)
        else:
            emit_scalar(emitter, product, a, b, c, label=label)

    def _softmax(self, emitter: Emitter, block: Block, scores: Ref, weights: Ref) -> None:
        sizes, limits = self.sizes, emitter.problem.limits
        steps = mask_steps(emitter.problem)
        mask = emitter.input(3) if steps is not None else None
        batch, head, query, key = steps or (0, 0, 0, 0)
        heads = sizes.sharing * len(block.groups)
        first = block.batch.start * batch + block.queries.start * query
        first += sizes.sharing * block.groups.start * head
        rows, width = sizes.block_rows(block), sizes.padded // 4
        shape = row_shape(rows, width, limits)
        emitter.dispatch(
            "attention/softmax",
            [read4(scores), write(weights)] + ([read1(mask)] if mask is not None else []),
            groups=shape.groups(rows, limits),
            local=shape.local,
            push=[
                *(rows, sizes.keys, width, len(block.queries), heads),
                *(first, batch, head, query, key),
            ],
            spec={10: shape.lanes, 11: shape.rows, 12: int(sizes.empty_zero)},
            defines={"MASKED": int(mask is not None)},
            flops=20 * rows * sizes.keys,
            label="Attention softmax",
        )


def _begin(steps: Steps, *, block: Block, heads: int, queries: bool = True) -> int:
    """Elements before the first of a block in a tensor; ``heads``: of it to a head of k."""
    first = block.batch.start * steps.batch + heads * block.groups.start * steps.head
    return first + (block.queries.start * steps.row if queries else 0)
