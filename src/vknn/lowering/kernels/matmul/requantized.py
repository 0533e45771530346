"""Lowering of QuantizedGemm (shaders/quantized/product.comp)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vknn.graph import DType
from vknn.lowering.kernels.matmul.gemm import (
    Product,
    Tile,
    choose_tile,
    fits_device,
    make_product,
    pack_columns,
)
from vknn.lowering.kernels.quantized.requantize import (
    BYTES,
    DOTS,
    NUMBERS,
    as_bytes,
    by_floats,
    byte_forms,
    form,
    has_setting,
)
from vknn.lowering.kit.candidate import BYTE_COST, DISPATCH_COST, FLOP_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, ceil_div, read1, read4, write
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits_buffer, fits_loops
from vknn.ops.quantized.matmul import QuantizedGemm


@dataclass(frozen=True)
class _Plan:
    """A product as it will be dispatched.

    ``packed``: b is a constant that lies in panels; ``lie``: as which numbers.
    """

    problem: Problem
    product: Product
    tile: Tile
    packed: bool
    lie: str = NUMBERS

    @property
    def block(self) -> int:
        """vec4s of a panel of b."""
        return min(self.tile.block, ceil_div(self.product.n, 4))

    @property
    def fits(self) -> bool:
        """True where the device allows the loop and the packed b."""
        limits, k = self.problem.limits, self.product.k
        if not self.packed:
            return fits_loops(limits, k)
        panels = ceil_div(ceil_div(self.product.n, 4), self.block)
        held = panels * self.block * 4 * (k + 1)
        return fits_loops(limits, ceil_div(k, 4)) and fits_buffer(limits, held)

    def candidate(self) -> Candidate:
        given = zip(self.problem.inputs[1:], self.problem.constants[1:], strict=True)
        held = [Layout.LINEAR if t is not None and c is None else None for t, c in given]
        if not self.packed:
            held[0] = Layout.LINEAR
        moved = 4 * sum(t.size for t in (*self.problem.inputs[:2], *self.problem.outputs) if t)
        work = self.product.flops * FLOP_COST * self._work() + moved * BYTE_COST
        name = (self.lie or "packed") if self.packed else "plain"
        layouts = (Layout.LINEAR, *held)
        return Candidate(name, layouts, (Layout.LINEAR,), self.emit, DISPATCH_COST + work)

    def _work(self) -> float:
        """Of a product, that of floats in panels being 1; loads of b are most of it."""
        if not self.packed:
            return 3.0
        slow = "integer_dot_fast" not in self.problem.limits.features
        return {NUMBERS: 1.0, BYTES: 0.8, DOTS: 0.9 if slow else 0.4}[self.lie]

    def emit(self, emitter: Emitter) -> None:
        p, op = self.product, self.problem.op
        assert isinstance(op, QuantizedGemm)
        kind = form(emitter, 4 if self.packed else 1, self.packed, self.lie)
        b = self._weights(emitter, op) if self.packed else emitter.input(1)
        rows = ceil_div(p.k, 4) if self.lie else p.k
        panel = rows * self.block
        push = [p.m, p.n, p.k, p.a_row, p.a_col, p.b_row, p.b_col, p.c_row]
        push += [self.block, panel, op.zero_b, *p.batch_push()]
        emitter.dispatch(
            "quantized/product",
            [
                read1(emitter.input(0)),
                read4(b) if self.packed else read1(b),
                write(emitter.output()),
                *kind.bindings,
            ],
            groups=self.tile.groups(p),
            local=self.tile.local,
            push=push,
            spec={**self.tile.spec, **kind.spec},
            defines={"QUANT": kind.defines["QUANT"], "PACKED": int(self.packed)},
            flops=p.flops,
        )

    def _weights(self, emitter: Emitter, op: QuantizedGemm) -> Ref:
        b, p = self.problem.constants[1], self.product
        assert b is not None
        floats = by_floats(self.problem) and not self.lie
        rows = 4 * ceil_div(p.k, 4) if self.lie else p.k

        def make() -> np.ndarray:
            moved = b.astype(np.int32) - op.zero_b
            flat = moved.reshape(p.n, p.k).T if op.transpose_b else moved.reshape(p.k, p.n)
            flat = np.pad(flat, [(0, rows - p.k), (0, 0)])
            panels = pack_columns(flat.astype(np.float32 if floats else np.int32), None, self.block)
            panels = panels[: rows * panels.size // (rows + 1)]  # without the bias behind them
            return as_bytes(panels, 4 * self.block) if self.lie else panels

        key = f"quantized {op.transpose_b} {op.zero_b} {self.block} {self.lie} {floats}"
        return emitter.weight(key, make, b, single=True)


@lowers(QuantizedGemm)
def quantized_gemm(problem: Problem) -> Sequence[Candidate]:
    """A packed b where it is a constant that all batch entries share; any other as it lies."""
    op, (a, b) = problem.op, problem.inputs[:2]
    assert isinstance(op, QuantizedGemm) and a is not None and b is not None
    product = make_product(a.dims, b.dims, op.transpose_a, op.transpose_b)
    if product is None or not has_setting(problem) or 0 in (product.k, problem.outputs[0].size):
        return []
    if not fits_device(product, problem.limits):
        return []
    shared = problem.constants[1] is not None and b.size == product.k * product.n
    small = b.dtype is not DType.INT16
    tile = choose_tile(product, problem.limits)
    plans = [_Plan(problem, product, tile, False)]
    if shared and small:
        lies = [NUMBERS, *byte_forms(problem)]
        plans = [*(_Plan(problem, product, tile, True, lie) for lie in lies), *plans]
    return [plan.candidate() for plan in plans if plan.fits]
