"""Windows as columns and back, row-major."""

from __future__ import annotations

from collections.abc import Sequence

from vknn.graph import TensorType
from vknn.lowering.kit.candidate import BYTE_COST, DISPATCH_COST, FLOP_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, ceil_div, read1, write
from vknn.lowering.kit.grid_loop import grid
from vknn.lowering.kit.layouts import Layout, storage_bytes
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_loops, rounds
from vknn.ops.convolution.im2col import Col2Im, Im2Col

_BOTH = (Layout.LINEAR,), (Layout.LINEAR,)


@lowers(Im2Col)
def im2col(problem: Problem) -> Sequence[Candidate]:
    """A lane gathers four neighbours of the result."""
    (x,), (y,), op = problem.inputs, problem.outputs, problem.op
    assert x is not None
    assert isinstance(op, Im2Col)

    def emit(emitter: Emitter) -> None:
        count = ceil_div(y.size, 4)
        share = grid(emitter.problem.limits, count, y.size + 3)
        value = op.value if x.dtype.is_float else int(op.value)
        emitter.dispatch(
            "convolution/im2col",
            [read1(emitter.input(0)), write(emitter.output())],
            groups=share.groups,
            local=share.local,
            push=[
                count,
                share.chunk,
                y.size,
                *x.dims[2:],
                *_places(op, x.dims[2:]),
                *_window(op),
                value,
            ],
            spec=share.spec,
            defines={"ELEM": int(not x.dtype.is_float)},
        )

    return [Candidate("gather", *_BOTH, emit, _cost(x, y))]


@lowers(Col2Im)
def col2im(problem: Problem) -> Sequence[Candidate]:
    """A lane adds up an element of the image."""
    (x,), (y,), op = problem.inputs, problem.outputs, problem.op
    assert x is not None
    assert isinstance(op, Col2Im)
    if not fits_loops(problem.limits, 1, *op.kernel):
        return []

    def emit(emitter: Emitter) -> None:
        share = grid(emitter.problem.limits, y.size, item_rounds=rounds(*op.kernel))
        emitter.dispatch(
            "convolution/col2im",
            [read1(emitter.input(0)), write(emitter.output())],
            groups=share.groups,
            local=share.local,
            push=[y.size, share.chunk, *op.image, *_places(op, op.image), *_window(op)],
            spec=share.spec,
            flops=x.size,
        )

    taps = op.kernel[0] * op.kernel[1]
    return [Candidate("gather", *_BOTH, emit, _cost(x, y) + 8 * taps * y.size * FLOP_COST)]


def _places(op: Im2Col | Col2Im, image: Sequence[int]) -> list[int]:
    """Windows along each axis."""
    return [int(n or 0) for n in op.places(image)]


def _window(op: Im2Col | Col2Im) -> list[int]:
    return [*op.kernel, *op.strides, *op.pads[:2], *op.dilations]


def _cost(x: TensorType, y: TensorType) -> float:
    moved = storage_bytes(x, Layout.LINEAR) + storage_bytes(y, Layout.LINEAR)
    return DISPATCH_COST + moved * BYTE_COST
