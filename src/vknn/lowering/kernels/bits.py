"""Operators on the bits of integers, with broadcasting."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from vknn.graph import DType, Op, TensorType
from vknn.lowering.kernels.elementwise.broadcasting import Broadcast, in_each_layout
from vknn.lowering.kernels.elementwise.rule import channel_location
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read1, read4, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout, vector_count
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.ops import bits

#: As shaders/bits/binary.comp numbers them; Not is Xor with all bits set.
_KINDS: dict[type[Op], int] = {
    bits.BitwiseAnd: 0,
    bits.BitwiseOr: 1,
    bits.BitwiseXor: 2,
    bits.BitwiseNot: 2,
    bits.BitShift: 3,
}
#: Added for shifts downwards.
_DOWN = 1
#: Bits that a result wraps around in, below 0 where it has a sign.
_WRAPS = {DType.INT8: -8, DType.UINT8: 8, DType.INT16: -16}


@lowers(*_KINDS)
def bitwise(problem: Problem) -> Sequence[Candidate]:
    """One dispatch in either layout."""
    (y,), types = problem.outputs, [t for t in problem.inputs if t is not None]
    if isinstance(problem.op, bits.BitwiseNot):
        types.append(y.with_shape(()))
    found = []
    for layout, known, plan, cost in in_each_layout(problem, types):
        emit = functools.partial(_emit, op=problem.op, y=y, layout=layout, plan=plan)
        needed = tuple(known[: len(problem.inputs)])
        found.append(Candidate(f"bits_{layout.value}", needed, (layout,), emit, cost))
    return found


def _emit(emitter: Emitter, op: Op, y: TensorType, layout: Layout, plan: Broadcast) -> None:
    count = vector_count(y, layout)
    operands = [emitter.input(0)]
    if isinstance(op, bits.BitwiseNot):
        operands.append(emitter.weight("all", lambda: np.full(4, -1, np.int32)))
    else:
        operands.append(emitter.input(1))
    location = {"spatial": 1, "blocks": 1, "channels": 0}
    if layout is Layout.C4:
        location = channel_location(y, layout)
    read = read4 if plan.wide else read1
    down = isinstance(op, bits.BitShift) and not op.left
    emitter.dispatch_items(
        "bits/binary",
        [*(read(operand) for operand in operands), write(emitter.output())],
        grid(emitter.problem.limits, count, count if plan.wide else y.size),
        push={"count": count, "elements": y.size, **location, **plan.sizes_and_strides},
        spec=plan.constants
        | {
            "KIND": _KINDS[type(op)] + _DOWN * down,
            "WIDTH": 8 * y.dtype.itemsize,
            "WRAP": _WRAPS.get(y.dtype, 0),
            "PADDING_LANES": int(location["channels"] % 4 != 0),
        },
        defines={"ELEM": 1, "WIDE": int(plan.wide)},
    )
