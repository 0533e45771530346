"""Dispatches of matrix products: register tiles, shared-memory tiles, one row, any sizes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vknn.lowering.kernels.matmul.gemm import (
    Gemm,
    GemmTile,
    choose_tile,
    half_define,
    subgroup_tile,
)
from vknn.lowering.kernels.matmul.normalized_rows import NormalizedRows
from vknn.lowering.kernels.matmul.shared_memory_tiles import SharedMemoryTile
from vknn.lowering.kit.emitter import BoundBuffer, Emitter, Ref, read1, read4, write
from vknn.lowering.kit.layouts import ceil_div
from vknn.lowering.kit.machine import Machine, machine_of
from vknn.lowering.kit.parameters import Push, Spec
from vknn.plan import DeviceLimits

#: Width of the panels of a b that is not packed: all of its columns are in the first panel.
ONE_PANEL = 1 << 30
#: vec4s of k that a lane of matmul/row reads on a GPU before it multiplies them.
ROW_STEPS = 2
#: Instructions and waits of a lane of it, where GPUs load into scalar registers: of a vec4 of k and
#: outside of the loop, by RADV's machine code for RDNA 2 (``vknn profile --static --isa`` on the
#: null device navi21). Instructions elsewhere, those of a vec4 beside its products.
_ROW_STEP, _ROW_OUTSIDE = (58.0, 0.69), (210.0, 3.7)
_ROW_BESIDE, _ROW_AROUND = 9.0, 16.0


@dataclass(frozen=True)
class Packed:
    """A constant b, packed by ``pack_columns``.

    ``block``: vec4s of a panel's row. ``panel``: vec4s of a panel. ``bias``: vec4 of a batch entry
    where the bias begins, -1 where there is none.
    """

    ref: Ref
    block: int
    panel: int
    bias: int


@dataclass(frozen=True)
class Product:
    """The buffers of a product c = a * b + bias.

    ``bias``: one that is not packed with b; it takes the binding of the epilogue's only operand.
    ``epilogue`` False: then the epilogue is left to a later dispatch. ``normal``: what normalises
    the rows of c, too, by the kernels "wide" and "shared".
    """

    gemm: Gemm
    a: Ref
    b: Ref | Packed
    c: Ref
    bias: Ref | None = None
    epilogue: bool = True
    label: str | None = None
    normal: NormalizedRows | None = None

    def dispatch(
        self,
        emitter: Emitter,
        kernel: str,
        read: Callable[[Ref], BoundBuffer],
        read_b: Callable[[Ref], BoundBuffer],
        *,
        groups: tuple[int, int, int],
        local: tuple[int, int, int],
        push: Push,
        spec: Spec,
        defines: Mapping[str, int],
        access: str | None = None,
    ) -> None:
        """Dispatches a kernel that takes a and the bias by ``read``, b by ``read_b``."""
        b = self.b.ref if isinstance(self.b, Packed) else self.b
        bias = [] if self.bias is None else [read(self.bias)]
        operands = 1 if self.bias is None else 0 if self.epilogue else None
        normal = self.normal
        more = {} if normal is None else {"NORMALIZED": 1}
        emitter.dispatch(
            kernel,
            [read(self.a), read_b(b), write(self.c), *bias, *(normal.bindings if normal else ())],
            groups=groups,
            local=local,
            push=push,
            spec={**spec, **(normal.spec if normal else {})},
            defines={
                "SEPARATE_BIAS": len(bias),
                **defines,
                **half_define(self.a, b, self.c),
                **more,
            },
            epilogue=operands,
            access=access,
            flops=self.gemm.flops,
            label=self.label,
        )


def b_push(b: Ref | Packed, row: int) -> dict[str, int]:
    """Push constants of b and of a bias packed with it; ``row``: stride of a b as it is."""
    if isinstance(b, Packed):
        return {"b_row": b.block, "b_block": b.block, "b_panel": b.panel, "bias": b.bias}
    return {"b_row": row, "b_block": ONE_PANEL, "b_panel": 0, "bias": -1}


def emit_tile(
    emitter: Emitter, product: Product, *, subgroup: bool = False, half_sums: bool = False
) -> None:
    """Dispatches matmul/tile, or matmul/tile_subgroup where :func:`subgroup_tile` gives a tile.

    Rows of a are read as whole vec4s; where k is no multiple of 4 they must end in zeros.
    ``half_sums`` (not with ``subgroup``): products are added up in float16, HALF_TERMS at a time.
    """
    gemm, limits = product.gemm, emitter.problem.limits
    tile = subgroup_tile(gemm, limits) if subgroup else choose_tile(gemm, limits)
    assert tile is not None
    along_k = not isinstance(product.b, Packed) and gemm.b_col != 1
    spec = {"ROWS": tile.rows, "COLS": tile.cols} if subgroup else tile.spec
    ragged = gemm.k % 4 != 0 and not along_k
    product.dispatch(
        emitter,
        "matmul/tile_subgroup" if subgroup else "matmul/tile",
        read4,
        read4,
        groups=tile.groups(gemm),
        local=tile.local,
        push=_tile_push(gemm, product.b, along_k),
        spec={**spec, "RAGGED": 1 if ragged else None},
        defines={"B_ALONG_K": int(along_k), **({"HALF_SUMS": 1} if half_sums else {})},
    )


def _tile_push(gemm: Gemm, b: Ref | Packed, along_k: bool) -> dict[str, int | float]:
    """Push constants of matmul/tile and matmul/tile_subgroup, in vec4s."""
    return {
        "m": gemm.m,
        "n4": ceil_div(gemm.n, 4),
        "k4": ceil_div(gemm.k, 4),
        "b_count": gemm.n if along_k else gemm.k,
        "a_row": gemm.a_row // 4,
        "c_row": gemm.c_row // 4,
        "alpha": gemm.alpha,
        **b_push(b, (gemm.b_col if along_k else gemm.b_row) // 4),
        **gemm.batch_push(4, 4, 4),
    }


def emit_scalar(emitter: Emitter, product: Product) -> None:
    """Dispatches matmul/tile_scalar: any sizes and strides."""
    tile = scalar_tile(product.gemm, emitter.problem.limits)
    packed = isinstance(product.b, Packed)
    product.dispatch(
        emitter,
        "matmul/tile_scalar",
        read1,
        read4 if packed else read1,
        groups=tile.groups(product.gemm),
        local=tile.local,
        push=_gemm_push(product.gemm, product.b, 1, 4 if packed else 1),
        spec=tile.spec,
        defines={"B_PACKED": int(packed)},
    )


def _gemm_push(
    gemm: Gemm, b: Ref | Packed, unit: int = 1, b_unit: int = 1
) -> dict[str, int | float]:
    """Push constants of matmul/tile_scalar and matmul/shared.

    ``unit``: elements of a and c that are read at a time; ``b_unit``: of b.
    """
    push = {**gemm.push(unit, b_unit, unit), **b_push(b, gemm.b_row // b_unit)}
    return {**push, "alpha": gemm.alpha}


def scalar_tile(gemm: Gemm, limits: DeviceLimits) -> GemmTile:
    """The tile of matmul/tile_scalar: half as wide as that of matmul/tile."""
    tile = choose_tile(gemm, limits)
    return dataclasses.replace(tile, cols=max(1, tile.cols // 2))


def emit_row(emitter: Emitter, product: Product, *, last: int = 0) -> None:
    """Dispatches matmul/row, for products of one row with at most one batch axis.

    ``last``: lanes of the last vec4 of a c in C4 that are no padding lanes (0: all of them).
    """
    limits = emitter.problem.limits
    split = row_split(product.gemm, limits)
    # CPU drivers run one lane after another, and have nothing to wait for.
    steps = None if limits.kind == "cpu" else ROW_STEPS
    lanes = {"LANES_X": split.lanes_n, "LANES_Y": split.lanes_k}
    b_row = product.b.block if isinstance(product.b, Packed) else None
    product.dispatch(
        emitter,
        "matmul/row",
        read4,
        read4,
        groups=split.groups(product.gemm),
        local=(split.lanes_n, split.lanes_k, 1),
        push=_row_push(product.gemm, product.b),
        spec={
            "COLS": split.cols,
            **lanes,
            "LAST": last or None,
            "STEPS": steps,
            "B_ROW": b_row,
        },
        defines={},
    )


def _row_push(gemm: Gemm, b: Ref | Packed) -> dict[str, int]:
    """Push constants of matmul/row, in vec4s but for k."""
    a_step, b_step = (gemm.batch[0].a, gemm.batch[0].b) if gemm.batch else (0, 0)
    return {
        "n4": ceil_div(gemm.n, 4),
        "k": gemm.k,
        "a_step": a_step // 4,
        "b_step": b_step // 4,
        **b_push(b, gemm.b_row // 4),
    }


def shared_groups(gemm: Gemm, tile: SharedMemoryTile) -> tuple[int, int, int]:
    """Workgroups of matmul/shared."""
    n4 = ceil_div(gemm.n, 4)
    return ceil_div(gemm.m, tile.height), ceil_div(n4, tile.width), gemm.count


def ends_with_round(gemm: Gemm, tile: SharedMemoryTile) -> bool:
    """True where k is a whole number of rounds of matmul/shared's loop."""
    return gemm.k % (4 * tile.depth) == 0


