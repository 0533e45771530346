"""Elementwise operators: unary, binary with broadcasting, casts; all but casts with an epilogue."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from vknn.graph import DType, Op, TensorType
from vknn.lowering.kernels.elementwise.broadcasting import (
    SCALAR_PENALTY,
    Broadcast,
    broadcast,
    operand_layout,
)
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read1, read4, write
from vknn.lowering.kit.epilogue import CHANNEL_FLAG, unary_step
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import (
    PLAIN,
    Layout,
    allows,
    ceil_div,
    holds,
    storage_bytes,
    vector_count,
)
from vknn.lowering.kit.opcodes import BINARY, UNARY
from vknn.lowering.kit.problem import Epilogue, Problem
from vknn.lowering.kit.registry import lowers
from vknn.ops import elementwise as ew

#: Bits that integers of a dtype wrap around in, as the shaders take it: below 0 signed.
_WRAPS = {DType.INT8: -8, DType.UINT8: 8, DType.INT16: -16}
_INTEGER_UNARY = (ew.Abs, ew.Neg, ew.Square, ew.Relu, ew.Sign, ew.Clip, ew.Threshold)
_INTEGER_NOOPS = (ew.Floor, ew.Ceil, ew.Round, ew.Trunc)
_INTEGER_BINARY = (
    *(ew.Add, ew.Sub, ew.Mul, ew.Div, ew.Max, ew.Min),
    *(ew.Pow, ew.Fmod, ew.FloorDiv, ew.PRelu, ew.Mod),
)


@lowers(*UNARY)
def unary(problem: Problem) -> Sequence[Candidate]:
    """One dispatch in either layout; on integers only operators that give integers."""
    x, op = problem.input(0), problem.op
    if not x.dtype.is_float and not isinstance(op, (*_INTEGER_UNARY, *_INTEGER_NOOPS)):
        return []
    machine = problem.machine
    return [
        Candidate(
            f"unary_{layout.value}",
            (layout,),
            (layout,),
            functools.partial(_emit_unary, op=op, x=x, layout=layout),
            machine.dispatch + 2 * storage_bytes(x, layout) * machine.byte,
            inplace=(0,),
        )
        for layout in _epilogue_layouts(problem.epilogue, x)
    ]


@lowers(*BINARY)
def binary(problem: Problem) -> Sequence[Candidate]:
    """One dispatch in either layout, operands broadcast, by vec4s or scalars."""
    (y,) = problem.outputs
    if not y.dtype.is_float and not isinstance(problem.op, _INTEGER_BINARY):
        return []
    made = [_binary(problem, layout) for layout in _epilogue_layouts(problem.epilogue, y)]
    return [c for c in made if c is not None]


@lowers(ew.Cast)
def cast(problem: Problem) -> Sequence[Candidate]:
    """No dispatch where the device holds both types alike, one otherwise."""
    x, (y,), op = problem.input(0), problem.outputs, problem.op
    assert isinstance(op, ew.Cast)
    same = holds(y.dtype, x.dtype)
    machine = problem.machine
    return [
        Candidate(
            f"cast_{layout.value}",
            (layout,),
            (layout,),
            functools.partial(_emit_cast, op=op, x=x, y=y, layout=layout),
            0.0 if same else machine.dispatch + 2 * storage_bytes(x, layout) * machine.byte,
            view=0 if same else None,
        )
        for layout in PLAIN
        if allows(x, layout)
    ]


def _epilogue_layouts(epilogue: Epilogue, output: TensorType) -> list[Layout]:
    """Layouts in which the epilogue can be applied to whole vec4s of the output."""
    by_channel = any(step.mode & CHANNEL_FLAG for step in epilogue.steps)
    found = []
    if not by_channel or (output.rank == 2 and output.dims[1] % 4 == 0):
        found.append(Layout.LINEAR)
    if allows(output, Layout.C4):
        found.append(Layout.C4)
    return found


def channel_location(output: TensorType, layout: Layout) -> dict[str, int]:
    """Push constants by which a lane finds its channel: spatial places, blocks and channels."""
    if layout is Layout.C4:
        _, channels, *spatial = output.dims
        return {
            "spatial": math.prod(spatial),
            "blocks": ceil_div(channels, 4),
            "channels": channels,
        }
    blocks = max(1, output.dims[-1] // 4 if output.rank else 1)
    return {"spatial": 1, "blocks": blocks, "channels": 0}


def _shared_constants(
    epilogue: Epilogue, output: TensorType, layout: Layout
) -> dict[str, int | float]:
    by_channel = any(step.mode & CHANNEL_FLAG for step in epilogue.steps)
    padded = layout is Layout.C4 and output.dims[1] % 4 != 0
    return {
        "LOCATE": int(by_channel or padded),
        "PADDING_LANES": int(padded),
        "WRAP": _WRAPS.get(output.dtype, 0),
    }


def _emit_unary(emitter: Emitter, op: Op, x: TensorType, layout: Layout) -> None:
    is_float = x.dtype.is_float
    step = unary_step(op)
    unchanged = not is_float and isinstance(op, _INTEGER_NOOPS)
    low, high = _integer_attributes(op, x.dtype)
    count = vector_count(x, layout)
    location = channel_location(x, layout)
    emitter.dispatch_items(
        "elementwise/unary",
        [read4(emitter.input(0)), write(emitter.output())],
        grid(emitter.problem.limits, count),
        push={"count": count, **location, "a": low, "b": high},
        spec={
            **_shared_constants(emitter.problem.epilogue, x, layout),
            "CODE": 0 if unchanged else step.code,
            "A": step.a if is_float else None,
            "B": step.b if is_float else None,
        },
        defines={"ELEM": int(not is_float)},
        epilogue=2 if is_float else None,
    )


def _integer_attributes(op: Op, dtype: DType) -> tuple[int, int]:
    """Bounds of Clip and Threshold for integers."""
    if dtype.is_float:
        return 0, 0
    info = np.iinfo(dtype.numpy)
    if isinstance(op, ew.Clip):
        low, high = (int(np.clip(v, info.min, info.max)) for v in (op.min, op.max))
        return low, high
    if isinstance(op, ew.Threshold):
        bits = np.iinfo(np.int32)
        return int(np.clip(np.floor(op.threshold), bits.min, bits.max)), 0
    return 0, 0


def _binary(problem: Problem, layout: Layout) -> Candidate | None:
    x, w = problem.inputs
    (y,), epilogue = problem.outputs, problem.epilogue
    assert x is not None and w is not None
    found = [operand_layout(t, y, layout) for t in (x, w)]
    layouts = [lay for lay in found if lay is not None]
    plan = broadcast([x, w], layouts, y, layout) if len(layouts) == 2 else None
    if plan is None or (not plan.wide and _location_needed(epilogue)):
        return None
    moved = sum(storage_bytes(t, lay) for t, lay in zip((x, w), layouts, strict=True))
    moved += storage_bytes(y, layout)
    machine = problem.machine
    cost = moved * machine.byte * (1.0 if plan.wide else SCALAR_PENALTY)
    return Candidate(
        f"binary_{layout.value}",
        tuple(layouts),
        (layout,),
        functools.partial(_emit_binary, op=problem.op, y=y, layout=layout, plan=plan),
        machine.dispatch + cost,
        inplace=tuple(i for i, operand in enumerate(plan.operands) if operand.direct),
    )


def _location_needed(epilogue: Epilogue) -> bool:
    return any(step.mode & CHANNEL_FLAG for step in epilogue.steps)


def _emit_binary(emitter: Emitter, op: Op, y: TensorType, layout: Layout, plan: Broadcast) -> None:
    is_float = y.dtype.is_float
    count = vector_count(y, layout)
    read = read4 if plan.wide else read1
    emitter.dispatch_items(
        "elementwise/binary",
        [read(emitter.input(0)), read(emitter.input(1)), write(emitter.output())],
        grid(emitter.problem.limits, count, count if plan.wide else y.size),
        push={
            "count": count,
            "elements": y.size,
            **channel_location(y, layout),
            **plan.sizes_and_strides,
        },
        spec={
            **_shared_constants(emitter.problem.epilogue, y, layout),
            **plan.constants,
            "CODE": BINARY[type(op)],
        },
        defines={"ELEM": int(not is_float), "WIDE": int(plan.wide)},
        epilogue=1 if is_float else None,
    )


def _emit_cast(emitter: Emitter, op: ew.Cast, x: TensorType, y: TensorType, layout: Layout) -> None:
    count = vector_count(x, layout)
    low, high = 0, 0
    if y.dtype.is_integer:
        info = np.iinfo(y.dtype.numpy)
        low, high = int(info.min), int(info.max)
    source, target = emitter.input(0), emitter.output()
    share = grid(emitter.problem.limits, count)
    emitter.dispatch(
        "elementwise/cast",
        [read4(source), write(target)],
        groups=share.groups,
        local=share.local,
        push={
            "count": count,
            "chunk": share.chunk,
            "low": float(low),
            "high": float(high),
            "int_low": low,
            "int_high": high,
        },
        spec={
            "WRAP": _WRAPS.get(y.dtype, 0),
            "TO_BOOL": int(y.dtype is DType.BOOL),
            "TO_HALF": int(y.dtype is DType.FLOAT16),
            "NAN_HIGH": int(op.nan_to_most),
        },
        defines={"FROM_INT": int(not source.is_float), "TO_INT": int(not target.is_float)},
    )
