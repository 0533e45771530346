"""Lowering of MatMul and MatMulInteger: the kernels for the sizes at hand, cheapest first."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vknn.lowering.kernels.matmul.gemm import (
    Product,
    allows_groups,
    choose_tile,
    fits_device,
    make_product,
    pack_columns,
    subgroup_tile,
)
from vknn.lowering.kernels.matmul.kernels import (
    Packed,
    emit_row,
    emit_scalar,
    emit_shared,
    emit_tile,
    row_split,
    scalar_tile,
    shared_groups,
)
from vknn.lowering.kernels.matmul.shared_memory_tiles import Block, blocks, tile_cost
from vknn.lowering.kit.candidate import BYTE_COST, DISPATCH_COST, FLOP_COST, Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, ceil_div, read1, write
from vknn.lowering.kit.layouts import Layout
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.registry import lowers
from vknn.lowering.kit.workgroups import fits, fits_buffer, fits_loops, lane_count, spread
from vknn.ops.matmul import MatMul, MatMulInteger

#: What other families multiply with.
__all__ = ["Packed", "emit_row", "emit_scalar", "emit_tile", "row_split", "scalar_tile"]


@dataclass(frozen=True, eq=False)
class _Plan:
    """A MatMul as it will be emitted. ``kernel``: one of the emit functions' names.

    ``shared``: the block of the kernel "shared".
    """

    problem: Problem
    product: Product
    kernel: str
    shared: Block | None = None

    @property
    def name(self) -> str:
        return self.kernel if self.shared is None else self.shared.name

    @property
    def packs_b(self) -> bool:
        return self.problem.constants[1] is not None and not any(
            axis.b for axis in self.product.batch
        )

    @property
    def packs_bias(self) -> bool:
        return self.packs_b and _bias(self.problem) is not None

    @property
    def block(self) -> int:
        """vec4s in the panels of a packed b: what a workgroup reads of a row."""
        own = self.shared.width if self.shared is not None else self._width()
        return min(own, self.n4)

    def _width(self) -> int:
        product, limits = self.product, self.problem.limits
        if self.kernel == "row":
            return row_split(product, limits).block
        if self.kernel == "scalar":
            return scalar_tile(product, limits).block
        subgroup = self.kernel == "subgroup"
        tile = subgroup_tile(product, limits) if subgroup else choose_tile(product, limits)
        assert tile is not None
        return tile.block

    @property
    def n4(self) -> int:
        return ceil_div(self.product.n, 4)

    @property
    def fits(self) -> bool:
        """True where the device allows the loops, the workgroups and the packed b."""
        limits, k = self.problem.limits, self.product.k
        if not fits_loops(limits, self._rounds()) or not allows_groups(self._groups(), limits):
            return False
        packed = ceil_div(self.n4, self.block) * self.block * 4 * (k + 1)
        finish = ceil_div(self.problem.outputs[0].size, lane_count(limits))
        return (not self.packs_b or fits_buffer(limits, packed)) and fits(finish, limits)

    def _rounds(self) -> int:
        k = self.product.k
        if self.kernel == "scalar":
            return k
        return ceil_div(k, 4 if self.shared is None else 4 * self.shared.depth)

    def _groups(self) -> tuple[int, int, int]:
        if self.shared is not None:
            return shared_groups(self.product, self.shared)
        if self.kernel == "row":
            return row_split(self.product, self.problem.limits).groups(self.product)
        return 1, 1, 1  # fits_device has seen to the tiles

    def cost(self, place: int) -> float:
        """Estimated microseconds. ``place``: among the kernels, best first."""
        product, limits = self.product, self.problem.limits
        steps = ceil_div(product.k, 4)
        if self.shared is not None:
            half = self.problem.options.half_sums
            return DISPATCH_COST + self.shared.cost(math.prod(self._groups()), steps, half)
        if limits.kind != "cpu" and product.m > 1:
            return DISPATCH_COST + self._tile_cost(steps)
        moved = 4 * sum(t.size for t in (*self.problem.inputs[:2], *self.problem.outputs) if t)
        work = product.flops * FLOP_COST + moved * BYTE_COST
        return DISPATCH_COST + work * (3 if self.kernel == "scalar" else 1 + place)

    def _tile_cost(self, steps: int) -> float:
        """On a GPU. Scalars take four reads where a vec4 takes one."""
        product, limits = self.product, self.problem.limits
        scalar = self.kernel == "scalar"
        tile = scalar_tile(product, limits) if scalar else choose_tile(product, limits)
        lanes = math.prod(tile.groups(product)) * math.prod(tile.local)
        loads = tile.rows + 4 * tile.cols
        if scalar:
            loads = 4 * tile.rows + 4 * tile.cols * (1 if self.packs_b else 4)
        half = self.problem.options.half_sums and not scalar
        return tile_cost(lanes, steps, tile.rows, tile.cols, loads, half)

    def inputs(self) -> tuple[Layout | None, ...]:
        layouts: list[Layout | None] = [Layout.LINEAR if t else None for t in self.problem.inputs]
        if self.packs_b:
            layouts[1] = None
        if self.packs_bias:
            layouts[2] = None
        return tuple(layouts)

    def emit(self, emitter: Emitter) -> None:
        bias = None
        if len(self.problem.inputs) > 2 and self.problem.inputs[2] and not self.packs_bias:
            bias = emitter.input(2)
        b: Ref | Packed = self._packed(emitter) if self.packs_b else emitter.input(1)
        emit = _EMIT[self.kernel]
        if self.kernel in ("tile", "shared"):
            emit = functools.partial(emit, half_sums=self.problem.options.half_sums)
        if self.shared is not None:
            emit = functools.partial(emit, block=self.shared)
        if bias is None or not self.problem.epilogue.operands:
            emit(emitter, self.product, emitter.input(0), b, emitter.output(), bias=bias)
            return
        plain = emitter.scratch("product", self.problem.outputs[0].size)
        emit(emitter, self.product, emitter.input(0), b, plain, bias=bias, epilogue=False)
        self._finish(emitter, plain)

    def _finish(self, emitter: Emitter, plain: Ref) -> None:
        limits = self.problem.limits
        count = self.problem.outputs[0].size
        lanes = lane_count(limits)
        emitter.dispatch(
            "matmul/finish_scalar",
            [read1(plain), write(emitter.output())],
            groups=spread(ceil_div(count, lanes), limits),
            local=(lanes, 1, 1),
            push=[count, self.product.n],
            epilogue=1,
        )

    def _packed(self, emitter: Emitter) -> Packed:
        product, b = self.product, self.problem.constants[1]
        assert b is not None
        block = self.block
        bias = _bias(self.problem)
        transposed = product.b_row == 1 and product.b_col != 1
        flat = b.reshape(product.n, product.k).T if transposed else b.reshape(-1, product.n)
        sources = (b,) if bias is None else (b, bias)
        key = f"b{'t' if transposed else ''}{block}"
        ref = emitter.weight(key, lambda: pack_columns(_float(flat), bias, block), *sources)
        panel = product.k * block
        bias_at = -1 if bias is None else ceil_div(self.n4, block) * panel
        return Packed(ref, block, panel, bias_at)


#: Kernel -> what emits it. A product that a kernel can compute has its name from :func:`_kernels`.
_EMIT: dict[str, Callable[..., None]] = {
    "subgroup": functools.partial(emit_tile, subgroup=True),
    "tile": emit_tile,
    "row": emit_row,
    "scalar": emit_scalar,
    "shared": emit_shared,
}


def _float(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32, copy=False)


def _bias(problem: Problem) -> np.ndarray | None:
    """The bias where it is a constant."""
    return problem.constants[2] if len(problem.constants) > 2 else None


def _kernels(problem: Problem, product: Product, packed: bool) -> list[str]:
    """The kernels that can compute the product, best first."""
    found = []
    rows_by_vec4 = packed or product.b_by_vec4
    if (
        product.m == 1
        and len(product.batch) <= 1
        and rows_by_vec4
        and (product.one_row or (product.aligned("a_row") and product.n % 4 == 0))
    ):
        found.append("row")
    columns = rows_by_vec4 or (product.b_row == 1 and product.aligned("b_col"))
    if product.a_by_vec4 and columns and (product.n % 4 == 0 or product.one_row):
        shuffles = not problem.options.half_sums  # its sums are float32
        if shuffles and subgroup_tile(product, problem.limits) is not None:
            found.append("subgroup")
        found.append("tile")
    return [*found, "scalar"]


@lowers(MatMul)
def matmul(problem: Problem) -> Sequence[Candidate]:
    """Kernels for the sizes at hand, cheapest first."""
    op, a, b = problem.op, problem.inputs[0], problem.inputs[1]
    assert isinstance(op, MatMul)
    assert a is not None
    assert b is not None
    product = make_product(a.dims, b.dims, op.transpose_a, op.transpose_b)
    if product is None or not fits_device(product, problem.limits):
        return []
    packed = _Plan(problem, product, "scalar").packs_b
    plans = [_Plan(problem, product, kernel) for kernel in _kernels(problem, product, packed)]
    if product.m > 1:
        fitting = blocks(problem, product.m, ceil_div(product.n, 4))
        plans += [_Plan(problem, product, "shared", block) for block in fitting]
    return [
        Candidate(plan.name, plan.inputs(), (Layout.LINEAR,), plan.emit, plan.cost(place))
        for place, plan in enumerate(plans)
        if plan.fits
    ]


@lowers(MatMulInteger)
def matmul_integer(problem: Problem) -> Sequence[Candidate]:
    """int32 accumulation of int8 operands, both as they lie."""
    op, a, b = problem.op, problem.inputs[0], problem.inputs[1]
    assert isinstance(op, MatMulInteger)
    assert a is not None
    assert b is not None
    product = make_product(a.dims, b.dims, False, op.transpose_b)
    if product is None or not fits_device(product, problem.limits):
        return []
    if not fits_loops(problem.limits, product.k):
        return []

    def emit(emitter: Emitter) -> None:
        emit_integer(emitter, product, emitter.input(0), emitter.input(1), emitter.output())

    cost = DISPATCH_COST + 3 * product.flops * FLOP_COST
    return [Candidate("integer", (Layout.LINEAR,) * 2, (Layout.LINEAR,), emit, cost)]


def emit_integer(emitter: Emitter, product: Product, a: Ref, b: Ref, c: Ref) -> None:
    """Dispatches matmul/integer: int8 operands that lie as int32, any sizes and strides."""
    p, tile = product, choose_tile(product, emitter.problem.limits)
    emitter.dispatch(
        "matmul/integer",
        [read1(a), read1(b), write(c)],
        groups=tile.groups(p),
        local=tile.local,
        push=[p.m, p.n, p.k, p.a_row, p.a_col, p.b_row, p.b_col, p.c_row, *p.batch_push()],
        spec=tile.spec | {11: 4 * tile.cols},
        flops=p.flops,
    )
