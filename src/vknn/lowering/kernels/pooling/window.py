"""Windows of MaxPool and AveragePool along one to three axes (shaders/pooling/window.comp)."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

import numpy as np

from vknn.lowering.kernels.convolution.shape import Triple, triple
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read4, write
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.machine import SCALAR, machine_of
from vknn.lowering.kit.parameters import by_axis
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.workgroups import (
    fits,
    fits_buffer,
    fits_loops,
    lane_count,
    spread,
)
from vknn.ops.pooling.pool import AveragePool, MaxPool
from vknn.plan import DeviceLimits

#: Widest window (along a row) and most inputs of a row that a lane keeps in registers.
WIDEST_KERNEL = 8
MOST_SPAN = 24
#: Instructions and waits for an input, which stands behind a test of its bounds, by RADV's machine
#: code for RDNA 2 (``vknn profile --static --isa`` on the null device navi21).
_READ, _READ_WAITS = 34.0, 1.5
#: Pixels of a lane -> waves that a SIMD has registers for.
_HELD = {1: 12, 2: 10, 4: 7}


@dataclass(frozen=True)
class PoolingWindow:
    """Sizes of a windowed pooling; every tuple is (depth, height, width), ``pads`` the begins."""

    batch: int
    channels: int
    size_in: Triple
    size_out: Triple
    kernel: Triple
    strides: Triple
    dilations: Triple
    pads: Triple

    @property
    def c4(self) -> int:
        """Blocks of four channels."""
        return ceil_div(self.channels, 4)

    @property
    def whole(self) -> bool:
        """True where the one window is the image."""
        one = self.size_out == (1, 1, 1) and self.kernel == self.size_in
        return one and self.pads == (0, 0, 0) and self.dilations == (1, 1, 1)

    @property
    def rows(self) -> int:
        """Rows of a window."""
        return math.prod(self.kernel[:2])

    def span(self, width: int) -> int:
        """Inputs of a row that ``width`` neighbouring windows reach over."""
        return (width - 1) * self.strides[2] + (self.kernel[2] - 1) * self.dilations[2] + 1

    def unrolled(self, width: int) -> bool:
        """True where a lane keeps what ``width`` windows read of a row."""
        return self.kernel[2] <= WIDEST_KERNEL and self.span(width) <= MOST_SPAN

    def lanes(self, width: int) -> int:
        """Lanes that take ``width`` neighbouring windows each."""
        rows = self.batch * self.c4 * math.prod(self.size_out[:2])
        return rows * ceil_div(self.size_out[2], width)

    def fits(self, width: int, limits: DeviceLimits) -> bool:
        """True where a dispatch can be so large and its loops so long."""
        loops = (self.rows,) if self.unrolled(width) else (self.rows, self.kernel[2])
        groups = ceil_div(self.lanes(width), lane_count(limits))
        return fits(groups, limits) and fits_loops(limits, *loops)

    def along_rows(self) -> PoolingWindow:
        """The part of a window within a row: the pooling of each row by itself."""
        depth, height, _ = self.size_in
        return replace(
            self,
            size_out=(depth, height, self.size_out[2]),
            kernel=(1, 1, self.kernel[2]),
            strides=(1, 1, self.strides[2]),
            dilations=(1, 1, self.dilations[2]),
            pads=(0, 0, self.pads[2]),
        )

    def across_rows(self) -> PoolingWindow:
        """The part of a window across rows: the pooling of what :meth:`along_rows` gives."""
        return replace(
            self,
            size_in=(*self.size_in[:2], self.size_out[2]),
            kernel=(*self.kernel[:2], 1),
            strides=(*self.strides[:2], 1),
            dilations=(*self.dilations[:2], 1),
            pads=(*self.pads[:2], 0),
        )


def pool_window(problem: Problem) -> PoolingWindow:
    """The window of a MaxPool or AveragePool of one to three axes."""
    op, x = problem.op, problem.input(0)
    assert isinstance(op, MaxPool | AveragePool)
    dilations = op.dilations if isinstance(op, MaxPool) else None
    return PoolingWindow(
        batch=x.dims[0],
        channels=x.dims[1],
        size_in=triple(x.dims[2:], 1),
        size_out=triple(problem.outputs[0].dims[2:], 1),
        kernel=triple(op.kernel, 1),
        strides=triple(op.strides, 1),
        dilations=triple(dilations or (), 1),
        pads=triple(op.pads[: len(op.kernel)], 0),
    )


def window_candidates(problem: Problem, window: PoolingWindow) -> list[Candidate]:
    """Candidates: lanes of one to four pixels; two dispatches where a lane's loops are too long."""
    limits = problem.limits
    found = []
    for width in (4, 2, 1):
        if (width == 1 or window.unrolled(width)) and window.fits(width, limits):
            emit = functools.partial(_emit_window, window=window, width=width)
            found.append(_candidate(f"window{width}", emit, _cost(limits, window, width)))
    mean = isinstance(problem.op, AveragePool) and not problem.outputs[0].dtype.is_float
    if found or mean:  # the mean of rounded means is not the mean
        return found
    parts = window.along_rows(), window.across_rows()
    between = 4 * window.batch * window.c4 * math.prod(parts[0].size_out)
    if not fits_buffer(limits, between) or not all(p.fits(1, limits) for p in parts):
        return []
    cost = sum(_cost(limits, p, 1) for p in parts)
    emit = functools.partial(_emit_separate, first=parts[0], second=parts[1], between=between)
    return [_candidate("separate", emit, cost)]


