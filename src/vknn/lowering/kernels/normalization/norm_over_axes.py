"""MeanVarianceNormalization, NormalizeL2 and RMSNormalization: rows run along any axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vknn.lowering.kernels.normalization.affine import BY_ITEM, SPLAT, Affine, has_affine
from vknn.lowering.kernels.normalization.row_normalization import RowNormalization, row_candidates
from vknn.lowering.kernels.reduction.reduction_axes import along_axes
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.layouts import PLAIN, Layout
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.ops.normalization import (
    EPSILON_MODES,
    MeanVarianceNormalization,
    NormalizeL2,
    RMSNormalization,
)
from vknn.ops.reduction import normal_axes

#: FACTOR of factor.glsl: rows are not scaled; others are 1 + the place in EPSILON_MODES.
_NO_FACTOR = 0


@lowers(MeanVarianceNormalization, NormalizeL2)
def normalization_over_axes(problem: Problem) -> Sequence[Candidate]:
    """Candidates whose rows run along the axes of the op."""
    op, x = problem.op, problem.input(0)
    assert isinstance(op, MeanVarianceNormalization | NormalizeL2)
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
            found += row_candidates(problem, norm, layout)
    return found


@lowers(RMSNormalization)
def rms_normalization(problem: Problem) -> Sequence[Candidate]:
    """Candidates over the trailing axes of LINEAR."""
    op, x = problem.op, problem.input(0)
    assert isinstance(op, RMSNormalization)
    dims = range(op.axis % x.rank, x.rank)
    axes = along_axes(x, dims, Layout.LINEAR)
    if axes is None:
        return []
    inverse = 1.0 / max(1, math.prod(x.dims[a] for a in dims))
    affine = None
    if has_affine(problem):
        # Axes of one element make no row of their own: the scale is one for all.
        by_item = axes.across
        affine = Affine(axes.wide and by_item, BY_ITEM if by_item else SPLAT, 1, 1)
    norm = RowNormalization(axes, False, 1, op.epsilon, inverse, inverse, affine)
    return row_candidates(problem, norm, Layout.LINEAR)
