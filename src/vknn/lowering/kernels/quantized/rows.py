"""Rows of quantized integers: a lane takes whole rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vknn.graph import Op, TensorType
from vknn.lowering.kit.candidate import BYTE_COST, DISPATCH_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import rounds
from vknn.ops.quantized import rows as ops

#: Passes over a row, at the most.
_PASSES = 3
_SETTING = 10


@lowers(
    ops.QuantizedSoftmax,
    ops.FixedSoftmax,
    ops.QuantizedL2Normalization,
    ops.QuantizedReduceProd,
    ops.QuantizedLayerNormalization,
)
def rows(problem: Problem) -> Sequence[Candidate]:
    """A lane takes whole rows, from memory that lies row by row."""
    x = problem.inputs[0]
    assert x is not None
    if x.size == 0 or any(c is None for c in problem.constants[1:]):
        return []
    row_rounds = _PASSES * rounds(x.dims[-1])
    if row_rounds >= problem.limits.max_loop_rounds:
        return []
    emit = _Emit(problem.op, x, row_rounds)
    cost = DISPATCH_COST + 4 * _PASSES * x.size * BYTE_COST
    tables = (None,) * (len(problem.inputs) - 1)
    return [Candidate("rows", (Layout.LINEAR, *tables), (Layout.LINEAR,), emit, cost)]


class _Emit:
    def __init__(self, op: Op, x: TensorType, row_rounds: int) -> None:
        self.op, self.x, self.row_rounds = op, x, row_rounds

    def __call__(self, emitter: Emitter) -> None:
        width = self.x.dims[-1]
        count = self.x.size // width
        share = grid(emitter.problem.limits, count, item_rounds=self.row_rounds)
        kernel, push, setting = _parameters(self.op, emitter.problem.outputs[0])
        tables = [_table(emitter, i) for i in range(1, len(emitter.problem.inputs))]
        emitter.dispatch(
            f"quantized/{kernel}",
            [read1(emitter.input(0)), *(read1(t) for t in tables), write(emitter.output())],
            groups=share.groups,
            local=share.local,
            push=[count, width, share.chunk, *push],
            spec=share.spec | setting,
        )


def _table(emitter: Emitter, index: int) -> Ref:
    data = emitter.problem.constants[index]
    assert data is not None
    held = np.float32 if data.dtype.kind == "f" else np.int32
    make = lambda: np.ascontiguousarray(data, held)  # noqa: E731
    return emitter.weight(f"table {index}", make, data, single=True)


def _parameters(op: Op, y: TensorType) -> tuple[str, list[int | float], dict[int, int]]:
    """Kernel, push constants, specialization constants."""
    match op:
        case ops.QuantizedSoftmax():
            push: list[int | float] = [op.scale, op.step_in, op.zero, op.low, op.high]
            return "softmax", push, {_SETTING: int(op.logarithm)}
        case ops.FixedSoftmax():
            return "fixed_softmax", [], {}
        case ops.QuantizedL2Normalization():
            unsigned = y.dtype.numpy.kind == "u"
            return "l2_normalization", [op.zero], {_SETTING: int(unsigned)}
        case ops.QuantizedReduceProd():
            info = np.iinfo(y.dtype.numpy)
            factor = (op.q + (1 << 15)) >> 16 if op.q < 0x7FFF0000 else 0x7FFF
            zeros = [op.zero_in, op.zero_out]
            limits = [int(info.min), int(info.max)]
            return "reduce_prod", [factor, 15 - op.shift, *zeros, *limits], {}
        case ops.QuantizedLayerNormalization():
            return "layer_norm", [op.scale], {}
    raise TypeError(f"no kernel of rows computes {op.type_name}")
