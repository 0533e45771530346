"""Pooling of regions of interest: a lane takes a vec4 of channels of a bin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.graph import TensorType
from vknn.lowering.kit.candidate import DISPATCH_COST, FLOP_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, ceil_div, read1, read4, update, write
from vknn.lowering.kit.grid_loop import Grid, grid
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_buffer, fits_loops, rounds
from vknn.ops.pooling.roi_pooling import MaxRoiPool, PositionSensitiveRoiPool, RoiAlign
from vknn.ops.pooling.roi_sampled import BilinearRoiPool, DeformableRoiPool
from vknn.plan import DeviceLimits

_ALIGN, _CLIPPED, _MAX, _MEAN = range(4)
_KIND, _RATIO, _ALIGNED, _FIRST, _LAST, _WHOLE = range(10, 16)
#: Dispatches that a bin is cut into, at the most.
_MOST_PARTS = 256
#: float32 counts places exactly up to here.
_LONGEST_AXIS = 1 << 24


@lowers(RoiAlign, MaxRoiPool, PositionSensitiveRoiPool)
def regions(problem: Problem) -> Sequence[Candidate]:
    """One dispatch; several where a bin may have more rows than a lane's loops allow."""
    (x, rois), (y,), op = problem.inputs, problem.outputs, problem.op
    assert x is not None
    assert rois is not None
    assert isinstance(op, RoiAlign | MaxRoiPool | PositionSensitiveRoiPool)
    if max(x.dims[2:]) >= _LONGEST_AXIS:
        return []
    work = _Work.of(op, x, rois, y)
    rows = work.rows_at_once(problem.limits)
    if rows < 1 or ceil_div(work.most_rows, rows) > _MOST_PARTS:
        return []
    if rows < work.most_rows and not fits_buffer(problem.limits, 4 * work.items):
        return []

    def emit(emitter: Emitter) -> None:
        work.emit(emitter, rows)

    layout = Layout.LINEAR if work.scalar else Layout.C4
    cost = DISPATCH_COST * ceil_div(work.most_rows, rows) + 64 * y.size * FLOP_COST
    return [Candidate("bins", (layout, Layout.LINEAR), (Layout.C4,), emit, cost)]


