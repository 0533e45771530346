"""Shared-memory tiles of matrix products (shaders/matmul/shared_memory_tiles.glsl), for GPUs.

A workgroup reads the rows and columns of its tile into shared memory, for all its lanes.

The estimates are not measured; they follow from how GPUs work. Their unit is a lane's multiply-add:
a vec4 from a buffer costs eight, one from shared memory three, a barrier forty. Dispatches with
fewer lanes than run side by side take as long as one lane, so small products want small tiles.
Multiply-adds in float16 take half the time where GPUs pack them, and an eighth more for their sums
in float32 (``Machine.half``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from vknn.lowering.kit.layouts import ceil_div
from vknn.lowering.kit.machine import SCALAR, Machine
from vknn.lowering.kit.problem import Problem
from vknn.plan import CooperativeMatrix, DeviceLimits

#: Cost of reading a vec4 from a buffer and from shared memory, and of a barrier.
LOAD, HELD, BARRIER = 8, 3, 40
#: Cost of reading a vec4 that is the same for all lanes of a subgroup.
UNIFORM = 0.25
#: Rows and columns of a subgroup in large and in small tiles of cooperative matrices.
PART, SMALL_PART = 32, 16
#: Cost of their multiply-adds, by a lane's, on NVIDIA's GPUs of 32 lanes a scheduler.
COOPERATIVE_WORK = 0.5
#: Define of kernels that add products of float16 in pairs: by the device's instruction.
FLOAT_DOTS = 1
#: Cost of one of their multiply-adds, by one in float32.
DOT_WORK = 0.5
SQUARE = CooperativeMatrix(16, 16, 16)
_Pair = tuple[float, float]
#: vec4s of results of a lane -> what a round takes beside its products where GPUs load into scalar
#: registers, without and with places of pixels under taps: instructions and waits; instructions and
#: waits outside of the loop; waves that a SIMD has registers for. By RADV's machine code for RDNA 2
#: (``vknn profile --static --isa`` on the null device navi21).
_ROUNDS: dict[int, tuple[_Pair, _Pair, _Pair, int]] = {
    4: ((70, 1.6), (110, 3.0), (190, 3.0), 6),
    8: ((65, 2.2), (98, 5.0), (300, 4.2), 5),
    16: ((85, 4.0), (100, 5.9), (540, 6.5), 4),
}
#: The same of 16 in workgroups of 256 lanes, each of which reads half as much.
_MANY_LANES: tuple[_Pair, _Pair, _Pair, int] = ((65, 2.8), (85, 3.1), (540, 6.5), 4)
#: Of one vec4 for a lane: beside a round's own, by vec4s of columns that the lane brings.
_ONE, _ONE_BROUGHT, _ONE_OUTSIDE = 6.0, 9.0, (85, 3.0)
#: With places, of products of float16 added in pairs.
_PLACED_DOTS: dict[int, _Pair] = {4: (92, 2.3), 8: (59, 4.1), 16: (94, 5.9)}
#: The same of cooperative matrices by RDNA 3 (navi31), products and all, by rows of a part.
_MATRIX_ROUNDS: dict[int, tuple[_Pair, _Pair, tuple[_Pair, _Pair], int]] = {
    SMALL_PART: ((72, 1.1), (94, 1.4), ((99, 3.1), (190, 4.0)), 12),
    PART: ((196, 2.5), (222, 2.1), ((279, 7.2), (409, 9.0)), 6),
}
#: Instructions of a round where k ends with one and columns are held along k; the smaller by shared
#: memory, which is busier.
_WHOLE_MATRIX_ROUNDS = {SMALL_PART: 64, PART: 161}
#: Instructions of a round beside products, reads and writes, elsewhere; waves of a SIMD there.
_ROUND = 8
_HELD_WAVES = {4: 8, 8: 4, 16: 4}
#: Rows times vec4s of columns of the smallest tile.
SMALLEST = 32 * 8
#: Most vec4s of results of lanes that have registers for what is to be held in shared memory next.
AHEAD = 8


@dataclass(frozen=True)
class SharedMemoryTile:
    """A workgroup's tile: ``rows`` x 4 ``cols`` results for each of its lanes.

    ``depth``: vec4s of k in shared memory at a time. ``along_k``: columns lie in memory as vec4s of
    k (:func:`vknn.lowering.kernels.matmul.float_dots.along_k`).
    """

    rows: int
    cols: int
    lanes_m: int
    lanes_n: int
    depth: int = 4
    along_k: bool = False

    @property
    def lanes(self) -> int:
        """Invocations of a workgroup."""
        return self.lanes_m * self.lanes_n

    @property
    def height(self) -> int:
        """Rows of a workgroup."""
        return self.rows * self.lanes_m

    @property
    def width(self) -> int:
        """vec4s of columns of a workgroup."""
        return self.cols * self.lanes_n

    @property
    def name(self) -> str:
        """The candidate's name."""
        return f"shared{self.height}x{4 * self.width}"

    def spec(self, down_a: bool, down_b: bool, whole: bool) -> dict[str, int]:
        """Specialization constants of shared_memory_tiles.glsl.

        ``down_a``: neighbouring lanes load neighbouring rows of a (else neighbouring vec4s of k);
        ``down_b``: neighbouring rows of b (else neighbouring columns); ``whole``: no round of the
        loop reaches behind the end of k.
        """
        return {
            "ROWS": self.rows,
            "COLS": self.cols,
            "LANES_M": self.lanes_m,
            "LANES_N": self.lanes_n,
            "DEPTH": self.depth,
            "A_STRIDE": self.depth + down_a,
            "B_STRIDE": self.width + down_b,
            "AHEAD": int(self.rows * self.cols <= AHEAD),
            "WHOLE": int(whole),
        }

    @property
    def shared_bytes(self) -> int:
        """Upper bound of the shared memory that it takes, in bytes."""
        return 16 * (self.height * (self.depth + 1) + 4 * self.depth * (self.width + 1))

    def defines(self, half_sums: bool) -> dict[str, int]:
        """Defines of the shaders' variant; ``half_sums``: sums in float16 are allowed."""
        return {"HALF_SUMS": 1} if half_sums else {}

    def fits(self, limits: DeviceLimits) -> bool:
        """True where the device allows such workgroups."""
        most = min(limits.max_group_invocations, limits.max_group_size[0])
        return self.lanes <= most and self.shared_bytes <= limits.shared_memory

    def suits(self, rows: int, columns: int) -> bool:
        """True where a product of so many rows and vec4s of columns about fills the tile."""
        smallest = self.height * self.width <= SMALLEST
        return smallest or (2 * rows > self.height and 2 * columns > self.width)

    def work(self, machine: Machine, half_sums: bool) -> float:
        """Cost of a multiply-add, by one in float32; ``half_sums``: sums in float16 are allowed."""
        return machine.half if half_sums else 1.0

    def cost(
        self,
        machine: Machine,
        groups: int,
        steps: int,
        half: bool = False,
        taps: bool = False,
    ) -> float:
        """Microseconds of so many workgroups with ``steps`` vec4s of k.

        ``half``: sums in float16 are allowed. ``taps``: rows of a are pixels under taps.
        """
        results, rounds = self.rows * self.cols, ceil_div(steps, self.depth)
        products = 16 * results * self.depth * self.work(machine, half)
        size = min((n for n in _ROUNDS if n >= results), default=16)
        more: float
        if machine.scalar:
            (more, waits), outside, held = self._round(size, taps)
        else:
            brought = (self.height + 4 * self.width) * self.depth / self.lanes
            more = 2 * brought + self.depth * (self.rows + 4 * self.cols) + _ROUND
            waits, outside, held = 1.0, (2 * results, 1.0), _HELD_WAVES[size]
            if results < 8 and machine.wave < SCALAR:
                held = 7
        if machine.registers < 1:
            held = machine.held(held)
        work = rounds * (products + more) + outside[0]
        return machine.on_simds(groups * self.lanes, work, rounds * waits + outside[1], held)

    def _round(self, size: int, taps: bool) -> tuple[_Pair, _Pair, int]:
        """Row of ``_ROUNDS``, for places or without."""
        plain, placed, outside, held = _ROUNDS[size]
        if self.lanes >= 256 and size == 16:
            plain, placed, outside, held = _MANY_LANES
        if self.rows * self.cols == 1:
            brought = 4 * self.width * self.depth / self.lanes
            plain, outside = (_ONE + _ONE_BROUGHT * brought, plain[1]), _ONE_OUTSIDE
        return (placed if taps else plain), outside, held


