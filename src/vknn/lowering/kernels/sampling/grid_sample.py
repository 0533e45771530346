"""Sampling at given places: a lane takes a vec4 of channels of a place, in C4."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vknn.graph import TensorType
from vknn.lowering.kit.candidate import BYTE_COST, DISPATCH_COST, FLOP_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, ceil_div, read1, read4, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout, storage_bytes
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import rounds
from vknn.ops.sampling.grid_sample import MODES, PADDINGS, GridSample

_MODE, _PADDING, _ALIGN, _AXES = range(10, 14)
_TAPS = {"nearest": 1, "linear": 2, "cubic": 4}
#: float32 places are exact up to here.
_LONGEST_AXIS = 1 << 24


@lowers(GridSample)
def grid_sample(problem: Problem) -> Sequence[Candidate]:
    """All that the op allows."""
    (x, places), (y,), op = problem.inputs, problem.outputs, problem.op
    assert x is not None
    assert places is not None
    assert isinstance(op, GridSample)
    if max(x.dims[2:]) >= _LONGEST_AXIS:
        return []

    def emit(emitter: Emitter) -> None:
        _emit(emitter, op, x, places, y)

    taps = _TAPS[op.mode] ** (x.rank - 2)
    moved = storage_bytes(y, Layout.C4) + storage_bytes(places, Layout.LINEAR)
    cost = DISPATCH_COST + moved * BYTE_COST + 4 * taps * y.size * FLOP_COST
    return [Candidate(op.mode, (Layout.C4, Layout.LINEAR), (Layout.C4,), emit, cost)]


def _emit(
    emitter: Emitter, op: GridSample, x: TensorType, places: TensorType, y: TensorType
) -> None:
    axes, c4 = x.rank - 2, ceil_div(x.dims[1], 4)
    total = math.prod(y.dims[2:])
    count = y.dims[0] * c4 * total
    taps = _TAPS[op.mode]
    nested = rounds(*[taps] * axes) if axes > 2 else rounds(1, taps, taps)
    share = grid(emitter.problem.limits, count, item_rounds=nested)
    steps = (1, total) if op.grid_first else (axes, 1)
    emitter.dispatch(
        "sampling/grid_sample",
        [read4(emitter.input(0)), read1(emitter.input(1)), write(emitter.output())],
        groups=share.groups,
        local=share.local,
        push=[
            *(count, share.chunk, c4, total),
            *(*reversed(x.dims[2:]), *[1] * (3 - axes)),
            *(axes * total, *steps),
        ],
        spec=share.spec
        | {
            _MODE: MODES.index(op.mode),
            _PADDING: PADDINGS.index(op.padding),
            _ALIGN: int(op.align_corners),
            _AXES: axes,
        },
        flops=2 * taps**axes * y.size,
    )