def _candidate(name: str, emit: functools.partial[None], cost: float) -> Candidate:
    return Candidate(name, (Layout.C4,), (Layout.C4,), emit, cost)


def _cost(limits: DeviceLimits, window: PoolingWindow, width: int) -> float:
    reads = window.rows * (window.span(width) if window.unrolled(width) else window.kernel[2])
    if limits.kind == "cpu":
        return pooling_cost(limits, window.lanes(width), 70 * reads + 60 * width + 150)
    if limits.subgroup_size == SCALAR:
        work, waits = _READ * reads + 145 + _READ * width, _READ_WAITS * reads + 1.5
    else:
        work, waits = reads + 8 * window.rows + 2 * width, window.rows + 1.0
    return pooling_cost(limits, window.lanes(width), work, waits, _HELD.get(width, 8))


def pooling_cost(
    limits: DeviceLimits,
    lanes: int,
    instructions: float,
    waits: float = 0.0,
    held: int = 8,
    moved: float = 0.0,
) -> float:
    """Microseconds of so many lanes, each of so many instructions.

    ``waits``: for loads, on GPUs; ``held``: waves that a SIMD of one has registers for; ``moved``:
    bytes that come and go there.
    """
    machine = machine_of(limits)
    if limits.kind == "cpu":
        groups = ceil_div(lanes, lane_count(limits))
        return machine.dispatch + machine.in_groups(groups, int(instructions))
    busy = machine.on_simds(lanes, instructions, waits, held)
    return machine.dispatch + machine.beside(busy, moved)


def _emit_window(emitter: Emitter, window: PoolingWindow, width: int) -> None:
    _dispatch(emitter, window, width, emitter.input(0), emitter.output())


def _emit_separate(
    emitter: Emitter, first: PoolingWindow, second: PoolingWindow, between: int
) -> None:
    """Maxima of the rows' maxima, or means of their means: each row has as many inputs."""
    x, y = emitter.input(0), emitter.output()
    source = emitter.problem.input(0)
    rows = emitter.scratch("rows", between, dtype=source.dtype, as_tensor=True)
    _dispatch(emitter, first, 1, x, rows, epilogue=False)
    _dispatch(emitter, second, 1, rows, y)


def _dispatch(
    emitter: Emitter, window: PoolingWindow, width: int, x: Ref, y: Ref, *, epilogue: bool = True
) -> None:
    op, limits = emitter.problem.op, emitter.problem.limits
    lanes, total = lane_count(limits), window.lanes(width)
    emitter.dispatch(
        "pooling/window",
        [read4(x), write(y)],
        groups=spread(ceil_div(total, lanes), limits),
        local=(lanes, 1, 1),
        push={
            "total": total,
            "tiles": ceil_div(window.size_out[2], width),
            **_window_push(window),
            "padding": _lowest(emitter.problem),
        },
        spec={
            "AVERAGE": int(isinstance(op, AveragePool)),
            "COUNT_PADDING": int(isinstance(op, AveragePool) and op.count_include_pad),
            "TX": width,
            "KERNEL": window.kernel[2] if window.unrolled(width) else 0,
            "STRIDE": window.strides[2],
            "DILATION": window.dilations[2],
        },
        defines={"ELEM": int(not y.is_float)},
        epilogue=1 if y.is_float else None,
        with_steps=epilogue,
        flops=4 * window.batch * window.c4 * math.prod((*window.size_out, *window.kernel)),
    )


def _window_push(window: PoolingWindow) -> dict[str, int]:
    """Push constants; strides and dilations within a row are specialization constants."""
    (stride_d, stride_h, _), (dilation_d, dilation_h, _) = window.strides, window.dilations
    return {
        "c4": window.c4,
        "channels": window.channels,
        **by_axis("in", window.size_in),
        **by_axis("out", window.size_out),
        **by_axis("kernel", window.kernel),
        "stride_d": stride_d,
        "stride_h": stride_h,
        "dilation_d": dilation_d,
        "dilation_h": dilation_h,
        **by_axis("pad", window.pads),
    }


def _lowest(problem: Problem) -> int | float:
    """The value of MaxPool's padding: the lowest finite number of the host's dtype."""
    x = problem.input(0)
    if x.dtype.is_float:
        return float(np.finfo(x.dtype.numpy).min)
    return int(np.iinfo(x.dtype.numpy).min)
