"""Lowering of MatMulNBits (shaders/quantized/blocks_product.comp)."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.lowering.kernels.quantized.linear import any_subnormal
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, read1, read4, write
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.machine import machine_of
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import allows_groups, fits_buffer, fits_loops
from vknn.ops.quantized.blocks import MatMulNBits, unpacked_bits
from vknn.plan import DeviceLimits

#: Most rows of a that a lane multiplies by the same weights.
_ROWS = 8
#: Lanes of a GPU's workgroup along columns, and most parts of k.
_LANES, _PARTS = 32, 8
#: Words of a vec4.
_WORDS = 4
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
    def run(self) -> int:
        """Codes of a vec4 of words."""
        return _WORDS * 32 // self.op.width

    @property
    def length(self) -> int:
        """vec4s of words of a column."""
        return ceil_div(self.op.size, self.run)

    @property
    def blocks(self) -> int:
        """Blocks of a column."""
        return ceil_div(self.op.size, self.op.block)

    @property
    def groups(self) -> tuple[int, int, int]:
        """Workgroups."""
        return ceil_div(self.n, self.lanes), ceil_div(self.m, self.rows), 1

    def fits(self, limits: DeviceLimits) -> bool:
        """True where the device allows loops, buffers and workgroups."""
        held = max(_WORDS * self.length, 2 * self.blocks + 1) * self.n
        rounds = ceil_div(self.length, self.parts)
        good = fits_loops(limits, rounds) and fits_loops(limits, self.parts)
        return good and fits_buffer(limits, held) and allows_groups(self.groups, limits)


@lowers(MatMulNBits)
def matmul_n_bits(problem: Problem) -> Sequence[Candidate]:
    """One candidate, where weights are constants, and blocks and k are of whole words and vec4s."""
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
    return [Candidate("blocks", layouts, (Layout.LINEAR,), emit, _cost(problem, form))]


def _form(op: MatMulNBits, m: int, n: int, limits: DeviceLimits) -> _Form:
    rows = 1 << (min(_ROWS, m) - 1).bit_length()
    if limits.kind == "cpu":
        return _Form(op, m, n, rows, limits.subgroup_size, 1)
    form = _Form(op, m, n, rows, _LANES, 1)
    most = min(_PARTS, limits.max_group_invocations // _LANES, limits.max_group_size[1])
    parts, lanes = 1, math.prod(form.groups) * _LANES
    # More lanes have more reads under way at a time.
    most = min(most, form.length // 2)
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
    constants = emitter.problem.constants
    codes, scales, zeros, bias = (*constants, None, None)[1:5]
    assert codes is not None and scales is not None
    key = f"codes {form.op.width} {form.op.bits} {form.op.block} {form.op.size}"
    words = emitter.weight(key, functools.partial(_words, form, codes), codes)
    sources = [array for array in (scales, zeros, bias) if array is not None]
    which = f"settings {int(zeros is not None)}{int(bias is not None)}"
    make = functools.partial(_settings, form, scales, zeros, bias)
    settings = emitter.weight(which, make, *sources, single=True)
    spec = {"BITS": form.op.width, "BLOCK": form.op.block, "MIDDLE": 1 << (form.op.bits - 1)}
    shape = {"ROWS": form.rows, "LANES": form.lanes, "PARTS": form.parts}
    behind = (1 if zeros is None else 2) * form.blocks * form.n
    emitter.dispatch(
        "quantized/blocks_product",
        [read4(emitter.input(0)), read4(words), read1(settings), write(emitter.output())],
        groups=form.groups,
        local=(form.lanes, form.parts, 1),
        push={
            "m": form.m,
            "n": form.n,
            "k4": form.op.size // 4,
            "groups": form.length,
            "blocks": form.blocks,
            "bias": -1 if bias is None else behind,
        },
        spec={**spec, **shape, "WHOLE": int(form.op.size % form.run == 0)},
        defines={"ZEROS": int(zeros is not None)},
        flops=2 * form.m * form.n * form.op.size,
    )


def _words(form: _Form, codes: np.ndarray) -> np.ndarray:
    """Codes as int32 [vec4 of a column, N, 4]."""
    op, own = form.op, 8 // form.op.width
    whole = form.length * form.run
    if op.bits == form.op.width:
        packed = codes.reshape(form.n, -1)  # blocks are whole words, so that none has gaps
    else:
        single = unpacked_bits(codes, op.bits, op.block).reshape(form.n, -1, own)
        places = (np.arange(own) * form.op.width).astype(np.uint8)
        packed = np.bitwise_or.reduce(single << places, axis=-1).astype(np.uint8)
    held = np.zeros((form.n, whole // own), np.uint8)
    count = min(held.shape[1], packed.shape[1])
    held[:, :count] = packed[:, :count]
    words = held.view("<i4").reshape(form.n, form.length, _WORDS)
    return np.ascontiguousarray(words.swapaxes(0, 1))


def _settings(
    form: _Form, scales: np.ndarray, zeros: np.ndarray | None, bias: np.ndarray | None
) -> np.ndarray:
    """Scales [blocks, N], or pairs of these and zero points, then the biases, as float32."""
    pairs = [x.astype(np.float32).T for x in (scales, zeros) if x is not None]
    flat = np.stack(pairs, axis=-1).reshape(-1)
    return flat if bias is None else np.concatenate((flat, bias.astype(np.float32)))