def emit_shared(
    emitter: Emitter, product: Product, *, tile: SharedMemoryTile, half_sums: bool = False
) -> None:
    """Dispatches matmul/shared: any sizes and strides, read by vec4s where these allow it."""
    gemm, b = product.gemm, product.b
    wide, b_wide = gemm.a_by_vec4 and gemm.n % 4 == 0, isinstance(b, Packed) or gemm.b_by_vec4
    down_a = not wide and gemm.a_row == 1 and gemm.a_col != 1
    down_b = not b_wide and gemm.b_row == 1 and gemm.b_col != 1
    whole = ends_with_round(gemm, tile)
    scalar = {} if wide else {"EPILOGUE_SCALAR": 1}
    spec = tile.spec(down_a, down_b, whole, emitter.problem.machine.scalar)
    product.dispatch(
        emitter,
        "matmul/shared",
        read4 if wide else read1,
        read4 if b_wide else read1,
        groups=shared_groups(gemm, tile),
        local=(tile.lanes, 1, 1),
        push=_gemm_push(gemm, b, 4 if wide else 1, 4 if b_wide else 1),
        spec={**spec, "A_DOWN": int(down_a), "B_DOWN": int(down_b)},
        defines={"B_BY_4": int(b_wide), **tile.defines(half_sums), **scalar},
        access="storage",
    )