@dataclass(frozen=True)
class _Work:
    """A pooling as numbers. ``most_rows``, ``most_columns``: of a bin, samples or places."""

    kind: int
    ratio: int
    aligned: bool
    scale: float
    shares: tuple[float, float]
    x: TensorType
    y: TensorType
    columns: int
    most_rows: int
    most_columns: int
    whole: bool

    @staticmethod
    def of(
        op: RoiAlign | MaxRoiPool | PositionSensitiveRoiPool,
        x: TensorType,
        rois: TensorType,
        y: TensorType,
    ) -> _Work:
        kind, ratio, aligned = _MAX if isinstance(op, MaxRoiPool) else _MEAN, 0, False
        most = list(x.dims[2:])
        if isinstance(op, RoiAlign):
            kind, ratio, aligned = _CLIPPED if op.clipped else _ALIGN, op.sampling_ratio, op.aligned
            # Samples lie at least half a place apart where their number is the ceiling.
            most = [ratio or (n + 1 if op.clipped else 2 * (n + 1) + 5) for n in most]
        shares = (op.shares if isinstance(op, MaxRoiPool) else None) or (0.0, 0.0)
        scale, columns = float(op.spatial_scale), rois.dims[1]
        whole = isinstance(op, MaxRoiPool) and op.whole
        return _Work(kind, ratio, aligned, scale, shares, x, y, columns, most[0], most[1], whole)

    @property
    def scalar(self) -> bool:
        """True where a lane's channels lie in images of their own."""
        return self.kind == _MEAN

    @property
    def items(self) -> int:
        return self.y.dims[0] * ceil_div(self.y.dims[1], 4) * math.prod(self.y.dims[2:])

    def _nested(self, rows: int) -> int:
        return rounds(1, rows, self.most_columns)

    def rows_at_once(self, limits: DeviceLimits) -> int:
        """Rows of a bin that a dispatch may take."""
        each = self._nested(1) + 1
        return min(self.most_rows, (limits.max_loop_rounds - 4) // each)

    def emit(self, emitter: Emitter, rows: int) -> None:
        parts = ceil_div(self.most_rows, rows)
        kept = emitter.scratch("parts", 4 * self.items if parts > 1 else 4)
        limits = emitter.problem.limits
        share = grid(limits, self.items, item_rounds=self._nested(rows))
        read = read1 if self.scalar else read4
        for part in range(parts):
            spec = {_FIRST: int(part == 0), _LAST: int(part == parts - 1)}
            emitter.dispatch(
                "pooling/roi_pool",
                [
                    read(emitter.input(0)),
                    read1(emitter.input(1)),
                    write(emitter.output()),
                    update(kept),
                ],
                groups=share.groups,
                local=share.local,
                push=self._push(share, part * rows, rows),
                spec=share.spec | self._spec() | spec,
                defines={"SCALAR_INPUT": int(self.scalar)},
                flops=16 * self.y.size,
            )

    def _spec(self) -> dict[int, int]:
        spec = {_KIND: self.kind, _RATIO: self.ratio, _ALIGNED: int(self.aligned)}
        return spec | {_WHOLE: int(self.whole)}

    def _push(self, share: Grid, row: int, rows: int) -> list[int | float]:
        images, _, *size_in = self.x.dims
        _, channels, *size_out = self.y.dims
        push: list[int | float] = [self.items, share.chunk, ceil_div(channels, 4), channels]
        push += [images, self.columns, *size_in, *size_out, row, rows, self.scale]
        return [*push, *(float(s) for s in self.shares)]


@lowers(BilinearRoiPool)
def bilinear(problem: Problem) -> Sequence[Candidate]:
    """A lane takes a vec4 of channels of a sample, in all parts of its region."""
    (x, rois), (y,), op = problem.inputs, problem.outputs, problem.op
    assert x is not None
    assert rois is not None
    assert isinstance(op, BilinearRoiPool)
    parts = op.parts or (1, 1)
    items = y.dims[0] * ceil_div(y.dims[1], 4) * math.prod(y.dims[2:])
    nested = rounds(math.prod(parts))
    scalar = math.prod(parts) > 1
    if max(*x.dims[2:], *y.dims[2:]) >= _LONGEST_AXIS or items == 0:
        return []
    if not fits_loops(problem.limits, math.prod(parts), times=2):
        return []

    def emit(emitter: Emitter) -> None:
        share = grid(emitter.problem.limits, items, item_rounds=nested)
        push: list[int | float] = [items, share.chunk, ceil_div(y.dims[1], 4), y.dims[1]]
        push += [x.dims[0], rois.dims[1], *x.dims[2:], *y.dims[2:], *parts]
        read = read1 if scalar else read4
        emitter.dispatch(
            "pooling/roi_bilinear",
            [read(emitter.input(0)), read1(emitter.input(1)), write(emitter.output())],
            groups=share.groups,
            local=share.local,
            push=[*push, float(np.float32(op.spatial_scale))],
            spec=share.spec | {10: int(op.parts is not None)},
            defines={"SCALAR_INPUT": int(scalar)},
            flops=16 * y.size,
        )

    layout = Layout.LINEAR if scalar else Layout.C4
    cost = DISPATCH_COST + 32 * math.prod(parts) * y.size * FLOP_COST
    return [Candidate("grid", (layout, Layout.LINEAR), (Layout.C4,), emit, cost)]


@lowers(DeformableRoiPool)
def deformable(problem: Problem) -> Sequence[Candidate]:
    """A lane takes all samples of a bin in one channel."""
    (x, rois, *more), (y,), op = problem.inputs, problem.outputs, problem.op
    assert x is not None
    assert rois is not None
    assert isinstance(op, DeformableRoiPool)
    offsets = more[0] if more else None
    if max(*x.dims[2:], *y.dims[2:]) >= _LONGEST_AXIS or y.size == 0:
        return []
    nested = rounds(*op.samples)
    if not fits_loops(problem.limits, *op.samples, times=2):
        return []
    classes = offsets.dims[1] // 2 if offsets is not None else 1

    def emit(emitter: Emitter) -> None:
        share = grid(emitter.problem.limits, y.size, item_rounds=nested)
        push: list[int | float] = [y.size, share.chunk, y.dims[1], x.dims[0], rois.dims[1]]
        push += [*x.dims[2:], *y.dims[2:], op.group, *op.samples]
        push += [op.parts, classes, y.dims[1] // classes]
        third = emitter.input(2 if offsets is not None else 1)
        emitter.dispatch(
            "pooling/roi_deformable",
            [
                read1(emitter.input(0)),
                read1(emitter.input(1)),
                read1(third),
                write(emitter.output()),
            ],
            groups=share.groups,
            local=share.local,
            push=[*push, float(np.float32(op.spatial_scale)), float(np.float32(op.spread))],
            spec=share.spec | {10: int(offsets is not None)},
            flops=16 * y.size,
        )

    layouts = (Layout.LINEAR,) * len(problem.inputs)
    cost = DISPATCH_COST + 32 * math.prod(op.samples) * y.size * FLOP_COST
    return [Candidate("samples", layouts, (Layout.LINEAR,), emit, cost)]
