"""Tiles of inverted residual blocks as one dispatch, and what they are estimated to take.

Instructions, waits and bytes are counted as static profiles count them (docs/null-devices.md).
"""

from __future__ import annotations

from dataclasses import dataclass

from vknn.lowering.kernels.chain.inverted_registers import LoadedTile, by_rows
from vknn.lowering.kernels.convolution.shape import ConvShape
from vknn.lowering.kernels.matmul.shared_memory_tiles import DOT_WORK
from vknn.lowering.kit.layouts import ceil_div
from vknn.lowering.kit.machine import Machine

#: Registers for what is loaded together.
_LOADED = 48
#: Instructions beside products and activations: of a vec4 of sums of the first convolution, of a
#: round of the depthwise one and of a slice, by RADV's machine code for RDNA 2 (``vknn profile
#: --static --isa`` on the null device navi21), and where none is read; for the place of a load.
_BESIDE_SCALAR, _BESIDE, _PLACE = (20.0, 14.0, 40.0), (8.0, 6.0, 16.0), 0.75
#: Instructions outside of all loops, and waits.
_OUTSIDE, _OUTSIDE_WAITS = 150.0, 4.0
#: The same on RDNA: of a vec4 of sums and of a round, and for a load.
_RDNA_SUM, _RDNA_ROUND, _RDNA_PLACE = 13.0, 21.0, 1.25
#: There of a workgroup's end: instructions, of a pixel of the first convolution, of a round, of one
#: of its parts; waits, and those of a round.
_RDNA_END, _RDNA_PIXEL, _RDNA_LAST, _RDNA_PART, _RDNA_WAITS = 45.0, 23.0, 46.0, 4.3, (0.8, 1.6)
#: Instructions that make floats of a vec4 of float16 where products do not take it as it is.
_CONVERTED = 4.0
#: Shared memory of a compute unit, and SIMDs that have it. Turnip's waves do not hang on it.
_UNIT_SHARED, _UNIT_SIMDS = 1 << 16, 2


@dataclass(frozen=True)
class BlockLanes:
    """A workgroup's lanes, and what each has in the first and the last convolution.

    ``parts``: of a slice, each of which other lanes multiply in the last convolution.
    """

    count: int
    first_pixels: int
    first_cols: int
    pixels: int
    cols: int
    parts: int

    @property
    def first_sums(self) -> int:
        """Vec4s of sums in the first convolution."""
        return self.first_pixels * self.first_cols

    @property
    def sums(self) -> int:
        """Vec4s of sums in the last convolution."""
        return self.pixels * self.cols


