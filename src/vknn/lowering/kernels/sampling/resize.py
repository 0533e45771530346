"""Resize in C4, from tables of the input places and weights of each output place."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read4, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout, ceil_div, storage_bytes
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_buffer, rounds
from vknn.ops.sampling.resize import Resize

#: Spatial axes that the shader has room for, and input places an output is made of along each.
MAX_AXES = 3
TAPS = {"nearest": 1, "linear": 2, "cubic": 4}


@lowers(Resize)
def resize(problem: Problem) -> Sequence[Candidate]:
    """The candidate for up to three spatial axes."""
    x, (y,), op = problem.input(0), problem.outputs, problem.op
    assert isinstance(op, Resize)
    axes = len(op.sizes)
    # Tables hold indices as float32.
    if not 1 <= axes <= MAX_AXES or max(x.dims[2:]) >= 1 << 24:
        return []
    table = 2 * max(2, TAPS[op.mode]) * sum(op.sizes)
    if not fits_buffer(problem.limits, table):
        return []
    taps = TAPS[op.mode] ** axes
    moved = storage_bytes(x, Layout.C4) + storage_bytes(y, Layout.C4)
    machine = problem.machine
    cost = machine.dispatch + moved * machine.byte + 2 * taps * y.size * machine.flop
    name = f"resize_{op.mode}"
    return [Candidate(name, (Layout.C4,), (Layout.C4,), _emit_resize, cost)]


def sampling_table(op: Resize, dims: Sequence[int]) -> np.ndarray:
    """Pairs of index and weight for every place along every axis, the innermost axis first.

    They are those of :meth:`Resize.taps`, which the reference uses too.
    """
    rows = [_axis_table(op, k, dims[k]) for k in reversed(range(len(op.sizes)))]
    return np.concatenate(rows).astype(np.float32)


def _axis_table(op: Resize, axis: int, size: int) -> np.ndarray:
    taps = op.taps(axis, size)
    table = np.zeros((op.sizes[axis], max(2, len(taps)), 2))
    for number, (index, weight) in enumerate(taps):
        table[:, number, 0], table[:, number, 1] = index, weight
    return table.reshape(op.sizes[axis], -1)


def _emit_resize(emitter: Emitter) -> None:
    x, (y,), op = emitter.problem.input(0), emitter.problem.outputs, emitter.problem.op
    assert isinstance(op, Resize)
    sizes, taps = y.dims[2:], TAPS[op.mode]
    count = y.dims[0] * ceil_div(y.dims[1], 4) * math.prod(sizes)
    looped = taps if op.mode != "nearest" else 0
    key = f"table {op} {x.dims[2:]}"
    table = emitter.weight(key, lambda: sampling_table(op, x.dims[2:]), single=True)
    unused, target = [1] * (MAX_AXES - len(sizes)), emitter.output()
    emitter.dispatch_items(
        "sampling/resize",
        [read4(emitter.input(0)), read4(table), write(target)],
        grid(emitter.problem.limits, count, item_rounds=rounds(*[looped] * len(sizes))),
        push={
            "count": count,
            "out_size": (*reversed(sizes), *unused),
            "in_size": (*reversed(x.dims[2:]), *unused),
        },
        spec={"TAPS": taps, "AXES": len(sizes)},
        defines={"ELEM": int(not target.is_float)},
        flops=2 * taps ** len(sizes) * y.size,
    )
