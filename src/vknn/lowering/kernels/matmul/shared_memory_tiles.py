"""Products whose workgroups share what they read (matmul/shared_memory_tiles.glsl), for GPUs.

No GPU has been measured; the estimates below follow from how GPUs work. Times are counted in
multiply-adds of a lane: a vec4 from a buffer costs eight, one from shared memory three, a barrier
forty. 16,384 lanes run side by side, so that what has fewer is bound by the work of one lane, and
small products are better off with small tiles. Multiply-adds in float16 take half the time, and an
eighth more for adding up their sums in float32.
"""

from __future__ import annotations

from dataclasses import dataclass

from vknn.lowering.kit.problem import Problem
from vknn.plan import CooperativeMatrix, DeviceLimits

#: Cost of reading a vec4 from a buffer and from shared memory, and of a barrier.
LOAD, HELD, BARRIER = 8, 3, 40
#: Rows and columns that a subgroup computes by matrices, and what a multiply-add of theirs costs.
PART, COOPERATIVE_WORK = 32, 0.125
SQUARE = CooperativeMatrix(16, 16, 16)
#: Multiply-adds in float16, by those in float32.
HALF_WORK = 0.625
#: Rows times vec4s of columns of the smallest block.
SMALLEST = 32 * 8
#: Lanes that a GPU runs side by side, and microseconds of one multiply-add in each of them.
SIDE_BY_SIDE, STEP_TIME = 16384, 2e-4


