"""Lowering of Attention: by blocks of rows, or on a GPU by one dispatch (stream.py).

Each block of rows takes three dispatches: scores, softmax and weighted values. The scores of a
block are in scratch of bounded size.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence

from vknn.lowering.kernels.attention.sizes import (
    AttentionSizes,
    HeadStrides,
    RowBlock,
    mask_steps,
    sizes_of,
)
from vknn.lowering.kernels.attention.stream import stream_candidates
from vknn.lowering.kernels.matmul.gemm import Gemm, fits_device, subgroup_tile
from vknn.lowering.kernels.matmul.kernels import Product, emit_scalar, emit_tile
from vknn.lowering.kernels.reduction.rows import row_shape
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, read4, write
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_buffer, fits_loops
from vknn.ops.attention import Attention

#: Most bytes of a block's scores: a part of a CPU's cache; on a GPU enough rows to keep it busy.
CPU_BLOCK, GPU_BLOCK = 4 << 20, 32 << 20
#: Most blocks, unless the scratch of a block then exceeds the device's limit.
_MOST_BLOCKS = 256
#: Least queries of a block, which share its reads of k and v.
_LEAST_QUERIES = 16


@lowers(Attention)
def attention(problem: Problem) -> Sequence[Candidate]:
    """Candidates by vec4s where the heads' widths are multiples of 4, by scalars, and streaming."""
    sizes = sizes_of(problem)
    blocks = _blocks(sizes, problem)
    if not _fit(sizes, blocks, problem):
        return stream_candidates(problem, sizes)
    scores_bytes = 4 * sizes.rows * sizes.padded
    inputs = tuple(Layout.LINEAR if t is not None else None for t in problem.inputs)
    machine = problem.machine
    work = sizes.flops * machine.flop + 4 * scores_bytes * machine.byte
    found = []
    for wide in (True, False):
        if wide and (sizes.depth % 4 or sizes.value_depth % 4):
            continue
        depths = sizes.depth, sizes.keys
        if not all(fits_loops(problem.limits, ceil_div(k, 4) if wide else k) for k in depths):
            continue
        cost = 3 * len(blocks) * machine.dispatch + work * (1 if wide else 3)
        name = "vec4" if wide else "scalar"
        emit = functools.partial(_emit, sizes=sizes, blocks=tuple(blocks), wide=wide)
        found.append(Candidate(name, inputs, (Layout.LINEAR,), emit, cost))
    return [*found, *stream_candidates(problem, sizes)]


def _fit(sizes: AttentionSizes, blocks: Sequence[RowBlock], problem: Problem) -> bool:
    """True where the device allows the scratch and the workgroups of the largest block."""
    limits, largest = problem.limits, blocks[0]
    rows, width = sizes.block_rows(largest), sizes.padded // 4
    if not fits_buffer(limits, rows * sizes.padded):
        return False
    if not all(fits_device(p, limits) for p in (sizes.scores(largest), sizes.values(largest))):
        return False
    return row_shape(rows, width, limits).fits(rows, width, limits)


def _blocks(sizes: AttentionSizes, problem: Problem) -> list[RowBlock]:
    """The blocks of rows, the largest first.

    Each begins where a binding of q, k, v and the output may begin: numbers of batch entries, heads
    and queries are such that their bytes are a multiple of the device's alignment.
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
    return [RowBlock(*ranges) for ranges in itertools.product(*map(_cut, extents, each))]


def _unit(alignment: int, steps: Sequence[int], least: int = 1) -> int:
    """The smallest number, at least ``least``, whose product with each step is aligned."""
    unit = math.lcm(*(alignment // math.gcd(alignment, step) for step in steps))
    return ceil_div(least, unit) * unit


def _cut(extent: int, each: int) -> Iterator[range]:
    return (range(i, min(i + each, extent)) for i in range(0, extent, each))


def _emit(
    emitter: Emitter, sizes: AttentionSizes, blocks: tuple[RowBlock, ...], wide: bool
) -> None:
    count = sizes.block_rows(blocks[0]) * sizes.padded
    scores, weights = (emitter.scratch(name, count) for name in ("scores", "weights"))
    q, k, v = (emitter.input(i) for i in range(3))
    out = emitter.output()
    for block in blocks:
        rows = functools.partial(_begin, block=block, heads=sizes.sharing)
        own = q.window(rows(sizes.q())), out.window(rows(sizes.out()))
        keys = functools.partial(_begin, block=block, heads=1, queries=False)
        shared = k.window(keys(sizes.k())), v.window(keys(sizes.v()))
        _emit_gemm(emitter, sizes.scores(block), own[0], shared[0], scores, wide, "scores")
        _emit_softmax(emitter, sizes, block, scores, weights)
        _emit_gemm(emitter, sizes.values(block), weights, shared[1], own[1], wide, "values")


def _emit_gemm(emitter: Emitter, gemm: Gemm, a: Ref, b: Ref, c: Ref, wide: bool, name: str) -> None:
    product = Product(gemm, a, b, c, label=f"Attention {name}")
    if wide:
        subgroup = subgroup_tile(gemm, emitter.problem.limits) is not None
        emit_tile(emitter, product, subgroup=subgroup)
    else:
        emit_scalar(emitter, product)


def _emit_softmax(
    emitter: Emitter, sizes: AttentionSizes, block: RowBlock, scores: Ref, weights: Ref
) -> None:
    limits, masked = emitter.problem.limits, mask_steps(emitter.problem) is not None
    rows, width = sizes.block_rows(block), sizes.padded // 4
    shape = row_shape(rows, width, limits)
    emitter.dispatch(
        "attention/softmax",
        [read4(scores), write(weights)] + ([read1(emitter.input(3))] if masked else []),
        groups=shape.groups(rows, limits),
        local=shape.local,
        push={
            "rows": rows,
            "count": sizes.keys,
            "width": width,
            "queries": len(block.queries),
            "heads": sizes.sharing * len(block.groups),
            **_mask_push(emitter.problem, sizes, block),
        },
        spec={
            "LANES": shape.lanes,
            "ROWS": shape.rows,
            "EMPTY_ZERO": int(sizes.empty_zero),
        },
        defines={"MASKED": int(masked)},
        flops=20 * rows * sizes.keys,
        label="Attention softmax",
    )


def _mask_push(problem: Problem, sizes: AttentionSizes, block: RowBlock) -> dict[str, int]:
    """Push constants of the mask: its strides, and its element for the block's first score."""
    batch, head, query, key = mask_steps(problem) or (0, 0, 0, 0)
    first = block.batch.start * batch + block.queries.start * query
    first += sizes.sharing * block.groups.start * head
    steps = {"batch_step": batch, "head_step": head, "query_step": query, "key_step": key}
    return {"mask_first": first, **steps}


def _begin(strides: HeadStrides, *, block: RowBlock, heads: int, queries: bool = True) -> int:
    """Elements of a tensor before a block. ``heads``: of the tensor for a head of k."""
    first = block.batch.start * strides.batch + heads * block.groups.start * strides.head
    return first + (block.queries.start * strides.row if queries else 0)
