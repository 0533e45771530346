"""Quantized integers in fixed-point arithmetic: tables, rescaling, arithmetic of two tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from vknn.graph import TensorType
from vknn.lowering.kernels.elementwise.broadcasting import Broadcast, broadcast, operand_layout
from vknn.lowering.kit.candidate import BYTE_COST, DISPATCH_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, read4, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import PLAIN, Layout, allows, storage_bytes, vector_count
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.ops.quantized.arithmetic import KINDS, FloatRescale, QuantizedBinary, Rescale, TableLookup

_KIND, _TAIL = 10, 14
_UNARY_TAIL = 10
#: A scalar at a time costs about this many times what whole vec4s cost.
_SCALAR_PENALTY = 3.0

Emit = Callable[[Emitter], None]


@lowers(TableLookup)
def table_lookup(problem: Problem) -> Sequence[Candidate]:
    """One dispatch in either layout; the table is read by its own indices."""
    x, table = problem.inputs
    (y,), op = problem.outputs, problem.op
    assert isinstance(op, TableLookup) and x is not None and table is not None
    data = problem.constants[1]
    if problem.options.half and table.dtype.is_float and data is None:
        return []  # the table stays float32, which a tensor is not where tensors are float16
    found = []
    for layout in (lay for lay in PLAIN if allows(x, lay)):
        cost = DISPATCH_COST + 4 * storage_bytes(x, layout) * BYTE_COST
        needed = (layout, None if data is not None else Layout.LINEAR)
        emit = _emit_lookup(op, x, table, y, layout, data)
        found.append(Candidate(f"lookup_{layout.value}", needed, (layout,), emit, cost))
    return found


@lowers(Rescale, FloatRescale)
def rescale(problem: Problem) -> Sequence[Candidate]:
    """One dispatch in either layout."""
    (x,), op = problem.inputs, problem.op
    assert isinstance(op, Rescale | FloatRescale) and x is not None
    return [
        Candidate(
            f"rescale_{layout.value}",
            (layout,),
            (layout,),
            _emit_rescale(op, x, layout),
            DISPATCH_COST + 2 * storage_bytes(x, layout) * BYTE_COST,
            inplace=(0,),
        )
        for layout in PLAIN
        if allows(x, layout)
    ]


@lowers(QuantizedBinary)
def quantized_binary(problem: Problem) -> Sequence[Candidate]:
    """One dispatch in either layout, with broadcasting."""
    (y,) = problem.outputs
    made = [_binary(problem, layout) for layout in PLAIN if allows(y, layout)]
    return [c for c in made if c is not None]


def _location(output: TensorType, layout: Layout) -> tuple[int, list[int]]:
    """Whether lanes need zeroing; push constants by which a lane finds its channel."""
    if layout is not Layout.C4:
        return 0, [1, 1, 0]
    _, channels, *spatial = output.dims
    return int(channels % 4 != 0), [math.prod(spatial), -(-channels // 4), channels]


def _emit_lookup(
    op: TableLookup,
    x: TensorType,
    table: TensorType,
    y: TensorType,
    layout: Layout,
    data: np.ndarray | None,
) -> Emit:
    def emit(emitter: Emitter) -> None:
        count = vector_count(x, layout)
        share = grid(emitter.problem.limits, count)
        tail, location = _location(y, layout)
        entries = emitter.input(1) if data is None else _weight(emitter, data)
        emitter.dispatch(
            "quantized/lookup",
            [read4(emitter.input(0)), read1(entries), write(emitter.output())],
            groups=share.groups,
            local=share.local,
            push=[count, share.chunk, op.first, table.size - 1, *location],
            spec=share.spec | {_UNARY_TAIL: tail},
            defines={"ELEM": int(not y.dtype.is_float)},
        )

    return emit


def _weight(emitter: Emitter, data: np.ndarray) -> Ref:
    held = np.float32 if data.dtype.kind == "f" else np.int32
    return emitter.weight("table", lambda: np.ascontiguousarray(data, held), data, single=True)


def _emit_rescale(op: Rescale | FloatRescale, x: TensorType, layout: Layout) -> Emit:
    def emit(emitter: Emitter) -> None:
        count = vector_count(x, layout)
        share = grid(emitter.problem.limits, count)
        tail, location = _location(x, layout)
        kernel: str
        numbers: list[int | float]
        if isinstance(op, Rescale):
            kernel, numbers = "rescale", [op.zero_in, op.left_shift, op.q, op.shift]
        else:
            kernel, numbers = "float_rescale", [op.scale, op.bias]
        setting = [*numbers, op.zero_out, op.low, op.high]
        emitter.dispatch(
            f"quantized/{kernel}",
            [read4(emitter.input(0)), write(emitter.output())],
            groups=share.groups,
            local=share.local,
            push=[count, share.chunk, *setting, *location],
            spec=share.spec | {_UNARY_TAIL: tail},
        )

    return emit


def _binary(problem: Problem, layout: Layout) -> Candidate | None:
    a, b = problem.inputs
    (y,), op = problem.outputs, problem.op
    assert isinstance(op, QuantizedBinary) and a is not None and b is not None
    found = [operand_layout(t, y, layout) for t in (a, b)]
    layouts = [lay for lay in found if lay is not None]
    plan = broadcast([a, b], layouts, y, layout) if len(layouts) == 2 else None
    if plan is None:
        return None
    moved = sum(storage_bytes(t, lay) for t, lay in zip((a, b), layouts, strict=True))
    moved += storage_bytes(y, layout)
    cost = DISPATCH_COST + moved * BYTE_COST * (1.0 if plan.wide else _SCALAR_PENALTY)
    return Candidate(
        f"binary_{layout.value}",
        tuple(layouts),
        (layout,),
        _emit_binary(op, y, layout, plan),
        cost,
        inplace=tuple(i for i, operand in enumerate(plan.operands) if operand.direct),
    )


def _emit_binary(op: QuantizedBinary, y: TensorType, layout: Layout, plan: Broadcast) -> Emit:
    def emit(emitter: Emitter) -> None:
        count = vector_count(y, layout)
        share = grid(emitter.problem.limits, count, count if plan.wide else y.size)
        tail, location = _location(y, layout)
        read = read4 if plan.wide else read1
        setting = np.array(
            [*op.zeros, *op.multipliers, *op.shifts, op.left_shift, op.zero_out, op.low, op.high],
            np.int32,
        )
        values = emitter.weight(f"setting {op}", lambda: setting)
        emitter.dispatch(
            "quantized/binary",
            [
                read(emitter.input(0)),
                read(emitter.input(1)),
                read1(values),
                write(emitter.output()),
            ],
            groups=share.groups,
            local=share.local,
            push={
                "count": count,
                "chunk": share.chunk,
                "elements": y.size,
                **dict(zip(("spatial", "blocks", "channels"), location, strict=True)),
                **plan.sizes_and_strides,
            },
            spec=share.spec | plan.constants | {"KIND": KINDS.index(op.kind), "TAIL": tail},
            defines={"WIDE": int(plan.wide)},
        )

    return emit
