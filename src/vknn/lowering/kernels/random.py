"""RandomUniform, RandomNormal, RandomBernoulli, RandomCategorical: four numbers to a lane.

The generator is Philox4x32-10 (shaders/random/philox.glsl), which makes them a block at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vknn.graph import TensorType
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout, vector_count
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_buffer, fits_loops, rounds
from vknn.ops import random as ops

#: Rounds of Philox4x32-10.
_PHILOX = 10
#: Cost of a block in bytes moved.
_BLOCK_BYTES = 64
#: KIND of shaders/random/draw.comp.
_UNIFORM, _NORMAL, _BERNOULLI = range(3)
_Drawn = ops.RandomUniform | ops.RandomNormal | ops.RandomBernoulli


@lowers(ops.RandomUniform, ops.RandomNormal, ops.RandomBernoulli)
def random_numbers(problem: Problem) -> Sequence[Candidate]:
    """The candidate: a lane for each four elements."""
    (y,) = problem.outputs
    if y.size == 0 or not fits_loops(problem.limits, 1, _PHILOX):
        return []
    machine = problem.machine
    cost = machine.dispatch + y.size // 4 * _BLOCK_BYTES * machine.byte
    return [Candidate("blocks", (Layout.LINEAR,), (Layout.LINEAR,), _emit_draw, cost)]


def _emit_draw(emitter: Emitter) -> None:
    op, (y,) = emitter.problem.op, emitter.problem.outputs
    assert isinstance(op, _Drawn)
    kind, numbers = _numbers(op)
    count = vector_count(y, Layout.LINEAR)
    emitter.dispatch_items(
        "random/draw",
        [read1(emitter.input(0)), write(emitter.output())],
        grid(emitter.problem.limits, count, item_rounds=rounds(_PHILOX)),
        push={"count": count, **_key(op.seed), **numbers},
        spec={"KIND": kind},
    )


def _numbers(op: _Drawn) -> tuple[int, dict[str, int | float]]:
    """KIND of draw.comp, and the push constants of the distribution."""
    unused: dict[str, int | float] = {"offset": 0.0, "factor": 0.0, "largest": 0.0, "below": 0}
    if isinstance(op, ops.RandomUniform):
        low, high = np.float32(op.low), np.float32(op.high)
        own = {"offset": float(low), "factor": float(high - low), "largest": op.largest()}
        return _UNIFORM, {**unused, **own}
    if isinstance(op, ops.RandomNormal):
        return _NORMAL, {**unused, "offset": op.mean, "factor": op.deviation}
    return _BERNOULLI, {**unused, "below": op.below()}


def _key(seed: int) -> dict[str, int]:
    """The two words of the generator's key as int32."""
    low, high = (word - (word >> 31 << 32) for word in ops.key_of(seed))
    return {"key_low": low, "key_high": high}


@lowers(ops.RandomCategorical)
def random_categorical(problem: Problem) -> Sequence[Candidate]:
    """The candidate: one lane adds up the weights of a row; then each lane finds four classes."""
    weights, (y,), limits = problem.input(0), problem.outputs, problem.limits
    classes = weights.dims[-1]
    loops = fits_loops(limits, 1, classes) and 1 + _search_rounds(classes) < limits.max_loop_rounds
    if 0 in (y.size, weights.size) or not loops or not fits_buffer(limits, weights.size):
        return []
    moved = 8 * weights.size + y.size * (_BLOCK_BYTES // 4 + 4 * classes.bit_length())
    machine = problem.machine
    cost = 2 * machine.dispatch + moved * machine.byte
    inputs = (Layout.LINEAR,) * 2
    return [Candidate("halving", inputs, (Layout.LINEAR,), _emit_categorical, cost)]


def _search_rounds(classes: int) -> int:
    """Rounds of a lane's loops that draw four numbers and search for each by halving."""
    return rounds(_PHILOX) + 4 * rounds(classes.bit_length())


def _emit_categorical(emitter: Emitter) -> None:
    weights = emitter.problem.input(0)
    sums = emitter.scratch("sums", weights.size)
    _emit_sums(emitter, weights, sums)
    _emit_search(emitter, weights, sums)


def _emit_sums(emitter: Emitter, weights: TensorType, sums: Ref) -> None:
    """Cumulative sums of each row of weights."""
    rows, classes = math.prod(weights.dims[:-1]), weights.dims[-1]
    emitter.dispatch_items(
        "random/sums",
        [read1(emitter.input(0)), write(sums)],
        grid(emitter.problem.limits, rows, item_rounds=rounds(classes)),
        push={"rows": rows, "width": classes},
    )


def _emit_search(emitter: Emitter, weights: TensorType, sums: Ref) -> None:
    op, (y,), classes = emitter.problem.op, emitter.problem.outputs, weights.dims[-1]
    assert isinstance(op, ops.RandomCategorical)
    count = vector_count(y, Layout.LINEAR)
    emitter.dispatch_items(
        "random/categorical",
        [read1(sums), read1(emitter.input(1)), write(emitter.output())],
        grid(emitter.problem.limits, count, y.size, item_rounds=_search_rounds(classes)),
        push={
            "count": count,
            **_key(op.seed),
            "elements": y.size,
            "samples": op.samples,
            "classes": classes,
        },
    )