@dataclass(frozen=True)
class Block:
    """What a workgroup computes: ``rows`` x 4 ``cols`` results a lane.

    ``depth``: vec4s of k in shared memory at a time.
    """

    rows: int
    cols: int
    lanes_m: int
    lanes_n: int
    depth: int = 4

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
        return f"shared{self.height}x{4 * self.width}"

    def spec(self, down_a: bool, down_b: bool) -> dict[int, int | float]:
        """The constants of blocks.glsl. ``down_a``: lanes side by side bring rows of a below each
        other; ``down_b``: rows of b."""
        strides = self.depth + down_a, self.width + down_b
        lanes = self.lanes_m, self.lanes_n
        return _numbered(10, self.rows, self.cols, *lanes, self.depth, *strides)

    @property
    def shared_bytes(self) -> int:
        """The most shared memory that it takes."""
        return 16 * (self.height * (self.depth + 1) + 4 * self.depth * (self.width + 1))

    def defines(self, half_sums: bool) -> dict[str, int]:
        """The variant of the shaders; ``half_sums``: float16 is what is asked to be added in."""
        return {"HALF_SUMS": 1} if half_sums else {}

    def fits(self, limits: DeviceLimits) -> bool:
        """True where the device allows such workgroups."""
        most = min(limits.max_group_invocations, limits.max_group_size[0])
        return self.lanes <= most and self.shared_bytes <= limits.shared_memory

    def suits(self, rows: int, columns: int) -> bool:
        """True where a product is not far smaller than the block (``columns`` by vec4s)."""
        smallest = self.height * self.width <= SMALLEST
        return smallest or (2 * rows > self.height and 2 * columns > self.width)

    def cost(self, groups: int, steps: int, half: bool = False) -> float:
        """Microseconds of so many workgroups with ``steps`` vec4s of k; ``half``: in float16."""
        whole = -(-steps // self.depth) * self.depth
        brought = (self.height + 4 * self.width) / self.lanes
        held = self.rows + 4 * self.cols
        work = 16 * self.rows * self.cols * (HALF_WORK if half else 1.0)
        work += HELD * held + LOAD * brought + 2 * BARRIER / self.depth
        return in_waves(groups * self.lanes, whole * work)


@dataclass(frozen=True)
class CooperativeBlock(Block):
    """A block whose subgroups multiply matrices (shaders/matmul/cooperative.glsl), PART x PART
    results each. Factors are float16, sums float32."""

    depth: int = 8
    matrix: CooperativeMatrix = SQUARE

    @property
    def name(self) -> str:
        return f"cooperative{self.height}x{4 * self.width}"

    def spec(self, down_a: bool, down_b: bool) -> dict[int, int | float]:
        """Rows of matrices begin at multiples of 16 bytes, an odd number of them apart."""
        m, n, k = self.matrix.m, self.matrix.n, self.matrix.k
        strides = {15: self.depth + 2, 16: self.width + 2}
        return super().spec(down_a, down_b) | strides | _numbered(20, m, n, k, PART // m, PART // n)

    @property
    def shared_bytes(self) -> int:
        factors = self.height * (self.depth + 2) + 4 * self.depth * (self.width + 2)
        return 8 * factors + 16 * self.height * (self.width + 1)

    def defines(self, half_sums: bool) -> dict[str, int]:
        """Sums are float32 whatever is asked for: they cost nothing."""
        return {"COOPERATIVE": 1}

    def cost(self, groups: int, steps: int, half: bool = False) -> float:
        whole = -(-steps // self.depth) * self.depth
        brought = (self.height + 4 * self.width) / self.lanes
        results = self.rows * self.cols
        work = 16 * results * COOPERATIVE_WORK + LOAD * brought + 2 * BARRIER / self.depth
        handed_out = 2 * HELD * results + BARRIER
        return in_waves(groups * self.lanes, whole * work + handed_out)


def _numbered(first: int, *values: int) -> dict[int, int | float]:
    return dict(enumerate(values, start=first))


def cooperative_blocks(problem: Problem) -> list[Block]:
    """Blocks of four subgroups and of one, where tensors are float16 and the device has matrices
    of float16 with sums of float32."""
    limits, options = problem.limits, problem.options
    able = {"cooperative_matrix", "fp16_arithmetic"} <= limits.features
    if not able or not options.half or "cooperative" in options.disabled:
        return []
    matrix = _matrix(limits)
    return [_of_subgroups(n, limits, matrix) for n in (2, 1) if matrix is not None]


def _matrix(limits: DeviceLimits) -> CooperativeMatrix | None:
    """The largest matrices that a subgroup's part can be cut into."""
    found = [
        matrix
        for matrix in limits.cooperative
        if (matrix.factors, matrix.sums) == ("float16", "float32")
        # Rows of 16 bytes and more, as the shaders lay them out.
        and all(size in (8, 16, 32) for size in (matrix.m, matrix.n, matrix.k))
    ]
    return max(found, key=lambda matrix: matrix.m * matrix.n * matrix.k, default=None)


def _of_subgroups(side: int, limits: DeviceLimits, matrix: CooperativeMatrix) -> Block:
    """A block of ``side`` x ``side`` subgroups."""
    lanes, height, width = side * side * limits.subgroup_size, side * PART, side * PART // 4
    lanes_n = min(lanes, width if lanes >= 128 else 8)
    lanes_m = lanes // lanes_n
    rows, cols = max(1, height // lanes_m), width // lanes_n
    return CooperativeBlock(rows, cols, lanes_m, lanes_n, matrix=matrix)


def in_waves(lanes: int, work: float) -> float:
    """Microseconds for lanes that do ``work`` each, in multiply-adds."""
    return max(1.0, lanes / SIDE_BY_SIDE) * work * STEP_TIME


def tile_cost(
    lanes: int,
    steps: int,
    rows: int,
    cols: int,
    loads: int,
    half: bool = False,
    work: float = 1.0,
) -> float:
    """Microseconds of lanes that compute ``rows`` x 4 ``cols`` results each from buffers.

    ``loads``: reads for a vec4 of k, of which there are ``steps``. ``half``: in float16.
    ``work``: of a product, that of floats being 1.
    """
    products = 16 * rows * cols * (HALF_WORK if half else work)
    return in_waves(lanes, steps * (products + LOAD * loads))


#: The blocks there are, the smallest last. Lanes and height divide one another, and what a
#: workgroup brings is the same for every lane.
BLOCKS = (Block(8, 2, 16, 16), Block(8, 2, 8, 8), Block(8, 1, 16, 8), Block(4, 1, 8, 8))


def blocks(problem: Problem, rows: int, columns: int) -> list[Block]:
    """The blocks for a product of so many rows and vec4s of columns; none on a CPU.

    Shared memory is no faster than any other there.
    """
    limits = problem.limits
    if limits.kind == "cpu" or "shared" in problem.options.disabled:
        return []
    found = [*BLOCKS, *cooperative_blocks(problem)]
    return [b for b in found if b.fits(limits) and b.suits(rows, columns)]
