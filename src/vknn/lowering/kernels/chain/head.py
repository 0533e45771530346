"""Ends of classifiers in one dispatch (shaders/chain/head.comp).

The mean of each channel, a fully connected layer and the softmax of its results: a layer with at
least one of the others beside it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from vknn.graph import DType
from vknn.lowering.kernels.chain.gate import (
    MOST_STEPS,
    ROUND,
    Layer,
    keeps_vectors,
    lane_total,
    layer_of,
    pack_layer,
    share_of_pixels,
    step_constants,
)
from vknn.lowering.kernels.chain.links import Link
from vknn.lowering.kernels.pooling.window import pool_window
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read4, update, write
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.problem import EpilogueStep, Problem
from vknn.lowering.kit.workgroups import fits_buffer, fits_loops
from vknn.ops.movement.shape import Reshape
from vknn.ops.pooling.pool import AveragePool, GlobalAveragePool
from vknn.ops.reduction import LogSoftmax, Softmax
from vknn.plan import DeviceLimits

#: vec4s of the layer's results that a workgroup may compute.
COLUMNS = (4, 8, 16)

#: vec4s of shared memory that sharing pixels may take, so that others have room beside a workgroup.
MOST_ROOM = 640


@dataclass(frozen=True, eq=False)
class Head:
    """A layer on vectors of ``batch`` images, which are means of ``pixels`` where it ``pools``.

    ``steps``: what is computed of each mean.
    ``softmax``: what is taken of its results, or None. ``columns``: vec4s of a workgroup.
    """

    batch: int
    pixels: int
    pools: bool
    steps: tuple[EpilogueStep, ...]
    layer: Layer
    softmax: Softmax | LogSoftmax | None
    columns: int
    lanes: int

    @property
    def groups(self) -> int:
        """Workgroups of an image."""
        return ceil_div(self.layer.n4, self.columns)

    @property
    def pixel_lanes(self) -> int:
        """Lanes that share the pixels of a vec4 of channels."""
        share = share_of_pixels(self.pixels, self.layer.k4, self.lanes) if self.pools else 1
        while share > 1 and self.layer.k4 * share > MOST_ROOM:
            share //= 2
        return share

    @property
    def room(self) -> int:
        """vec4s of shared memory for parts of the means."""
        return ceil_div(self.layer.k4 * self.pixel_lanes, ROUND) * ROUND


def head_candidates(problem: Problem, links: Sequence[Link]) -> list[Candidate]:
    """A candidate for each number of columns of a workgroup; none for other chains."""
    found = []
    for columns in COLUMNS:
        head = _head(links, columns, lane_total(problem.limits) // 2)
        if head is None or not _fits(problem.limits, head):
            continue
        inputs = (Layout.C4, *(None for _ in problem.inputs[1:]))
        emit = functools.partial(_emit, head=head)
        cost = _cost(problem, head)
        found.append(Candidate(f"head{columns}", inputs, (Layout.C4,), emit, cost))
    return found


def _head(links: Sequence[Link], columns: int, lanes: int) -> Head | None:
    """The end of a classifier that the links are, or None."""
    x = links[0].problem.input(0)
    rest = list(links)
    pools = _is_mean(rest[0])
    steps = rest[0].problem.epilogue.steps if pools else ()
    if pools:
        rest = rest[1:]
    if any(isinstance(link.op, Reshape) and not keeps_vectors(link) for link in rest):
        return None
    rest = [link for link in rest if not isinstance(link.op, Reshape)]
    softmax = _softmax(rest[-1]) if rest else None
    if softmax is not None:
        rest = rest[:-1]
    layer = layer_of(rest[0]) if len(rest) == 1 else None
    if layer is None or x.rank < 2 or layer.w.shape[1] != x.dims[1]:
        return None
    pixels = math.prod(x.dims[2:])
    if (not pools and pixels != 1) or not (pools or softmax):
        return None
    return Head(x.dims[0], pixels, pools, steps, layer, softmax, columns, lanes)


def _is_mean(link: Link) -> bool:
    """True for the mean of whole images, with a short epilogue of its own."""
    epilogue = link.problem.epilogue
    if len(epilogue.steps) > MOST_STEPS or epilogue.operands:
        return False
    if isinstance(link.op, AveragePool):
        return len(link.op.kernel) <= 3 and pool_window(link.problem).whole
    return isinstance(link.op, GlobalAveragePool)


def _softmax(link: Link) -> Softmax | LogSoftmax | None:
    """The link's operator where it is a softmax of vectors, along them."""
    op, x = link.op, link.problem.input(0)
    if not isinstance(op, Softmax | LogSoftmax) or link.problem.epilogue.steps:
        return None
    along = x.rank >= 2 and op.axis % x.rank == 1
    return op if along and math.prod(x.dims[2:]) == 1 else None


