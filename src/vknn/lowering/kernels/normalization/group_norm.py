"""GroupNormalization and InstanceNormalization: rows are groups of an image's channels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vknn.graph import TensorType
from vknn.lowering.kernels.normalization.affine import BY_PLACE, SPLAT, Affine, has_affine
from vknn.lowering.kernels.normalization.row_normalization import RowNormalization, row_candidates
from vknn.lowering.kernels.reduction.reduction_axes import ReductionAxes, along_groups
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.layouts import PLAIN, Layout, allows, ceil_div
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.ops.normalization import GroupNormalization, InstanceNormalization


@lowers(GroupNormalization, InstanceNormalization)
def group_normalization(problem: Problem) -> Sequence[Candidate]:
    """Candidates whose rows are the groups of channels of an image."""
    op, x = problem.op, problem.input(0)
    assert isinstance(op, GroupNormalization | InstanceNormalization)
    groups = op.num_groups if isinstance(op, GroupNormalization) else x.dims[1]
    found = []
    for layout in PLAIN:
        axes = along_groups(x, groups, layout) if allows(x, layout) else None
        if axes is not None:
            affine = _by_channel(x, axes, layout) if has_affine(problem) else None
            inverse = groups / math.prod(x.dims[1:])
            norm = RowNormalization(axes, True, 1, op.epsilon, inverse, inverse, affine)
            found += row_candidates(problem, norm, layout)
    return found


def _by_channel(x: TensorType, axes: ReductionAxes, layout: Layout) -> Affine:
    """A scale and a shift for each channel."""
    plane, channels = math.prod(x.dims[2:]), x.dims[1]
    if layout is Layout.C4:
        return Affine(True, BY_PLACE, plane, ceil_div(channels, 4))
    if axes.wide and plane % 4 == 0:
        return Affine(False, SPLAT, plane // 4, channels)
    return Affine(False, BY_PLACE, plane, channels)
