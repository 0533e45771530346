"""What dispatches matrix products: register tiles, shared blocks, one row, and any sizes."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from vknn.lowering.kernels.matmul.gemm import Product, Tile, choose_tile, half_define, subgroup_tile
from vknn.lowering.kernels.matmul.shared_memory_tiles import SIDE_BY_SIDE, Block
from vknn.lowering.kit.emitter import Emitter, Ref, ceil_div, read1, read4, write
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
    half_sums: bool = False,
    label: str | None = None,
) -> None:
    """Dispatches matmul/tile, or matmul/tile_subgroup where :func:`subgroup_tile` gives a tile.

    Rows of a are read as whole vec4s; where k is no multiple of 4 they must end in zeros.
    ``half_sums`` (not with ``subgroup``): products are added up in float16, HALF_TERMS at a time.
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
    defines |= {"HALF_SUMS": 1} if half_sums else {}
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
    last: int = 0,
) -> None:
    """Dispatches matmul/row, for products of one row with at most one batch axis.

    ``last``: c is C4, and so many lanes of its last vec4 are channels (0: all).
    """
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
        spec={10: shape.cols, 11: shape.lanes_n, 12: shape.lanes_k} | ({13: last} if last else {}),
        defines={"SEPARATE_BIAS": int(bias is not None), **half_define(a, ref, c)},
        epilogue=_operand_count(epilogue, bias),
        flops=product.flops,
    )


def shared_groups(product: Product, block: Block) -> tuple[int, int, int]:
    """Workgroups of matmul/shared."""
    n4 = ceil_div(product.n, 4)
    return ceil_div(product.m, block.height), ceil_div(n4, block.width), product.count


def emit_shared(
    emitter: Emitter,
    product: Product,
    a: Ref,
    b: Ref | Packed,
    c: Ref,
    *,
    block: Block,
    bias: Ref | None = None,
    epilogue: bool = True,
    half_sums: bool = False,
) -> None:
    """Dispatches matmul/shared: any sizes and strides, by vec4s where they allow it."""
    wide = product.a_by_vec4 and product.n % 4 == 0
    b_wide = isinstance(b, Packed) or product.b_by_vec4
    if isinstance(b, Packed):
        ref, b_row, b_block, panel, bias_at = b.ref, b.block, b.block, b.panel, b.bias
    else:
        b_row = product.b_row // 4 if b_wide else product.b_row
        ref, b_block, panel, bias_at = b, ONE_PANEL, 0, -1
    unit = 4 if wide else 1
    push = [product.m, product.n, product.k, product.a_row // unit, product.a_col]
    push += [b_row, product.b_col, b_block, panel, product.c_row // unit, bias_at]
    read = read4 if wide else read1
    down_a = not wide and product.a_row == 1 and product.a_col != 1
    down_b = not b_wide and product.b_row == 1 and product.b_col != 1
    defines = {"B_BY_4": int(b_wide), "SEPARATE_BIAS": int(bias is not None)}
    defines |= block.defines(half_sums) | ({} if wide else {"EPILOGUE_SCALAR": 1})
    emitter.dispatch(
        "matmul/shared",
        [read(a), read4(ref) if b_wide else read1(ref), write(c)] + ([read(bias)] if bias else []),
        groups=shared_groups(product, block),
        local=(block.lanes, 1, 1),
        push=[*push, product.alpha, *product.batch_push(unit, 4 if b_wide else 1, unit)],
        spec=block.spec(down_a, down_b) | {17: int(down_a), 18: int(down_b)},
        defines=defines | half_define(a, ref, c),
        epilogue=_operand_count(epilogue, bias),
        access="storage",
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
    """Lanes over n on a CPU; on a GPU over k too, the more the fewer columns there are.

    A row waits for b to be read: the more lanes, the more of it is on its way at a time.
    """
    n4 = ceil_div(product.n, 4)
    if limits.kind == "cpu":
        lanes = limits.subgroup_size
        cols = next((c for c in (4, 2) if n4 >= 4 * c * lanes), 1)
        return RowSplit(cols, lanes, 1)
    lanes_n = 8 if n4 < 1024 else 16
    split = RowSplit(1, lanes_n, min(128, limits.max_group_invocations) // lanes_n)
    wide = dataclasses.replace(split, lanes_k=2 * split.lanes_k)
    lanes = split.lanes_n * split.lanes_k
    able = 2 * lanes <= limits.max_group_invocations and wide.lanes_k <= limits.max_group_size[1]
    idle = math.prod(split.groups(product)) * lanes < SIDE_BY_SIDE
    return wide if able and idle and product.k >= 16 * wide.lanes_k else split


def _operand_count(epilogue: bool, bias: Ref | None) -> int | None:
    """Operand bindings of a shader that may have taken theirs for a bias."""
    if bias is None:
        return 1
    return 0 if epilogue else None
