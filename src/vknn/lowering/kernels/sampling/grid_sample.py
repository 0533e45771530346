"""GridSample: a lane takes a vec4 of channels of a place, in C4."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read1, read4, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout, ceil_div, storage_bytes
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import rounds
from vknn.ops.sampling.grid_sample import MODES, PADDINGS, GridSample

#: Neighbours along an axis that a sample is made of.
_TAPS = {"nearest": 1, "linear": 2, "cubic": 4}
#: float32 places are exact up to here.
_LONGEST_AXIS = 1 << 24
_MOST_AXES = 3


@lowers(GridSample)
def grid_sample(problem: Problem) -> Sequence[Candidate]:
    """The candidate for every mode and padding, over two or three axes."""
    (x, places), (y,), op = problem.inputs, problem.outputs, problem.op
    assert x is not None and places is not None
    assert isinstance(op, GridSample)
    if x.rank - 2 > _MOST_AXES or max(x.dims[2:]) >= _LONGEST_AXIS:
        return []
    taps = _TAPS[op.mode] ** (x.rank - 2)
    moved = storage_bytes(y, Layout.C4) + storage_bytes(places, Layout.LINEAR)
    machine = problem.machine
    cost = machine.dispatch + moved * machine.byte + 4 * taps * y.size * machine.flop
    inputs = (Layout.C4, Layout.LINEAR)
    return [Candidate(op.mode, inputs, (Layout.C4,), _emit_grid_sample, cost)]


def _emit_grid_sample(emitter: Emitter) -> None:
    x, (y,), op = emitter.problem.input(0), emitter.problem.outputs, emitter.problem.op
    assert isinstance(op, GridSample)
    axes, c4, places = x.rank - 2, ceil_div(x.dims[1], 4), math.prod(y.dims[2:])
    count, taps = y.dims[0] * c4 * places, _TAPS[op.mode]
    nested = rounds(*[taps] * axes) if axes > 2 else rounds(1, taps, taps)
    emitter.dispatch_items(
        "sampling/grid_sample",
        [read4(emitter.input(0)), read1(emitter.input(1)), write(emitter.output())],
        grid(emitter.problem.limits, count, item_rounds=nested),
        push={
            "count": count,
            "c4": c4,
            "places": places,
            "size": (*reversed(x.dims[2:]), *[1] * (3 - axes)),
            "batch_step": axes * places,
            "place_step": 1 if op.grid_first else axes,
            "axis_step": places if op.grid_first else 1,
        },
        spec={
            "MODE": MODES.index(op.mode),
            "PADDING": PADDINGS.index(op.padding),
            "ALIGN": int(op.align_corners),
            "AXES": axes,
            "TO_EVEN": int(op.to_even),
            "REPEATED": int(op.repeated),
        },
        flops=2 * taps**axes * y.size,
    )
