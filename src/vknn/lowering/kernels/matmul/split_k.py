"""Split-K: shared-memory tiles whose k several workgroups share out (shaders/matmul/split_k.glsl).

Products of few rows and columns, as of images of 7x7 and 14x14 pixels, have fewer workgroups than a
GPU has processors. There each workgroup of a tile adds up a part of k and writes its sums in
float32; the one that is done last adds the parts up, in their order.
"""

from __future__ import annotations

from dataclasses import dataclass

from vknn.graph import DType
from vknn.lowering.kernels.matmul.shared_memory_tiles import SharedMemoryTile
from vknn.lowering.kit.emitter import BoundBuffer, Emitter, Ref, update
from vknn.lowering.kit.layouts import ceil_div
from vknn.lowering.kit.machine import Machine
from vknn.lowering.kit.workgroups import fits_buffer
from vknn.plan import DeviceLimits

#: Parts of k that are tried, and fewest rounds of one.
PARTS, LEAST_ROUNDS = (2, 4, 8), 2
#: Buffers that a kernel binds besides its own: the sums of the parts and counters.
BUFFERS = 2
#: Waves of a SIMD from which on more of them save nothing, without and with parts.
_WAVES_WANTED, _MOST_WAVES = 4, 16
#: Waits for the stores and for the counter; instructions around the sums, of each vec4 of them that
#: is written, and of one that is read: by RADV's machine code for RDNA 2 (``vknn profile --static
#: --isa`` on the null device navi21).
_WAITS, _AROUND, _WRITTEN, _READ = 2.0, 50.0, 3.0, 5.0
#: vec4s of sums that a lane of the last workgroup reads before it adds them up.
_TOGETHER = 8


@dataclass(frozen=True)
class SplitK:
    """``parts`` of k of a tile, each a workgroup's; a power of two."""

    parts: int

    def prefix(self, name: str) -> str:
        """The name of the candidate that splits what ``name`` computes."""
        return f"splitk{self.parts}-{name}"

    def share(self, tile: SharedMemoryTile, steps: int) -> int:
        """Vec4s of k in a part, whole rounds, of ``steps``."""
        return ceil_div(ceil_div(steps, tile.depth), self.parts) * tile.depth

    def sums(self, tile: SharedMemoryTile, groups: int) -> int:
        """Floats of the sums of all parts of ``groups`` tiles."""
        return 4 * tile.rows * tile.cols * tile.lanes * groups * self.parts

    def around(self, tile: SharedMemoryTile) -> tuple[float, float]:
        """Instructions and waits of a lane outside of the loop, beside those of the product."""
        return _AROUND + tile.rows * tile.cols * _WRITTEN, _WAITS

    def last(self, machine: Machine, tile: SharedMemoryTile) -> float:
        """Microseconds that the workgroup that is done last adds up the parts of its tile."""
        results = tile.rows * tile.cols
        rounds = ceil_div(self.parts * results, max(_TOGETHER, results))
        waves = max(1, tile.lanes // machine.wave)
        steps = self.parts * results * _READ
        return rounds * machine.wait + steps * machine.issue * ceil_div(waves, 4)

    def moved(self, tile: SharedMemoryTile, groups: int) -> int:
        """Bytes of sums: each counts once, as all bytes do, for caches still have what is read."""
        return 4 * self.sums(tile, groups)

    def bound(self, emitter: Emitter, tile: SharedMemoryTile, groups: int) -> SplitSums:
        """The buffers of a dispatch of ``groups`` tiles."""
        assert emitter.counters is not None
        count = self.sums(tile, groups)
        sums = emitter.scratch("parts", count, dtype=DType.FLOAT32)
        return SplitSums(self.parts, sums, emitter.counters(groups))


@dataclass(frozen=True, eq=False)
class SplitSums:
    """Buffers of a split dispatch: ``sums`` of the parts, ``done`` for tiles to count in."""

    parts: int
    sums: Ref
    done: Ref

    @property
    def bindings(self) -> list[BoundBuffer]:
        """Bindings of split_k.glsl."""
        return [update(self.sums), update(self.done)]

    @property
    def spec(self) -> dict[str, int]:
        """Specialization constants of split_k.glsl."""
        return {"K_PARTS": self.parts}

    @property
    def defines(self) -> dict[str, int]:
        """Defines of the kernels' variants."""
        return {"SPLIT_K": 1}


def splits(
    limits: DeviceLimits, machine: Machine, tile: SharedMemoryTile, groups: int, steps: int
) -> list[SplitK]:
    """Splits of ``groups`` tiles with ``steps`` vec4s of k that may pay on a GPU.

    There are some where the tiles leave SIMDs idle and parts have rounds enough.
    """
    waves = groups * ceil_div(tile.lanes, machine.wave)
    if limits.kind == "cpu" or waves >= _WAVES_WANTED * machine.simds:
        return []
    # On GCN the parts' sums beside a lane's own leave a SIMD one wave (null device raven).
    if machine.converts and tile.rows * tile.cols > _TOGETHER:
        return []
    found = [SplitK(parts) for parts in PARTS]
    return [
        split
        for split in found
        if _has_work(split, tile, steps)
        and waves * split.parts <= _MOST_WAVES * machine.simds
        and fits_buffer(limits, split.sums(tile, groups))
    ]


def _has_work(split: SplitK, tile: SharedMemoryTile, steps: int) -> bool:
    """True where each part has rounds, no one fewer than LEAST_ROUNDS but the last."""
    share = split.share(tile, steps)
    return share >= LEAST_ROUNDS * tile.depth and share * (split.parts - 1) < steps
