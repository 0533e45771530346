"""Lowering of ops on rows of quantized integers: a lane, or a workgroup, takes whole rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from vknn.graph import Op, TensorType
from vknn.lowering.kernels.reduction.rows import LANE_ROUNDS
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.parameters import Number
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits, fits_loops, lane_count, rounds, spread
from vknn.ops.quantized import rows as ops
from vknn.plan import DeviceLimits

#: Most loops over a row in a kernel.
_PASSES = 3
#: Multiply-adds of a lane that an element is worth in one of them, on a GPU.
_ELEMENT = 4
#: Ops whose rows workgroups may share.
_SHARED = (ops.QuantizedLogSoftmax, ops.FixedByteSoftmax)


@lowers(
    ops.QuantizedLogSoftmax,
    ops.FixedByteSoftmax,
    ops.FixedSoftmax,
    ops.QuantizedL2Normalization,
    ops.QuantizedReduceProd,
    ops.QuantizedLayerNormalization,
)
def quantized_rows(problem: Problem) -> Sequence[Candidate]:
    """Candidates, row-major; none where a table or a weight is no constant.

    A lane takes whole rows; on a GPU a workgroup may share a row of a softmax of 8 bits.
    """
    x = problem.input(0)
    if x.size == 0 or any(c is None for c in problem.constants[1:]):
        return []
    found = [_by_lanes(problem, x), _by_groups(problem, x)]
    return [candidate for candidate in found if candidate is not None]


def _by_lanes(problem: Problem, x: TensorType) -> Candidate | None:
    width, machine = x.dims[-1], problem.machine
    if _PASSES * rounds(width) >= problem.limits.max_loop_rounds:
        return None
    emit = functools.partial(_emit, op=problem.op, x=x)
    cost = machine.dispatch + 4 * _PASSES * x.size * machine.byte
    if problem.limits.kind != "cpu":
        waits = _PASSES * width
        cost += machine.in_rounds(x.size // width, _ELEMENT * waits, waits)
    return _candidate(problem, "rows", emit, cost)


def _by_groups(problem: Problem, x: TensorType) -> Candidate | None:
    """A row by a workgroup; its terms are added up in order all the same."""
    limits, machine, width = problem.limits, problem.machine, x.dims[-1]
    count = x.size // width
    if limits.kind == "cpu" or not isinstance(problem.op, _SHARED):
        return None
    if not fits(count, limits) or not fits_loops(limits, ceil_div(width, 4) + LANE_ROUNDS):
        return None
    lanes = _row_lanes(limits)
    emit = functools.partial(_emit_groups, op=problem.op, x=x)
    waits = _PASSES * ceil_div(width, lanes)
    work = machine.in_rounds(count * lanes, _ELEMENT * waits + width, waits)
    return _candidate(problem, "rows-shared", emit, machine.dispatch + work)


def _row_lanes(limits: DeviceLimits) -> int:
    """Lanes that share a row: a power of two."""
    return 1 << (lane_count(limits).bit_length() - 1)


def _candidate(
    problem: Problem, name: str, emit: Callable[[Emitter], None], cost: float
) -> Candidate:
    tables = (None,) * (len(problem.inputs) - 1)
    return Candidate(name, (Layout.LINEAR, *tables), (Layout.LINEAR,), emit, cost)


def _emit_groups(emitter: Emitter, op: Op, x: TensorType) -> None:
    limits, width = emitter.problem.limits, x.dims[-1]
    lanes = _row_lanes(limits)
    kernel, push, spec = _parameters(op, emitter.problem.outputs[0])
    emitter.dispatch(
        f"quantized/{kernel}_of_row",
        [read1(emitter.input(0)), read1(_table(emitter, 1)), write(emitter.output())],
        groups=spread(x.size // width, limits),
        local=(lanes, 1, 1),
        push={"rows": x.size // width, "width": width, **push},
        spec={"LANES": lanes, **spec},
    )


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
        case ops.QuantizedLogSoftmax():
            scales = {"scale": op.scale, "step_in": op.step_in}
            push = {**scales, "zero": op.zero, "low": op.low, "high": op.high}
            return "log_softmax", push, {}
        case ops.FixedByteSoftmax():
            info = np.iinfo(y.dtype.numpy)
            low, high = int(info.min), int(info.max)
            return "fixed_byte_softmax", {"bits": info.bits, "low": low, "high": high}, {}
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
        "right": max(15 - op.shift, 1),
        "zero_in": op.zero_in,
        "zero_out": op.zero_out,
        "low": int(info.min),
        "high": int(info.max),
    }
