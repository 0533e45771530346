"""First-fit allocation of ranges within a block. Pure."""

from __future__ import annotations


def align_up(value: int, alignment: int) -> int:
    """The next multiple of ``alignment`` (which need not be a power of two)."""
    return -(-value // alignment) * alignment


class RangeAllocator:
    """Allocator of aligned byte ranges of a block of ``size`` bytes."""

    def __init__(self, size: int, alignment: int) -> None:
        self.size, self.alignment = size, alignment
        self._free = [(0, size)]  # (start, end), ascending, never touching each other
        self._used: dict[int, int] = {}

    @property
    def empty(self) -> bool:
        """True while nothing is handed out."""
        return not self._used

    @property
    def used(self) -> int:
        """Bytes handed out."""
        return sum(end - start for start, end in self._used.items())

    def take(self, nbytes: int) -> int | None:
        """Start of a free range; None where there is none long enough."""
        need = align_up(max(nbytes, 1), self.alignment)
        for index, (start, end) in enumerate(self._free):
            # The last range of a block may be shorter than its aligned length.
            if end - start >= need or (end == self.size and end - start >= nbytes):
                stop = min(start + need, end)
                self._free[index : index + 1] = [(stop, end)] if stop < end else []
                self._used[start] = stop
                return start
        return None

    def give(self, start: int) -> None:
        """Release of a range by its start."""
        self._free.append((start, self._used.pop(start)))
        self._free.sort()
        merged: list[tuple[int, int]] = []
        for low, high in self._free:
            if merged and merged[-1][1] == low:
                merged[-1] = (merged[-1][0], high)
            else:
                merged.append((low, high))
        self._free = merged
