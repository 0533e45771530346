"""Lowering of QuantizeLinear, DequantizeLinear and RoundBFloat16."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from vknn.graph import DType, TensorType
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, read4, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import (
    PLAIN,
    Layout,
    allows,
    ceil_div,
    packed_shape,
    storage_bytes,
    vector_count,
)
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_lanes, lane_count, spread
from vknn.ops.quantized.linear import DequantizeLinear, QuantizeLinear, RoundBFloat16

#: Smallest normal float32.
_NORMAL = np.finfo(np.float32).smallest_normal


@lowers(QuantizeLinear, DequantizeLinear)
def quantize_linear(problem: Problem) -> Sequence[Candidate]:
    """A candidate in LINEAR, and in C4 where parameters are scalars or per channel."""
    op, x = problem.op, problem.input(0)
    assert isinstance(op, QuantizeLinear | DequantizeLinear)
    vectors = [t is not None and t.size > 1 for t in problem.inputs[1:]]
    axis = op.axis % x.rank if x.rank else 0
    # Parameters are linear always. Scales stay float32: where tensors are float16 they must be
    # constants.
    parameters = tuple(
        Layout.LINEAR if t is not None and not _kept_single(problem, i) else None
        for i, t in enumerate(problem.inputs[1:], 1)
    )
    if any(_kept_single(problem, i) and c is None for i, c in enumerate(problem.constants)):
        return []
    if any_subnormal(problem):
        return []  # devices take such numbers as 0
    found = []
    machine = problem.machine
    for layout in (Layout.C4, Layout.LINEAR):
        if layout is Layout.C4 and (x.rank < 2 or (any(vectors) and axis != 1)):
            continue
        count = ceil_div(math.prod(packed_shape(x, layout)), 4)
        if not fits_lanes(count, problem.limits):
            continue
        emit = functools.partial(_emit, op=op, x=x, layout=layout, axis=axis)
        cost = machine.dispatch + 8 * math.prod(packed_shape(x, layout)) * machine.byte
        found.append(Candidate("elementwise", (layout, *parameters), (layout,), emit, cost))
    return found


def any_subnormal(problem: Problem) -> bool:
    """True where a constant float parameter has elements that are subnormal float32."""
    floats = [c for c in problem.constants[1:] if c is not None and c.dtype.kind == "f"]
    return any(bool(((np.abs(c) < _NORMAL) & (c != 0)).any()) for c in floats)


def _kept_single(problem: Problem, index: int) -> bool:
    """True for a float parameter that stays float32 while tensors are float16."""
    type_ = problem.inputs[index] if 0 < index < len(problem.inputs) else None
    return problem.options.half and type_ is not None and type_.dtype.is_float


def _emit(
    emitter: Emitter,
    op: QuantizeLinear | DequantizeLinear,
    x: TensorType,
    layout: Layout,
    axis: int,
) -> None:
    quantize = isinstance(op, QuantizeLinear)
    scale = _parameter(emitter, 1)
    second = _second_parameter(emitter, DType.INT32 if quantize else DType.FLOAT32)
    count = ceil_div(math.prod(packed_shape(x, layout)), 4)
    lanes = lane_count(emitter.problem.limits)
    push = {"count": count, **_channel_push(x, layout, axis)}
    if isinstance(op, QuantizeLinear):
        push |= {"low": op.low, "high": op.high}
    emitter.dispatch(
        "quantized/quantize" if quantize else "quantized/dequantize",
        [read4(emitter.input(0)), read1(scale), read1(second), write(emitter.output())],
        groups=spread(ceil_div(count, lanes), emitter.problem.limits),
        local=(lanes, 1, 1),
        push=push,
        spec={"C4": int(layout is Layout.C4), **_spec(emitter.problem, op)},
        flops=3 * x.size,
    )


def _spec(problem: Problem, op: QuantizeLinear | DequantizeLinear) -> dict[str, int]:
    """Specialization constants of the op and its parameters."""
    types = [*problem.inputs[1:], None][:2]
    scale, second = (int(t is not None and t.size > 1) for t in types)
    if isinstance(op, QuantizeLinear):
        settings = {"MULTIPLY": int(op.multiply), "HALF_AWAY": int(op.rounding == "half_away")}
        return {"SCALE_VECTOR": scale, "ZERO_VECTOR": second, **settings}
    return {"SCALE_VECTOR": scale, "BIAS_VECTOR": second, "BIAS": int(types[1] is not None)}


def _channel_push(x: TensorType, layout: Layout, axis: int) -> dict[str, int]:
    """Length of the channel axis; vec4s (C4) or elements (LINEAR) from a channel to the next."""
    if layout is Layout.C4:
        return {"inner": math.prod(x.dims[2:]), "channels": x.dims[1]}
    channels = x.dims[axis] if x.dims else 1
    return {"inner": math.prod(x.dims[axis + 1 :]), "channels": channels}


def _second_parameter(emitter: Emitter, dtype: DType) -> Ref:
    """The zero point or bias; a zero where there is none."""
    if len(emitter.inputs) > 2 and emitter.problem.inputs[2] is not None:
        return _parameter(emitter, 2)
    zeros = np.zeros(4, dtype.numpy)
    return emitter.weight(f"zero {dtype.value}", lambda: zeros, single=True)


def _parameter(emitter: Emitter, index: int) -> Ref:
    problem = emitter.problem
    if not _kept_single(problem, index):
        return emitter.input(index)
    data = problem.constants[index]
    assert data is not None
    pack = functools.partial(np.ascontiguousarray, data, np.float32)
    return emitter.weight("float32 parameter", pack, data, single=True)


@lowers(RoundBFloat16)
def round_bfloat16(problem: Problem) -> Sequence[Candidate]:
    """A candidate in each layout, in place where the input has no other reader."""
    x = problem.input(0)
    return [_rounding(problem, layout) for layout in PLAIN if allows(x, layout)]


def _rounding(problem: Problem, layout: Layout) -> Candidate:
    x, machine = problem.input(0), problem.machine
    emit = functools.partial(_emit_bfloat16, x=x, layout=layout)
    cost = machine.dispatch + 2 * storage_bytes(x, layout) * machine.byte
    name = f"round_{layout.value}"
    return Candidate(name, (layout,), (layout,), emit, cost, inplace=(0,))


def _emit_bfloat16(emitter: Emitter, x: TensorType, layout: Layout) -> None:
    count = vector_count(x, layout)
    emitter.dispatch_items(
        "quantized/bfloat16",
        [read4(emitter.input(0)), write(emitter.output())],
        grid(emitter.problem.limits, count),
        push={"count": count},
    )
