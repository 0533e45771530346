"""First-fit allocation within a block."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vknn.runtime.range_allocator import RangeAllocator


def test_takes_and_gives() -> None:
    ranges = RangeAllocator(1024, 256)
    assert [ranges.take(100), ranges.take(256), ranges.take(300)] == [0, 256, 512]
    assert ranges.take(1) is None
    ranges.give(256)
    assert ranges.take(257) is None
    assert ranges.take(10) == 256
    for start in (0, 256, 512):
        ranges.give(start)
    assert ranges.empty
    assert ranges.take(1024) == 0


def test_the_end_need_not_be_aligned() -> None:
    ranges = RangeAllocator(1000, 256)
    assert ranges.take(1000) == 0
    assert ranges.used == 1000
    ranges.give(0)
    assert ranges.take(600) == 0
    assert ranges.take(232) == 768


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 700)), max_size=60))
def test_never_overlaps(moves: list[tuple[bool, int]]) -> None:
    ranges, held = RangeAllocator(4096, 64), dict[int, int]()
    for take, size in moves:
        if take:
            start = ranges.take(size)
            if start is not None:
                assert start % 64 == 0
                assert start + size <= 4096
                assert all(s + n <= start or start + max(size, 1) <= s for s, n in held.items())
                held[start] = max(size, 1)
        elif held:
            start = list(held)[size % len(held)]
            del held[start]
            ranges.give(start)
    for start in held:
        ranges.give(start)
    assert ranges.empty
    assert ranges.take(4096) == 0
