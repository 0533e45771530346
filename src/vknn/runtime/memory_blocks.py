"""Blocks of device memory that are handed out in ranges."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from vknn.runtime.range_allocator import RangeAllocator, align_up
from vknn.runtime.vulkan.core import Core
from vknn.runtime.vulkan.memory import Allocation

#: Bounds of a block's size, which is that of the ranges about to be taken: no room is left over,
#: and ranges that are taken one by one do not take an allocation each.
LEAST_BYTES = 256 << 10
MOST_BYTES = 64 << 20


@dataclass(eq=False)
class MemoryBlock:
    """An allocation and the ranges of it that are in use."""

    memory: Allocation
    ranges: RangeAllocator


class MemoryBlocks:
    """Blocks of device memory; one of which no range is in use any more is freed.

    Who uses it keeps threads apart.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._blocks: list[MemoryBlock] = []

    @property
    def nbytes(self) -> int:
        """Bytes of device memory that the blocks take."""
        return sum(block.memory.nbytes for block in self._blocks)

    @property
    def used(self) -> int:
        """Bytes of it that are handed out."""
        return sum(block.ranges.used for block in self._blocks)

    def find(self, nbytes: int) -> tuple[MemoryBlock, int] | None:
        """A range of a block that is there, with its offset; None where none has room."""
        for block in self._blocks:
            if (offset := block.ranges.take(nbytes)) is not None:
                return block, offset
        return None

    def take(self, nbytes: int, coming: Sequence[int] = ()) -> tuple[MemoryBlock, int]:
        """A range of a block, if need be of a new one that has room for what is ``coming``, too."""
        found = self.find(nbytes)
        if found is not None:
            return found
        limits = self._core.limits
        purpose = "unified" if limits.unified_memory else "device"
        size = block_bytes(coming or (nbytes,), limits.alignment)
        memory = Allocation(self._core, size, purpose).called("weights and tensors")
        block = MemoryBlock(memory, RangeAllocator(memory.nbytes, limits.alignment))
        self._blocks.append(block)
        offset = block.ranges.take(nbytes)
        assert offset is not None, "a fresh block holds what it was made for"
        return block, offset

    def give(self, block: MemoryBlock, offset: int) -> None:
        """Return of a range; nothing happens where the block was freed with all."""
        if block not in self._blocks:
            return
        block.ranges.give(offset)
        if block.ranges.empty:
            self._blocks.remove(block)
            block.memory.destroy()

    def destroy(self) -> None:
        """Release of all blocks, whoever uses them."""
        for block in reversed(self._blocks):
            block.memory.destroy()
        self._blocks.clear()


def block_bytes(coming: Sequence[int], alignment: int) -> int:
    """Size of a block for the first of the ranges, and for as many more as it may hold. Pure."""
    ends = itertools.accumulate(align_up(size, alignment) for size in coming)
    first = next(ends)
    within = itertools.takewhile(lambda end: end <= MOST_BYTES, ends)
    return max(first, LEAST_BYTES, *within)
