"""Ends of classifiers in one dispatch (shaders/chain/head.comp).

The mean of each channel, a fully connected layer and the softmax of its results: two of them or
all.
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
    Panels,
    keeps_vectors,
    lane_total,
    layer_of,
    share_of_pixels,
    step_constants,
    steps_of,
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

    ``steps``: what is computed of each mean. ``layer``: None where the softmax is of the means.
    ``softmax``: what is taken of the results, or None. ``columns``: vec4s of a workgroup, a panel
    of the layer. ``round``: vec4s of inputs that a lane multiplies in a round.
    """

    batch: int
    channels_in: int
    pixels: int
    pools: bool
    steps: tuple[EpilogueStep, ...]
    layer: Layer | None
    softmax: Softmax | LogSoftmax | None
    columns: int
    lanes: int
    round: int

    @property
    def channels(self) -> int:
        """Channels of the result."""
        return self.channels_in if self.layer is None else self.layer.w.shape[0]

    @property
    def n4(self) -> int:
        """vec4s of the result."""
        return ceil_div(self.channels, 4)

    @property
    def groups(self) -> int:
        """Workgroups of an image."""
        return ceil_div(self.n4, self.columns)

    @property
    def pooled(self) -> int:
        """vec4s of channels that a workgroup reads: all that its columns of a layer multiply."""
        return min(self.columns, self.n4) if self.layer is None else self.layer.k4

    @property
    def panels(self) -> Panels | None:
        """The layer's weights."""
        return None if self.layer is None else Panels(self.layer, self.columns, self.round)

    @property
    def weights(self) -> int:
        """Elements of the layer's weights."""
        return 0 if self.panels is None else self.panels.size

    @property
    def pixel_lanes(self) -> int:
        """Lanes that share the pixels of a vec4 of channels."""
        share = share_of_pixels(self.pixels, self.pooled, self.lanes) if self.pools else 1
        while share > 1 and self.pooled * share > MOST_ROOM:
            share //= 2
        return share

    @property
    def room(self) -> int:
        """vec4s of shared memory for parts of the means."""
        return ceil_div(self.pooled * self.pixel_lanes, ROUND) * ROUND


def head_candidates(problem: Problem, links: Sequence[Link]) -> list[Candidate]:
    """A candidate for each number of columns of a workgroup; none for other chains."""
    found = []
    for columns in COLUMNS:
        head = _head(problem, links, columns)
        if head is None or not _fits(problem.limits, head):
            continue
        inputs = (Layout.C4, *(None for _ in problem.inputs[1:]))
        emit = functools.partial(_emit, head=head)
        cost = _cost(problem, head)
        found.append(Candidate(f"head{columns}", inputs, (Layout.C4,), emit, cost))
    return found


def _head(problem: Problem, links: Sequence[Link], columns: int) -> Head | None:
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
    if x.rank < 2 or len(rest) > 1 or (rest and layer is None):
        return None
    if layer is not None and layer.w.shape[1] != x.dims[1]:
        return None
    pixels = math.prod(x.dims[2:])
    if (not pools and pixels != 1) or pools + (layer is not None) + (softmax is not None) < 2:
        return None
    lanes, sizes = lane_total(problem.limits) // 2, (x.dims[0], x.dims[1], pixels)
    of_round = steps_of(problem.machine)
    return Head(*sizes, pools, steps, layer, softmax, columns, lanes, of_round)


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
    lanes, share = head.lanes, head.pixel_lanes
    shared = 16 * (head.room + lanes) + 4 * (lanes + 1)
    rounds = lanes.bit_length() + 1
    rows = 0 if head.layer is None else head.layer.k4
    return (
        lanes >= max(COLUMNS)
        and lanes & (lanes - 1) == 0
        and shared <= limits.shared_memory
        and head.groups <= limits.max_group_count[0]
        and head.batch <= limits.max_group_count[1]
        and fits_loops(limits, ceil_div(head.pooled * share, lanes), ceil_div(head.pixels, share))
        and fits_loops(limits, rows + ceil_div(head.n4, lanes) + rounds, times=4)
        and fits_buffer(limits, max(head.weights, head.batch * (4 * head.n4 + 1)))
    )