@dataclass(frozen=True)
class InvertedTile:
    """A tile of ``height`` x ``width`` pixels of the result, and ``slice`` vec4s between.

    ``field``: pixels that it reads. ``steps``: vec4s of x whose products stand in a loop's round.
    ``kind``: "tile" multiplies in float32, "half" in float16, "dots" adds products of float16 in
    pairs. ``loaded``: registers of a vec4 of weights.
    """

    lanes: BlockLanes
    slice: int
    height: int
    width: int
    field: int
    steps: int
    kind: str
    loaded: int

    @property
    def pixels(self) -> int:
        """Pixels of the tile."""
        return self.height * self.width

    @property
    def rounds(self) -> int:
        """Pixels of a lane in the depthwise convolution."""
        return ceil_div(self.pixels * self.slice, self.lanes.count)

    @property
    def own(self) -> float:
        """Vec4s of a slice of a lane in the last convolution."""
        return self.slice / self.lanes.parts

    @property
    def ahead(self) -> int:
        """Vec4s of x whose loads stand together."""
        each = self.lanes.first_pixels + 4 * self.lanes.first_cols
        return max(1, _LOADED // (each * self.loaded))

    @property
    def last_ahead(self) -> int:
        """Vec4s of a slice whose loads stand together."""
        return max(1, _LOADED // ((self.lanes.pixels + 4 * self.lanes.cols) * self.loaded))

    def registers(self, m4: int, taps: int) -> LoadedTile:
        """Uses of a lane's registers; ``taps``: whose weights are loaded together."""
        lanes = self.lanes
        loads = lanes.first_pixels + 4 * lanes.first_cols, lanes.pixels + 4 * lanes.cols
        return LoadedTile(
            sums=(lanes.first_sums, lanes.sums),
            pixels=lanes.first_pixels,
            loads=loads,
            ahead=(self.ahead, self.last_ahead),
            own=self.own,
            rounds=self.rounds,
            taps=taps,
            loaded=self.loaded,
            lanes=lanes.count,
            shared=self.shared_bytes(m4),
        )

    def row(self, m4: int) -> int:
        """Vec4s of a row of the last convolution's weights."""
        return ceil_div(m4, self.lanes.cols) * self.lanes.cols

    def shared_bytes(self, m4: int) -> int:
        """Shared memory of a workgroup."""
        held = self.field * self.slice + self.pixels * (self.slice + 1)
        sums = 16 * self.lanes.parts * self.pixels * self.row(m4)
        return max((16 if self.kind == "tile" else 8) * held, sums)

    @property
    def name(self) -> str:
        """The candidate's name."""
        return f"inverted-{self.kind}{self.lanes.count}x{self.slice}"


@dataclass(frozen=True)
class SliceWork:
    """Work of a lane for a slice: instructions of products and besides, loads from buffers, vec4s
    from shared memory."""

    products: float
    others: float
    loads: float
    held: float


@dataclass(frozen=True)
class Sizes:
    """Sizes of a block: vec4s of channels of x, between and of y, the depthwise convolution.

    ``epilogues``: instructions for an element of each convolution's activation. ``half``: whether
    tensors have 16 bits.
    """

    x4: int
    middle4: int
    m4: int
    depthwise: ConvShape
    epilogues: tuple[float, ...]
    half: bool

    def tiles(self, tile: InvertedTile) -> tuple[int, int]:
        """Tiles below and beside each other in an image."""
        _, height, width = self.depthwise.size_out
        return ceil_div(height, tile.height), ceil_div(width, tile.width)

    def groups(self, tile: InvertedTile) -> int:
        """Workgroups."""
        down, across = self.tiles(tile)
        return self.depthwise.batch * down * across

    def slices(self, tile: InvertedTile) -> int:
        """Slices of the channels between."""
        return ceil_div(self.middle4, tile.slice)

    def numbers(self, tile: InvertedTile) -> int:
        """Vec4s of packed weights and biases."""
        row = tile.row(self.m4)
        each = 4 * self.x4 + 4 * row + self.depthwise.taps + 2
        return self.slices(tile) * tile.slice * each + row

    def work(self, machine: Machine, tile: InvertedTile) -> SliceWork:
        """Work of a lane for a slice."""
        lanes, taps, (g, h, _) = tile.lanes, self.depthwise.taps, self.epilogues
        product = {"tile": 1.0, "dots": DOT_WORK}.get(tile.kind, machine.half)
        products = 16 * product * (self.x4 * lanes.first_sums + tile.own * lanes.sums)
        of_sum, of_round, of_slice = _BESIDE_SCALAR if machine.scalar else _BESIDE
        others = (4 * g + of_sum) * lanes.first_sums + of_slice
        others += tile.rounds * (4 * taps + 4 * h + of_round)
        weights = 4 * (self.x4 * lanes.first_cols + tile.own * lanes.cols) + taps
        loads = weights + self.x4 * lanes.first_pixels
        return SliceWork(products, others, loads, tile.rounds * taps + tile.own * lanes.pixels)

    def code(self, machine: Machine, tile: InvertedTile) -> float:
        """Instructions of the kernel."""
        work, rest = self.work(machine, tile), self.x4 % tile.steps
        together = (tile.steps + rest) / self.x4  # of the first convolution's steps
        last = tile.own * tile.lanes.sums
        own = last / (last + self.x4 * tile.lanes.first_sums)
        part = own + (1 - own) * together
        converted = _CONVERTED if converts(machine, tile.kind, self.half) else 0.0
        return part * (work.products + (2 + converted) * work.loads) + work.others + 2 * work.held

    def time(self, machine: Machine, tile: InvertedTile) -> float:
        """Microseconds of all workgroups, apart from the dispatch and its bytes."""
        lanes, groups = tile.lanes, self.groups(tile)
        each, waits, held = (self._on_rdna if _rdna(machine) else self._on_others)(machine, tile)
        busy = machine.on_simds(groups * lanes.count, each, waits, max(1, held))
        drawn = machine.drawn(self.numbers(tile) * (8 if self.half else 16))
        return max(busy, drawn * machine.crowd(groups))

    def _on_rdna(self, machine: Machine, tile: InvertedTile) -> tuple[float, float, int]:
        """Instructions of a lane, its waits, and the waves of a SIMD."""
        lanes, slices, (g, h, ending) = tile.lanes, self.slices(tile), self.epilogues
        work, taps = self.work(machine, tile), self.depthwise.taps
        together = self.depthwise.kernel[2] if by_rows(machine, tile.loaded, taps) else taps
        registers = tile.registers(self.m4, together)
        others = (4 * g + _RDNA_SUM) * lanes.first_sums
        others += tile.rounds * (4 * taps + 4 * h + _RDNA_ROUND)
        instructions = work.products + others + _RDNA_PLACE * work.loads
        busiest = self._busiest(machine, tile, work, instructions)
        # A wave alone goes on while caches serve it.
        served = (busiest - instructions) * machine.issue / machine.wait
        each = slices * busiest
        ends = ceil_div(tile.pixels * self.m4, lanes.count)
        each += ends * (_RDNA_LAST + _RDNA_PART * lanes.parts + 4 * ending)
        each += _RDNA_END + _RDNA_PIXEL * lanes.first_pixels
        waits = slices * (registers.waits(machine, self.x4) - served)
        waits += _RDNA_WAITS[0] + _RDNA_WAITS[1] * ends
        return each, waits, registers.given(machine)[0]

    def _on_others(self, machine: Machine, tile: InvertedTile) -> tuple[float, float, int]:
        """The same on other GPUs."""
        lanes, slices = tile.lanes, self.slices(tile)
        each, waits = self._slice(machine, tile)
        ends = ceil_div(tile.pixels * self.m4, lanes.count)
        each = slices * each + ends * (10 + 8 * lanes.parts + 4 * self.epilogues[2]) + _OUTSIDE
        waits = slices * waits + ends + _OUTSIDE_WAITS
        room = max(1, _UNIT_SHARED // tile.shared_bytes(self.m4))
        room = room * ceil_div(lanes.count, machine.wave) // _UNIT_SIMDS
        alone = machine.adreno and machine.registers > 0
        held = tile.registers(self.m4, self.depthwise.taps).held(machine)
        return each, waits, held if alone else min(held, room)

    def _busiest(
        self, machine: Machine, tile: InvertedTile, work: SliceWork, instructions: float
    ) -> float:
        """Of so many instructions, caches and shared memory, in the time of an instruction."""
        by_cache = work.loads * (4 if self.half else 8) * (2 if machine.converts else 1)
        by_shared = work.held * (8 if tile.kind == "tile" else 4)
        return max(instructions, by_cache, by_shared)

    def _slice(self, machine: Machine, tile: InvertedTile) -> tuple[float, float]:
        """Instructions of a lane for a slice, and waits."""
        work, lanes = self.work(machine, tile), tile.lanes
        if not machine.scalar:
            rounds = ceil_div(self.x4, tile.steps)
            return work.products + work.others + work.loads + work.held, rounds
        instructions = work.products + work.others + _PLACE * work.loads
        if converts(machine, tile.kind, self.half):
            instructions += _CONVERTED * work.loads
        waits = 1 + ceil_div(self.x4, tile.ahead)
        waits += ceil_div(tile.slice, lanes.parts * tile.last_ahead)
        return self._busiest(machine, tile, work, instructions), waits


def _rdna(machine: Machine) -> bool:
    return machine.scalar and not machine.converts


def converts(machine: Machine, kind: str, half: bool) -> bool:
    """True where float16 takes instructions and registers to become float32."""
    return half and kind == "tile" and (machine.converts or not machine.scalar)
