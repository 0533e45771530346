"""Lowering of QuantizedMatMul (int8 products with scales) and RoundBlocks."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from vknn.graph import DType, TensorType
from vknn.lowering.kernels.matmul.gemm import BatchAxis, Gemm, fits_device, make_gemm
from vknn.lowering.kernels.matmul.requantized import quantized_gemm
from vknn.lowering.kernels.matmul.rule import emit_integer, integer_cost
from vknn.lowering.kernels.quantized.plain_sums import as_quantized
from vknn.lowering.kernels.reduction.rows import RowShape, row_shape
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_buffer, fits_loops, rounds
from vknn.ops.matmul import QuantizedMatMul, RoundBlocks
from vknn.plan import DeviceLimits

#: Elements that share a scale from which on each row's largest is found first, by more lanes.
_MANY = 4096


@dataclass(frozen=True)
class _Rows:
    """Push constants of shaders/matmul/quantize_rows.comp: the rows of a tensor.

    ``rows`` of ``count`` elements; ``per`` rows of a matrix, the matrices ``matrix_step`` and the
    rows of each ``row_step`` elements apart, their elements ``step``. ``parts``: rows that share
    a scale.
    """

    rows: int
    count: int
    per: int
    matrix_step: int
    row_step: int
    step: int
    parts: int = 1

    def shape(self, limits: DeviceLimits) -> RowShape:
        """The workgroups that share the rows."""
        return row_shape(self.rows, max(self.count, self.parts), limits)

    def fits(self, limits: DeviceLimits) -> bool:
        """True where the device allows the workgroups and their loops."""
        return self.shape(limits).fits(self.rows, max(self.count, self.parts), limits)


@lowers(QuantizedMatMul)
def quantized_matmul(problem: Problem) -> Sequence[Candidate]:
    """One candidate: floats quantized by rows, the integers' product, its rescaling."""
    op, a, b = problem.op, problem.input(0), problem.input(1)
    assert isinstance(op, QuantizedMatMul)
    gemm = make_gemm(a.dims, b.dims, op.transpose_a, op.transpose_b)
    limits = problem.limits
    if gemm is None or not fits_device(gemm, limits):
        return []
    if not fits_loops(limits, gemm.k) or not fits_buffer(limits, max(a.size, b.size)):
        return []
    rows = (_rows_of_a(a.dims, op.transpose_a), _rows_of_b(b.dims))
    inputs: list[Layout | None] = [Layout.LINEAR, Layout.LINEAR]
    for type_, each in zip((a, b), rows, strict=True):
        if type_.dtype is not DType.INT8 and not each.fits(limits):
            return []
    for index, scale in enumerate(problem.inputs[2:], 2):
        constant = problem.constants[index] is not None
        if scale is not None and not constant and problem.options.half:
            return []  # it would be float16
        inputs.append(None if scale is None or constant else Layout.LINEAR)
    machine, product = problem.machine, _packed_product(problem)
    cost = 12 * (a.size + b.size + problem.outputs[0].size) * machine.byte
    if product is None:
        cost += 4 * machine.dispatch + integer_cost(problem, gemm)
    else:
        cost += 3 * machine.dispatch + product[1].cost
        inputs[1] = None
    emit = functools.partial(_emit_quantized, gemm=gemm, rows=rows, product=product)
    return [Candidate("integer", tuple(inputs), (Layout.LINEAR,), emit, cost)]


def _packed_product(problem: Problem) -> tuple[Problem, Candidate] | None:
    """The sums by a constant int8 b packed for dot products; None where that cannot be or pay."""
    quantized = as_quantized(problem)
    if quantized is None:
        return None
    found = [c for c in quantized_gemm(quantized) if c.inputs[1] is None]
    return (quantized, min(found, key=lambda c: c.cost)) if found else None


@lowers(RoundBlocks)
def round_blocks(problem: Problem) -> Sequence[Candidate]:
    """One candidate: a lane rounds a block."""
    op, x = problem.op, problem.input(0)
    assert isinstance(op, RoundBlocks)
    size = min(op.size, x.dims[-1])
    if 2 * rounds(size) >= problem.limits.max_loop_rounds:
        return []
    emit = functools.partial(_emit_round_blocks, x=x, size=size)
    machine = problem.machine
    cost = machine.dispatch + 24 * x.size * machine.byte
    return [Candidate("blocks", (Layout.LINEAR,), (Layout.LINEAR,), emit, cost)]


def _emit_round_blocks(emitter: Emitter, x: TensorType, size: int) -> None:
    width = x.dims[-1]
    in_row = ceil_div(width, size)
    blocks = x.size // width * in_row
    emitter.dispatch_items(
        "matmul/round_blocks",
        [read1(emitter.input(0)), write(emitter.output())],
        grid(emitter.problem.limits, blocks, item_rounds=2 * rounds(size)),
        push={"blocks": blocks, "width": width, "size": size, "in_row": in_row},
        flops=4 * x.size,
    )


