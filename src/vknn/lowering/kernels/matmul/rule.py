"""Lowering of MatMul, Projections and MatMulInteger."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

from vknn.lowering.kernels.matmul.forms import candidate_of, forms
from vknn.lowering.kernels.matmul.gemm import (
    BatchAxis,
    Gemm,
    choose_tile,
    fits_device,
    make_gemm,
)
from vknn.lowering.kernels.matmul.product_weights import (
    ProductWeights,
    of_matmul,
    of_projections,
)
from vknn.lowering.kernels.matmul.requantized import quantized_gemm
from vknn.lowering.kernels.quantized.plain_sums import (
    as_quantized,
    has_fast_dots,
    with_plain_inputs,
)
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, write
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_loops
from vknn.ops.matmul import MatMul, MatMulInteger, Projections


@lowers(MatMul)
def matmul(problem: Problem) -> Sequence[Candidate]:
    """A candidate for each kernel that can compute the product, best first."""
    op, a, b = problem.op, problem.input(0), problem.input(1)
    assert isinstance(op, MatMul)
    gemm = make_gemm(a.dims, b.dims, op.transpose_a, op.transpose_b)
    if gemm is None or not fits_device(gemm, problem.limits):
        return []
    weights = None if any(axis.b for axis in gemm.batch) else of_matmul(problem)
    return _candidates(problem, gemm, weights)


@lowers(Projections)
def projections(problem: Problem) -> Sequence[Candidate]:
    """Candidates of a MatMul whose batch entries share a; none where a matrix is no constant."""
    op, a, b = problem.op, problem.input(0), problem.input(1)
    assert isinstance(op, Projections)
    gemm, weights = make_gemm(a.dims, b.dims, False, op.transpose_b), of_projections(problem)
    if gemm is None or gemm.batch or weights is None:
        return []
    entries = BatchAxis(weights.count, 0, gemm.k * gemm.n, gemm.m * gemm.n)
    gemm = replace(gemm, batch=(entries,))
    if not fits_device(gemm, problem.limits):
        return []
    return _candidates(problem, gemm, weights)


def _candidates(
    problem: Problem, gemm: Gemm, weights: ProductWeights | None
) -> Sequence[Candidate]:
    plans = forms(problem, gemm, weights)
    return [candidate_of(plan, place) for place, plan in enumerate(plans) if plan.fits]


@lowers(MatMulInteger)
def matmul_integer(problem: Problem) -> Sequence[Candidate]:
    """Those of a QuantizedGemm where dot products pay; else one, which packs neither operand."""
    op, a, b = problem.op, problem.input(0), problem.input(1)
    assert isinstance(op, MatMulInteger)
    quantized = as_quantized(problem)
    if quantized is not None and (found := quantized_gemm(quantized)):
        return list(with_plain_inputs(quantized, found))
    gemm = make_gemm(a.dims, b.dims, False, op.transpose_b)
    if gemm is None or not fits_device(gemm, problem.limits):
        return []
    if not fits_loops(problem.limits, gemm.k):
        return []

    machine = problem.machine
    cost = machine.dispatch + integer_cost(problem, gemm)
    emit = functools.partial(_emit_matmul_integer, gemm=gemm)
    return [Candidate("integer", (Layout.LINEAR,) * 2, (Layout.LINEAR,), emit, cost)]


def _emit_matmul_integer(emitter: Emitter, gemm: Gemm) -> None:
    emit_integer(emitter, gemm, emitter.input(0), emitter.input(1), emitter.output())


def integer_cost(problem: Problem, gemm: Gemm) -> float:
    """Estimate of matmul/integer: with dots, what is left is to join bytes."""
    return (1.0 if has_fast_dots(problem.limits) else 3.0) * gemm.flops * problem.machine.flop


def emit_integer(emitter: Emitter, gemm: Gemm, a: Ref, b: Ref, c: Ref) -> None:
    """Dispatches matmul/integer: int8 operands stored as int32, any sizes and strides."""
    tile = choose_tile(gemm, emitter.problem.limits)
    dots = has_fast_dots(emitter.problem.limits)
    mixed = dots and "integer_dot_mixed" in emitter.problem.limits.features
    spec = {**tile.spec, "COLS": 4 * tile.cols}
    if mixed:
        spec["MIXED"] = 1
    emitter.dispatch(
        "matmul/integer",
        [read1(a), read1(b), write(c)],
        groups=tile.groups(gemm),
        local=tile.local,
        push=gemm.push(),
        spec=spec,
        defines={"DOTS": 1} if dots else {},
        flops=gemm.flops,
    )
