"""First-fit allocation within a block."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vknn.runtime.range_allocator import Spans


def test_takes_and_gives() -> None:
    spans = Spans(1024, 256)
    assert [spans.take(100), spans.take(256), spans.take(300)] == [0, 256, 512]
    assert spans.take(1) is None
    spans.give(256)
    assert spans.take(257) is None
    assert spans.take(10) == 256
    for start in (0, 256, 512):
        spans.give(start)
    assert spans.empty
    assert spans.take(1024) == 0


def test_the_end_need_not_be_aligned() -> None:
    spans = Spans(1000, 256)
    assert spans.take(1000) == 0
    assert spans.used == 1000
    spans.give(0)
    assert spans.take(600) == 0
    assert spans.take(232) == 768


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 700)), max_size=60))
def test_never_overlaps(moves: list[tuple[bool, int]]) -> None:
    spans, held = Spans(4096, 64), dict[int, int]()
    for take, size in moves:
        if take:
            start = spans.take(size)
            if start is not None:
                assert start % 64 == 0
                assert start + size <= 4096
                assert all(s + n <= start or start + max(size, 1) <= s for s, n in held.items())
                held[start] = max(size, 1)
        elif held:
            start = list(held)[size % len(held)]
            del held[start]
            spans.give(start)
    for start in held:
        spans.give(start)
    assert spans.empty
    assert spans.take(4096) == 0
