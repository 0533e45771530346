"""Normalisation of rows: groups of channels, channels, any axes (shaders/normalization).

GroupNormalization, InstanceNormalization, MeanVarianceNormalization, NormalizeL2 and
RMSNormalization. One dispatch; three for few long rows, which are cut into parts.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.graph import TensorType
from vknn.lowering.kernels.reduction.parts import RowParts, parts_of, whole_row_cost
from vknn.lowering.kernels.reduction.reduction_axes import (
    ReductionAxes,
    along_axes,
    along_groups,
)
from vknn.lowering.kernels.reduction.rows import RowShape
from vknn.lowering.kit.candidate import BYTE_COST, DISPATCH_COST, FLOP_COST, Candidate
from vknn.lowering.kit.emitter import BoundBuffer, Emitter, Ref, read1, read4, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import PLAIN, Layout, allows, ceil_div, storage_bytes
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits, fits_buffer, fits_loops, lane_count, spread
from vknn.ops.normalization import (
    EPSILON_MODES,
    GroupNormalization,
    InstanceNormalization,
    MeanVarianceNormalization,
    NormalizeL2,
    RMSNormalization,
)
from vknn.ops.reduction import normal_axes
from vknn.plan import DeviceLimits

#: How scales and shifts are numbered (NUMBER of normalize.comp).
_BY_PLACE, _SPLAT, _BY_ITEM = range(3)
#: FACTOR of factor.glsl: rows are not scaled; others are 1 + the place in EPSILON_MODES.
_NO_FACTOR = 0


@dataclass(frozen=True)
class Affine:
    """Scales and shifts: ``vectors`` if read by vec4s, numbered as normalize.comp says."""

    vectors: bool
    number: int
    spread: int
    period: int


@dataclass(frozen=True)
class RowNormalization:
    """A normalisation of each row.

    ``center``: the mean is subtracted. ``factor``: FACTOR of factor.glsl. ``inverse``: 1 / elements
    of a row. ``share``: what a row's sum of squares is multiplied by before the root.
    """

    axes: ReductionAxes
    center: bool
    factor: int
    epsilon: float
    inverse: float
    share: float
    affine: Affine | None

    def push(self, parts: RowParts, shifts: int) -> dict[str, int | float]:
        """Push constants of normalize.comp; ``shifts``: where the shifts begin."""
        affine = self.affine or Affine(False, _BY_PLACE, 1, 1)
        return {
            **self.axes.push(),
            **parts.push(),
            "spread": affine.spread,
            "period": affine.period,
            "shifts": shifts,
            "inverse": self.inverse,
            "share": self.share,
            "epsilon": float(self.epsilon),
        }

    def spec(self, shape: RowShape) -> dict[str, int]:
        """Specialization constants of normalize.comp."""
        number = _BY_PLACE if self.affine is None else self.affine.number
        own = {"CENTER": int(self.center), "FACTOR": self.factor, "NUMBER": number}
        return self.axes.spec(shape) | own

    def defines(self, stage: int) -> dict[str, int]:
        """The variant of normalize.comp."""
        kind = 0 if self.affine is None or stage == 1 else 2 if self.affine.vectors else 1
        return {"WIDE": int(self.axes.wide), "STAGE": stage, "AFFINE": kind}


@lowers(GroupNormalization, InstanceNormalization)
def group_normalization(problem: Problem) -> Sequence[Candidate]:
    """Candidates whose rows are the groups of channels of an image."""
    op, x = problem.op, problem.inputs[0]
    assert isinstance(op, GroupNormalization | InstanceNormalization) and x is not None
    groups = op.num_groups if isinstance(op, GroupNormalization) else x.dims[1]
    found = []
    for layout in PLAIN:
        axes = along_groups(x, groups, layout) if allows(x, layout) else None
        if axes is not None:
            affine = _by_channel(x, axes, layout) if _has_affine(problem) else None
            inverse = groups / math.prod(x.dims[1:])
            norm = RowNormalization(axes, True, 1, op.epsilon, inverse, inverse, affine)
            found += _candidates(problem, norm, layout)
    return found


@lowers(MeanVarianceNormalization, NormalizeL2)
def normalization_over_axes(problem: Problem) -> Sequence[Candidate]:
    """Candidates whose rows run along the axes of the op."""
    op, x = problem.op, problem.inputs[0]
    assert isinstance(op, MeanVarianceNormalization | NormalizeL2) and x is not None
    dims = normal_axes(op, op.axes, x.rank)
    inverse = 1.0 / max(1, math.prod(x.dims[a] for a in dims))
    center = isinstance(op, MeanVarianceNormalization)
    plain = isinstance(op, MeanVarianceNormalization) and not op.normalize_variance
    factor = _NO_FACTOR if plain else 1 + EPSILON_MODES.index(op.epsilon_mode)
    share = inverse if center else 1.0
    found = []
    for layout in PLAIN:
        axes = along_axes(x, dims, layout)
        if axes is not None:
            norm = RowNormalization(axes, center, factor, op.epsilon, inverse, share, None)
            found += _candidates(problem, norm, layout)
    return found


@lowers(RMSNormalization)
def rms_normalization(problem: Problem) -> Sequence[Candidate]:
    """Candidates over the trailing axes of LINEAR."""
    op, x = problem.op, problem.inputs[0]
    assert isinstance(op, RMSNormalization) and x is not None
    dims = range(op.axis % x.rank, x.rank)
    axes = along_axes(x, dims, Layout.LINEAR)
    if axes is None:
        return []
    inverse = 1.0 / max(1, math.prod(x.dims[a] for a in dims))
    affine = None
    if _has_affine(problem):
        # Axes of one element make no row of their own: the scale is one for all.
        by_item = axes.across
        affine = Affine(axes.wide and by_item, _BY_ITEM if by_item else _SPLAT, 1, 1)
    norm = RowNormalization(axes, False, 1, op.epsilon, inverse, inverse, affine)
    return _candidates(problem, norm, Layout.LINEAR)


def _has_affine(problem: Problem) -> bool:
    return any(t is not None for t in problem.inputs[1:])


def _by_channel(x: TensorType, axes: ReductionAxes, layout: Layout) -> Affine:
    """A scale and a shift for each channel."""
    plane, channels = math.prod(x.dims[2:]), x.dims[1]
    if layout is Layout.C4:
        return Affine(True, _BY_PLACE, plane, ceil_div(channels, 4))
    if axes.wide and plane % 4 == 0:
        return Affine(False, _SPLAT, plane // 4, channels)
    return Affine(False, _BY_PLACE, plane, channels)


def _candidates(problem: Problem, norm: RowNormalization, layout: Layout) -> list[Candidate]:
    x, limits, axes = problem.inputs[0], problem.limits, norm.axes
    assert x is not None
    inputs = (layout, *_affine_layouts(problem))
    work = 2 * storage_bytes(x, layout) * BYTE_COST + 8 * x.size * FLOP_COST
    found = []
    shape = axes.shape(limits)
    if shape.fits(axes.rows, axes.count, limits):
        cost = DISPATCH_COST + work + 3 * whole_row_cost(axes, shape, limits)
        emit = functools.partial(_emit_whole, norm=norm, shape=shape)
        found.append(Candidate(f"lines_{layout.value}", inputs, (layout,), emit, cost))
    parts = parts_of(axes, limits)
    if parts is not None and _parts_fit(axes, parts, limits):
        cost = 3 * DISPATCH_COST + 1.5 * work
        emit = functools.partial(_emit_parts, norm=norm, parts=parts)
        found.append(Candidate(f"parts_{layout.value}", inputs, (layout,), emit, cost))
    return found


def _all_constant(problem: Problem) -> bool:
    """True where scales and shifts can be packed beforehand."""
    given = zip(problem.inputs[1:], problem.constants[1:], strict=True)
    return all(t is None or c is not None for t, c in given)


def _affine_layouts(problem: Problem) -> list[Layout | None]:
    packed = _all_constant(problem)
    return [None if packed or t is None else Layout.LINEAR for t in problem.inputs[1:]]


def _affine_buffer(emitter: Emitter, affine: Affine) -> tuple[Ref, int]:
    """A buffer of scales, then shifts; where the shifts begin, in what the shader reads."""
    problem = emitter.problem
    given = [*problem.inputs[1:], None][:2]
    length = max(t.size for t in given if t is not None)
    padded = ceil_div(length, 4) * 4
    where = padded // 4 if affine.vectors else padded
    if not _all_constant(problem):
        return _joined_affine(emitter, length, padded), where
    vectors = [*problem.constants[1:], None][:2]
    key = f"affine {[v is not None for v in vectors]}"
    present = [v for v in vectors if v is not None]
    return emitter.weight(key, lambda: pack_affine(vectors, padded), *present), where


def _joined_affine(emitter: Emitter, length: int, padded: int) -> Ref:
    """Scales and shifts that are data, copied side by side."""
    both = emitter.scratch("affine", 2 * padded, as_tensor=True)
    fill = emitter.weight(f"no affine {padded}", lambda: pack_affine((None, None), padded))
    for index, type_ in enumerate([*emitter.problem.inputs[1:], None][:2]):
        half = index * padded * both.width
        source, start = (fill, half) if type_ is None else (emitter.input(1 + index), 0)
        emitter.copy(source, both, length * both.width, start, half)
    return both


def pack_affine(vectors: Sequence[np.ndarray | None], padded: int) -> np.ndarray:
    """[2, padded]: scales and shifts; ones and zeros for those that are absent."""
    packed = np.zeros((2, padded), np.float32)
    packed[0] = 1.0
    for row, vector in zip(packed, vectors, strict=True):
        if vector is not None:
            row[: vector.size] = vector.reshape(-1)
    return packed


def _affine_reads(emitter: Emitter, affine: Affine | None) -> tuple[list[BoundBuffer], int]:
    """The binding of scales and shifts, if any; where the shifts begin."""
    if affine is None:
        return [], 0
    ref, shifts = _affine_buffer(emitter, affine)
    return [read4(ref) if affine.vectors else read1(ref)], shifts


def _emit_whole(emitter: Emitter, norm: RowNormalization, shape: RowShape) -> None:
    """One dispatch; the lanes of a row read it three times."""
    axes = norm.axes
    bindings, shifts = _affine_reads(emitter, norm.affine)
    emitter.dispatch(
        "normalization/normalize",
        [axes.read(emitter.input(0)), write(emitter.output()), *bindings],
        groups=shape.groups(axes.rows, emitter.problem.limits),
        local=shape.local,
        push=norm.push(RowParts(1, axes.count), shifts),
        spec=norm.spec(shape),
        defines=norm.defines(0),
        flops=24 * axes.rows * axes.count,
    )


def _parts_fit(axes: ReductionAxes, parts: RowParts, limits: DeviceLimits) -> bool:
    count, lanes = axes.rows * parts.parts, lane_count(limits)
    return (
        fits_buffer(limits, 12 * count)
        and parts.shape(axes, limits).fits(count, parts.chunk, limits)
        and fits_loops(limits, parts.parts, times=2)
        and fits(ceil_div(axes.rows * axes.count, lanes), limits)
    )


def _emit_parts(emitter: Emitter, norm: RowNormalization, parts: RowParts) -> None:
    """Three dispatches: moments of parts of the rows, moments of the rows, the result."""
    rows = norm.axes.rows
    of_parts = emitter.scratch("parts", 12 * rows * parts.parts)
    moments = emitter.scratch("moments", 8 * rows)
    _emit_part_moments(emitter, norm, parts, of_parts)
    _emit_moments(emitter, norm, parts, of_parts, moments)
    _emit_result(emitter, norm, moments)


def _emit_part_moments(
    emitter: Emitter, norm: RowNormalization, parts: RowParts, of_parts: Ref
) -> None:
    axes, limits = norm.axes, emitter.problem.limits
    shape, count = parts.shape(axes, limits), axes.rows * parts.parts
    emitter.dispatch(
        "normalization/normalize",
        [axes.read(emitter.input(0)), write(of_parts)],
        groups=shape.groups(count, limits),
        local=shape.local,
        push={**norm.push(parts, 0), "rows": count},
        spec=norm.spec(shape),
        defines=norm.defines(1),
        flops=20 * axes.rows * axes.count,
    )


def _emit_moments(
    emitter: Emitter, norm: RowNormalization, parts: RowParts, of_parts: Ref, moments: Ref
) -> None:
    rows, limits = norm.axes.rows, emitter.problem.limits
    lanes = lane_count(limits)
    emitter.dispatch(
        "normalization/moments",
        [read4(of_parts), write(moments)],
        groups=spread(ceil_div(rows, lanes), limits),
        local=(lanes, 1, 1),
        push={
            "rows": rows,
            "parts": parts.parts,
            "share": norm.share,
            "epsilon": float(norm.epsilon),
        },
        spec={"FACTOR": norm.factor},
    )


def _emit_result(emitter: Emitter, norm: RowNormalization, moments: Ref) -> None:
    axes = norm.axes
    bindings, shifts = _affine_reads(emitter, norm.affine)
    share = grid(emitter.problem.limits, axes.rows * axes.count)
    emitter.dispatch(
        "normalization/normalize",
        [axes.read(emitter.input(0)), write(emitter.output()), read4(moments), *bindings],
        groups=share.groups,
        local=share.local,
        push=norm.push(RowParts(1, share.chunk), shifts),
        spec=norm.spec(RowShape(1, 1)),
        defines=norm.defines(2),
        flops=8 * axes.rows * axes.count,
    )
