"""Wide tiles of matrix products (shaders/matmul/wide.comp), for GPUs.

The lanes of a workgroup lie side by side along n and share their rows of a, which compilers load
into scalar registers: for 16 multiply-adds a row a lane reads four vec4s of b, however many rows it
has. Where there are too few rows and columns for the device's lanes, subgroups of a workgroup share
a tile, each with a part of k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from vknn.lowering.kernels.matmul.gemm import Gemm
from vknn.lowering.kernels.matmul.kernels import Packed, Product, b_push
from vknn.lowering.kernels.matmul.shared_memory_tiles import BARRIER, DOT_WORK, FLOAT_DOTS, HELD
from vknn.lowering.kit.emitter import Emitter, read4
from vknn.lowering.kit.layouts import ceil_div
from vknn.lowering.kit.machine import SCALAR, Machine, machine_of
from vknn.lowering.kit.workgroups import allows_groups
from vknn.plan import DeviceLimits

#: Rows of the tiles.
ROWS = (8, 4)
#: Most parts of k, and fewest vec4s of k in each: sums in float16 want whole fours of them.
MOST_PARTS, SHORTEST_PART = 8, 8
#: vec4s of sums in shared memory at a time: the 16 KiB that every device has.
HELD_SUMS = 1024
#: Waits for a round of loads, and for the sums of other parts; instructions outside of the loop,
#: and for each row there: by RADV's machine code for RDNA 2 (``vknn profile --static --isa`` on the
#: null device navi21).
_WAITS, _SPLIT_WAITS, _OUTSIDE, _ROW = 1.36, 3.0, 40.0, 12.0


@dataclass(frozen=True)
class WideTile:
    """``rows`` x 4 results for each of ``lanes_n`` lanes, by ``parts`` parts of k.

    ``dots``: products of float16 are added in pairs, those of a packed b with vec4s along k.
    """

    rows: int
    lanes_n: int
    parts: int = 1
    dots: bool = False

    @property
    def name(self) -> str:
        """The candidate's name."""
        return f"wide{self.rows}" + (f"-split{self.parts}" if self.parts > 1 else "")

    @property
    def lanes(self) -> int:
        """Invocations of a workgroup."""
        return self.lanes_n * self.parts

    @property
    def height(self) -> int:
        """Rows of a workgroup."""
        return self.rows

    @property
    def chunk(self) -> int:
        """Rows of sums in shared memory at a time."""
        return max(1, min(self.parts, self.rows, HELD_SUMS // self.lanes))

    def groups(self, gemm: Gemm) -> tuple[int, int, int]:
        """Workgroups."""
        columns = ceil_div(gemm.n, 4 * self.lanes_n)
        return ceil_div(gemm.m, self.rows), columns, gemm.count

    def span(self, gemm: Gemm) -> int:
        """vec4s of k in a part, a multiple of 4."""
        return 4 * ceil_div(ceil_div(gemm.k, 4), 4 * self.parts)

    def steps(self, scalar: bool, half: bool) -> int:
        """vec4s of k that are loaded before they are multiplied: about 80 registers hold them.

        ``scalar``: those of a take none of them. ``half``: they are of float16.
        """
        steps = 2 if scalar or self.rows == ROWS[-1] else 1
        return 2 * steps if half else steps

    def spec(self, b_row: int, steps: int) -> dict[str, int]:
        """Specialization constants; ``b_row``: vec4s from row to row of a packed b, else 0."""
        return {
            "ROWS": self.rows,
            "STEPS": steps,
            "LANES_N": self.lanes_n,
            "PARTS": self.parts,
            "CHUNK": self.chunk,
            "B_ROW": b_row,
        }

    def cost(
        self, machine: Machine, gemm: Gemm, half: bool, fp16: bool = False, converts: bool = False
    ) -> float:
        """Microseconds.

        ``half``: products in float16, ``fp16``: tensors are; ``converts``: factors take
        instructions to become float32.
        """
        span, steps = self.span(gemm), self.steps(machine.scalar, fp16)
        product = DOT_WORK if self.dots else machine.half if half else 1.0
        work = span * 16 * self.rows * product + 8 * span / steps
        if converts and not half and not self.dots:
            work += span * (16 + 4 * self.rows)  # four vec4s of b, one of each row of a
        if machine.scalar:
            waits, held = _WAITS * span / steps + 2.0, 8
        else:
            work += span * (self.rows + 4)
            waits, held = span / steps + 1.0, 6
        work += _OUTSIDE + _ROW * self.rows
        if self.parts > 1:
            rounds = ceil_div(self.rows, self.chunk)
            work += rounds * (2 * BARRIER + HELD * (self.chunk + self.parts))
            waits += rounds * _SPLIT_WAITS
        return machine.on_simds(
            math.prod(self.groups(gemm)) * self.lanes, work, waits, machine.held(held)
        )


def wide_tiles(gemm: Gemm, limits: DeviceLimits, dots: bool = False) -> list[WideTile]:
    """Tiles for a product whose a, b and c are read by vec4s; none on a CPU."""
    if limits.kind == "cpu" or gemm.m < 2 or gemm.k % 4:
        return []
    lanes_n = _lanes(gemm, limits)
    if lanes_n > min(limits.max_group_invocations, limits.max_group_size[0]):
        return []
    found = []
    few = machine_of(limits).few_registers  # Intel's compiler spills sums of eight rows in float16
    for rows in ROWS[int(few) :]:
        if rows > ROWS[-1] and rows >= 2 * gemm.m:
            continue
        whole = WideTile(rows, lanes_n, dots=dots)
        parts = _parts(whole, gemm, limits)
        found += [whole, *([replace(whole, parts=parts)] if parts > 1 else [])]
    return [tile for tile in found if allows_groups(tile.groups(gemm), limits)]


def _lanes(gemm: Gemm, limits: DeviceLimits) -> int:
    """Lanes along n: whole subgroups, up to 64 or one of them."""
    lanes, n4 = limits.subgroup_size, ceil_div(gemm.n, 4)
    while lanes < min(64, n4):
        lanes *= 2
    # Half as many where that leaves fewer of them without columns.
    half = lanes // 2
    spared = ceil_div(n4, half) * half < ceil_div(n4, lanes) * lanes if half else False
    return half if half >= max(32, limits.subgroup_size) and spared else lanes


def _parts(tile: WideTile, gemm: Gemm, limits: DeviceLimits) -> int:
    """Parts of k that keep the device's lanes busy, 1 where they are without."""
    lanes = math.prod(tile.groups(gemm)) * tile.lanes_n
    most = min(limits.max_group_invocations, limits.max_group_size[0], HELD_SUMS)
    parts = 1
    while (
        parts < MOST_PARTS
        and parts * lanes < machine_of(limits).lanes
        and 2 * parts * tile.lanes_n <= most
        and ceil_div(gemm.k, 4) >= 2 * parts * SHORTEST_PART
    ):
        parts *= 2
    return parts


def emit_wide(
    emitter: Emitter, product: Product, *, tile: WideTile, half_sums: bool = False
) -> None:
    """Dispatches matmul/wide: a, b and c by vec4s, k a multiple of 4."""
    gemm, b = product.gemm, product.b
    scalar = emitter.problem.limits.subgroup_size == SCALAR
    b_row = b.block if isinstance(b, Packed) else 0
    sums = {"DOTS": FLOAT_DOTS} if tile.dots else {"HALF_SUMS": 1} if half_sums else {}
    product.dispatch(
        emitter,
        "matmul/wide",
        read4,
        read4,
        groups=tile.groups(gemm),
        local=(tile.lanes, 1, 1),
        push={
            "m": gemm.m,
            "n4": ceil_div(gemm.n, 4),
            "k4": gemm.k // 4,
            "span": tile.span(gemm),
            "a_row": gemm.a_row // 4,
            "c_row": gemm.c_row // 4,
            "alpha": gemm.alpha,
            **b_push(b, gemm.b_row // 4),
            **gemm.batch_push(4, 4, 4),
        },
        spec=tile.spec(b_row, tile.steps(scalar, product.a.half)),
        defines=sums,
        access="storage",
    )