def _fits(limits: DeviceLimits, head: Head) -> bool:
    layer, lanes, share = head.layer, head.lanes, head.pixel_lanes
    shared = 16 * (head.room + lanes) + 4 * (lanes + 1)
    rounds = lanes.bit_length() + 1
    return (
        lanes >= max(COLUMNS)
        and lanes & (lanes - 1) == 0
        and shared <= limits.shared_memory
        and head.groups <= limits.max_group_count[0]
        and head.batch <= limits.max_group_count[1]
        and fits_loops(limits, ceil_div(layer.k4 * share, lanes), ceil_div(head.pixels, share))
        and fits_loops(limits, layer.k4 + ceil_div(layer.n4, lanes) + rounds, times=4)
        and fits_buffer(limits, max(layer.size, head.batch * (4 * layer.n4 + 1)))
    )


def _cost(problem: Problem, head: Head) -> float:
    """Microseconds: weights from memory, beside the work of waves and what these wait for."""
    machine, layer, lanes = problem.machine, head.layer, head.lanes
    size = 2 if problem.options.half else 4
    parts = lanes // head.columns
    rows = ceil_div(layer.k4, parts)
    steps = _OUTSIDE + rows * _ROW
    waits = _WAITS + rows / 2
    if head.pools:
        share = head.pixel_lanes
        vectors, pixels = ceil_div(layer.k4 * share, lanes), ceil_div(head.pixels, share)
        steps += vectors * (_VECTOR + pixels * _PIXEL)
        waits += vectors * ceil_div(pixels, 4)
    if head.softmax is not None:
        steps += _SOFTMAX * ceil_div(layer.n4, lanes) + _LAST
        waits += 3 * ceil_div(layer.n4, lanes) + _LAST_WAITS
    busy = machine.on_simds(head.batch * head.groups * lanes, steps, waits)
    moved = size * (layer.size + 4 * head.batch * (layer.k4 * head.pixels + layer.n4))
    return machine.dispatch + machine.beside(busy, moved)


#: Instructions of a lane: outside of loops, of a row of the layer, of a vec4 of the mean and of a
#: pixel of it, of a vec4 of the softmax and beside it; waits outside of loops and of the softmax.
_OUTSIDE, _ROW, _VECTOR, _PIXEL, _SOFTMAX, _LAST = 150.0, 26.0, 30.0, 8.0, 60.0, 100.0
_WAITS, _LAST_WAITS = 2.0, 3.0


def _emit(emitter: Emitter, head: Head) -> None:
    layer = head.layer
    packed = emitter.weight("head", functools.partial(pack_layer, layer), *layer.sources)
    buffers = [read4(emitter.input(0)), read4(packed), write(emitter.output())]
    if head.softmax is not None:
        # Nothing comes before the fill: it stands in the first stage, beside other commands.
        size = head.batch * (4 * layer.n4 + 1)
        done = emitter.scratch("done", size, dtype=DType.INT32)
        emitter.fill(done)
        buffers.append(update(done))
    emitter.dispatch(
        "chain/head",
        buffers,
        groups=(head.groups, head.batch, 1),
        local=(head.lanes, 1, 1),
        push={
            "c4": layer.k4,
            "channels_in": layer.w.shape[1],
            "m4": layer.n4,
            "channels": layer.w.shape[0],
            "pixels": head.pixels,
            "columns": head.columns,
        },
        spec={
            "LANES": head.lanes,
            "INPUTS": head.room,
            "PIXEL_LANES": head.pixel_lanes,
            "LOGARITHM": int(isinstance(head.softmax, LogSoftmax)),
            "ACTIVATES": int(bool(head.steps)),
            **step_constants(head.steps, 0),
            **step_constants(layer.steps, MOST_STEPS),
        },
        defines={"SOFTMAX": int(head.softmax is not None)},
        epilogue=0,
        with_steps=False,
        flops=2 * head.batch * layer.w.size,
    )
