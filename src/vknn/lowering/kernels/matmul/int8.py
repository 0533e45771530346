"""Products of int8 matrices with scales, floats quantized on the way."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np

from vknn.graph import DType
from vknn.lowering.kernels.matmul.gemm import Axis, Product, fits_device, make_product
from vknn.lowering.kernels.matmul.rule import emit_integer
from vknn.lowering.kernels.reduction.rows import RowShape, row_shape
from vknn.lowering.kit.candidate import BYTE_COST, DISPATCH_COST, FLOP_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, ceil_div, read1, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_buffer, fits_loops, rounds
from vknn.ops.matmul import QuantizedMatMul, RoundBlocks
from vknn.plan import DeviceLimits

#: Elements that share a scale before their rows are looked at apart, for more lanes.
_MANY = 4096


@dataclass(frozen=True)
class _Rows:
    """The rows of a tensor (see shaders/matmul/quantize_rows.comp); ``parts`` share a scale."""

    rows: int
    count: int
    per: int
    matrix_step: int
    row_step: int
    step: int
    parts: int = 1

    def shape(self, limits: DeviceLimits) -> RowShape:
        return row_shape(self.rows, max(self.count, self.parts), limits)

    def fits(self, limits: DeviceLimits) -> bool:
        return self.shape(limits).fits(self.rows, max(self.count, self.parts), limits)


@lowers(QuantizedMatMul)
def quantized_matmul(problem: Problem) -> Sequence[Candidate]:
    """Floats quantized by rows into scratch, the product of integers, and the scaling back."""
    op, (a, b) = problem.op, problem.inputs[:2]
    assert isinstance(op, QuantizedMatMul) and a is not None and b is not None
    product = make_product(a.dims, b.dims, op.transpose_a, op.transpose_b)
    limits = problem.limits
    if product is None or not fits_device(product, limits):
        return []
    if not fits_loops(limits, product.k) or not fits_buffer(limits, max(a.size, b.size)):
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
    cost = 4 * DISPATCH_COST + 3 * product.flops * FLOP_COST
    cost += 12 * (a.size + b.size + problem.outputs[0].size) * BYTE_COST
    emit = _Emit(product, rows)
    return [Candidate("integer", tuple(inputs), (Layout.LINEAR,), emit, cost)]


@lowers(RoundBlocks)
def round_blocks(problem: Problem) -> Sequence[Candidate]:
    """A block a lane."""
    op, (x,) = problem.op, problem.inputs
    assert isinstance(op, RoundBlocks) and x is not None
    width, limits = x.dims[-1], problem.limits
    size = min(op.size, width)
    rounds_each = 2 * rounds(size)
    if rounds_each >= limits.max_loop_rounds:
        return []
    blocks = x.size // width * ceil_div(width, size)
    items = grid(limits, blocks, item_rounds=rounds_each)

    def emit(emitter: Emitter) -> None:
        emitter.dispatch(
            "matmul/round_blocks",
            [read1(emitter.input(0)), write(emitter.output())],
            groups=items.groups,
            local=items.local,
            push=[blocks, items.chunk, width, size, ceil_div(width, size)],
            spec=items.spec,
            flops=4 * x.size,
        )

    cost = DISPATCH_COST + 24 * x.size * BYTE_COST
    return [Candidate("blocks", (Layout.LINEAR,), (Layout.LINEAR,), emit, cost)]


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


@dataclass(frozen=True)
class _Emit:
    product: Product
    rows: tuple[_Rows, _Rows]

    def __call__(self, emitter: Emitter) -> None:
        a, a_scale = self._matrix(emitter, 0)
        b, b_scale = self._matrix(emitter, 1)
        count = emitter.problem.outputs[0].size
        sums = emitter.scratch("sums", count, dtype=DType.INT32)
        emit_integer(emitter, self.product, a, b, sums)
        self._rescale(emitter, sums, a_scale, b_scale)

    def _matrix(self, emitter: Emitter, index: int) -> tuple[Ref, Ref]:
        """A matrix as integers, and its scales."""
        type_ = emitter.problem.inputs[index]
        assert type_ is not None
        if type_.dtype is DType.INT8:
            return emitter.input(index), self._scale(emitter, index + 2)
        each, limits = self.rows[index], emitter.problem.limits
        x, shape = emitter.input(index), each.shape(limits)
        whole = emitter.scratch(f"whole{index}", type_.size, dtype=DType.INT32)
        scale = emitter.scratch(f"scale{index}", each.rows // each.parts)
        bindings = [read1(x), write(whole), write(scale)]
        dispatch = functools.partial(
            emitter.dispatch,
            groups=shape.groups(each.rows, limits),
            local=shape.local,
            spec={10: shape.lanes, 11: shape.rows},
        )
        if each.parts > 1:
            largest = emitter.scratch(f"largest{index}", each.rows)
            rows = [read1(x), write(largest)]
            dispatch("matmul/largest", rows, push=[each.rows, each.count])
            bindings.append(read1(largest))
        dispatch(
            "matmul/quantize_rows",
            bindings,
            push=list(astuple(each)),
            defines={"PARTS": int(each.parts > 1)},
            flops=3 * type_.size,
            label=f"quantize {'ab'[index]}",
        )
        return whole, scale

    def _scale(self, emitter: Emitter, index: int) -> Ref:
        data = emitter.problem.constants[index]
        if data is None:
            return emitter.input(index)
        pack = functools.partial(np.ascontiguousarray, data, np.float32)
        return emitter.weight(f"scale{index}", pack, data, single=True)

    def _rescale(self, emitter: Emitter, sums: Ref, a_scale: Ref, b_scale: Ref) -> None:
        problem, product = emitter.problem, self.product
        count = problem.outputs[0].size
        items = grid(problem.limits, count)
        a_given, b_given = (
            t.size if t is not None else 0 for t in (*problem.inputs, None, None)[2:4]
        )
        # A given scale is shared by all matrices; those found on the way lie one after the other.
        axes = [
            Axis(
                axis.size,
                0 if a_given else axis.a // product.k,
                0 if b_given else axis.b // (product.k * product.n),
                axis.c,
            )
            for axis in product.batch
        ]
        own = replace(product, batch=tuple(replace(axis, c=0) for axis in axes))
        emitter.dispatch(
            "matmul/rescale",
            [read1(sums), read1(a_scale), read1(b_scale), write(emitter.output())],
            groups=items.groups,
            local=items.local,
            push=[
                *(count, items.chunk, product.m, product.n),
                *(a_given or product.m, int(b_given > 1)),
                *own.batch_push(),
            ],
            spec=items.spec,
            flops=2 * count,
            label="rescale",
        )
