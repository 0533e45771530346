"""Rotary embeddings of positions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vknn.lowering.kit.candidate import BYTE_COST, DISPATCH_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, read1, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.ops.attention import RotaryEmbedding


@lowers(RotaryEmbedding)
def rotary_embedding(problem: Problem) -> Sequence[Candidate]:
    """A pair an item."""
    op, (x, cos, _) = problem.op, problem.inputs
    assert isinstance(op, RotaryEmbedding) and x is not None and cos is not None
    *outer, rows, width = x.dims
    share = grid(problem.limits, x.size // 2)
    entries = x.dims[0] if cos.rank == 3 else 1

    def emit(emitter: Emitter) -> None:
        emitter.dispatch(
            "attention/rotary",
            [read1(emitter.input(i)) for i in range(3)] + [write(emitter.output())],
            groups=share.groups,
            local=share.local,
            push=[
                *(x.size // 2, share.chunk, width // 2, rows),
                *(math.prod(outer) * rows // entries, cos.size // entries if entries > 1 else 0),
                int(op.interleaved),
            ],
            spec=share.spec,
            flops=3 * x.size,
        )

    cost = DISPATCH_COST + 16 * x.size * BYTE_COST
    return [Candidate("pairs", (Layout.LINEAR,) * 3, (Layout.LINEAR,), emit, cost, inplace=(0,))]
