"""Matrix products with the LayerNormalization of their rows as one dispatch.

The kernels are those of matrix products (:mod:`vknn.lowering.kernels.matmul.normalized_rows`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace

from vknn.graph import DType
from vknn.lowering.kernels.chain.links import Link
from vknn.lowering.kernels.matmul.normalized import normalized
from vknn.lowering.kernels.matmul.normalized_rows import RowNorm
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import Problem
from vknn.ops.matmul import MatMul
from vknn.ops.normalization import LayerNormalization

Emit = Callable[[Emitter], None]
#: Buffers of a dispatch: a, b, c, what is normalised, scale and bias, counters, an operand.
BUFFERS = 7


def normalized_candidates(problem: Problem, links: Sequence[Link]) -> list[Candidate]:
    """A candidate for each kernel that takes both; none for other chains."""
    if len(links) != 2 or problem.limits.max_storage_buffers < BUFFERS:
        return []
    product, rows = links[0], _rows(links[1])
    if rows is None or not isinstance(product.op, MatMul):
        return []
    keeps = len(problem.outputs) > 1
    found = []
    for candidate in normalized(product.problem, rows):
        layouts = [*candidate.inputs, *(Layout.LINEAR for _ in product.operands)]
        inputs = (*layouts, *(None for _ in links[1].problem.inputs[1:]))
        emit = functools.partial(_emit, product=product, emit=candidate.emit, keeps=keeps)
        outputs = (Layout.LINEAR,) * len(problem.outputs)
        name = f"normalized-{candidate.name}"
        found.append(Candidate(name, inputs, outputs, emit, candidate.cost, counts=True))
    return found


def _rows(link: Link) -> RowNorm | None:
    """The link as a normalisation of rows of whole vec4s by constants, or None."""
    op, x = link.op, link.problem.input(0)
    if not isinstance(op, LayerNormalization) or link.problem.epilogue.steps:
        return None
    types = link.problem.inputs[1:]
    scale, bias = (*link.problem.constants[1:], None, None)[:2]
    constant = all(
        t is None or array is not None for t, array in zip(types, (scale, bias), strict=False)
    )
    if not constant or x.rank < 2 or op.axis % x.rank != x.rank - 1 or x.dims[-1] % 4:
        return None
    return RowNorm(x.dims[-1] // 4, op.epsilon, scale, bias)


def _emit(emitter: Emitter, product: Link, emit: Emit, keeps: bool) -> None:
    """Dispatch of the product; its result is scratch where nothing else reads it."""
    own = product.alone(emitter, emitter.input(0))
    x, y = emitter.outputs[0], emitter.outputs[-1]
    if not keeps:
        x = emitter.scratch("product", product.output.size, dtype=DType.FLOAT32, as_tensor=True)
    emit(replace(own, outputs=[x, y]))
