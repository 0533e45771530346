"""Forms of a MatMul: a kernel with its tile and weights, what it costs and what it dispatches."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

from vknn.lowering.kernels.matmul.cooperative_tiles import (
    with_columns_along_k,
    with_columns_in_memory,
)
from vknn.lowering.kernels.matmul.float_dots import has_dots
from vknn.lowering.kernels.matmul.gemm import (
    Gemm,
    choose_tile,
    subgroup_tile,
)
from vknn.lowering.kernels.matmul.kernels import (
    Packed,
    Product,
    emit_row,
    emit_scalar,
    emit_shared,
    emit_tile,
    ends_with_round,
    row_split,
    scalar_tile,
    shared_groups,
)
from vknn.lowering.kernels.matmul.normalized_rows import RowLanes, RowNorm
from vknn.lowering.kernels.matmul.product_weights import (
    ProductWeights,
)
from vknn.lowering.kernels.matmul.shared_memory_tiles import LOAD, SharedMemoryTile, tile_cost
from vknn.lowering.kernels.matmul.wide import WideTile, emit_wide, wide_tiles
from vknn.lowering.kernels.matmul.workgroup_tiles import shared_memory_tiles
from vknn.lowering.kit.candidate import Candidate
from vknn.lowering.kit.emitter import Emitter, Ref, read1, write
from vknn.lowering.kit.layouts import Layout, ceil_div
from vknn.lowering.kit.machine import is_apple
from vknn.lowering.kit.problem import Problem
from vknn.lowering.kit.workgroups import (
    allows_groups,
    fits,
    fits_buffer,
    fits_loops,
    lane_count,
    spread,
)
from vknn.ops.matmul import MatMul


@dataclass(frozen=True, eq=False)
class Form:
    """A MatMul by one of the kernels of ``_EMIT``.

    ``shared`` and ``wide``: the tiles of the kernels "shared" and "wide". ``weights``: constants
    that are packed, None where b is none or differs among batch entries. ``normal``: what
    normalises the rows, too.
    """

    problem: Problem
    gemm: Gemm
    kernel: str
    shared: SharedMemoryTile | None = None
    wide: WideTile | None = None
    weights: ProductWeights | None = None
    normal: RowNorm | None = None

    @property
    def name(self) -> str:
        """The candidate's name."""
        tile = self.shared or self.wide
        return self.kernel if tile is None else tile.name

    @property
    def block(self) -> int:
        """vec4s in a row of the panels of a packed b: as many as a workgroup reads."""
        own = self.shared.width if self.shared is not None else self._width()
        return min(own, self.n4)

    def _width(self) -> int:
        gemm, limits = self.gemm, self.problem.limits
        if self.kernel == "row":
            return row_split(gemm, limits).block
        if self.kernel == "scalar":
            return scalar_tile(gemm, limits).block
        if self.wide is not None:
            return self.wide.lanes_n
        subgroup = self.kernel == "subgroup"
        tile = subgroup_tile(gemm, limits) if subgroup else choose_tile(gemm, limits)
        assert tile is not None
        return tile.block

    @property
    def run(self) -> int:
        """k of a column of a packed b that lie beside each other."""
        if self.shared is not None:
            return self.shared.run
        return 4 if self.wide is not None and self.wide.dots else 1

    @property
    def n4(self) -> int:
        """vec4s of columns."""
        return ceil_div(self.gemm.n, 4)

    @property
    def fits(self) -> bool:
        """True where the device allows the loops, the workgroups and the packed b."""
        limits = self.problem.limits
        if not fits_loops(limits, self._rounds()) or not allows_groups(self.groups(), limits):
            return False
        packed = 4 * self.weights.vec4s(self.gemm, self.block) if self.weights is not None else 0
        finish = ceil_div(self.problem.outputs[0].size, lane_count(limits))
        width = 2 if self.problem.options.half else 4
        return fits_buffer(limits, packed, width) and fits(finish, limits)

    def _rounds(self) -> int:
        k = self.gemm.k
        if self.kernel == "scalar":
            return k
        return ceil_div(k, 4 if self.shared is None else 4 * self.shared.depth)

    def groups(self) -> tuple[int, int, int]:
        """Workgroups along x, y, z."""
        if self.shared is not None:
            return shared_groups(self.gemm, self.shared)
        if self.kernel == "row":
            return row_split(self.gemm, self.problem.limits).groups(self.gemm)
        if self.wide is not None:
            return self.wide.groups(self.gemm)
        return 1, 1, 1  # fits_device has checked the tiles' workgroups

    def cost(self, place: int) -> float:
        """Estimated microseconds. ``place``: index among the kernels, best first."""
        gemm, machine = self.gemm, self.problem.machine
        steps = ceil_div(gemm.k, 4)
        if self.shared is not None:
            half = self.problem.half_sums
            groups = math.prod(self.groups())
            whole = ends_with_round(gemm, self.shared)
            return machine.dispatch + self.shared.cost(machine, groups, steps, half, whole=whole)
        if self.wide is not None:
            half = self.problem.half_sums
            return machine.dispatch + self.wide.cost(
                machine, gemm, half, self.problem.options.half, self.problem.converts
            )
        if self.problem.limits.kind != "cpu" and gemm.m > 1:
            return machine.dispatch + self._tile_cost(steps)
        if self.problem.limits.kind != "cpu" and self.kernel == "row":
            size = 2 if self.problem.options.half else 4
            split = row_split(gemm, self.problem.limits)
            return machine.dispatch + split.cost(machine, gemm, size, self.problem.converts)
        moved = 4 * sum(t.size for t in (*self.problem.inputs[:2], *self.problem.outputs) if t)
        work = gemm.flops * machine.flop + moved * machine.byte
        return machine.dispatch + work * (3 if self.kernel == "scalar" else 1 + place)

    def _tile_cost(self, steps: int) -> float:
        """Estimated microseconds on a GPU; four reads of scalars count as four of vec4s."""
        gemm, limits = self.gemm, self.problem.limits
        scalar = self.kernel == "scalar"
        tile = scalar_tile(gemm, limits) if scalar else choose_tile(gemm, limits)
        lanes = math.prod(tile.groups(gemm)) * math.prod(tile.local)
        machine, half = self.problem.machine, self.problem.half_sums and not scalar
        loads: float = tile.rows + 4 * tile.cols
        if scalar:
            loads = 4 * tile.rows + 4 * tile.cols * (1 if self.weights is not None else 4)
        elif self.problem.converts and not half:
            loads *= 1 + 4 / LOAD
        return tile_cost(machine, lanes, steps, tile.rows, tile.cols, loads, half)

    @property
    def row_lanes(self) -> RowLanes | None:
        """Lanes of a workgroup for its rows where it normalises them; None where it cannot."""
        tile = self.shared or self.wide
        if tile is None or self.normal is None:
            return None
        return self.normal.lanes(self.problem.machine, tile.lanes, tile.height)

    def inputs(self) -> tuple[Layout | None, ...]:
        """The inputs' layouts."""
        own: list[Layout | None] = [Layout.LINEAR if t else None for t in self.problem.inputs]
        packed = self.weights.inputs if self.weights is not None else ()
        return tuple(None if i in packed else layout for i, layout in enumerate(own))

    def emit_to(
        self,
        emitter: Emitter,
        b: Ref | Packed,
        c: Ref,
        bias: Ref | None,
        epilogue: bool = True,
    ) -> None:
        """Dispatches the kernel. ``bias``: one that is not packed with b."""
        emit = _EMIT[self.kernel]
        if self.kernel in ("tile", "shared", "wide"):
            emit = functools.partial(emit, half_sums=self.problem.half_sums)
        if tile := self.shared or self.wide:
            emit = functools.partial(emit, tile=tile)
        gemm = self.gemm
        if self.weights is not None:
            gemm = self.weights.placed(gemm, self.block)
        normal = None
        if self.normal is not None:
            normal = self.normal.bound(emitter, self.row_lanes, self.groups()[0])
        emit(emitter, Product(gemm, emitter.input(0), b, c, bias, epilogue, normal=normal))


