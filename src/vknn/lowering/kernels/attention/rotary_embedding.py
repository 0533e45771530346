"""Lowering of RotaryEmbedding: rotations of pairs of elements by their position."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from vknn.graph import TensorType
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read1, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.ops.attention import RotaryEmbedding


@lowers(RotaryEmbedding)
def rotary_embedding(problem: Problem) -> Sequence[Candidate]:
    """One candidate: an item of the dispatch is a pair."""
    op, x, cos = problem.op, problem.input(0), problem.input(1)
    assert isinstance(op, RotaryEmbedding)
    emit = functools.partial(_emit, op=op, x=x, cos=cos)
    machine = problem.machine
    cost = machine.dispatch + 16 * x.size * machine.byte
    return [Candidate("pairs", (Layout.LINEAR,) * 3, (Layout.LINEAR,), emit, cost, inplace=(0,))]


def _emit(emitter: Emitter, op: RotaryEmbedding, x: TensorType, cos: TensorType) -> None:
    *outer, rows, width = x.dims
    pairs = x.size // 2
    entries = x.dims[0] if cos.rank == 3 else 1
    emitter.dispatch_items(
        "attention/rotary",
        [read1(emitter.input(i)) for i in range(3)] + [write(emitter.output())],
        grid(emitter.problem.limits, pairs),
        push={
            "count": pairs,
            "pairs": width // 2,
            "rows": rows,
            "per_entry": math.prod(outer) * rows // entries,
            "entry_step": cos.size // entries if entries > 1 else 0,
            "interleaved": int(op.interleaved),
        },
        flops=3 * x.size,
    )