def _cost(problem: Problem, head: Head) -> float:
    """Microseconds: weights from memory, beside the work of waves and what these wait for, and the
    fill of the counters."""
    machine, lanes = problem.machine, head.lanes
    size = 2 if problem.options.half else 4
    rows = 0 if head.layer is None else ceil_div(head.layer.k4, lanes // head.columns)
    steps = _OUTSIDE + rows * _ROW
    waits = _WAITS + rows / 2
    if head.pools:
        share = head.pixel_lanes
        vectors, pixels = ceil_div(head.pooled * share, lanes), ceil_div(head.pixels, share)
        steps += vectors * (_VECTOR + pixels * _PIXEL)
        waits += vectors * ceil_div(pixels, 4)
    if head.softmax is not None:
        steps += _SOFTMAX * ceil_div(head.n4, lanes) + _LAST
        waits += 3 * ceil_div(head.n4, lanes) + _LAST_WAITS
    busy = machine.on_simds(head.batch * head.groups * lanes, steps, waits)
    read = ceil_div(head.channels_in, 4) * head.pixels
    moved = size * (head.weights + 4 * head.batch * (read + head.n4))
    own = size * (head.weights / head.groups + 4 * head.pooled * head.pixels)
    crowd = max(1.0, head.batch * head.groups * lanes / machine.lanes)
    busy = max(busy, crowd * machine.drawn(own))
    fill = 0.0 if head.softmax is None else machine.fill
    return machine.dispatch + machine.beside(busy, moved) + fill


#: Instructions of a lane: outside of loops, of a row of the layer, of a vec4 of the mean and of a
#: pixel of it, of a vec4 of the softmax and beside it; waits outside of loops and of the softmax.
_OUTSIDE, _ROW, _VECTOR, _PIXEL, _SOFTMAX, _LAST = 150.0, 26.0, 30.0, 8.0, 60.0, 100.0
_WAITS, _LAST_WAITS = 2.0, 3.0


def _emit(emitter: Emitter, head: Head) -> None:
    layer, softmax, panels = head.layer, head.softmax, head.panels
    buffers = [read4(emitter.input(0))]
    if layer is not None and panels is not None:
        packed = emitter.weight(f"head-{panels.key}", panels.packed, *layer.sources)
        buffers.append(read4(packed))
    buffers.append(write(emitter.output()))
    if softmax is not None:
        # Nothing comes before the fill: it stands in the first stage, beside other commands.
        size = head.batch * (4 * head.n4 + 1)
        done = emitter.scratch("done", size, dtype=DType.INT32)
        emitter.fill(done)
        buffers.append(update(done))
    last_steps = head.steps if layer is None else layer.steps
    emitter.dispatch(
        "chain/head",
        buffers,
        groups=(head.groups, head.batch, 1),
        local=(head.lanes, 1, 1),
        push={
            "c4": ceil_div(head.channels_in, 4),
            "channels_in": head.channels_in,
            "m4": head.n4,
            "channels": head.channels,
            "pixels": head.pixels,
            "bias": 0 if panels is None else panels.bias,
        },
        spec={
            "LANES": head.lanes,
            "INPUTS": head.room,
            "PIXEL_LANES": head.pixel_lanes,
            "LOGARITHM": int(isinstance(softmax, LogSoftmax)),
            "ACTIVATES": int(layer is not None and bool(head.steps)),
            "COLUMNS": head.columns,
            "STEPS": head.round,
            **step_constants(head.steps, 0),
            **step_constants(last_steps, MOST_STEPS),
        },
        defines={"SOFTMAX": int(softmax is not None)} | ({} if layer else {"WITHOUT_LAYER": 1}),
        epilogue=0,
        with_steps=False,
        flops=0 if layer is None else 2 * head.batch * layer.w.size,
    )
