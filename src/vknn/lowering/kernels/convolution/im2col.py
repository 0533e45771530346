"""Lowering of Im2Col and Col2Im, row-major."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from vknn.graph import TensorType
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read1, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout, ceil_div, storage_bytes
from vknn.lowering.kit.parameters import by_axis
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_loops, rounds
from vknn.ops.convolution.im2col import Col2Im, Im2Col

_BOTH = (Layout.LINEAR,), (Layout.LINEAR,)


@lowers(Im2Col)
def im2col(problem: Problem) -> Sequence[Candidate]:
    """A lane gathers four neighbouring elements of the result."""
    x, (y,), op = problem.input(0), problem.outputs, problem.op
    assert isinstance(op, Im2Col)
    emit = functools.partial(_emit_im2col, op=op, x=x, y=y)
    return [Candidate("gather", *_BOTH, emit, _cost(problem))]


def _emit_im2col(emitter: Emitter, op: Im2Col, x: TensorType, y: TensorType) -> None:
    count = ceil_div(y.size, 4)
    is_float = x.dtype.is_float
    emitter.dispatch_items(
        "convolution/im2col",
        [read1(emitter.input(0)), write(emitter.output())],
        grid(emitter.problem.limits, count, y.size + 3),
        push={
            "count": count,
            "elements": y.size,
            **by_axis("in", x.dims[2:]),
            **by_axis("out", _places(op, x.dims[2:])),
            **_window(op),
            "value": float(op.value) if is_float else int(op.value),
        },
        defines={"ELEM": int(not is_float)},
    )


@lowers(Col2Im)
def col2im(problem: Problem) -> Sequence[Candidate]:
    """A lane adds up the columns' elements for one element of the image."""
    x, (y,), op = problem.input(0), problem.outputs, problem.op
    assert isinstance(op, Col2Im)
    if not fits_loops(problem.limits, 1, *op.kernel):
        return []
    emit = functools.partial(_emit_col2im, op=op, x=x, y=y)
    taps = op.kernel[0] * op.kernel[1]
    return [
        Candidate("gather", *_BOTH, emit, _cost(problem) + 8 * taps * y.size * problem.machine.flop)
    ]


def _emit_col2im(emitter: Emitter, op: Col2Im, x: TensorType, y: TensorType) -> None:
    rows, columns = _places(op, op.image)
    emitter.dispatch_items(
        "convolution/col2im",
        [read1(emitter.input(0)), write(emitter.output())],
        grid(emitter.problem.limits, y.size, item_rounds=rounds(*op.kernel)),
        push={
            "count": y.size,
            **by_axis("out", op.image),
            "rows": rows,
            "columns": columns,
            **_window(op),
        },
        flops=x.size,
    )


def _places(op: Im2Col | Col2Im, image: Sequence[int]) -> list[int]:
    """Number of windows along each axis."""
    return [int(n or 0) for n in op.places(image)]


def _window(op: Im2Col | Col2Im) -> dict[str, int]:
    """Push constants of the windows."""
    sizes = {**by_axis("kernel", op.kernel), **by_axis("stride", op.strides)}
    return {**sizes, **by_axis("pad", op.pads[:2]), **by_axis("dilation", op.dilations)}


def _cost(problem: Problem) -> float:
    types, machine = (problem.input(0), problem.outputs[0]), problem.machine
    return machine.dispatch + sum(storage_bytes(t, Layout.LINEAR) for t in types) * machine.byte