def _emit_matmul(emitter: Emitter, plan: Form) -> None:
    problem, weights = plan.problem, plan.weights
    bias = emitter.input(2) if has_separate_bias(problem, weights) else None
    b: Ref | Packed
    if weights is None:
        b = emitter.input(1)
    else:
        b = weights.packed(emitter, plan.gemm, plan.block, run=plan.run)
    if bias is None or not problem.epilogue.operands:
        plan.emit_to(emitter, b, emitter.output(), bias)
        return
    # The kernels' only operand binding holds the bias: a dispatch of its own does the epilogue.
    plain = emitter.scratch("product", problem.outputs[0].size)
    plan.emit_to(emitter, b, plain, bias, epilogue=False)
    _emit_epilogue(emitter, plan.gemm, plain)


def _emit_epilogue(emitter: Emitter, gemm: Gemm, plain: Ref) -> None:
    limits = emitter.problem.limits
    count, lanes = emitter.problem.outputs[0].size, lane_count(limits)
    emitter.dispatch(
        "matmul/finish_scalar",
        [read1(plain), write(emitter.output())],
        groups=spread(ceil_div(count, lanes), limits),
        local=(lanes, 1, 1),
        push={"count": count, "n": gemm.n},
        epilogue=1,
    )


def has_separate_bias(problem: Problem, weights: ProductWeights | None) -> bool:
    """Whether there is a bias that is not packed with the matrix."""
    has = isinstance(problem.op, MatMul) and len(problem.inputs) > 2 and bool(problem.inputs[2])
    return has and not (weights is not None and weights.has_bias)


