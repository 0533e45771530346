"""Lowering of fixed-point ops on quantized integers: TableLookup, Rescale, QuantizedBinary."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from vknn.graph import DType, TensorType
from vknn.lowering.kernels.elementwise.broadcasting import (
    SCALAR_PENALTY,
    Broadcast,
    broadcast,
    operand_layout,
)
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, read4, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import PLAIN, Layout, allows, ceil_div, storage_bytes, vector_count
from vknn.lowering.kit.parameters import Number
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.ops.quantized.arithmetic import KINDS, FloatRescale, QuantizedBinary, Rescale, TableLookup


@lowers(TableLookup)
def table_lookup(problem: Problem) -> Sequence[Candidate]:
    """A candidate in each layout of x, in C4B for bytes of both; the table is linear or packed."""
    op, x, table = problem.op, problem.input(0), problem.input(1)
    assert isinstance(op, TableLookup)
    data = problem.constants[1]
    if problem.options.half and table.dtype.is_float and data is None:
        return []  # the table stays float32, which a tensor is not where tensors are float16
    found = []
    machine = problem.machine
    for layout in (lay for lay in (*PLAIN, Layout.C4B) if _both_allow(x, problem.outputs[0], lay)):
        cost = machine.dispatch + 4 * storage_bytes(x, layout) * machine.byte
        needed = (layout, None if data is not None else Layout.LINEAR)
        emit = functools.partial(_emit_lookup, op=op, x=x, layout=layout)
        found.append(Candidate(f"lookup_{layout.value}", needed, (layout,), emit, cost))
    return found


def _both_allow(x: TensorType, y: TensorType, layout: Layout) -> bool:
    return allows(x, layout) and allows(y, layout)


@lowers(Rescale, FloatRescale)
def rescale(problem: Problem) -> Sequence[Candidate]:
    """A candidate in each layout."""
    x, op = problem.input(0), problem.op
    assert isinstance(op, Rescale | FloatRescale)
    machine = problem.machine
    return [
        Candidate(
            f"rescale_{layout.value}",
            (layout,),
            (layout,),
            functools.partial(_emit_rescale, op=op, x=x, layout=layout),
            machine.dispatch + 2 * storage_bytes(x, layout) * machine.byte,
            inplace=(0,),
        )
        for layout in PLAIN
        if allows(x, layout)
    ]


@lowers(QuantizedBinary)
def quantized_binary(problem: Problem) -> Sequence[Candidate]:
    """A candidate in each layout, with broadcasting; without it in C4B where all are bytes."""
    (y,) = problem.outputs
    made = [_binary(problem, layout) for layout in PLAIN if allows(y, layout)]
    if all(t.dims == y.dims and _both_allow(t, y, Layout.C4B) for t in map(problem.input, (0, 1))):
        made.append(_binary(problem, Layout.C4B))
    return [c for c in made if c is not None]


def _padding(type_: TensorType, layout: Layout) -> int:
    """Specialization constant PADDING_LANES: 1 where C4 has lanes behind the last channel."""
    return int(layout is not Layout.LINEAR and type_.dims[1] % 4 != 0)


def _channel_push(type_: TensorType, layout: Layout) -> dict[str, int]:
    """Push constants by which a lane finds the channel of a vec4 of C4."""
    if layout is Layout.LINEAR:
        return {"spatial": 1, "blocks": 1, "channels": 0}
    _, channels, *spatial = type_.dims
    return {"spatial": math.prod(spatial), "blocks": ceil_div(channels, 4), "channels": channels}


def _emit_lookup(emitter: Emitter, op: TableLookup, x: TensorType, layout: Layout) -> None:
    table, (y,) = emitter.problem.input(1), emitter.problem.outputs
    data = emitter.problem.constants[1]
    count = vector_count(x, layout)
    entries = emitter.input(1) if data is None else _weight(emitter, data)
    emitter.dispatch_items(
        "quantized/lookup",
        [read4(emitter.input(0)), read1(entries), write(emitter.output())],
        grid(emitter.problem.limits, count),
        push={
            "count": count,
            "first": op.first,
            "last": table.size - 1,
            **_channel_push(y, layout),
        },
        spec={"PADDING_LANES": _padding(y, layout), "BYTES_UNSIGNED": _signedness(x)},
        defines={"ELEM": int(not y.dtype.is_float), **_in_bytes(layout)},
    )


def _in_bytes(layout: Layout) -> dict[str, int]:
    """Defines of a kernel's variant in C4B."""
    return {"BYTES": 1} if layout is Layout.C4B else {}


