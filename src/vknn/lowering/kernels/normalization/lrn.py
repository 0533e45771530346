"""LRN (local response normalisation), in C4."""

from __future__ import annotations

import math

from vknn.graph import TensorType
from vknn.lowering.kernels.convolution.shape import triple
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read4, write
from vknn.lowering.kit.layouts import Layout, ceil_div, vector_count
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_lanes, fits_loops, lane_count, spread
from vknn.ops.normalization import LRN


@lowers(LRN)
def local_response_normalization(problem: Problem) -> list[Candidate]:
    """The candidate: windows over channels and up to three spatial axes, not over the batch."""
    op, x = problem.op, problem.input(0)
    assert isinstance(op, LRN)
    axes = {axis % x.rank for axis in op.axes}
    if not 2 <= x.rank <= 5 or 0 in axes:
        return []
    window = math.prod(b + a + 1 for b, a in zip(op.before, op.after, strict=True))
    placed = fits_lanes(vector_count(x, Layout.C4), problem.limits)
    if not placed or not fits_loops(problem.limits, *_window_loops(op, x)):
        return []
    machine = problem.machine
    cost = machine.dispatch + 8 * x.size * machine.byte * window
    return [Candidate("window", (Layout.C4,), (Layout.C4,), _emit_lrn, cost)]


def _emit_lrn(emitter: Emitter) -> None:
    op, x, limits = emitter.problem.op, emitter.problem.input(0), emitter.problem.limits
    assert isinstance(op, LRN)
    total, lanes = vector_count(x, Layout.C4), lane_count(limits)
    depth, height, width = triple(x.dims[2:], 1)
    emitter.dispatch(
        "normalization/lrn",
        [read4(emitter.input(0)), write(emitter.output())],
        groups=spread(ceil_div(total, lanes), limits),
        local=(lanes, 1, 1),
        push={
            "total": total,
            "c4": ceil_div(x.dims[1], 4),
            "channels": x.dims[1],
            "depth": depth,
            "height": height,
            "width": width,
            **_reach_push(op, x),
            "alpha": float(op.alpha),
            "beta": float(op.beta),
            "bias": float(op.bias),
        },
        spec=_spec(op, x),
        flops=4 * x.size,
    )


def _reach(op: LRN, x: TensorType) -> list[tuple[int, int]]:
    """Before and after along channels, depth, height and width; never beyond x."""
    reach = {a % x.rank: (b, c) for a, b, c in zip(op.axes, op.before, op.after, strict=True)}
    pairs = [reach.get(axis, (0, 0)) for axis in range(1, x.rank)]
    kept = [(min(b, s - 1), min(a, s - 1)) for (b, a), s in zip(pairs, x.dims[1:], strict=True)]
    kept[1:1] = [(0, 0)] * (4 - len(kept))
    return kept


def _spec(op: LRN, x: TensorType) -> dict[str, int]:
    """Specialization constants of lrn.comp."""
    (before, after), *spatial = _reach(op, x)
    return {
        "BEFORE_C": before,
        "AFTER_C": after,
        "SPATIAL": int(any(map(any, spatial))),
        "QUARTERS": {0.5: 2, 0.75: 3}.get(op.beta, 0),
    }


def _reach_push(op: LRN, x: TensorType) -> dict[str, int]:
    named = list(zip("dhw", _reach(op, x)[1:], strict=True))
    before = {f"before_{axis}": b for axis, (b, _) in named}
    return before | {f"after_{axis}": a for axis, (_, a) in named}


def _window_loops(op: LRN, x: TensorType) -> list[int]:
    """Rounds of the loops over a window: blocks of channels, depth, height, width."""
    (before, after), *spatial = _reach(op, x)
    blocks = min(ceil_div(x.dims[1], 4), ceil_div(before, 4) + 1 + ceil_div(after, 4))
    reaches = zip(triple(x.dims[2:], 1), spatial, strict=True)
    return [blocks, *(min(size, b + 1 + a) for size, (b, a) in reaches)]
