"""The memory planner: offsets in the arenas, from the life of each buffer.

Buffers that are never alive together may share bytes. Greedy by size: the largest buffer is placed
first, each at the lowest offset where it meets no buffer that is alive at the same time (the
"greedy by size" of Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference",
2020). The hazards that sharing makes are the scheduler's to find: it looks at byte ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Lifetime:
    """A buffer of ``nbytes``, alive from command ``first`` to command ``last``, inclusive."""

    nbytes: int
    first: int
    last: int

    def overlaps(self, other: Lifetime) -> bool:
        return self.first <= other.last and other.first <= self.last


def align(offset: int, alignment: int) -> int:
    """The next multiple of ``alignment``."""
    return -(-offset // alignment) * alignment


def place(
    buffers: Sequence[Lifetime], alignment: int, *, share: bool = True
) -> tuple[list[int], int]:
    """Offsets of the buffers and the size of the arena. ``share=False``: all apart."""
    if not share:
        return _side_by_side([b.nbytes for b in buffers], alignment)
    order = sorted(range(len(buffers)), key=lambda i: (-buffers[i].nbytes, buffers[i].first, i))
    offsets = [0] * len(buffers)
    placed: list[int] = []
    for index in order:
        busy = sorted(
            (offsets[i], offsets[i] + buffers[i].nbytes)
            for i in placed
            if buffers[i].overlaps(buffers[index])
        )
        offsets[index] = _first_gap(busy, buffers[index].nbytes, alignment)
        placed.append(index)
    size = max((offsets[i] + buffers[i].nbytes for i in placed), default=0)
    return offsets, align(size, alignment)


def _first_gap(busy: Sequence[tuple[int, int]], nbytes: int, alignment: int) -> int:
    offset = 0
    for start, end in busy:
        if offset + nbytes <= start:
            break
        offset = max(offset, align(end, alignment))
    return offset


def _side_by_side(sizes: Sequence[int], alignment: int) -> tuple[list[int], int]:
    offsets, offset = [], 0
    for nbytes in sizes:
        offsets.append(offset)
        offset = align(offset + nbytes, alignment)
    return offsets, offset