def _rows_of_a(dims: tuple[int, ...], transposed: bool) -> _Rows:
    m, k = dims[-2:][::-1] if transposed else dims[-2:]
    matrices = math.prod(dims[:-2])
    steps = (1, m) if transposed else (k, 1)
    return _Rows(matrices * m, k, m, m * k, *steps)


def _rows_of_b(dims: tuple[int, ...]) -> _Rows:
    *_, k, n = dims
    matrices = math.prod(dims[:-2])
    if k * n <= _MANY:
        return _Rows(matrices, k * n, 1, k * n, 0, 1)
    return _Rows(matrices * k, n, 1, n, 0, 1, parts=k)


def _emit_quantized(
    emitter: Emitter,
    gemm: Gemm,
    rows: tuple[_Rows, _Rows],
    product: tuple[Problem, Candidate] | None,
) -> None:
    sums = emitter.scratch("sums", emitter.problem.outputs[0].size, dtype=DType.INT32)
    a, a_scale = _matrix(emitter, 0, rows[0])
    if product is None:
        b, b_scale = _matrix(emitter, 1, rows[1])
        emit_integer(emitter, gemm, a, b, sums)
    else:
        b_scale, (problem, candidate) = _scale(emitter, 3), product
        inputs = (a, None, None, None, None)
        candidate.emit(replace(emitter, problem=problem, inputs=inputs, outputs=(sums,)))
    _emit_rescale(emitter, gemm, sums, a_scale, b_scale)


def _matrix(emitter: Emitter, index: int, rows: _Rows) -> tuple[Ref, Ref]:
    """A matrix as integers, and its scales."""
    type_ = emitter.problem.input(index)
    if type_.dtype is DType.INT8:
        return emitter.input(index), _scale(emitter, index + 2)
    shape = rows.shape(emitter.problem.limits)
    integers = emitter.scratch(f"whole{index}", type_.size, dtype=DType.INT32)
    scale = emitter.scratch(f"scale{index}", rows.rows // rows.parts)
    bindings = [read1(emitter.input(index)), write(integers), write(scale)]
    if rows.parts > 1:
        bindings.append(read1(_largest(emitter, index, rows)))
    emitter.dispatch(
        "matmul/quantize_rows",
        bindings,
        groups=shape.groups(rows.rows, emitter.problem.limits),
        local=shape.local,
        push=asdict(rows),
        spec={"LANES": shape.lanes, "ROWS": shape.rows},
        defines={"PARTS": int(rows.parts > 1)},
        flops=3 * type_.size,
        label=f"quantize {'ab'[index]}",
    )
    return integers, scale


def _largest(emitter: Emitter, index: int, rows: _Rows) -> Ref:
    """The largest magnitude of each row of a matrix."""
    shape = rows.shape(emitter.problem.limits)
    largest = emitter.scratch(f"largest{index}", rows.rows)
    emitter.dispatch(
        "matmul/largest",
        [read1(emitter.input(index)), write(largest)],
        groups=shape.groups(rows.rows, emitter.problem.limits),
        local=shape.local,
        push={"rows": rows.rows, "count": rows.count},
        spec={"LANES": shape.lanes, "ROWS": shape.rows},
    )
    return largest


def _scale(emitter: Emitter, index: int) -> Ref:
    data = emitter.problem.constants[index]
    if data is None:
        return emitter.input(index)
    pack = functools.partial(np.ascontiguousarray, data, np.float32)
    return emitter.weight(f"scale{index}", pack, data, single=True)


def _emit_rescale(emitter: Emitter, gemm: Gemm, sums: Ref, a_scale: Ref, b_scale: Ref) -> None:
    problem = emitter.problem
    count = problem.outputs[0].size
    a_given, b_given = (t.size if t is not None else 0 for t in (*problem.inputs, None, None)[2:4])
    emitter.dispatch_items(
        "matmul/rescale",
        [read1(sums), read1(a_scale), read1(b_scale), write(emitter.output())],
        grid(problem.limits, count),
        push={
            "count": count,
            "m": gemm.m,
            "n": gemm.n,
            "a_period": a_given or gemm.m,
            "b_column": int(b_given > 1),
            **_scales(gemm, bool(a_given), bool(b_given)).batch_push(),
        },
        flops=2 * count,
        label="rescale",
    )


def _scales(gemm: Gemm, a_given: bool, b_given: bool) -> Gemm:
    """The product with the batch steps of its scales in place of those of a and b.

    All matrices share a given scale; computed scales follow each other.
    """
    axes = [
        BatchAxis(
            axis.size,
            0 if a_given else axis.a // gemm.k,
            0 if b_given else axis.b // (gemm.k * gemm.n),
            0,
        )
        for axis in gemm.batch
    ]
    return replace(gemm, batch=tuple(axes))
