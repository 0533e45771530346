"""ReduceWindow: windows along one axis, one lane an element (or four neighbours) of the result."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vknn.graph import DType
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read1, read4, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_loops, rounds
from vknn.ops.pooling.reduce_window import FUNCTIONS, ReduceWindow

#: WRAP of shaders/pooling/reduce_window.comp: bits of an integer, below 0 where it has a sign.
_WRAPS = {DType.INT8: -8, DType.UINT8: 8, DType.INT16: -16}


@lowers(ReduceWindow)
def reduce_window(problem: Problem) -> Sequence[Candidate]:
    """The candidate: a lane goes through the places of its window."""
    op, x, (y,) = problem.op, problem.input(0), problem.outputs
    assert isinstance(op, ReduceWindow)
    if 0 in (x.size, y.size) or not fits_loops(problem.limits, op.size):
        return []
    machine = problem.machine
    cost = machine.dispatch + 4 * (y.size * (1 + op.size) + x.size) * machine.byte
    return [Candidate("windows", (Layout.LINEAR,), (Layout.LINEAR,), _emit, cost)]


def _emit(emitter: Emitter) -> None:
    op, type_, (out,) = emitter.problem.op, emitter.problem.input(0), emitter.problem.outputs
    assert isinstance(op, ReduceWindow)
    axis = op.axis % type_.rank
    inner = math.prod(type_.dims[axis + 1 :])
    unit = 4 if inner % 4 == 0 else 1
    x, y, items = emitter.input(0), emitter.output(), out.size // unit
    most = max(items, op.places(type_.dims[axis]) + op.extent)
    emitter.dispatch_items(
        "pooling/reduce_window",
        [read4(x) if unit == 4 else read1(x), write(y)],
        grid(emitter.problem.limits, items, most, item_rounds=rounds(op.size)),
        push={
            "count": items,
            "inner": inner // unit,
            "size_in": type_.dims[axis],
            "size_out": out.dims[axis],
            "window": op.size,
            "stride": op.stride,
            "dilation": op.dilation,
            "base": op.base_dilation,
            "pad": op.pads[0],
            "none": _bits(op, type_.dtype),
        },
        spec={"JOIN": list(FUNCTIONS).index(op.function), "WRAP": _WRAPS.get(type_.dtype, 0)},
        defines={"ELEM": int(not x.is_float), "WIDE": int(unit == 4)},
    )


def _bits(op: ReduceWindow, dtype: DType) -> int:
    """The element of a window without elements as the kernel has it: of 32 bits."""
    value = op.neutral(dtype)
    return int(np.float32(value).view(np.int32)) if dtype.is_float else int(value)