def _signedness(type_: TensorType) -> int:
    """Specialization constant that tells uint8 from int8 in C4B."""
    return int(type_.dtype is DType.UINT8)


def _weight(emitter: Emitter, data: np.ndarray) -> Ref:
    held = np.float32 if data.dtype.kind == "f" else np.int32
    return emitter.weight("table", lambda: np.ascontiguousarray(data, held), data, single=True)


def _emit_rescale(
    emitter: Emitter, op: Rescale | FloatRescale, x: TensorType, layout: Layout
) -> None:
    count = vector_count(x, layout)
    kernel, push = _rescaling(op)
    emitter.dispatch_items(
        kernel,
        [read4(emitter.input(0)), write(emitter.output())],
        grid(emitter.problem.limits, count),
        push={"count": count, **push, **_channel_push(x, layout)},
        spec={"PADDING_LANES": _padding(x, layout)},
    )


def _rescaling(op: Rescale | FloatRescale) -> tuple[str, dict[str, Number]]:
    """Kernel, and the push constants of its formula."""
    push: dict[str, Number] = {"zero_out": op.zero_out, "low": op.low, "high": op.high}
    if isinstance(op, FloatRescale):
        return "quantized/float_rescale", {**push, "scale": op.scale, "bias": op.bias}
    push |= {"zero_in": op.zero_in, "left": op.left_shift, "q": op.q, "shift": op.shift}
    return "quantized/rescale", push


def _binary(problem: Problem, layout: Layout) -> Candidate | None:
    op, a, b, (y,) = problem.op, problem.input(0), problem.input(1), problem.outputs
    assert isinstance(op, QuantizedBinary)
    packed = Layout.C4 if layout is Layout.C4B else layout
    found = [operand_layout(t, y, packed) for t in (a, b)]
    layouts = [lay for lay in found if lay is not None]
    plan = broadcast([a, b], layouts, y, packed) if len(layouts) == 2 else None
    if layout is Layout.C4B:
        layouts = [layout] * 2
    if plan is None:
        return None
    moved = sum(storage_bytes(t, lay) for t, lay in zip((a, b), layouts, strict=True))
    moved += storage_bytes(y, layout)
    machine = problem.machine
    cost = machine.dispatch + moved * machine.byte * (1.0 if plan.wide else SCALAR_PENALTY)
    return Candidate(
        f"binary_{layout.value}",
        tuple(layouts),
        (layout,),
        functools.partial(_emit_binary, op=op, layout=layout, plan=plan),
        cost,
        inplace=tuple(i for i, operand in enumerate(plan.operands) if operand.direct),
    )


def _emit_binary(emitter: Emitter, op: QuantizedBinary, layout: Layout, plan: Broadcast) -> None:
    (y,) = emitter.problem.outputs
    count = vector_count(y, layout)
    read = read4 if plan.wide else read1
    setting = np.array(
        [*op.zeros, *op.multipliers, *op.shifts, op.left_shift, op.zero_out, op.low, op.high],
        np.int32,
    )
    values = emitter.weight(f"setting {op}", lambda: setting)
    operands = [read(emitter.input(i)) for i in range(2)]
    emitter.dispatch_items(
        "quantized/binary",
        [*operands, read1(values), write(emitter.output())],
        grid(emitter.problem.limits, count, count if plan.wide else y.size),
        push={
            "count": count,
            "elements": y.size,
            **_channel_push(y, layout),
            **plan.sizes_and_strides,
        },
        spec={
            **plan.constants,
            "BYTES_UNSIGNED": _signedness(emitter.problem.input(0)),
            "OTHER_UNSIGNED": _signedness(emitter.problem.input(1)),
            "KIND": KINDS.index(op.kind),
            "PADDING_LANES": _padding(y, layout),
        },
        defines={"WIDE": int(plan.wide), **_in_bytes(layout)},
    )
