"""Lowering of MatMulNBits (shaders/quantized/blocks_product.comp)."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from vknn.lowering.kernels.matmul.block_floats import MOST_ROWS, by_floats
from vknn.lowering.kernels.matmul.block_weights import (
    WORDS,
    blocks_of,
    code_constants,
    length_of,
    run_of,
    weight_buffers,
)
from vknn.lowering.kernels.quantized.linear import any_subnormal
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read1, read4, write
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.machine import machine_of
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import allows_groups, fits_buffer, fits_loops
from vknn.ops.quantized.blocks import MatMulNBits
from vknn.plan import DeviceLimits

#: Lanes of a GPU's workgroup along columns, and most parts of k.
_LANES, _PARTS = 32, 8
#: Instructions that make a weight of its code, by a multiply-add.
_UNPACKING = 3.0


@dataclass(frozen=True)
class _Form:
    """How the kernel computes a product.

    ``m`` rows of a, ``n`` columns; a lane has ``rows`` rows and one column, and a workgroup
    ``lanes`` columns by ``parts`` parts of k.
    """

    op: MatMulNBits
    m: int
    n: int
    rows: int
    lanes: int
    parts: int

    @property
    def groups(self) -> tuple[int, int, int]:
        """Workgroups."""
        return ceil_div(self.n, self.lanes), ceil_div(self.m, self.rows), 1

    def fits(self, limits: DeviceLimits) -> bool:
        """True where the device allows loops, buffers and workgroups."""
        held = max(WORDS * length_of(self.op), 2 * blocks_of(self.op) + 1) * self.n
        rounds = ceil_div(length_of(self.op), self.parts)
        good = fits_loops(limits, rounds) and fits_loops(limits, self.parts)
        return good and fits_buffer(limits, held) and allows_groups(self.groups, limits)


@lowers(MatMulNBits)
def matmul_n_bits(problem: Problem) -> Sequence[Candidate]:
    """Candidates where weights are constants, and blocks and k are of whole words and vec4s."""
    op, a, codes = problem.op, problem.input(0), problem.input(1)
    assert isinstance(op, MatMulNBits)
    given = zip(problem.inputs[1:], problem.constants[1:], strict=True)
    constant = all(type_ is None or array is not None for type_, array in given)
    if not constant or not op.has_words or a.size == 0 or codes.size == 0:
        return []
    if any_subnormal(problem):
        return []  # devices take such numbers as 0
    form = _form(op, a.size // op.size, codes.dims[0], problem.limits)
    if not form.fits(problem.limits):
        return []
    emit = functools.partial(_emit, form=form)
    layouts = (Layout.LINEAR, *(None for _ in problem.inputs[1:]))
    own = Candidate("blocks", layouts, (Layout.LINEAR,), emit, _cost(problem, form))
    return [own, *by_floats(problem)]


def _form(op: MatMulNBits, m: int, n: int, limits: DeviceLimits) -> _Form:
    rows = 1 << (min(MOST_ROWS, m) - 1).bit_length()
    if limits.kind == "cpu":
        return _Form(op, m, n, rows, limits.subgroup_size, 1)
    form = _Form(op, m, n, rows, _LANES, 1)
    most = min(_PARTS, limits.max_group_invocations // _LANES, limits.max_group_size[1])
    parts, lanes = 1, math.prod(form.groups) * _LANES
    # More lanes have more reads under way at a time.
    most = min(most, length_of(op) // 2)
    while 2 * parts <= most and parts * lanes < machine_of(limits).lanes:
        parts *= 2
    return _Form(op, m, n, rows, _LANES, parts)


def _cost(problem: Problem, form: _Form) -> float:
    machine = problem.machine
    weights = form.n * form.op.size
    moved = weights * form.op.width / 8 + 4 * form.m * (form.n + form.op.size)
    steps = weights * (form.m + _UNPACKING * ceil_div(form.m, form.rows))
    return machine.dispatch + 2 * steps * machine.flop + moved * machine.byte


def _emit(emitter: Emitter, form: _Form) -> None:
    zeros, bias = (*emitter.problem.constants, None, None)[3:5]
    words, settings = weight_buffers(emitter)
    shape = {"ROWS": form.rows, "LANES": form.lanes, "PARTS": form.parts}
    behind = (1 if zeros is None else 2) * blocks_of(form.op) * form.n
    emitter.dispatch(
        "quantized/blocks_product",
        [read4(emitter.input(0)), read4(words), read1(settings), write(emitter.output())],
        groups=form.groups,
        local=(form.lanes, form.parts, 1),
        push={
            "m": form.m,
            "n": form.n,
            "k4": form.op.size // 4,
            "groups": length_of(form.op),
            "blocks": blocks_of(form.op),
            "bias": -1 if bias is None else behind,
        },
        spec={
            **code_constants(form.op),
            **shape,
            "WHOLE": int(form.op.size % run_of(form.op) == 0),
        },
        defines={"ZEROS": int(zeros is not None)},
        flops=2 * form.m * form.n * form.op.size,
    )
