"""MatMulNBits as a product of floats, which are made of the codes first: for many rows.

Weights stay packed in the device's memory; the floats are there for this product alone.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from vknn.graph import DType, TensorType
from vknn.lowering.kernels.matmul.block_weights import (
    blocks_of,
    code_constants,
    length_of,
    weight_buffers,
)
from vknn.lowering.kernels.matmul.rule import matmul
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read1, read4, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.workgroups import fits_buffer
from vknn.ops.matmul import MatMul
from vknn.ops.quantized.blocks import MatMulNBits

#: Most rows that a lane of blocks_product.comp multiplies by the same weights: of so many they are
#: read once, and what floats take to be written and read is not worth it.
MOST_ROWS = 8
#: Bytes of a float.
_FLOAT = 4


def by_floats(problem: Problem) -> list[Candidate]:
    """The candidate, for many rows; none where tensors have 16 bits.

    Floats of 16 bits would round the weights and might not hold them.
    """
    op, a, codes = problem.op, problem.input(0), problem.input(1)
    assert isinstance(op, MatMulNBits)
    n = codes.dims[0]
    many = a.rank >= 2 and a.size > MOST_ROWS * op.size
    if not many or problem.options.half or not fits_buffer(problem.limits, op.size * n):
        return []
    bias = (*problem.inputs, None, None)[4]
    inputs = (a, TensorType((op.size, n), DType.FLOAT32), *([bias] if bias else []))
    product = replace(problem, op=MatMul(), inputs=inputs, constants=(None,) * len(inputs))
    found = matmul(product)
    if not found:
        return []
    best = min(found, key=lambda c: c.cost)
    emit = functools.partial(_emit, product=product, best=best)
    given = (Layout.LINEAR, *(None for _ in problem.inputs[1:4]))
    layouts = (*given, *(Layout.LINEAR if t else None for t in problem.inputs[4:]))
    machine = problem.machine
    moved = op.size * n * (_FLOAT + op.width / 8)
    cost = best.cost + machine.dispatch + moved * machine.byte
    return [Candidate("floats", layouts, (Layout.LINEAR,), emit, cost)]


def _emit(emitter: Emitter, product: Problem, best: Candidate) -> None:
    op, n = emitter.problem.op, emitter.problem.input(1).dims[0]
    assert isinstance(op, MatMulNBits)
    words, settings = weight_buffers(emitter)
    weights = emitter.scratch("weights", op.size * n)
    zeros = (*emitter.problem.inputs, None, None)[3]
    count = length_of(op) * n
    emitter.dispatch_items(
        "quantized/blocks_floats",
        [read4(words), read1(settings), write(weights)],
        grid(emitter.problem.limits, count),
        push={"count": count, "n": n, "k": op.size, "blocks": blocks_of(op)},
        spec=code_constants(op),
        defines={"ZEROS": int(zeros is not None)},
        label="weights",
    )
    bias = [emitter.input(4)] if len(product.inputs) > 2 else []
    inputs = (emitter.input(0), weights, *bias)
    best.emit(replace(emitter, problem=product, inputs=inputs))
