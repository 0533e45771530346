"""Random numbers: a lane makes the four of a block (shaders/random/philox.glsl)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vknn.lowering.kit.candidate import BYTE_COST, DISPATCH_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, read1, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout, vector_count
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_buffer, fits_loops, rounds
from vknn.ops import random as ops

#: Loops that a lane runs for a block, as the shaders have them.
_PHILOX = 10
#: Of a block's cost, in bytes moved.
_BLOCK_BYTES = 64


@lowers(ops.RandomUniform, ops.RandomNormal, ops.RandomBernoulli)
def draw(problem: Problem) -> Sequence[Candidate]:
    """A lane for each four elements."""
    op, (y,) = problem.op, problem.outputs
    assert isinstance(op, ops.RandomUniform | ops.RandomNormal | ops.RandomBernoulli)
    if y.size == 0 or not fits_loops(problem.limits, 1, _PHILOX):
        return []
    kind, numbers = _numbers(op)

    def emit(emitter: Emitter) -> None:
        count = vector_count(y, Layout.LINEAR)
        share = grid(emitter.problem.limits, count, item_rounds=rounds(_PHILOX))
        emitter.dispatch(
            "random/draw",
            [read1(emitter.input(0)), write(emitter.output())],
            groups=share.groups,
            local=share.local,
            push=[count, share.chunk, *_key(op.seed), *numbers],
            spec=share.spec | {10: kind},
        )

    cost = DISPATCH_COST + y.size // 4 * _BLOCK_BYTES * BYTE_COST
    return [Candidate("blocks", (Layout.LINEAR,), (Layout.LINEAR,), emit, cost)]


def _numbers(
    op: ops.RandomUniform | ops.RandomNormal | ops.RandomBernoulli,
) -> tuple[int, list[int | float]]:
    """What the shader's KIND is and its a, b, c, below are."""
    if isinstance(op, ops.RandomUniform):
        low, high = np.float32(op.low), np.float32(op.high)
        return 0, [float(low), float(high - low), op.largest(), 0]
    if isinstance(op, ops.RandomNormal):
        return 1, [op.mean, op.deviation, 0.0, 0]
    return 2, [0.0, 0.0, 0.0, op.below()]


def _key(seed: int) -> list[int]:
    """The two words of the key as int32."""
    return [word - (word >> 31 << 32) for word in ops.key_of(seed)]


@lowers(ops.RandomCategorical)
def categorical(problem: Problem) -> Sequence[Candidate]:
    """The weights of each row added up by one lane; then each lane finds four classes."""
    op, (weights, _), (y,) = problem.op, problem.inputs, problem.outputs
    assert isinstance(op, ops.RandomCategorical) and weights is not None
    limits, classes = problem.limits, weights.dims[-1]
    rows = math.prod(weights.dims[:-1])
    halvings = classes.bit_length()
    each = rounds(_PHILOX) + 4 * rounds(halvings)
    long = not fits_loops(limits, 1, classes) or 1 + each >= limits.max_loop_rounds
    if 0 in (y.size, weights.size) or long or not fits_buffer(limits, weights.size):
        return []

    def emit(emitter: Emitter) -> None:
        sums = emitter.scratch("sums", weights.size)
        share = grid(limits, rows, item_rounds=rounds(classes))
        emitter.dispatch(
            "random/sums",
            [read1(emitter.input(0)), write(sums)],
            groups=share.groups,
            local=share.local,
            push=[rows, share.chunk, classes],
            spec=share.spec,
        )
        count = vector_count(y, Layout.LINEAR)
        share = grid(limits, count, y.size, item_rounds=each)
        emitter.dispatch(
            "random/categorical",
            [read1(sums), read1(emitter.input(1)), write(emitter.output())],
            groups=share.groups,
            local=share.local,
            push=[count, share.chunk, *_key(op.seed), y.size, op.samples, classes],
            spec=share.spec,
        )

    moved = 8 * weights.size + y.size * (_BLOCK_BYTES // 4 + 4 * halvings)
    cost = 2 * DISPATCH_COST + moved * BYTE_COST
    return [Candidate("halving", (Layout.LINEAR,) * 2, (Layout.LINEAR,), emit, cost)]
