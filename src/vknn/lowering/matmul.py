"""Matrix products: register tiles, one row at a time, and any sizes."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vknn.lowering.emitter import Emitter, Ref, ceil_div, read1, read4, write
from vknn.lowering.grids import fits, fits_buffer, fits_loops, lane_count, spread
from vknn.lowering.layouts import Layout
from vknn.lowering.product import (
    Product,
    Tile,
    allows_groups,
    choose_tile,
    fits_device,
    half_define,
    make_product,
    pack_columns,
    subgroup_tile,
)
from vknn.lowering.registry import (
    BYTE_COST,
    DISPATCH_COST,
    FLOP_COST,
    Candidate,
    Problem,
    lowers,
)
from vknn.ops.matmul import MatMul, MatMulInteger
from vknn.plan import DeviceLimits

#: Panels of a matrix that is not packed: all its columns lie in the first.
ONE_PANEL = 1 << 30


@dataclass(frozen=True)
class Packed:
    """A constant b as a shader reads it: panels of ``block`` vec4s, then the bias."""

    ref: Ref
    block: int
    panel: int
    bias: int


def emit_tile(
    emitter: Emitter,
    product: Product,
    a: Ref,
    b: Ref | Packed,
    c: Ref,
    *,
    bias: Ref | None = None,
    subgroup: bool = False,
    epilogue: bool = True,
    label: str | None = None,
) -> None:
    """Dispatches matmul/tile, or matmul/tile_subgroup where :func:`subgroup_tile` gives a tile.

    Rows of a are read as whole vec4s; where k is no multiple of 4 they must end in zeros.
    """
    kernel, tile = "matmul/tile", choose_tile(product, emitter.problem.limits)
    if subgroup:
        shared = subgroup_tile(product, emitter.problem.limits)
        assert shared is not None
        kernel, tile = "matmul/tile_subgroup", shared
    along_k = not isinstance(b, Packed) and product.b_col != 1
    n4, k4 = ceil_div(product.n, 4), ceil_div(product.k, 4)
    if isinstance(b, Packed):
        ref, b_row, block, panel, bias_at = b.ref, b.block, b.block, b.panel, b.bias
    else:
        b_row = (product.b_col if along_k else product.b_row) // 4
        ref, block, panel, bias_at = b, ONE_PANEL, 0, -1
    b_count = product.n if along_k else product.k
    a_row, c_row = product.a_row // 4, product.c_row // 4
    push = [product.m, n4, k4, b_count, a_row, b_row, block, panel, c_row, bias_at, product.alpha]
    bindings = [read4(a), read4(ref), write(c)] + ([read4(bias)] if bias else [])
    defines = {"B_ALONG_K": int(along_k), "SEPARATE_BIAS": int(bias is not None)}
    emitter.dispatch(
        kernel,
        bindings,
        groups=tile.groups(product),
        local=tile.local,
        push=[*push, *product.batch_push(4, 4, 4)],
        spec={10: tile.rows, 11: tile.cols} if subgroup else tile.spec,
        defines=defines | half_define(a, ref, c),
        epilogue=_operand_count(epilogue, bias),
        flops=product.flops,
        label=label,
    )


def emit_scalar(
    emitter: Emitter,
    product: Product,
    a: Ref,
    b: Ref | Packed,
    c: Ref,
    *,
    bias: Ref | None = None,
    epilogue: bool = True,
    label: str | None = None,
) -> None:
    """Dispatches matmul/tile_scalar: any sizes and strides."""
    tile = scalar_tile(product, emitter.problem.limits)
    packed = isinstance(b, Packed)
    if isinstance(b, Packed):
        bound_b, b_row, block, panel, bias_at = read4(b.ref), b.block, b.block, b.panel, b.bias
    else:
        bound_b, b_row, block, panel, bias_at = read1(b), product.b_row, ONE_PANEL, 0, -1
    push = [product.m, product.n, product.k, product.a_row, product.a_col, b_row, product.b_col]
    push += [block, panel, product.c_row, bias_at]
    defines = {"B_PACKED": int(packed), "SEPARATE_BIAS": int(bias is not None)}
    emitter.dispatch(
        "matmul/tile_scalar",
        [read1(a), bound_b, write(c)] + ([read1(bias)] if bias else []),
        groups=tile.groups(product),
        local=tile.local,
        push=[*push, product.alpha, *product.batch_push()],
        spec=tile.spec,
        defines=defines | half_define(a, bound_b.ref, c),
        epilogue=_operand_count(epilogue, bias),
        flops=product.flops,
        label=label,
    )


def scalar_tile(product: Product, limits: DeviceLimits) -> Tile:
    """The tile of matmul/tile_scalar: half as wide as the vec4 kernel's."""
    tile = choose_tile(product, limits)
    return dataclasses.replace(tile, cols=max(1, tile.cols // 2))


def emit_row(
    emitter: Emitter,
    product: Product,
    a: Ref,
    b: Ref | Packed,
    c: Ref,
    *,
    bias: Ref | None = None,
    epilogue: bool = True,
) -> None:
    """Dispatches matmul/row, for products of one row with at most one batch axis."""
    shape = row_split(product, emitter.problem.limits)
    n4 = ceil_div(product.n, 4)
    if isinstance(b, Packed):
        ref, b_row, block, panel, bias_at = b.ref, b.block, b.block, b.panel, b.bias
    else:
        ref, b_row, block, panel, bias_at = b, product.b_row // 4, ONE_PANEL, 0, -1
    a_step, b_step = (product.batch[0].a, product.batch[0].b) if product.batch else (0, 0)
    emitter.dispatch(
        "matmul/row",
        [read4(a), read4(ref), write(c)] + ([read4(bias)] if bias else []),
        groups=shape.groups(product),
        local=(shape.lanes_n, shape.lanes_k, 1),
        push=[n4, product.k, a_step // 4, b_step // 4, b_row, block, panel, bias_at],
        spec={10: shape.cols, 11: shape.lanes_n, 12: shape.lanes_k},
        defines={"SEPARATE_BIAS": int(bias is not None), **half_define(a, ref, c)},
        epilogue=_operand_count(epilogue, bias),
        flops=product.flops,
    )


@dataclass(frozen=True)
class RowSplit:
    """vec4s of columns a lane and the lanes of a workgroup over n and k."""

    cols: int
    lanes_n: int
    lanes_k: int

    @property
    def block(self) -> int:
        return self.cols * self.lanes_n

    def groups(self, product: Product) -> tuple[int, int, int]:
        return ceil_div(product.n, 4 * self.block), 1, product.count


def row_split(product: Product, limits: DeviceLimits) -> RowSplit:
    """Lanes over n on a CPU; on a GPU over k too, the more the fewer columns there are."""
    n4 = ceil_div(product.n, 4)
    if limits.kind == "cpu":
        lanes = limits.subgroup_size
        cols = next((c for c in (4, 2) if n4 >= 4 * c * lanes), 1)
        return RowSplit(cols, lanes, 1)
    lanes_n = 8 if n4 < 1024 else 16
    return RowSplit(1, lanes_n, min(128, limits.max_group_invocations) // lanes_n)


def _operand_count(epilogue: bool, bias: Ref | None) -> int | None:
    """Operand bindings of a shader that may have taken theirs for a bias."""
    if bias is None:
        return 1
    return 0 if epilogue else None


@dataclass(frozen=True, eq=False)
class _Plan:
    """A MatMul as it will be emitted. ``kernel``: one of the emit functions' names."""

    problem: Problem
    product: Product
    kernel: str

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
        return min(_block(self.kernel, self.product, self.problem.limits), self.n4)

    @property
    def n4(self) -> int:
        return ceil_div(self.product.n, 4)

    @property
    def fits(self) -> bool:
        """True where the device allows the loops, the workgroups and the packed b."""
        limits, k = self.problem.limits, self.product.k
        if not fits_loops(limits, k if self.kernel == "scalar" else ceil_div(k, 4)):
            return False
        if self.kernel == "row":
            groups = row_split(self.product, limits).groups(self.product)
            if not allows_groups(groups, limits):
                return False
        packed = ceil_div(self.n4, self.block) * self.block * 4 * (k + 1)
        finish = ceil_div(self.problem.outputs[0].size, lane_count(limits))
        return (not self.packs_b or fits_buffer(limits, packed)) and fits(finish, limits)

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
}


def _block(kernel: str, product: Product, limits: DeviceLimits) -> int:
    """vec4s that a workgroup of the kernel reads of a row of b."""
    if kernel == "row":
        return row_split(product, limits).block
    if kernel == "scalar":
        return scalar_tile(product, limits).block
    tile = subgroup_tile(product, limits) if kernel == "subgroup" else choose_tile(product, limits)
    assert tile is not None
    return tile.block


def _float(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32, copy=False)


def _bias(problem: Problem) -> np.ndarray | None:
    """The bias where it is a constant."""
    return problem.constants[2] if len(problem.constants) > 2 else None


def _kernels(problem: Problem, product: Product, packed: bool) -> list[str]:
    """The kernels that can compute the product, best first."""
    found = []
    rows_by_vec4 = packed or (product.b_col == 1 and product.aligned("b_row"))
    if (
        product.m == 1
        and len(product.batch) <= 1
        and rows_by_vec4
        and (product.one_row or (product.aligned("a_row") and product.n % 4 == 0))
    ):
        found.append("row")
    columns = rows_by_vec4 or (product.b_row == 1 and product.aligned("b_col"))
    a_by_vec4 = product.a_col == 1 and product.k % 4 == 0 and product.aligned("a_row")
    if a_by_vec4 and columns and (product.n % 4 == 0 or product.one_row):
        if subgroup_tile(product, problem.limits) is not None:
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
    found = []
    moved = 4 * (a.size + b.size + problem.outputs[0].size)
    work = product.flops * FLOP_COST + moved * BYTE_COST
    packed = _Plan(problem, product, "scalar").packs_b
    for place, kernel in enumerate(_kernels(problem, product, packed)):
        plan = _Plan(problem, product, kernel)
        if not plan.fits:
            continue
        cost = DISPATCH_COST + work * (3 if kernel == "scalar" else 1 + place)
        found.append(Candidate(kernel, plan.inputs(), (Layout.LINEAR,), plan.emit, cost))
    return found


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
    tile = choose_tile(product, problem.limits)

    def emit(emitter: Emitter) -> None:
        p = product
        emitter.dispatch(
            "matmul/integer",
            [read1(emitter.input(0)), read1(emitter.input(1)), write(emitter.output())],
            groups=tile.groups(p),
            local=tile.local,
            push=[p.m, p.n, p.k, p.a_row, p.a_col, p.b_row, p.b_col, p.c_row, *p.batch_push()],
            spec=tile.spec | {11: 4 * tile.cols},
            flops=p.flops,
        )

    cost = DISPATCH_COST + 3 * product.flops * FLOP_COST
    return [Candidate("integer", (Layout.LINEAR,) * 2, (Layout.LINEAR,), emit, cost)]