@dataclass(frozen=True)
class DotTile(SharedMemoryTile):
    """A tile of float16 whose lanes add up two products an instruction, sums in float32.

    The shader is shaders/matmul/float_dots.glsl.
    """

    along_k: bool = True

    @property
    def name(self) -> str:
        """The candidate's name."""
        return f"dot{self.height}x{4 * self.width}"

    def defines(self, half_sums: bool) -> dict[str, int]:
        """Defines of the variant, by the device's instruction, with sums in float32."""
        return {"DOTS": FLOAT_DOTS}

    def work(self, machine: Machine, half_sums: bool) -> float:
        """That of two products an instruction."""
        return DOT_WORK

    def _round(self, size: int, taps: bool) -> tuple[_Pair, _Pair, int]:
        found, outside, held = super()._round(size, taps)
        fewer = taps and self.lanes < 256
        return (_PLACED_DOTS[size] if fewer else found), outside, held


def with_dots(tile: SharedMemoryTile) -> SharedMemoryTile:
    """The tile by dot products of float16; the tile itself where it is of cooperative matrices."""
    if isinstance(tile, CooperativeTile):
        return tile
    return DotTile(tile.rows, tile.cols, tile.lanes_m, tile.lanes_n, tile.depth)


@dataclass(frozen=True)
class CooperativeTile(SharedMemoryTile):
    """A tile whose subgroups compute ``part`` x ``part`` results each by cooperative matrices.

    Factors are float16, sums float32 (shaders/matmul/cooperative.glsl). With ``along_k`` a lane
    reads several factors of a column at once from shared memory, else one at a time.
    """

    depth: int = 8
    matrix: CooperativeMatrix = SQUARE
    part: int = PART

    @property
    def name(self) -> str:
        """The candidate's name."""
        return f"cooperative{self.height}x{4 * self.width}"

    def spec(self, down_a: bool, down_b: bool, whole: bool) -> dict[str, int]:
        """Specialization constants; rows in shared memory are an odd multiple of 16 bytes apart."""
        matrix = self.matrix
        return {
            **super().spec(down_a, down_b, whole),
            "A_STRIDE": self.depth + 2,
            "B_STRIDE": (self.depth if self.along_k else self.width) + 2,
            "COLUMNS_ALONG_K": int(self.along_k),
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
        factors = self.height * rows + 4 * columns
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
    ) -> float:
        results, rounds = self.rows * self.cols, ceil_div(steps, self.depth)
        more: float
        around: float
        if machine.scalar:
            plain, placed, outside, held = _MATRIX_ROUNDS[self.part]
            (more, waits), (around, first) = (placed if taps else plain), outside[taps]
            if self.along_k and steps % self.depth == 0:
                more = _WHOLE_MATRIX_ROUNDS[self.part]
        else:
            brought = (self.height + 4 * self.width) * self.depth / self.lanes
            more = 16 * results * self.depth * COOPERATIVE_WORK + 3 * brought + _ROUND
            waits, around, first = 1.0, 4.0 * results, 1.0
            held = 9 if self.part == SMALL_PART else 5
        work = rounds * more + around
        return machine.on_simds(groups * self.lanes, work, rounds * waits + first, held)


