"""BitCast between element types that a device holds."""

from __future__ import annotations

from collections.abc import Sequence

from vknn.graph import DType, TensorType
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read1, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout, storage_bytes
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.ops.casting import BitCast

_LINEAR = (Layout.LINEAR,)
_SIGNED = (DType.INT8, DType.INT16, DType.INT32)


@lowers(BitCast)
def bit_cast(problem: Problem) -> Sequence[Candidate]:
    """A view for types that lie alike; else one dispatch, a lane for each element.

    None for the bits of floats that lie in memory in another precision.
    """
    x, (y,), machine = problem.input(0), problem.outputs, problem.machine
    options, types = problem.options, (x.dtype, y.dtype)
    other = (options.half and DType.FLOAT32 in types) or (
        options.bfloat16 and DType.FLOAT16 in types
    )
    if x.size == 0 or other:
        return []
    if x.dtype is y.dtype or {x.dtype, y.dtype} == {DType.INT32, DType.FLOAT32}:
        return [Candidate("view", _LINEAR, _LINEAR, _copy, 0.0, view=0)]
    moved = storage_bytes(x, Layout.LINEAR) + storage_bytes(y, Layout.LINEAR)
    cost = machine.dispatch + moved * machine.byte
    return [Candidate("elements", _LINEAR, _LINEAR, _emit, cost)]


def _copy(emitter: Emitter) -> None:
    y = emitter.problem.outputs[0]
    emitter.copy(emitter.input(0), emitter.output(), storage_bytes(y, Layout.LINEAR))


def _emit(emitter: Emitter) -> None:
    x, (y,) = emitter.problem.input(0), emitter.problem.outputs
    source, target = emitter.input(0), emitter.output()
    emitter.dispatch_items(
        "casting/bit_cast",
        [read1(source), write(target)],
        grid(emitter.problem.limits, y.size),
        push={"count": y.size},
        spec={
            "FROM": _width(x),
            "TO": _width(y),
            "SIGNED": int(y.dtype in _SIGNED),
            "IS_BOOL": int(y.dtype is DType.BOOL),
        },
        defines={"FROM_INT": int(not source.is_float), "TO_INT": int(not target.is_float)},
    )


def _width(type_: TensorType) -> int:
    return 8 * type_.dtype.itemsize