#: Functions that dispatch a kernel, by the names that :func:`_kernels` gives.
_EMIT: dict[str, Callable[..., None]] = {
    "subgroup": functools.partial(emit_tile, subgroup=True),
    "tile": emit_tile,
    "row": emit_row,
    "scalar": emit_scalar,
    "shared": emit_shared,
    "wide": emit_wide,
}


def _kernels(problem: Problem, gemm: Gemm, packed: bool) -> list[str]:
    """The kernels that can compute the product, best first."""
    found = []
    rows_by_vec4 = packed or gemm.b_by_vec4
    if (
        gemm.m == 1
        and len(gemm.batch) <= 1
        and rows_by_vec4
        and (gemm.one_row or (gemm.aligned("a_row") and gemm.n % 4 == 0))
    ):
        found.append("row")
    columns = rows_by_vec4 or (gemm.b_row == 1 and gemm.aligned("b_col"))
    if gemm.a_by_vec4 and columns and (gemm.n % 4 == 0 or gemm.one_row):
        shuffles = not problem.half_sums  # its sums are float32
        if shuffles and subgroup_tile(gemm, problem.limits) is not None:
            found.append("subgroup")
        found.append("tile")
    return [*found, "scalar"]


def forms(problem: Problem, gemm: Gemm, weights: ProductWeights | None) -> list[Form]:
    """All forms of a product, best first; of these some do not fit the device."""
    packed = weights is not None
    form = functools.partial(Form, problem, gemm, weights=weights)
    plans = [form(kernel) for kernel in _kernels(problem, gemm, packed)]
    if any(plan.kernel == "tile" for plan in plans) and (packed or gemm.b_by_vec4):
        wide = wide_tiles(gemm, problem.limits, packed and has_dots(problem))
        plans += [form("wide", wide=tile) for tile in wide]
    if gemm.m > 1:
        tiles = shared_memory_tiles(problem, gemm.m, ceil_div(gemm.n, 4))
        if is_apple(problem.limits):
            tiles = [tile for tile in tiles if _fits_apple(gemm, tile)]
        if problem.machine.converts and problem.half_sums and not gemm.a_by_vec4:
            # Of 16 sums in both precisions, with a place for each number, GCN holds one wave.
            tiles = [tile for tile in tiles if tile.rows * tile.cols < 16]
        if packed:
            tiles = [_with_packed_columns(problem, gemm, tile) for tile in tiles]
        plans += [form("shared", tile) for tile in tiles]
    return plans


def _fits_apple(gemm: Gemm, tile: SharedMemoryTile) -> bool:
    """Whether Apple's 128 registers hold the sums, what a lane brings of a round, and its places.

    By Mesa's compiler on the null device m1: of 16 sums and 8 vec4s that are brought some spill, or
    of 4 where each number has a place of its own.
    """
    brought = (tile.height + 4 * tile.width) * tile.depth // tile.lanes
    by_vec4 = gemm.a_by_vec4 and gemm.n % 4 == 0
    return tile.rows * tile.cols + brought <= (20 if by_vec4 else 16)


def _with_packed_columns(problem: Problem, gemm: Gemm, tile: SharedMemoryTile) -> SharedMemoryTile:
    """The tile with the columns of a packed b as its products read them best."""
    if not ends_with_round(gemm, tile):
        return tile
    tile = with_columns_along_k(tile)
    if 4 * tile.width > gemm.n:  # panels are narrower than the tile
        return tile

    def whole_steps(depth: int) -> int:
        # By powers of two lanes find rows and vec4s of k without quotients.
        whole = gemm.k % (4 * depth) == 0 and depth & (depth - 1) == 0
        return gemm.k // 4 if whole else 0

    return with_columns_in_memory(problem.limits, tile, whole_steps)


def candidate_of(plan: Form, place: int) -> Candidate:
    """The candidate of a form. ``place``: its index among the forms."""
    emit = functools.partial(_emit_matmul, plan=plan)
    return Candidate(plan.name, plan.inputs(), (Layout.LINEAR,), emit, plan.cost(place))
