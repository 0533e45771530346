"""Rows looked up by indices that are data."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vknn.lowering.kit.candidate import BYTE_COST, DISPATCH_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, read1, read4, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_loops, rounds
from vknn.ops.indexing.gather import Gather, GatherND, SearchSorted

#: Axes that tuples of indices may name in shaders/indexing/gather_nd.comp.
_NAMED = 8


@lowers(Gather)
def gather(problem: Problem) -> Sequence[Candidate]:
    """A copy of each element; by vec4s where entries are whole vec4s."""
    op, (x, indices), (y,) = problem.op, problem.inputs, problem.outputs
    assert isinstance(op, Gather) and x is not None and indices is not None
    axis = op.axis % x.rank
    inner, size = math.prod(x.dims[axis + 1 :]), x.dims[axis]
    wide = inner % 4 == 0
    unit = 4 if wide else 1
    count = y.size // unit
    share = grid(problem.limits, count)

    def emit(emitter: Emitter) -> None:
        read = read4 if wide else read1
        source, target = emitter.input(0), emitter.output()
        emitter.dispatch(
            "indexing/gather",
            [read(source), read1(emitter.input(1)), write(target)],
            groups=share.groups,
            local=share.local,
            push=[
                *(count, share.chunk, indices.size, inner // unit, size),
                int(op.from_end) + 2 * int(op.outside == "zero"),
            ],
            spec=share.spec,
            defines={"ELEM": int(not target.is_float), "WIDE": int(wide)},
        )

    cost = DISPATCH_COST + 8 * y.size * BYTE_COST
    return [Candidate("entries", (Layout.LINEAR,) * 2, (Layout.LINEAR,), emit, cost)]


@lowers(GatherND)
def gather_nd(problem: Problem) -> Sequence[Candidate]:
    """A copy of each element; by vec4s where entries are whole vec4s."""
    op, (x, indices), (y,) = problem.op, problem.inputs, problem.outputs
    assert isinstance(op, GatherND) and x is not None and indices is not None
    named, batch = indices.dims[-1], op.batch_dims
    if not 1 <= named <= _NAMED or 0 in (x.size, y.size):
        return []
    sizes = x.dims[batch : batch + named]
    inner = math.prod(x.dims[batch + named :])
    wide = inner % 4 == 0
    unit = 4 if wide else 1
    in_a_batch = math.prod(indices.dims[batch:-1])

    def emit(emitter: Emitter) -> None:
        share = grid(emitter.problem.limits, y.size // unit)
        read = read4 if wide else read1
        source, target = emitter.input(0), emitter.output()
        emitter.dispatch(
            "indexing/gather_nd",
            [read(source), read1(emitter.input(1)), write(target)],
            groups=share.groups,
            local=share.local,
            push=[
                *(y.size // unit, share.chunk, inner // unit, in_a_batch, int(op.from_end)),
                *(*sizes, *[1] * (_NAMED - named)),
            ],
            spec=share.spec | {10: named},
            defines={"ELEM": int(not target.is_float), "WIDE": int(wide)},
        )

    cost = DISPATCH_COST + 8 * y.size * BYTE_COST
    return [Candidate("tuples", (Layout.LINEAR,) * 2, (Layout.LINEAR,), emit, cost)]


@lowers(SearchSorted)
def search_sorted(problem: Problem) -> Sequence[Candidate]:
    """Each lane halves the keys for a value of its own."""
    op, (keys, values) = problem.op, problem.inputs
    assert isinstance(op, SearchSorted) and keys is not None and values is not None
    halvings = keys.size.bit_length() + 1
    if 0 in (keys.size, values.size) or not fits_loops(problem.limits, halvings):
        return []

    def emit(emitter: Emitter) -> None:
        share = grid(emitter.problem.limits, values.size, item_rounds=rounds(halvings))
        own, given = emitter.input(0), emitter.input(1)
        emitter.dispatch(
            "indexing/search_sorted",
            [read1(own), read1(given), write(emitter.output())],
            groups=share.groups,
            local=share.local,
            push=[values.size, share.chunk, keys.size],
            spec=share.spec | {10: int(op.right)},
            defines={"ELEM": int(not own.is_float)},
        )

    cost = DISPATCH_COST + 4 * values.size * (1 + halvings) * BYTE_COST
    return [Candidate("halving", (Layout.LINEAR,) * 2, (Layout.LINEAR,), emit, cost)]
