"""Matrix products that normalise the rows of their results, too."""

from __future__ import annotations

import math
from dataclasses import replace

from vknn.lowering.kernels.matmul.forms import candidate_of, forms, has_separate_bias
from vknn.lowering.kernels.matmul.gemm import fits_device, make_gemm
from vknn.lowering.kernels.matmul.normalized_rows import RowNorm
from vknn.lowering.kernels.matmul.product_weights import of_matmul
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.problem import Problem
from vknn.ops.matmul import MatMul


def normalized(problem: Problem, rows: RowNorm) -> list[Candidate]:
    """Candidates of a MatMul that give the normalised rows, too, as a second output.

    None where b is no constant, is read by scalars, or is another for each batch entry.
    """
    op, a, b = problem.op, problem.input(0), problem.input(1)
    assert isinstance(op, MatMul)
    gemm, weights = make_gemm(a.dims, b.dims, op.transpose_a, op.transpose_b), of_matmul(problem)
    if gemm is None or weights is None or gemm.batch or gemm.n != 4 * rows.n4:
        return []
    if has_separate_bias(problem, weights):
        return []
    if not gemm.a_by_vec4 or not fits_device(gemm, problem.limits):
        return []
    found = []
    for place, plain in enumerate(forms(problem, gemm, weights)):
        form = replace(plain, normal=rows)
        lanes = form.row_lanes
        if lanes is not None and form.fits:
            candidate = candidate_of(form, place)
            tile, groups = form.shared or form.wide, math.prod(form.groups())
            assert tile is not None
            more = lanes.cost(problem.machine, groups, tile.lanes)
            found.append(replace(candidate, cost=candidate.cost + more))
    return found
