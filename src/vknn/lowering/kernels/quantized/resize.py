"""Resizing of quantized integers in C4, from tables of neighbours and weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vknn.lowering.kit.candidate import BYTE_COST, DISPATCH_COST, FLOP_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, read4, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout, storage_bytes
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_buffer
from vknn.ops.quantized.resize import QuantizedResize

_FLOATING = 10


@lowers(QuantizedResize)
def quantized_resize(problem: Problem) -> Sequence[Candidate]:
    """A lane makes four channels of a place."""
    (x,), (y,), op = problem.inputs, problem.outputs, problem.op
    assert x is not None and isinstance(op, QuantizedResize)
    if not fits_buffer(problem.limits, 4 * sum(op.sizes)):
        return []

    def emit(emitter: Emitter) -> None:
        n, channels, height, width = y.dims
        count = n * -(-channels // 4) * height * width
        share = grid(emitter.problem.limits, count)
        key = f"neighbours {op} {x.dims[2:]}"
        table = emitter.weight(key, lambda: neighbours(op, x.dims[2:]))
        emitter.dispatch(
            "quantized/resize",
            [read4(emitter.input(0)), read4(table), write(emitter.output())],
            groups=share.groups,
            local=share.local,
            push=[count, share.chunk, height, width, x.dims[2], x.dims[3]],
            spec=share.spec | {_FLOATING: int(op.floating)},
            flops=12 * y.size,
        )

    moved = storage_bytes(x, Layout.C4) + storage_bytes(y, Layout.C4)
    cost = DISPATCH_COST + moved * BYTE_COST + 40 * y.size * FLOP_COST
    return [Candidate("neighbours", (Layout.C4,), (Layout.C4,), emit, cost)]


def neighbours(op: QuantizedResize, dims: Sequence[int]) -> np.ndarray:
    """[width + height, 4] int32: both neighbours of each column, then row, and their weight.

    Weights of ``floating`` are the bits of a float32.
    """
    table = np.zeros((sum(op.sizes), 4), np.int32)
    first = 0
    for axis in (1, 0):
        rows = table[first : first + op.sizes[axis]]
        rows[:, 0], rows[:, 1], weights = op.taps(axis, dims[axis])
        rows[:, 2] = weights.view(np.int32) if op.floating else weights
        first += op.sizes[axis]
    return table
