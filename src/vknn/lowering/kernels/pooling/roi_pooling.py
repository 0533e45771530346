"""RoiAlign, MaxRoiPool and their kin: pooling of the bins of regions of interest."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.graph import TensorType
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, read4, update, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.parameters import by_axis
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_buffer, fits_loops, rounds
from vknn.ops.pooling.roi_pooling import MaxRoiPool, PositionSensitiveRoiPool, RoiAlign
from vknn.ops.pooling.roi_sampled import BilinearRoiPool, DeformableRoiPool
from vknn.plan import DeviceLimits

#: KIND of shaders/pooling/roi_bins.glsl.
_ALIGN, _CLIPPED, _MAX, _MEAN = range(4)
#: Dispatches that a bin is cut into, at the most.
_MOST_PARTS = 256
#: float32 counts places exactly up to here.
_LONGEST_AXIS = 1 << 24


@lowers(RoiAlign, MaxRoiPool, PositionSensitiveRoiPool)
def region_pooling(problem: Problem) -> Sequence[Candidate]:
    """The candidate: a lane for a vec4 of channels of a bin.

    Several dispatches where a bin may have more rows than a lane's loops allow.
    """
    x, (y,), op = problem.input(0), problem.outputs, problem.op
    assert isinstance(op, RoiAlign | MaxRoiPool | PositionSensitiveRoiPool)
    if max(x.dims[2:]) >= _LONGEST_AXIS:
        return []
    bins = _bins(op, x)
    rows = bins.rows_at_once(problem.limits)
    if rows < 1 or ceil_div(bins.most_rows, rows) > _MOST_PARTS:
        return []
    if rows < bins.most_rows and not fits_buffer(problem.limits, 4 * _vectors(y)):
        return []
    emit = functools.partial(_emit_regions, bins=bins, rows=rows)
    layout = Layout.LINEAR if bins.scalar else Layout.C4
    machine = problem.machine
    cost = machine.dispatch * ceil_div(bins.most_rows, rows) + 64 * y.size * machine.flop
    return [Candidate("bins", (layout, Layout.LINEAR), (Layout.C4,), emit, cost)]


@dataclass(frozen=True)
class _Bins:
    """Sizes and options of the bins of regions.

    ``most_rows``, ``most_columns``: of a bin, samples or places. Others as roi_bins.glsl has them.
    """

    kind: int
    most_rows: int
    most_columns: int
    scale: float
    ratio: int = 0
    aligned: bool = False
    shares: tuple[float, float] = (0.0, 0.0)
    whole: bool = False
    largest: bool = False

    @property
    def scalar(self) -> bool:
        """True where a lane's channels lie in images of their own."""
        return self.kind == _MEAN

    def loop_rounds(self, rows: int) -> int:
        """Rounds of a lane's loops over so many rows of a bin."""
        return rounds(1, rows, self.most_columns)

    def rows_at_once(self, limits: DeviceLimits) -> int:
        """Rows of a bin that a dispatch may take."""
        each = self.loop_rounds(1) + 1
        return min(self.most_rows, (limits.max_loop_rounds - 4) // each)

    @property
    def spec(self) -> dict[str, int]:
        """Specialization constants of roi_bins.glsl."""
        return {
            "KIND": self.kind,
            "RATIO": self.ratio,
            "ALIGNED": int(self.aligned),
            "WHOLE": int(self.whole),
            "LARGEST": int(self.largest),
        }


def _bins(op: RoiAlign | MaxRoiPool | PositionSensitiveRoiPool, x: TensorType) -> _Bins:
    height, width = x.dims[2:]
    scale = float(op.spatial_scale)
    if isinstance(op, MaxRoiPool):
        return _Bins(_MAX, height, width, scale, shares=op.shares or (0.0, 0.0), whole=op.whole)
    if isinstance(op, PositionSensitiveRoiPool):
        return _Bins(_MEAN, height, width, scale)
    # Samples lie at least half a place apart where their number is the ceiling.
    rows, columns = (
        op.sampling_ratio or (n + 1 if op.clipped else 2 * (n + 1) + 5) for n in (height, width)
    )
    kind = _CLIPPED if op.clipped else _ALIGN
    largest = op.mode == "max"
    return _Bins(kind, rows, columns, scale, op.sampling_ratio, op.aligned, largest=largest)


def _vectors(y: TensorType) -> int:
    """vec4s of a tensor in C4."""
    return y.dims[0] * ceil_div(y.dims[1], 4) * math.prod(y.dims[2:])


def _emit_regions(emitter: Emitter, bins: _Bins, rows: int) -> None:
    (y,) = emitter.problem.outputs
    parts, items = ceil_div(bins.most_rows, rows), _vectors(y)
    kept = emitter.scratch("parts", 4 * items if parts > 1 else 4)
    for part in range(parts):
        _emit_rows(emitter, bins, part, parts, rows, kept)


def _emit_rows(emitter: Emitter, bins: _Bins, part: int, parts: int, rows: int, kept: Ref) -> None:
    """One of ``parts`` dispatches, of ``rows`` rows of all bins; ``kept``: results so far."""
    x, rois, (y,) = emitter.problem.input(0), emitter.problem.input(1), emitter.problem.outputs
    read = read1 if bins.scalar else read4
    reads = [read(emitter.input(0)), read1(emitter.input(1))]
    share_h, share_w = bins.shares
    emitter.dispatch_items(
        "pooling/roi_pool",
        [*reads, write(emitter.output()), update(kept)],
        grid(emitter.problem.limits, _vectors(y), item_rounds=bins.loop_rounds(rows)),
        push={
            "count": _vectors(y),
            "c4": ceil_div(y.dims[1], 4),
            "channels": y.dims[1],
            **_sizes_push(x, rois, y),
            "row": part * rows,
            "rows": rows,
            "scale": bins.scale,
            "share_h": float(share_h),
            "share_w": float(share_w),
        },
        spec={**bins.spec, "FIRST": int(part == 0), "LAST": int(part == parts - 1)},
        defines={"SCALAR_INPUT": int(bins.scalar)},
        flops=16 * y.size,
    )


def _sizes_push(x: TensorType, rois: TensorType, y: TensorType) -> dict[str, int]:
    sizes = {"images": x.dims[0], "columns": rois.dims[1]}
    return sizes | by_axis("in", x.dims[2:]) | by_axis("out", y.dims[2:])


@lowers(BilinearRoiPool)
def bilinear_roi_pool(problem: Problem) -> Sequence[Candidate]:
    """The candidate: a lane takes a vec4 of channels of a sample, in all parts of its region."""
    x, (y,), op = problem.input(0), problem.outputs, problem.op
    assert isinstance(op, BilinearRoiPool)
    parts = math.prod(op.parts or (1, 1))
    if max(*x.dims[2:], *y.dims[2:]) >= _LONGEST_AXIS or _vectors(y) == 0:
        return []
    if not fits_loops(problem.limits, parts, times=2):
        return []
    layout = Layout.LINEAR if parts > 1 else Layout.C4
    machine = problem.machine
    cost = machine.dispatch + 32 * parts * y.size * machine.flop
    return [Candidate("grid", (layout, Layout.LINEAR), (Layout.C4,), _emit_bilinear, cost)]


def _emit_bilinear(emitter: Emitter) -> None:
    x, rois, (y,) = emitter.problem.input(0), emitter.problem.input(1), emitter.problem.outputs
    op = emitter.problem.op
    assert isinstance(op, BilinearRoiPool)
    down, across = op.parts or (1, 1)
    count, scalar = _vectors(y), down * across > 1
    read = read1 if scalar else read4
    emitter.dispatch_items(
        "pooling/roi_bilinear",
        [read(emitter.input(0)), read1(emitter.input(1)), write(emitter.output())],
        grid(emitter.problem.limits, count, item_rounds=rounds(down * across)),
        push={
            "count": count,
            "c4": ceil_div(y.dims[1], 4),
            "channels": y.dims[1],
            **_sizes_push(x, rois, y),
            "rows": down,
            "across": across,
            "scale": float(np.float32(op.spatial_scale)),
        },
        spec={"PARTS": int(op.parts is not None)},
        defines={"SCALAR_INPUT": int(scalar)},
        flops=16 * y.size,
    )


@lowers(DeformableRoiPool)
def deformable_roi_pool(problem: Problem) -> Sequence[Candidate]:
    """The candidate: a lane takes all samples of a bin in one channel."""
    x, (y,), op = problem.input(0), problem.outputs, problem.op
    assert isinstance(op, DeformableRoiPool)
    if max(*x.dims[2:], *y.dims[2:]) >= _LONGEST_AXIS or y.size == 0:
        return []
    if not fits_loops(problem.limits, *op.samples, times=2):
        return []
    layouts = (Layout.LINEAR,) * len(problem.inputs)
    machine = problem.machine
    cost = machine.dispatch + 32 * math.prod(op.samples) * y.size * machine.flop
    return [Candidate("samples", layouts, (Layout.LINEAR,), _emit_deformable, cost)]


def _emit_deformable(emitter: Emitter) -> None:
    (x, rois, *more), (y,) = emitter.problem.inputs, emitter.problem.outputs
    op = emitter.problem.op
    assert x is not None and rois is not None and isinstance(op, DeformableRoiPool)
    offsets = more[0] if more else None
    classes = offsets.dims[1] // 2 if offsets is not None else 1
    rows, across = op.samples
    inputs = [emitter.input(i) for i in (0, 1, 2 if offsets is not None else 1)]
    emitter.dispatch_items(
        "pooling/roi_deformable",
        [*map(read1, inputs), write(emitter.output())],
        grid(emitter.problem.limits, y.size, item_rounds=rounds(rows, across)),
        push={
            "count": y.size,
            "channels": y.dims[1],
            **_sizes_push(x, rois, y),
            "group": op.group,
            "rows": rows,
            "across": across,
            "parts": op.parts,
            "classes": classes,
            "each": y.dims[1] // classes,
            "scale": float(np.float32(op.spatial_scale)),
            "spread": float(np.float32(op.spread)),
        },
        spec={"MOVED": int(offsets is not None)},
        flops=16 * y.size,
    )
