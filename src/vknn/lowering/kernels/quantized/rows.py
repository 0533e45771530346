"""Lowering of ops on rows of quantized integers: a lane takes whole rows."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from vknn.graph import Op, TensorType
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.parameters import Number
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import rounds
from vknn.ops.quantized import rows as ops

#: Most loops over a row in a kernel.
_PASSES = 3


@lowers(
    ops.QuantizedSoftmax,
    ops.FixedSoftmax,
    ops.QuantizedL2Normalization,
    ops.QuantizedReduceProd,
    ops.QuantizedLayerNormalization,
)
def quantized_rows(problem: Problem) -> Sequence[Candidate]:
    """One candidate, row-major; none where a table or a weight is no constant."""
    x = problem.input(0)
    if x.size == 0 or any(c is None for c in problem.constants[1:]):
        return []
    if _PASSES * rounds(x.dims[-1]) >= problem.limits.max_loop_rounds:
        return []
    emit = functools.partial(_emit, op=problem.op, x=x)
    machine = problem.machine
    cost = machine.dispatch + 4 * _PASSES * x.size * machine.byte
    tables = (None,) * (len(problem.inputs) - 1)
    return [Candidate("rows", (Layout.LINEAR, *tables), (Layout.LINEAR,), emit, cost)]


def _emit(emitter: Emitter, op: Op, x: TensorType) -> None:
    width = x.dims[-1]
    count = x.size // width
    kernel, push, spec = _parameters(op, emitter.problem.outputs[0])
    tables = [_table(emitter, i) for i in range(1, len(emitter.problem.inputs))]
    emitter.dispatch_items(
        f"quantized/{kernel}",
        [read1(emitter.input(0)), *(read1(t) for t in tables), write(emitter.output())],
        grid(emitter.problem.limits, count, item_rounds=_PASSES * rounds(width)),
        push={"rows": count, "width": width, **push},
        spec=spec,
    )


def _table(emitter: Emitter, index: int) -> Ref:
    data = emitter.problem.constants[index]
    assert data is not None
    pack = functools.partial(
        np.ascontiguousarray, data, np.float32 if data.dtype.kind == "f" else np.int32
    )
    return emitter.weight(f"table {index}", pack, data, single=True)


def _parameters(op: Op, y: TensorType) -> tuple[str, dict[str, Number], dict[str, int]]:
    """Kernel, push constants and specialization constants of an op."""
    match op:
        case ops.QuantizedSoftmax():
            scales = {"scale": op.scale, "step_in": op.step_in}
            push = {**scales, "zero": op.zero, "low": op.low, "high": op.high}
            return "softmax", push, {"LOGARITHM": int(op.logarithm)}
        case ops.FixedSoftmax():
            return "fixed_softmax", {}, {}
        case ops.QuantizedL2Normalization():
            unsigned = y.dtype.numpy.kind == "u"
            return "l2_normalization", {"zero": op.zero}, {"UNSIGNED": int(unsigned)}
        case ops.QuantizedReduceProd():
            return "reduce_prod", _product_push(op, y), {}
        case ops.QuantizedLayerNormalization():
            return "layer_norm", {"scale": op.scale}, {}
    raise TypeError(f"no kernel of rows computes {op.type_name}")


def _product_push(op: ops.QuantizedReduceProd, y: TensorType) -> dict[str, Number]:
    info = np.iinfo(y.dtype.numpy)
    return {
        "factor": (op.q + (1 << 15)) >> 16 if op.q < 0x7FFF0000 else 0x7FFF,
        "right": 15 - op.shift,
        "zero_in": op.zero_in,
        "zero_out": op.zero_out,
        "low": int(info.min),
        "high": int(info.max),
    }
