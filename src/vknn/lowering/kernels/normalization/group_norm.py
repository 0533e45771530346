"""Normalisation of lines: groups of channels, channels, any axes (shaders/normalization)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.graph import TensorType
from vknn.lowering.kernels.reduction.reduction_axes import Lines, lines_of, lines_of_groups
from vknn.lowering.kernels.reduction.rows import RowShape, row_shape
from vknn.lowering.kernels.reduction.rule import Parts, lane_cost, parts_of
from vknn.lowering.kit.candidate import BYTE_COST, DISPATCH_COST, FLOP_COST, Candidate
from vknn.lowering.kit.emitter import Bound, Emitter, Ref, ceil_div, read1, read4, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import PLAIN, Layout, allows, storage_bytes
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

_CENTER, _FACTOR, _NUMBER = range(16, 19)
_BY_PLACE, _SPLAT, _BY_ITEM = range(3)
_NO_FACTOR = 0


@dataclass(frozen=True)
class Affine:
    """Scales and shifts: ``vectors`` in vec4s, or scalars; see normalize.comp."""

    vectors: bool
    number: int
    spread: int
    period: int


@dataclass(frozen=True)
class Normal:
    """What is done to each line. ``inverse``: 1 / its elements; ``share``: what its sum of squares
    is multiplied with before the root."""

    lines: Lines
    center: bool
    factor: int
    epsilon: float
    inverse: float
    share: float
    affine: Affine | None


@lowers(GroupNormalization, InstanceNormalization)
def grouped(problem: Problem) -> Sequence[Candidate]:
    """Lines are the groups of channels of an image."""
    op, x = problem.op, problem.inputs[0]
    assert isinstance(op, GroupNormalization | InstanceNormalization) and x is not None
    groups = op.num_groups if isinstance(op, GroupNormalization) else x.dims[1]
    found = []
    for layout in PLAIN:
        lines = lines_of_groups(x, groups, layout) if allows(x, layout) else None
        if lines is not None:
            affine = _by_channel(x, lines, layout) if _has_affine(problem) else None
            inverse = groups / math.prod(x.dims[1:])
            what = Normal(lines, True, 1, op.epsilon, inverse, inverse, affine)
            found += _candidates(problem, what, layout)
    return found


@lowers(MeanVarianceNormalization, NormalizeL2)
def over_axes(problem: Problem) -> Sequence[Candidate]:
    """Lines along the axes of the op."""
    op, x = problem.op, problem.inputs[0]
    assert isinstance(op, MeanVarianceNormalization | NormalizeL2) and x is not None
    axes = normal_axes(op, op.axes, x.rank)
    inverse = 1.0 / max(1, math.prod(x.dims[a] for a in axes))
    center = isinstance(op, MeanVarianceNormalization)
    plain = isinstance(op, MeanVarianceNormalization) and not op.normalize_variance
    factor = _NO_FACTOR if plain else 1 + EPSILON_MODES.index(op.epsilon_mode)
    share = inverse if center else 1.0
    found = []
    for layout in PLAIN:
        lines = lines_of(x, axes, layout)
        if lines is not None:
            what = Normal(lines, center, factor, op.epsilon, inverse, share, None)
            found += _candidates(problem, what, layout)
    return found


@lowers(RMSNormalization)
def root_mean_square(problem: Problem) -> Sequence[Candidate]:
    """Rows of LINEAR tensors."""
    op, x = problem.op, problem.inputs[0]
    assert isinstance(op, RMSNormalization) and x is not None
    axes = range(op.axis % x.rank, x.rank)
    lines = lines_of(x, axes, Layout.LINEAR)
    if lines is None:
        return []
    inverse = 1.0 / max(1, math.prod(x.dims[a] for a in axes))
    affine = None
    if _has_affine(problem):
        # Axes of one element make no line of their own: the scale is one for all.
        by_item = lines.across
        affine = Affine(lines.wide and by_item, _BY_ITEM if by_item else _SPLAT, 1, 1)
    what = Normal(lines, False, 1, op.epsilon, inverse, inverse, affine)
    return _candidates(problem, what, Layout.LINEAR)


def _has_affine(problem: Problem) -> bool:
    return any(t is not None for t in problem.inputs[1:])


def _by_channel(x: TensorType, lines: Lines, layout: Layout) -> Affine:
    """A scale and a shift for each channel."""
    plane, channels = math.prod(x.dims[2:]), x.dims[1]
    if layout is Layout.C4:
        return Affine(True, _BY_PLACE, plane, ceil_div(channels, 4))
    if lines.wide and plane % 4 == 0:
        return Affine(False, _SPLAT, plane // 4, channels)
    return Affine(False, _BY_PLACE, plane, channels)


def _candidates(problem: Problem, what: Normal, layout: Layout) -> list[Candidate]:
    x, limits, lines = problem.inputs[0], problem.limits, what.lines
    assert x is not None
    inputs = (layout, *_affine_layouts(problem))
    work = 2 * storage_bytes(x, layout) * BYTE_COST + 8 * x.size * FLOP_COST
    found = []
    shape = lines.shape(limits)
    if shape.fits(lines.lines, lines.count, limits):
        cost = DISPATCH_COST + work + 3 * lane_cost(lines, shape, limits)
        whole = _Whole(what, shape)
        found.append(Candidate(f"lines_{layout.value}", inputs, (layout,), whole, cost))
    parts = parts_of(lines, limits)
    if parts is not None:
        split = _Split(what, parts)
        if split.fits(limits):
            cost = 3 * DISPATCH_COST + 1.5 * work
            found.append(Candidate(f"parts_{layout.value}", inputs, (layout,), split, cost))
    return found


def _all_constant(problem: Problem) -> bool:
    """True where scales and shifts can be packed beforehand."""
    given = zip(problem.inputs[1:], problem.constants[1:], strict=True)
    return all(t is None or c is not None for t, c in given)


def _affine_layouts(problem: Problem) -> list[Layout | None]:
    packed = _all_constant(problem)
    return [None if packed or t is None else Layout.LINEAR for t in problem.inputs[1:]]


def _affine(emitter: Emitter, affine: Affine) -> tuple[Ref, int]:
    """Scales, and shifts from the second half on, which begins at the number that is given back."""
    problem = emitter.problem
    given = [*problem.inputs[1:], None][:2]
    length = max(t.size for t in given if t is not None)
    padded = ceil_div(length, 4) * 4
    where = padded // 4 if affine.vectors else padded
    if _all_constant(problem):
        vectors = [*problem.constants[1:], None][:2]
        key = f"affine {[v is not None for v in vectors]}"
        present = [v for v in vectors if v is not None]
        return emitter.weight(key, lambda: pack_affine(vectors, padded), *present), where
    both = emitter.scratch("affine", 2 * padded, as_tensor=True)
    fill = emitter.weight(f"no affine {padded}", lambda: pack_affine((None, None), padded))
    for index, type_ in enumerate(given):
        half = index * padded * both.width
        source, start = (fill, half) if type_ is None else (emitter.input(1 + index), 0)
        emitter.copy(source, both, length * both.width, start, half)
    return both, where


def pack_affine(vectors: Sequence[np.ndarray | None], padded: int) -> np.ndarray:
    """[2, padded]: scales and shifts; ones and zeros for those that are absent."""
    packed = np.zeros((2, padded), np.float32)
    packed[0] = 1.0
    for row, vector in zip(packed, vectors, strict=True):
        if vector is not None:
            row[: vector.size] = vector.reshape(-1)
    return packed


def _push(what: Normal, parts: Parts, shifts: int) -> list[int | float]:
    affine = what.affine or Affine(False, _BY_PLACE, 1, 1)
    return [
        *(*what.lines.push(), parts.parts, parts.chunk, affine.spread, affine.period, shifts),
        *(what.inverse, what.share, float(what.epsilon)),
    ]


def _spec(what: Normal) -> dict[int, int]:
    number = _BY_PLACE if what.affine is None else what.affine.number
    return {_CENTER: int(what.center), _FACTOR: what.factor, _NUMBER: number}


def _defines(what: Normal, stage: int) -> dict[str, int | str]:
    kind = 0 if what.affine is None or stage == 1 else 2 if what.affine.vectors else 1
    return {"WIDE": int(what.lines.wide), "STAGE": stage, "AFFINE": kind}


def _reads(emitter: Emitter, what: Normal) -> tuple[list[Bound], int]:
    """What is read of scales and shifts: a binding or none; where the shifts begin."""
    if what.affine is None:
        return [], 0
    ref, shifts = _affine(emitter, what.affine)
    return [read4(ref) if what.affine.vectors else read1(ref)], shifts


@dataclass(frozen=True)
class _Whole:
    """One dispatch; the lanes of a line read it three times."""

    what: Normal
    shape: RowShape

    def __call__(self, emitter: Emitter) -> None:
        lines, limits, x = self.what.lines, emitter.problem.limits, emitter.input(0)
        bindings, shifts = _reads(emitter, self.what)
        emitter.dispatch(
            "normalization/normalize",
            [read4(x) if lines.wide else read1(x), write(emitter.output()), *bindings],
            groups=self.shape.groups(lines.lines, limits),
            local=self.shape.local,
            push=_push(self.what, Parts(1, lines.count), shifts),
            spec=lines.spec(self.shape) | _spec(self.what),
            defines=_defines(self.what, 0),
            flops=24 * lines.lines * lines.count,
        )


@dataclass(frozen=True)
class _Split:
    """Three dispatches: moments of parts of the lines, of the lines, the result."""

    what: Normal
    parts: Parts

    def shape(self, limits: DeviceLimits) -> RowShape:
        return row_shape(self.count, self.parts.chunk, limits)

    @property
    def count(self) -> int:
        return self.what.lines.lines * self.parts.parts

    def fits(self, limits: DeviceLimits) -> bool:
        lines, lanes = self.what.lines, lane_count(limits)
        return (
            fits_buffer(limits, 12 * self.count)
            and self.shape(limits).fits(self.count, self.parts.chunk, limits)
            and fits_loops(limits, self.parts.parts, times=2)
            and fits(ceil_div(lines.lines * lines.count, lanes), limits)
        )

    def __call__(self, emitter: Emitter) -> None:
        what, lines, limits = self.what, self.what.lines, emitter.problem.limits
        x = emitter.input(0)
        read = read4(x) if lines.wide else read1(x)
        parts = emitter.scratch("parts", 12 * self.count)
        moments = emitter.scratch("moments", 8 * lines.lines)
        shape = self.shape(limits)
        push = _push(what, self.parts, 0)
        push[0] = self.count
        emitter.dispatch(
            "normalization/normalize",
            [read, write(parts)],
            groups=shape.groups(self.count, limits),
            local=shape.local,
            push=push,
            spec=lines.spec(shape) | _spec(what),
            defines=_defines(what, 1),
            flops=20 * lines.lines * lines.count,
        )
        lanes = lane_count(limits)
        emitter.dispatch(
            "normalization/moments",
            [read4(parts), write(moments)],
            groups=spread(ceil_div(lines.lines, lanes), limits),
            local=(lanes, 1, 1),
            push=[lines.lines, self.parts.parts, what.share, float(what.epsilon)],
            spec={10: what.factor},
        )
        self._apply(emitter, read, read4(moments))

    def _apply(self, emitter: Emitter, read: Bound, moments: Bound) -> None:
        lines = self.what.lines
        bindings, shifts = _reads(emitter, self.what)
        share = grid(emitter.problem.limits, lines.lines * lines.count)
        emitter.dispatch(
            "normalization/normalize",
            [read, write(emitter.output()), moments, *bindings],
            groups=share.groups,
            local=share.local,
            push=_push(self.what, Parts(1, share.chunk), shifts),
            spec=lines.spec(RowShape(1, 1)) | _spec(self.what),
            defines=_defines(self.what, 2),
            flops=8 * lines.lines * lines.count,
        )
