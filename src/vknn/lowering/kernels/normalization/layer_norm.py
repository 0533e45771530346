"""LayerNormalization: over trailing axes, in one dispatch."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.lowering.kernels.reduction.rows import RowShape, row_shape
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import BoundBuffer, Emitter, Ref, read1, read4, write
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.machine import Machine
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.ops.normalization import LayerNormalization


@dataclass(frozen=True)
class _Rows:
    """``rows`` rows of ``length`` elements, read by vec4s if ``wide``."""

    rows: int
    length: int
    wide: bool

    @property
    def width(self) -> int:
        """Items of a row."""
        return self.length // 4 if self.wide else self.length


@lowers(LayerNormalization)
def layer_normalization(problem: Problem) -> Sequence[Candidate]:
    """Candidates: by vec4s where a row is a whole number of them, by scalars."""
    op, x = problem.op, problem.input(0)
    assert isinstance(op, LayerNormalization)
    count = math.prod(x.dims[: op.axis % x.rank])
    length = x.size // count
    inputs = tuple(Layout.LINEAR if t is not None else None for t in problem.inputs)
    machine = problem.machine
    work = 6 * x.size * machine.flop + 8 * x.size * machine.byte
    found = []
    for name, wide in (("vec4", True), ("scalar", False)):
        if wide and length % 4:
            continue
        rows = _Rows(count, length, wide)
        shape = row_shape(count, rows.width, problem.limits)
        if shape.fits(count, rows.width, problem.limits):
            emit = functools.partial(_emit_layer_norm, rows=rows, shape=shape)
            if problem.limits.kind != "cpu":
                work = _gpu_work(machine, rows, shape, 2 if problem.options.half else 4)
            cost = machine.dispatch + work * (1 if wide else 3)
            found.append(Candidate(name, inputs, (Layout.LINEAR,), emit, cost))
    return found


#: Instructions of a lane for each item of its row, in three readings, and outside of loops; waits
#: for memory, sums of rows among them: by RADV's machine code for RDNA 2 (``vknn profile --static
#: --isa`` on the null device navi21).
_ITEM, _OUTSIDE, _WAITS = 36.0, 150.0, 6.0


def _gpu_work(machine: Machine, rows: _Rows, shape: RowShape, size: int) -> float:
    """Microseconds on a GPU without the dispatch; ``size``: bytes of an element."""
    steps = _OUTSIDE + _ITEM * ceil_div(rows.width, shape.lanes)
    busy = machine.on_simds(rows.rows * shape.lanes, steps, _WAITS)
    return machine.beside(busy, 2 * size * rows.rows * rows.length)


def _emit_layer_norm(emitter: Emitter, rows: _Rows, shape: RowShape) -> None:
    op = emitter.problem.op
    assert isinstance(op, LayerNormalization)
    affine = _affine_reads(emitter, rows)
    read = read4 if rows.wide else read1
    emitter.dispatch(
        "normalization/layer_norm",
        [read(emitter.input(0)), write(emitter.output()), *affine],
        groups=shape.groups(rows.rows, emitter.problem.limits),
        local=shape.local,
        push={
            "rows": rows.rows,
            "width": rows.width,
            "inverse": 1.0 / rows.length,
            "epsilon": float(op.epsilon),
        },
        spec=shape.spec,
        defines={"AFFINE": int(bool(affine)), "WIDE": int(rows.wide)},
        flops=6 * rows.rows * rows.length,
    )


def _affine_reads(emitter: Emitter, rows: _Rows) -> list[BoundBuffer]:
    """The bindings of scale and bias; none where neither is given."""
    if all(t is None for t in emitter.problem.inputs[1:]):
        return []
    read = read4 if rows.wide else read1
    return [read(_vector(emitter, index, rows.length)) for index in (1, 2)]


def _vector(emitter: Emitter, index: int, length: int) -> Ref:
    """Scale (1) or bias (2); where only the other one is given, ones or zeros."""
    if index < len(emitter.inputs) and emitter.problem.inputs[index] is not None:
        return emitter.input(index)
    fill = 1.0 if index == 1 else 0.0
    padded = ceil_div(length, 4) * 4
    return emitter.weight(f"fill{fill}x{padded}", lambda: np.full(padded, fill, np.float32))
