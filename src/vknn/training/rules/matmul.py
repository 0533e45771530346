"""Gradients of matrix products.

Giles 2008, "Collected Matrix Derivative Results for Forward and Reverse Mode Algorithmic
Differentiation", 2.2.2.
"""

from __future__ import annotations

import math

from vknn.graph import Value
from vknn.ops.matmul import MatMul
from vknn.training.gradients import gradient
from vknn.training.scope import Scope


@gradient(MatMul)
def matmul(g: Scope, dy: Value) -> tuple[Value | None, ...]:
    """Gradients dy B^T, A^T dy and the column sums of dy, with A, B the matrices multiplied."""
    bias = g.optional(2)
    da = g.fitted(_of_a(g, dy), g.x(0).type) if g.wants(0) else None
    db = g.fitted(_of_b(g, dy), g.x(1).type) if g.wants(1) else None
    columns = g.fitted(dy, bias.type) if bias is not None and g.wants(2) else None
    return da, db, columns


def _of_a(g: Scope, dy: Value) -> Value:
    op, b = g.op(MatMul), g.x(1)
    if op.transpose_a:
        return g.matmul(b, dy, ta=op.transpose_b, tb=True)
    return g.matmul(dy, b, tb=not op.transpose_b)


def _of_b(g: Scope, dy: Value) -> Value:
    op, a, b = g.op(MatMul), g.x(0), g.x(1)
    if b.type.rank == 2 and a.type.rank > 2 and not op.transpose_a:
        # One matrix B for the whole batch: the rows of all matrices A are those of one product.
        rows = math.prod(a.type.dims[:-1])
        a, dy = g.reshape(a, rows, a.type.dims[-1]), g.reshape(dy, rows, dy.type.dims[-1])
    if op.transpose_b:
        return g.matmul(dy, a, ta=True, tb=op.transpose_a)
    return g.matmul(a, dy, ta=not op.transpose_a)
