"""Tiles of cooperative matrices (shaders/matmul/cooperative.glsl), for GPUs that have these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from vknn.lowering.kernels.matmul.shared_memory_tiles import ROUND, SharedMemoryTile
from vknn.lowering.kit.layouts import ceil_div
from vknn.lowering.kit.machine import Machine, has_long_instructions
from vknn.lowering.kit.problem import Problem
from vknn.plan import CooperativeMatrix, DeviceLimits

#: Rows and columns of a subgroup in large and in small tiles of cooperative matrices.
PART, SMALL_PART = 32, 16
#: Cost of their multiply-adds, by a lane's, on NVIDIA's GPUs of 32 lanes a scheduler.
COOPERATIVE_WORK = 0.5
#: Instructions of a vec4 of columns that a subgroup reads from memory, there.
_OWN_COLUMN = 0.65
#: Waves that a SIMD has registers for there, without and with places of pixels under taps, by rows
#: of a part and by depth of those whose columns stay in memory, 0 of others.
_HELD: dict[tuple[int, int], tuple[int, int]] = {
    (SMALL_PART, 0): (9, 9),
    (SMALL_PART, 8): (10, 9),
    (SMALL_PART, 16): (8, 7),
    (SMALL_PART, 24): (6, 6),
    (SMALL_PART, 32): (5, 5),
    (PART, 0): (5, 5),
    (PART, 8): (5, 5),
    (PART, 16): (4, 4),
}
SQUARE = CooperativeMatrix(16, 16, 16)
_Pair = tuple[float, float]
#: Rows of a part -> what a round takes, products and all, where GPUs load into scalar registers, as
#: ``_ROUNDS`` of shared_memory_tiles; by RADV's machine code for RDNA 3 (navi31).
_MATRIX_ROUNDS: dict[int, tuple[_Pair, _Pair, tuple[_Pair, _Pair], int]] = {
    SMALL_PART: ((72, 1.1), (94, 1.4), ((99, 3.1), (190, 4.0)), 12),
    PART: ((196, 2.5), (222, 2.1), ((279, 7.2), (409, 9.0)), 6),
}
#: Instructions of a round where k ends with one and columns are held along k; the smaller by shared
#: memory, which is busier.
_WHOLE_MATRIX_ROUNDS = {SMALL_PART: 64, PART: 161}
#: ``_MATRIX_ROUNDS`` of those whose columns stay in memory, by rows of a part and depth.
_IN_MEMORY_ROUNDS: dict[tuple[int, int], tuple[_Pair, _Pair, tuple[_Pair, _Pair], int]] = {
    (SMALL_PART, 8): ((39, 1.1), (48, 1.4), ((86, 2.1), (137, 2.6)), 16),
    (SMALL_PART, 16): ((92, 1.95), (94, 1.35), ((78, 2.3), (135, 3.1)), 10),
    (SMALL_PART, 24): ((108, 1.5), (112, 1.3), ((80, 2.3), (137, 3.2)), 9),
    (SMALL_PART, 32): ((155, 2.7), (155, 2.2), ((80, 2.3), (137, 3.25)), 8),
    (PART, 16): ((299, 2.25), (303, 1.8), ((175, 5.4), (232, 6.2)), 6),
    (PART, 8): ((130, 1.7), (137, 1.1), ((236, 5.7), (288, 6.6)), 8),
}
#: Their first two pairs where workgroups share out k.
_SPLIT_IN_MEMORY: dict[tuple[int, int], tuple[_Pair, _Pair]] = {
    (SMALL_PART, 16): ((92, 1.95), (84, 1.2)),
    (SMALL_PART, 32): ((163, 2.75), (172, 2.45)),
    (PART, 16): ((301, 2.4), (313, 2.7)),
}


@dataclass(frozen=True)
class CooperativeTile(SharedMemoryTile):
    """A tile whose subgroups compute ``part`` x ``part`` results each by cooperative matrices.

    Factors are float16, sums float32 (shaders/matmul/cooperative.glsl). With ``along_k`` a lane
    reads several factors of a column at once from shared memory, else one at a time; with
    ``in_memory`` columns do not go through shared memory.
    """

    depth: int = 8
    matrix: CooperativeMatrix = SQUARE
    part: int = PART
    in_memory: bool = False

    @property
    def run(self) -> int:
        """All of a round where subgroups load columns from memory."""
        return self.matrix.k if self.in_memory else super().run

    @property
    def name(self) -> str:
        """The candidate's name."""
        return f"cooperative{self.height}x{4 * self.width}"

    def spec(self, down_a: bool, down_b: bool, whole: bool, scalar: bool = False) -> dict[str, int]:
        """Specialization constants; rows in shared memory are an odd multiple of 16 bytes apart."""
        matrix = self.matrix
        return {
            **super().spec(down_a, down_b, whole, scalar),
            "A_STRIDE": self.depth + 2,
            "B_STRIDE": (self.depth if self.along_k else self.width) + 2,
            "COLUMNS_ALONG_K": int(self.along_k),
            "COLUMNS_IN_MEMORY": int(self.in_memory),
            "MATRIX_M": matrix.m,
            "MATRIX_N": matrix.n,
            "MATRIX_K": matrix.k,
            "MATRICES_M": self.part // matrix.m,
            "MATRICES_N": self.part // matrix.n,
        }

    @property
    def shared_bytes(self) -> int:
        rows = self.depth + 2
        columns = self.width * rows if self.along_k else self.depth * (self.width + 2)
        factors = self.height * rows + (1 if self.in_memory else 4 * columns)
        sums = self.height * self.matrix.m // self.part * (self.width + 1)
        return 8 * factors + 16 * sums

    def defines(self, half_sums: bool) -> dict[str, int]:
        """Defines of the variant; sums are float32, since they cost nothing more."""
        return {"COOPERATIVE": 1}

    def cost(
        self,
        machine: Machine,
        groups: int,
        steps: int,
        half: bool = False,
        taps: bool = False,
        whole: bool = False,
        beside: _Pair = (0.0, 0.0),
        counted: bool = False,
        split: _Pair | None = None,
    ) -> float:
        results, rounds = self.rows * self.cols, ceil_div(steps, self.depth)
        more: float
        around: float
        brought: float
        if machine.scalar:
            if self.in_memory:
                sizes = self.part, self.depth
                plain, placed, outside, held = _IN_MEMORY_ROUNDS[sizes]
                if split is not None:
                    plain, placed = _SPLIT_IN_MEMORY.get(sizes, (plain, placed))
            else:
                plain, placed, outside, held = _MATRIX_ROUNDS[self.part]
            (more, waits), (around, first) = (placed if taps else plain), outside[taps]
            if self.along_k and not self.in_memory and whole:
                more = _WHOLE_MATRIX_ROUNDS[self.part]
        else:
            brought = 3 * self.height + 3 * 4 * self.width
            if self.in_memory:  # each subgroup reads its own
                brought = 3 * self.height + _OWN_COLUMN * 4 * self.width * self.height / self.part
            more = 16 * results * self.depth * COOPERATIVE_WORK
            more += brought * self.depth / self.lanes + ROUND
            waits, around, first = 1.0, 4.0 * results, 1.0
            held = _HELD[self.part, self.depth if self.in_memory else 0][taps]
        own, others = split or (0.0, 0.0)
        work = rounds * (more + beside[0]) + around + own
        waits = rounds * (waits + beside[1]) + first + others
        return machine.on_simds(groups * self.lanes, work, waits, held)


