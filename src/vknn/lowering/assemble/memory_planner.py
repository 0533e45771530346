"""The memory planner: offsets in the arenas, from the life of each buffer.

Buffers that are never alive together may share bytes. Greedy by size: the largest block is placed
first, each at the lowest offset where it meets nothing that is alive at the same time (the "greedy
by size" of Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020).
A block is a buffer, or the parts of one that several commands write one after another: they lie
side by side, but each takes up room only from when it is written. The hazards that sharing makes
are the scheduler's to find: it looks at byte ranges.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Lifetime:
    """``nbytes`` alive from command ``first`` to command ``last``, inclusive.

    ``offset``: where they begin within their block.
    """

    nbytes: int
    first: int
    last: int
    offset: int = 0

    @property
    def end(self) -> int:
        return self.offset + self.nbytes

    def overlaps(self, other: Lifetime) -> bool:
        return self.first <= other.last and other.first <= self.last


#: Bytes that are placed together.
Block = Sequence[Lifetime]


def align(offset: int, alignment: int) -> int:
    """The next multiple of ``alignment``."""
    return -(-offset // alignment) * alignment


def place(blocks: Sequence[Block], alignment: int, *, share: bool = True) -> tuple[list[int], int]:
    """Offsets of the blocks and the size of the arena. ``share=False``: all apart."""
    sizes = [max(piece.end for piece in block) for block in blocks]
    if not share:
        return _side_by_side(sizes, alignment)
    firsts = [min(piece.first for piece in block) for block in blocks]
    order = sorted(range(len(blocks)), key=lambda i: (-sizes[i], firsts[i], i))
    offsets = [0] * len(blocks)
    placed: list[tuple[int, Lifetime]] = []
    for index in order:
        taken = sorted(
            (at + other.offset - piece.end, at + other.end - piece.offset)
            for piece in blocks[index]
            for at, other in placed
            if other.overlaps(piece)
        )
        offsets[index] = _first_free(taken, alignment)
        placed += [(offsets[index], piece) for piece in blocks[index]]
    size = max((offsets[i] + sizes[i] for i in order), default=0)
    return offsets, align(size, alignment)


def pieces(parts: Sequence[Lifetime]) -> list[Lifetime]:
    """A block from parts that may overlap: bytes of several live as long as any of them."""
    cuts = sorted({p.offset for p in parts} | {p.end for p in parts})
    found: list[Lifetime] = []
    for start, end in itertools.pairwise(cuts):
        over = [p for p in parts if p.offset < end and start < p.end]
        if not over:
            continue
        first, last = min(p.first for p in over), max(p.last for p in over)
        if found and (found[-1].end, found[-1].first, found[-1].last) == (start, first, last):
            start = found.pop().offset
        found.append(Lifetime(end - start, first, last, start))
    return found


def _first_free(taken: Sequence[tuple[int, int]], alignment: int) -> int:
    """The lowest offset inside none of the open intervals, which are in order."""
    offset = 0
    for low, high in taken:
        if offset <= low:
            break
        if offset < high:
            offset = align(high, alignment)
    return offset


def _side_by_side(sizes: Sequence[int], alignment: int) -> tuple[list[int], int]:
    offsets, offset = [], 0
    for nbytes in sizes:
        offsets.append(offset)
        offset = align(offset + nbytes, alignment)
    return offsets, offset
