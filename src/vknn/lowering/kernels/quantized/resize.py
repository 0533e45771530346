"""Lowering of QuantizedResize in C4, from tables of neighbours and weights."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from vknn.graph import TensorType
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read4, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout, ceil_div, storage_bytes
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_buffer
from vknn.ops.quantized.resize import QuantizedResize


@lowers(QuantizedResize)
def quantized_resize(problem: Problem) -> Sequence[Candidate]:
    """One candidate: a lane computes four channels of a pixel."""
    x, (y,), op = problem.input(0), problem.outputs, problem.op
    assert isinstance(op, QuantizedResize)
    if not fits_buffer(problem.limits, 4 * sum(op.sizes)):
        return []

    moved = storage_bytes(x, Layout.C4) + storage_bytes(y, Layout.C4)
    machine = problem.machine
    cost = machine.dispatch + moved * machine.byte + 40 * y.size * machine.flop
    emit = functools.partial(_emit, op=op, x=x, y=y)
    return [Candidate("neighbours", (Layout.C4,), (Layout.C4,), emit, cost)]


def _emit(emitter: Emitter, op: QuantizedResize, x: TensorType, y: TensorType) -> None:
    n, channels, height, width = y.dims
    count = n * ceil_div(channels, 4) * height * width
    key = f"neighbours {op} {x.dims[2:]}"
    table = emitter.weight(key, lambda: neighbours(op, x.dims[2:]))
    emitter.dispatch_items(
        "quantized/resize",
        [read4(emitter.input(0)), read4(table), write(emitter.output())],
        grid(emitter.problem.limits, count),
        push={
            "count": count,
            "height": height,
            "width": width,
            "in_height": x.dims[2],
            "in_width": x.dims[3],
        },
        spec={"FLOATING": int(op.floating)},
        flops=12 * y.size,
    )


def neighbours(op: QuantizedResize, dims: Sequence[int]) -> np.ndarray:
    """The table of columns, then rows, [width + height, 4] int32: both neighbours, a weight, 0.

    The weight is that of the second neighbour; of a ``floating`` op the bits of a float32.
    """
    table = np.zeros((sum(op.sizes), 4), np.int32)
    first = 0
    for axis in (1, 0):
        rows = table[first : first + op.sizes[axis]]
        rows[:, 0], rows[:, 1], weights = op.taps(axis, dims[axis])
        rows[:, 2] = weights.view(np.int32) if op.floating else weights
        first += op.sizes[axis]
    return table