@dataclass(frozen=True)
class RowSplit:
    """``cols`` vec4s of columns of a lane, and the lanes of a workgroup over n and k."""

    cols: int
    lanes_n: int
    lanes_k: int

    @property
    def block(self) -> int:
        """vec4s of a row of b that a workgroup reads."""
        return self.cols * self.lanes_n

    def groups(self, gemm: Gemm) -> tuple[int, int, int]:
        """Workgroups."""
        return ceil_div(gemm.n, 4 * self.block), 1, gemm.count

    def cost(self, machine: Machine, gemm: Gemm, size: int, converts: bool) -> float:
        """Microseconds on a GPU; ``size``: bytes of an element, ``converts``: factors take
        instructions to become float32.
        """
        steps = ceil_div(ceil_div(gemm.k, 4), self.lanes_k)
        if machine.scalar:
            each, waits = (n + m * steps for m, n in zip(_ROW_STEP, _ROW_OUTSIDE, strict=True))
            each += 20 * steps if converts else 0
        else:
            each = steps * (16 + _ROW_BESIDE) + _ROW_AROUND + 2 * self.lanes_k
            waits = 1 + ceil_div(steps, ROW_STEPS)
        lanes = math.prod(self.groups(gemm)) * self.lanes_n * self.lanes_k
        shared = gemm.count if gemm.batch and gemm.batch[0].b else 1
        moved = size * (shared * gemm.k * gemm.n + gemm.count * (gemm.k + gemm.n))
        return machine.beside(machine.on_simds(lanes, each, waits), moved)


def row_split(gemm: Gemm, limits: DeviceLimits) -> RowSplit:
    """Lanes over n on a CPU; on a GPU over n and k, more over k the fewer columns there are.

    Reading b takes most of the time: more lanes have more reads under way at a time.
    """
    n4 = ceil_div(gemm.n, 4)
    if limits.kind == "cpu":
        lanes = limits.subgroup_size
        cols = next((c for c in (4, 2) if n4 >= 4 * c * lanes), 1)
        return RowSplit(cols, lanes, 1)
    lanes_n = 8 if n4 < 1024 else 16
    split = RowSplit(1, lanes_n, min(128, limits.max_group_invocations) // lanes_n)
    wide = dataclasses.replace(split, lanes_k=2 * split.lanes_k)
    lanes = split.lanes_n * split.lanes_k
    able = 2 * lanes <= limits.max_group_invocations and wide.lanes_k <= limits.max_group_size[1]
    idle = math.prod(split.groups(gemm)) * lanes < machine_of(limits).lanes
    return wide if able and idle and gemm.k >= 16 * wide.lanes_k else split
