"""Shared-memory tiles of matrix products (shaders/matmul/shared_memory_tiles.glsl), for GPUs.

A workgroup reads the rows and columns of its tile into shared memory, for all its lanes.

The estimates are not measured; they follow from how GPUs work. Their unit is a lane's multiply-add:
a vec4 from a buffer costs eight, one from shared memory three, a barrier forty. Dispatches with
fewer lanes than run side by side take as long as one lane, so small products want small tiles.
Multiply-adds in float16 take half the time where GPUs pack them, and an eighth more for their sums
in float32 (``Machine.half``).
"""

from __future__ import annotations

from dataclasses import dataclass

from vknn.lowering.kit.layouts import ceil_div
from vknn.lowering.kit.machine import SCALAR, Machine
from vknn.plan import DeviceLimits

#: Cost of reading a vec4 from a buffer and from shared memory, and of a barrier.
LOAD, HELD, BARRIER = 8, 3, 40
#: Cost of reading a vec4 that is the same for all lanes of a subgroup.
UNIFORM = 0.25
#: Define of kernels that add products of float16 in pairs: by the device's instruction.
FLOAT_DOTS = 1
#: Cost of one of their multiply-adds, by one in float32.
DOT_WORK = 0.5
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
#: vec4s of results of a lane -> the first two pairs of ``_ROUNDS`` where all rounds are whole
#: (WHOLE), and of 16 in workgroups of 256 lanes; the same for GCN (null device raven).
_WHOLE_ROUNDS: dict[int, tuple[_Pair, _Pair]] = {
    4: ((32, 1.5), (30, 1.9)),
    8: ((40, 2.7), (36, 3.0)),
    16: ((12, 3.3), (30, 4.0)),
    256: ((10, 3.0), (25, 3.4)),
}
_WHOLE_ROUNDS_GCN: dict[int, tuple[_Pair, _Pair]] = {
    4: ((55, 3.6), (70, 5.4)),
    8: ((46, 3.8), (50, 4.4)),
    16: ((30, 5.2), (52, 5.9)),
    256: ((22, 5.4), (36, 6.1)),
}
#: Waves that a SIMD of GCN has registers for.
_HELD_GCN = {4: 4, 8: 2, 16: 2}
#: ``_ROUNDS`` of GCN without places, where they differ.
_PLAIN_GCN: dict[int, _Pair] = {4: (88, 5.1), 8: (80, 4.8)}
#: By what waits of other rounds are longer on GCN.
_GCN_WAITS = 1.5
#: Of one vec4 for a lane: beside a round's own, by vec4s of columns that the lane brings.
_ONE, _ONE_BROUGHT, _ONE_OUTSIDE = 6.0, 9.0, (85, 3.0)
#: With places, of products of float16 added in pairs.
_PLACED_DOTS: dict[int, _Pair] = {4: (92, 2.3), 8: (59, 4.1), 16: (94, 5.9)}
#: With places where k counts taps, as there is one vec4 of channels; of products added in pairs.
_COUNTED: dict[int, _Pair] = {4: (89, 1.7), 8: (86, 3.7), 16: (86, 4.0), 256: (84, 3.8)}
_COUNTED_DOTS: dict[int, _Pair] = {4: (74, 1.7), 8: (50, 2.8), 16: (84, 3.8), 256: (75, 2.7)}
#: Waves that a SIMD has registers for with them.
_DOTS_HELD = {4: 9, 8: 7, 16: 5, 256: 4}
#: ``_WHOLE_ROUNDS`` of products added in pairs, where they differ.
_WHOLE_DOTS: dict[int, _Pair] = {4: (18, 1.7)}
#: Waits of these where workgroups share out k (the loop holds fewer registers over it), on RDNA 2
#: and 3; waves there of 16 vec4s of results.
_SPLIT_DOTS: dict[int, _Pair] = {4: (1.1, 1.4), 8: (3.2, 1.5), 16: (2.75, 2.75)}
_SPLIT_HELD = 3
#: Instructions of a round beside products, reads and writes, elsewhere; waves of a SIMD there.
ROUND = 8
_HELD_WAVES = {4: 8, 8: 4, 16: 4}
#: The same of four vec4s of results on Adreno where all rounds are whole (by Turnip's registers: 19
#: of 96, which two waves share, and 24 where not).
_HELD_WHOLE_ADRENO = 10
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
    def run(self) -> int:
        """k of a column that lie beside each other in memory."""
        return 4 if self.along_k else 1

    @property
    def name(self) -> str:
        """The candidate's name."""
        return f"shared{self.height}x{4 * self.width}"

    def spec(self, down_a: bool, down_b: bool, whole: bool, scalar: bool = False) -> dict[str, int]:
        """Specialization constants of shared_memory_tiles.glsl.

        ``down_a``: neighbouring lanes load neighbouring rows of a (else neighbouring vec4s of k);
        ``down_b``: neighbouring rows of b (else neighbouring columns); ``whole``: no round of the
        loop reaches behind the end of k; ``scalar``: of the machine: RADV moves what it has from
        register to register at the end of a branch, so that there is none around loads.
        """
        ahead = (2 if scalar else 1) if self.rows * self.cols <= AHEAD else 0
        return {
            "ROWS": self.rows,
            "COLS": self.cols,
            "LANES_M": self.lanes_m,
            "LANES_N": self.lanes_n,
            "DEPTH": self.depth,
            "A_STRIDE": self.depth + down_a,
            "B_STRIDE": self.width + down_b,
            "AHEAD": ahead,
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
        whole: bool = False,
        beside: _Pair = (0.0, 0.0),
        counted: bool = False,
        split: _Pair | None = None,
    ) -> float:
        """Microseconds of so many workgroups with ``steps`` vec4s of k.

        ``half``: sums in float16 are allowed. ``taps``: rows of a are pixels under taps.
        ``whole``: no round reaches behind the end of k (WHOLE in the shader). ``beside``:
        instructions and waits of a round for what else is done. ``counted``: k counts taps.
        ``split``: those outside of the loop where workgroups share out k.
        """
        results, rounds = self.rows * self.cols, ceil_div(steps, self.depth)
        products = 16 * results * self.depth * self.work(machine, half)
        size = min((n for n in _ROUNDS if n >= results), default=16)
        more: float
        if machine.scalar:
            (more, waits), outside, held = self._round(machine, size, taps, whole)
            if counted:
                more, waits = self._counted(size)
            elif split is not None and whole:
                waits, held = self._split(machine, size, waits, held)
        else:
            brought = (self.height + 4 * self.width) * self.depth / self.lanes
            more = 2 * brought + self.depth * (self.rows + 4 * self.cols) + ROUND
            waits, outside, held = 1.0, (2 * results, 1.0), _HELD_WAVES[size]
            if results < 8 and machine.wave < SCALAR:
                held = 7
            elif size == 4 and machine.adreno and whole:
                held = _HELD_WHOLE_ADRENO
        if machine.registers < 1:
            held = _HELD_GCN[size] if machine.scalar else machine.held(held)
        own, others = split or (0.0, 0.0)
        work = rounds * (products + more + beside[0]) + outside[0] + own
        waits = rounds * (waits + beside[1]) + outside[1] + others
        return machine.on_simds(groups * self.lanes, work, waits, held)

    def _round(
        self, machine: Machine, size: int, taps: bool, whole: bool
    ) -> tuple[_Pair, _Pair, int]:
        """Row of ``_ROUNDS``, for places or without."""
        plain, placed, outside, held = _ROUNDS[size]
        if self._many(size):
            plain, placed, outside, held = _MANY_LANES
        if self.rows * self.cols == 1:
            brought = 4 * self.width * self.depth / self.lanes
            plain, outside = (_ONE + _ONE_BROUGHT * brought, plain[1]), _ONE_OUTSIDE
        elif whole:
            table = _WHOLE_ROUNDS_GCN if machine.converts else _WHOLE_ROUNDS
            plain, placed = table[256 if self._many(size) else size]
        more, waits = placed if taps else plain
        if machine.converts and not whole:
            waits *= _GCN_WAITS
            if size in _PLAIN_GCN and not taps and self.rows * self.cols > 1:
                more, waits = _PLAIN_GCN[size]
        return (more, waits), outside, held

    def _split(self, machine: Machine, size: int, waits: float, held: int) -> tuple[float, int]:
        """Waits of a round and waves where workgroups share out k, by those where they do not."""
        return waits, held

    def _counted(self, size: int) -> _Pair:
        """What a round takes where k counts taps."""
        return _COUNTED[256 if self._many(size) else size]

    def _many(self, size: int) -> bool:
        return self.lanes >= 256 and size == 16


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

    def _round(
        self, machine: Machine, size: int, taps: bool, whole: bool
    ) -> tuple[_Pair, _Pair, int]:
        found, outside, _ = super()._round(machine, size, taps, whole)
        if whole:
            found = _WHOLE_DOTS.get(size, found)
        fewer = taps and self.lanes < 256 and not whole
        held = _DOTS_HELD[256 if self._many(size) else size]
        return (_PLACED_DOTS[size] if fewer else found), outside, held

    def _split(self, machine: Machine, size: int, waits: float, held: int) -> tuple[float, int]:
        plenty = machine.registers > 1
        return _SPLIT_DOTS[size][plenty], held if plenty or size < 16 else _SPLIT_HELD

    def _counted(self, size: int) -> _Pair:
        return _COUNTED_DOTS[256 if self._many(size) else size]


def with_dots(tile: SharedMemoryTile) -> SharedMemoryTile:
    """The tile by dot products of float16; the tile itself where it is of cooperative matrices."""
    if type(tile) is not SharedMemoryTile:
        return tile
    return DotTile(tile.rows, tile.cols, tile.lanes_m, tile.lanes_n, tile.depth)


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