def with_columns_along_k(tile: SharedMemoryTile) -> SharedMemoryTile:
    """The tile with columns as vec4s of k where it is of cooperative matrices; else itself."""
    return replace(tile, along_k=True) if isinstance(tile, CooperativeTile) else tile


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


def reading_cost(rows: int, cols: int) -> float:
    """Multiply-adds that a vec4 of k takes a lane whose loads of ``rows`` vec4s stand ahead.

    What is read goes on beside the products. All lanes of a subgroup read the same 4 ``cols``
    vec4s of weights, which is cheap.
    """
    return max(16 * rows * cols, LOAD * rows) + UNIFORM * 4 * cols


def tile_cost(
    machine: Machine,
    lanes: int,
    steps: int,
    rows: int,
    cols: int,
    loads: float,
    half: bool = False,
    work: float = 1.0,
) -> float:
    """Microseconds of lanes that compute ``rows`` x 4 ``cols`` results each, without shared memory.

    ``loads``: reads for a vec4 of k, of which there are ``steps``. ``half``: in float16.
    ``work``: cost of a multiply-add, by that of floats.
    """
    products = 16 * rows * cols * (machine.half if half else work)
    return machine.in_waves(lanes, steps * (products + LOAD * loads))


#: Tiles from the largest to the smallest. Lanes and height divide one another, and every lane loads
#: as many vec4s as any other.
TILES = (
    SharedMemoryTile(8, 2, 16, 16),
    SharedMemoryTile(8, 2, 8, 8),
    SharedMemoryTile(8, 1, 16, 8),
    SharedMemoryTile(4, 1, 8, 8),
)


def shared_memory_tiles(problem: Problem, rows: int, columns: int) -> list[SharedMemoryTile]:
    """Tiles for a product of so many rows and vec4s of columns.

    None on a CPU, where shared memory is no faster than other memory.
    """
    limits = problem.limits
    if limits.kind == "cpu" or "shared" in problem.options.disabled:
        return []
    found = [*TILES, *cooperative_tiles(problem)]
    return [tile for tile in found if tile.fits(limits) and tile.suits(rows, columns)]
