"""Normalisation of rows (shaders/normalization/normalize.comp) for the rules of several ops.

One dispatch; three for few long rows, which are cut into parts.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from vknn.lowering.kernels.normalization.affine import (
    BY_PLACE,
    Affine,
    affine_layouts,
    affine_reads,
)
from vknn.lowering.kernels.reduction.parts import RowParts, parts_of, whole_row_cost
from vknn.lowering.kernels.reduction.reduction_axes import ReductionAxes
from vknn.lowering.kernels.reduction.rows import RowShape
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read4, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout, ceil_div, storage_bytes
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.workgroups import (
    fits_buffer,
    fits_lanes,
    fits_loops,
    lane_count,
    spread,
)
from vknn.plan import DeviceLimits


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
        affine = self.affine or Affine(False, BY_PLACE, 1, 1)
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
        number = BY_PLACE if self.affine is None else self.affine.number
        own = {"CENTER": int(self.center), "FACTOR": self.factor, "NUMBER": number}
        return self.axes.spec(shape) | own

    def defines(self, stage: int) -> dict[str, int]:
        """The variant of normalize.comp."""
        kind = 0 if self.affine is None or stage == 1 else 2 if self.affine.vectors else 1
        return {"WIDE": int(self.axes.wide), "STAGE": stage, "AFFINE": kind}


def row_candidates(problem: Problem, norm: RowNormalization, layout: Layout) -> list[Candidate]:
    """Candidates for x in this layout: rows as a whole, and few long ones in parts."""
    x, limits, axes = problem.input(0), problem.limits, norm.axes
    inputs = (layout, *affine_layouts(problem))
    machine = problem.machine
    work = 2 * storage_bytes(x, layout) * machine.byte + 8 * x.size * machine.flop
    found = []
    shape = axes.shape(limits)
    if shape.fits(axes.rows, axes.count, limits):
        cost = machine.dispatch + work + 3 * whole_row_cost(axes, shape, limits)
        emit = functools.partial(_emit_whole, norm=norm, shape=shape)
        found.append(Candidate(f"lines_{layout.value}", inputs, (layout,), emit, cost))
    parts = parts_of(axes, limits)
    if parts is not None and _parts_fit(axes, parts, limits):
        cost = 3 * machine.dispatch + 1.5 * work
        emit = functools.partial(_emit_parts, norm=norm, parts=parts)
        found.append(Candidate(f"parts_{layout.value}", inputs, (layout,), emit, cost))
    return found


def _emit_whole(emitter: Emitter, norm: RowNormalization, shape: RowShape) -> None:
    """One dispatch; the lanes of a row read it three times."""
    axes = norm.axes
    bindings, shifts = affine_reads(emitter, norm.affine)
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
    count = axes.rows * parts.parts
    return (
        fits_buffer(limits, 12 * count)
        and parts.shape(axes, limits).fits(count, parts.chunk, limits)
        and fits_loops(limits, parts.parts, times=2)
        and fits_lanes(axes.rows * axes.count, limits)
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
    bindings, shifts = affine_reads(emitter, norm.affine)
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