def with_columns_along_k(tile: SharedMemoryTile) -> SharedMemoryTile:
    """The tile with columns as vec4s of k where it is of cooperative matrices; else itself."""
    return replace(tile, along_k=True) if isinstance(tile, CooperativeTile) else tile


def with_columns_in_memory(
    limits: DeviceLimits, tile: SharedMemoryTile, whole_steps: Callable[[int], int]
) -> SharedMemoryTile:
    """The tile whose subgroups load constant columns from memory.

    Where it is of cooperative matrices and rounds of some depth are whole, else itself.
    ``whole_steps``: vec4s of k with rounds of a depth, 0 where these are not whole. The fewest are
    best, then the longest rounds: a small part has sums few enough for factors of more k, with
    fewer waits and barriers.
    """
    if not isinstance(tile, CooperativeTile):
        return tile
    depths = _depths(limits) if tile.part == SMALL_PART else (16, 8)
    beside = max(1, tile.lanes // tile.height)  # lanes of a row, which read as many vec4s each
    whole = [depth for depth in depths if depth % beside == 0 and whole_steps(depth)]
    whole.sort(key=whole_steps)
    found = [replace(tile, depth=depth, in_memory=True) for depth in whole]
    return next((longer for longer in found if longer.fits(limits)), tile)


def _depths(limits: DeviceLimits) -> tuple[int, ...]:
    """vec4s of k of small parts' rounds, the longest first.

    On NVIDIA's GPUs 24 leave too few waves: googlenet would take 122 us on the null device nv172 in
    place of 119, where navi31 takes 137 in place of 139.
    """
    return (32, 16, 8) if has_long_instructions(limits) else (32, 24, 16, 8)


def cooperative_tiles(problem: Problem) -> list[SharedMemoryTile]:
    """A large and a small tile, where tensors are float16.

    Empty where the device has no cooperative matrices of float16 with sums in float32. Products
    with few results want small parts: there are as many subgroups as there are parts.
    """
    matrix, limits = _matrix_of(problem), problem.limits
    if matrix is None:
        return []
    return [_of_subgroups(2, 2, PART, limits, matrix), _smallest(limits, matrix)]


def cooperative_row(problem: Problem) -> list[SharedMemoryTile]:
    """Tiles of one, two and four subgroups beside each other, of few rows and many columns."""
    matrix = _matrix_of(problem)
    if matrix is None:
        return []
    return [_of_subgroups(1, side, PART, problem.limits, matrix) for side in (1, 2, 4)]


def _matrix_of(problem: Problem) -> CooperativeMatrix | None:
    """What the device multiplies by cooperative matrices of float16; None where it may not."""
    limits, options = problem.limits, problem.options
    able = {"cooperative_matrix", "fp16_arithmetic"} <= limits.features
    if not able or not options.float16 or "cooperative" in options.disabled:
        return None
    return _matrix(limits)


def _matrix(limits: DeviceLimits) -> CooperativeMatrix | None:
    """The largest matrices that PART is a multiple of, None where there are none."""
    found = [
        matrix
        for matrix in limits.cooperative
        if (matrix.factors, matrix.sums) == ("float16", "float32")
        # Rows of 16 bytes and more, as the shaders lay them out.
        and all(size in (8, 16, 32) for size in (matrix.m, matrix.n, matrix.k))
    ]
    return max(found, key=lambda matrix: matrix.m * matrix.n * matrix.k, default=None)


def _smallest(limits: DeviceLimits, matrix: CooperativeMatrix) -> SharedMemoryTile:
    """A tile of 32 x 32, of four subgroups where matrices and lanes are not too large for that."""
    fits = max(matrix.m, matrix.n) <= SMALL_PART
    if fits and 4 * limits.subgroup_size <= SMALL_PART**2:
        return _of_subgroups(2, 2, SMALL_PART, limits, matrix)
    return _of_subgroups(1, 1, PART, limits, matrix)


def _of_subgroups(
    down: int, across: int, part: int, limits: DeviceLimits, matrix: CooperativeMatrix
) -> SharedMemoryTile:
    """A tile of ``down`` x ``across`` subgroups with ``part`` x ``part`` results each."""
    lanes, height, width = down * across * limits.subgroup_size, down * part, across * part // 4
    lanes_n = min(lanes, width if lanes >= 128 else 8)
    lanes_m = lanes // lanes_n
    rows, cols = max(1, height // lanes_m), width // lanes_n
    return CooperativeTile(rows, cols, lanes_m, lanes_n, matrix=matrix, part=part)
