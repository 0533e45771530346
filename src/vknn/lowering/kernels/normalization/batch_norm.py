"""BatchNormalization with constant statistics, in C4."""

from __future__ import annotations

import math

import numpy as np

from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read4, write
from vknn.lowering.kit.layouts import Layout, ceil_div, vector_count
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_lanes, lane_count, spread
from vknn.ops.normalization import BatchNormalization

#: vec4s that a lane of batch_norm.comp takes.
UNROLL = 4


@lowers(BatchNormalization)
def batch_normalization(problem: Problem) -> list[Candidate]:
    """The candidate: one multiplication and addition, only where the statistics are constants.

    Factors and shifts are finite: with an infinite one a product and a sum are no longer
    (x - mean) * factor + bias.
    """
    x, op = problem.input(0), problem.op
    assert isinstance(op, BatchNormalization)
    vectors = [c for c in problem.constants[1:] if c is not None]
    placed = fits_lanes(vector_count(x, Layout.C4), problem.limits)
    if len(vectors) < 4 or not placed or not np.isfinite(pack_affine(op.epsilon, *vectors)).all():
        return []
    machine = problem.machine
    cost = machine.dispatch + 8 * x.size * machine.byte
    inputs = (Layout.C4, None, None, None, None)
    return [Candidate("affine", inputs, (Layout.C4,), _emit_batch_norm, cost, inplace=(0,))]


def _emit_batch_norm(emitter: Emitter) -> None:
    x, limits = emitter.problem.input(0), emitter.problem.limits
    c4, total, lanes = ceil_div(x.dims[1], 4), vector_count(x, Layout.C4), lane_count(limits)
    emitter.dispatch(
        "normalization/batch_norm",
        [read4(emitter.input(0)), read4(_affine(emitter)), write(emitter.output())],
        groups=spread(ceil_div(total, lanes * UNROLL), limits),
        local=(lanes, 1, 1),
        push={"total": total, "plane": math.prod(x.dims[2:]), "c4": c4, "channels": x.dims[1]},
        spec={"UNROLL": UNROLL},
        flops=2 * x.size,
    )


def _affine(emitter: Emitter) -> Ref:
    """Scale and shift of each channel, computed in float64."""
    op = emitter.problem.op
    assert isinstance(op, BatchNormalization)
    vectors = [c for c in emitter.problem.constants[1:] if c is not None]
    key = f"batch_norm.{op.epsilon!r}"
    return emitter.weight(key, lambda: pack_affine(op.epsilon, *vectors), *vectors, single=True)


def pack_affine(
    epsilon: float, scale: np.ndarray, bias: np.ndarray, mean: np.ndarray, var: np.ndarray
) -> np.ndarray:
    """Factors and shifts of the channels, [2, 4 * ceil(C / 4)]; 0 in padding lanes."""
    with np.errstate(all="ignore"):
        factor = scale.astype(np.float64) / np.sqrt(var.astype(np.float64) + epsilon)
        shift = bias.astype(np.float64) - mean.astype(np.float64) * factor
        packed = np.zeros((2, 4 * ceil_div(len(scale), 4)), np.float32)
        packed[0, : len(scale)], packed[1, : len(scale)] = factor, shift
    return packed
