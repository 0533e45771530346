"""Normalisation over trailing axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vknn.lowering.kernels.reduction.rows import RowShape, row_shape
from vknn.lowering.kit.candidate import BYTE_COST, DISPATCH_COST, FLOP_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, ceil_div, read1, read4, write
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.ops.normalization import LayerNormalization


@lowers(LayerNormalization)
def layer_normalization(problem: Problem) -> Sequence[Candidate]:
    """One dispatch over rows; by vec4s where a row is a whole number of them."""
    op, x = problem.op, problem.inputs[0]
    assert isinstance(op, LayerNormalization)
    assert x is not None
    rows = int(np.prod(x.dims[: op.axis % x.rank], dtype=np.int64))
    length = x.size // rows
    inputs = tuple(Layout.LINEAR if t is not None else None for t in problem.inputs)
    work = 6 * x.size * FLOP_COST + 8 * x.size * BYTE_COST
    found = []
    for wide in (True, False):
        if wide and length % 4:
            continue
        width = length // 4 if wide else length
        shape = row_shape(rows, width, problem.limits)
        if shape.fits(rows, width, problem.limits):
            emit = _Emit(op, rows, length, wide, shape)
            cost = DISPATCH_COST + work * (1 if wide else 3)
            name = "vec4" if wide else "scalar"
            found.append(Candidate(name, inputs, (Layout.LINEAR,), emit, cost))
    return found


class _Emit:
    def __init__(
        self, op: LayerNormalization, rows: int, length: int, wide: bool, shape: RowShape
    ) -> None:
        self.op, self.rows, self.length, self.wide, self.shape = op, rows, length, wide, shape

    def __call__(self, emitter: Emitter) -> None:
        read = read4 if self.wide else read1
        bindings = [read(emitter.input(0)), write(emitter.output())]
        affine = any(ref is not None for ref in emitter.inputs[1:]) or any(
            t is not None for t in emitter.problem.inputs[1:]
        )
        if affine:
            scale, bias = (self._vector(emitter, i) for i in (1, 2))
            bindings += [read(scale), read(bias)]
        width = self.length // 4 if self.wide else self.length
        emitter.dispatch(
            "normalization/layer_norm",
            bindings,
            groups=self.shape.groups(self.rows, emitter.problem.limits),
            local=self.shape.local,
            push=[self.rows, width, 1.0 / self.length, float(self.op.epsilon)],
            spec={10: self.shape.lanes, 11: self.shape.rows},
            defines={"AFFINE": int(affine), "WIDE": int(self.wide)},
            flops=6 * self.rows * self.length,
        )

    def _vector(self, emitter: Emitter, index: int) -> Ref:
        """Scale (1) or bias (2); where only the other one is given, ones or zeros."""
        if index < len(emitter.inputs) and emitter.problem.inputs[index] is not None:
            return emitter.input(index)
        fill = 1.0 if index == 1 else 0.0
        length = ceil_div(self.length, 4) * 4
        return emitter.weight(f"fill{fill}x{length}", lambda: np.full(length, fill, np.float32))
