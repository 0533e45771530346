"""Gather, GatherND and SearchSorted: entries at indices that are data."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vknn.graph import TensorType
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read1, read4, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.parameters import Push, Spec
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_loops, rounds
from vknn.ops.indexing.gather import Gather, GatherND, SearchSorted

#: Indices of a tuple that shaders/indexing/gather_nd.comp has room for.
_MOST_INDICES = 8


@lowers(Gather)
def gather(problem: Problem) -> Sequence[Candidate]:
    """The candidate: a copy of each element; by vec4s where entries are whole vec4s."""
    machine = problem.machine
    cost = machine.dispatch + 8 * problem.outputs[0].size * machine.byte
    return [Candidate("entries", (Layout.LINEAR,) * 2, (Layout.LINEAR,), _emit_gather, cost)]


def _emit_gather(emitter: Emitter) -> None:
    op, (x, indices), (y,) = _gathered(emitter.problem)
    assert isinstance(op, Gather)
    axis = op.axis % x.rank
    inner = math.prod(x.dims[axis + 1 :])
    unit = 4 if inner % 4 == 0 else 1
    _dispatch(
        emitter,
        "indexing/gather",
        y.size // unit,
        unit,
        push={
            "index_count": indices.size,
            "inner": inner // unit,
            "size": x.dims[axis],
            "mode": int(op.from_end) + 2 * int(op.outside == "zero"),
        },
    )


@lowers(GatherND)
def gather_nd(problem: Problem) -> Sequence[Candidate]:
    """The candidate: a copy of each element; by vec4s where entries are whole vec4s."""
    _, (x, indices), (y,) = _gathered(problem)
    if not 1 <= indices.dims[-1] <= _MOST_INDICES or 0 in (x.size, y.size):
        return []
    machine = problem.machine
    cost = machine.dispatch + 8 * y.size * machine.byte
    return [Candidate("tuples", (Layout.LINEAR,) * 2, (Layout.LINEAR,), _emit_gather_nd, cost)]


def _emit_gather_nd(emitter: Emitter) -> None:
    op, (x, indices), (y,) = _gathered(emitter.problem)
    assert isinstance(op, GatherND)
    tuple_size, batch = indices.dims[-1], op.batch_dims
    sizes = x.dims[batch : batch + tuple_size]
    inner = math.prod(x.dims[batch + tuple_size :])
    unit = 4 if inner % 4 == 0 else 1
    _dispatch(
        emitter,
        "indexing/gather_nd",
        y.size // unit,
        unit,
        push={
            "inner": inner // unit,
            "in_a_batch": math.prod(indices.dims[batch:-1]),
            "from_end": int(op.from_end),
            "size": (*sizes, *[1] * (_MOST_INDICES - tuple_size)),
        },
        spec={"TUPLE_SIZE": tuple_size},
    )


def _gathered(
    problem: Problem,
) -> tuple[Gather | GatherND, tuple[TensorType, TensorType], tuple[TensorType, ...]]:
    """The op, the types of its two inputs, that of its output."""
    op, (x, indices) = problem.op, problem.inputs
    assert isinstance(op, Gather | GatherND) and x is not None and indices is not None
    return op, (x, indices), tuple(problem.outputs)


def _dispatch(
    emitter: Emitter, kernel: str, count: int, unit: int, *, push: Push, spec: Spec | None = None
) -> None:
    """A dispatch of indexing/gather or gather_nd: ``count`` copies of ``unit`` scalars."""
    x, indices, target = emitter.input(0), emitter.input(1), emitter.output()
    emitter.dispatch_items(
        kernel,
        [read4(x) if unit == 4 else read1(x), read1(indices), write(target)],
        grid(emitter.problem.limits, count),
        push={"count": count, **push},
        spec=spec,
        defines={"ELEM": int(not target.is_float), "WIDE": int(unit == 4)},
    )


@lowers(SearchSorted)
def search_sorted(problem: Problem) -> Sequence[Candidate]:
    """The candidate: each lane searches the keys for a value of its own by halving."""
    keys, values = problem.input(0), problem.input(1)
    halvings = _halvings(keys)
    if 0 in (keys.size, values.size) or not fits_loops(problem.limits, halvings):
        return []
    machine = problem.machine
    cost = machine.dispatch + 4 * values.size * (1 + halvings) * machine.byte
    inputs = (Layout.LINEAR,) * 2
    return [Candidate("halving", inputs, (Layout.LINEAR,), _emit_search_sorted, cost)]


def _halvings(keys: TensorType) -> int:
    return keys.size.bit_length() + 1


def _emit_search_sorted(emitter: Emitter) -> None:
    op, (keys, values) = emitter.problem.op, emitter.problem.inputs
    assert isinstance(op, SearchSorted) and keys is not None and values is not None
    own, given = emitter.input(0), emitter.input(1)
    emitter.dispatch_items(
        "indexing/search_sorted",
        [read1(own), read1(given), write(emitter.output())],
        grid(emitter.problem.limits, values.size, item_rounds=rounds(_halvings(keys))),
        push={"count": values.size, "size": keys.size},
        spec={"RIGHT": int(op.right)},
        defines={"ELEM": int(not own.is_float)},
    )
