"""Lowering of QuantizedGemm (shaders/quantized/product.comp)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.graph import DType
from vknn.lowering.kernels.matmul.gemm import (
    Gemm,
    GemmTile,
    choose_tile,
    fits_device,
    make_gemm,
    pack_columns,
)
from vknn.lowering.kernels.quantized.few_bits import bits_of
from vknn.lowering.kernels.quantized.requantize import (
    BYTES,
    DOTS,
    NUMBERS,
    as_bytes,
    by_floats,
    byte_formats,
    centre,
    has_setting,
    quantized_variant,
)
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, read4, write
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_buffer, fits_loops
from vknn.ops.quantized.matmul import QuantizedGemm


@dataclass(frozen=True)
class _Form:
    """A QuantizedGemm by one format of its b.

    ``packed``: b is a constant, in panels of ``weight_format``; else b is read as it is.
    ``bits`` of a weight below 8: the bytes of an integer hold several.
    """

    problem: Problem
    gemm: Gemm
    tile: GemmTile
    packed: bool
    weight_format: str = NUMBERS
    bits: int = 8

    @property
    def name(self) -> str:
        """The candidate's name."""
        if not self.packed:
            return "plain"
        return (self.weight_format or "packed") + (str(self.bits) if self.bits < 8 else "")

    @property
    def run(self) -> int:
        """k of a column that an integer of the packed b holds."""
        return 32 // self.bits if self.weight_format or self.bits < 8 else 1

    @property
    def middle(self) -> int:
        """Number that is taken off weights: dots of few bits want none below 0."""
        if self.bits < 8 and self.weight_format == DOTS:
            return -(1 << (self.bits - 1))
        return centre(self.problem) or 0

    @property
    def block(self) -> int:
        """vec4s of a panel of b."""
        return min(self.tile.block, ceil_div(self.gemm.n, 4))

    @property
    def fits(self) -> bool:
        """True where the device allows the loop and the packed b."""
        limits, k = self.problem.limits, self.gemm.k
        if not self.packed:
            return fits_loops(limits, k)
        panels = ceil_div(ceil_div(self.gemm.n, 4), self.block)
        held = panels * self.block * 4 * ceil_div(k + 1, self.run)
        return fits_loops(limits, ceil_div(k, 4)) and fits_buffer(limits, held)

    def candidate(self) -> Candidate:
        """The candidate, with its layouts and cost."""
        given = zip(self.problem.inputs[1:], self.problem.constants[1:], strict=True)
        held = [Layout.LINEAR if t is not None and c is None else None for t, c in given]
        if not self.packed:
            held[0] = Layout.LINEAR
        moved = 4 * sum(t.size for t in (*self.problem.inputs[:2], *self.problem.outputs) if t)
        machine = self.problem.machine
        work = self.gemm.flops * machine.flop * self._work() + moved * machine.byte
        layouts = (Layout.LINEAR, *held)
        emit = functools.partial(_emit, plan=self)
        return Candidate(self.name, layouts, (Layout.LINEAR,), emit, machine.dispatch + work)

    def _work(self) -> float:
        """Cost of a multiply-add, by that of floats in panels; loads of b take most of it."""
        if not self.packed:
            return 3.0
        slow = "integer_dot_fast" not in self.problem.limits.features
        return {NUMBERS: 1.0, BYTES: 0.8, DOTS: 0.9 if slow else 0.4}[self.weight_format]


def _emit(emitter: Emitter, plan: _Form) -> None:
    gemm, packed = plan.gemm, plan.packed
    variant = quantized_variant(emitter, 4 if packed else 1, packed, plan.weight_format)
    b = read4(_packed(emitter, plan)) if packed else read1(emitter.input(1))
    emitter.dispatch(
        "quantized/product",
        [read1(emitter.input(0)), b, write(emitter.output()), *variant.bindings],
        groups=plan.tile.groups(gemm),
        local=plan.tile.local,
        push=_push(plan),
        spec={**plan.tile.spec, **variant.spec, **_few_bits(plan)},
        defines={
            "QUANT": variant.defines["QUANT"],
            "PACKED": int(packed),
            **({"FEW": 1} if plan.bits < 8 else {}),
        },
        flops=gemm.flops,
    )


def _few_bits(plan: _Form) -> dict[str, int]:
    """Specialization constants of weights with few bits."""
    if plan.bits == 8:
        return {}
    given = {"WEIGHT_BITS": plan.bits}
    return given | ({"CENTRE": plan.middle} if plan.weight_format == DOTS else {})


def _push(plan: _Form) -> dict[str, int]:
    gemm, op = plan.gemm, plan.problem.op
    assert isinstance(op, QuantizedGemm)
    rows = ceil_div(gemm.k, plan.run)
    panels = {"b_block": plan.block, "b_panel": rows * plan.block}
    return {**gemm.push(), **panels, "zero_b": op.zero_b}


def _packed(emitter: Emitter, plan: _Form) -> Ref:
    """The constant b in panels, less its zero point."""
    op, b = plan.problem.op, plan.problem.constants[1]
    assert isinstance(op, QuantizedGemm) and b is not None
    floats = by_floats(plan.problem) and plan.run == 1
    key = f"quantized {op.transpose_b} {op.zero_b} {plan.block} {plan.run} {plan.middle} {floats}"
    make = functools.partial(_panels, plan.gemm, op, plan.block, plan.run, plan.middle, floats, b)
    return emitter.weight(key, make, b, single=True)


def _panels(
    gemm: Gemm, op: QuantizedGemm, block: int, run: int, middle: int, floats: bool, b: np.ndarray
) -> np.ndarray:
    rows = run * ceil_div(gemm.k, run)
    moved = b.astype(np.int32) - op.zero_b
    flat = moved.reshape(gemm.n, gemm.k).T if op.transpose_b else moved.reshape(gemm.k, gemm.n)
    flat = np.pad(flat, [(0, rows - gemm.k), (0, 0)])
    panels = pack_columns(flat.astype(np.float32 if floats else np.int32), None, block)
    panels = panels[: rows * panels.size // (rows + 1)]  # without the bias behind them
    return as_bytes(panels - middle, 4 * block, 32 // run) if run > 1 else panels


@lowers(QuantizedGemm)
def quantized_gemm(problem: Problem) -> Sequence[Candidate]:
    """Candidates with a packed b where all batch entries share a constant one, and one without."""
    op, a, b = problem.op, problem.input(0), problem.input(1)
    assert isinstance(op, QuantizedGemm)
    gemm = make_gemm(a.dims, b.dims, op.transpose_a, op.transpose_b)
    if gemm is None or not has_setting(problem) or 0 in (gemm.k, problem.outputs[0].size):
        return []
    if not fits_device(gemm, problem.limits):
        return []
    shared = problem.constants[1] is not None and b.size == gemm.k * gemm.n
    small = b.dtype is not DType.INT16
    tile = choose_tile(gemm, problem.limits)
    plans = [_Form(problem, gemm, tile, False)]
    if shared and small and problem.constants[1] is not None:
        given = problem.constants[1]
        bits = bits_of(int(given.min()) - op.zero_b, int(given.max()) - op.zero_b)
        formats = [NUMBERS, *byte_formats(problem)]
        if bits < 8 and by_floats(problem):
            formats.remove(NUMBERS)  # which have 32 bits; those of plain integers may have few
        plans = [*(_Form(problem, gemm, tile, True, name, bits) for name in formats), *plans]
    return [plan.candidate() for plan in plans if plan.fits]
