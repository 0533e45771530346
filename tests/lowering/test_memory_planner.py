"""The memory planner places buffers so that live ones never overlap."""

import random

import pytest

from vknn.lowering.assemble import memory_planner
from vknn.lowering.assemble.memory_planner import Lifetime, align, pieces


def place(buffers, alignment, **options):
    """Buffers that are blocks of one piece."""
    return memory_planner.place([[buffer] for buffer in buffers], alignment, **options)


def test_align():
    assert [align(n, 16) for n in (0, 1, 16, 17)] == [0, 16, 16, 32]


def test_buffers_that_never_meet_share_bytes():
    offsets, size = place([Lifetime(64, 0, 1), Lifetime(64, 2, 3)], 16)
    assert offsets == [0, 0]
    assert size == 64


def test_buffers_alive_together_stand_apart():
    offsets, size = place([Lifetime(64, 0, 1), Lifetime(64, 1, 2)], 16)
    assert sorted(offsets) == [0, 64]
    assert size == 128


def test_a_gap_between_live_buffers_is_used():
    buffers = [Lifetime(100, 0, 9), Lifetime(80, 0, 4), Lifetime(60, 0, 9), Lifetime(48, 5, 9)]
    offsets, size = place(buffers, 16)
    assert offsets[3] == offsets[1]
    assert size == 112 + 80 + 64


def test_sharing_can_be_switched_off():
    offsets, size = place([Lifetime(10, 0, 0), Lifetime(10, 5, 5)], 16, share=False)
    assert offsets == [0, 16]
    assert size == 32


def test_nothing_to_place():
    assert place([], 256) == ([], 0)


@pytest.mark.parametrize("seed", range(20))
def test_random_lifetimes_never_overlap(seed):
    rng = random.Random(seed)
    buffers = []
    for _ in range(rng.randint(1, 60)):
        first = rng.randint(0, 40)
        buffers.append(Lifetime(rng.randint(1, 5000), first, first + rng.randint(0, 15)))
    alignment = rng.choice([16, 64, 256])
    offsets, size = place(buffers, alignment)
    for i, (a, at) in enumerate(zip(buffers, offsets, strict=True)):
        assert at % alignment == 0
        assert at + a.nbytes <= size
        for b, bt in list(zip(buffers, offsets, strict=True))[:i]:
            if a.overlaps(b):
                assert at + a.nbytes <= bt or bt + b.nbytes <= at
    assert size <= sum(align(b.nbytes, alignment) for b in buffers)


def test_parts_lie_side_by_side_and_each_takes_room_from_when_it_is_written():
    joined = [Lifetime(64, 0, 9), Lifetime(32, 5, 9, offset=64)]
    early, late = [Lifetime(32, 1, 3)], [Lifetime(32, 4, 6)]
    offsets, size = memory_planner.place([joined, early, late], 16)
    assert offsets == [0, 64, 96]
    assert size == 128


def test_a_block_goes_where_all_of_its_pieces_find_room():
    tenant = [Lifetime(64, 0, 9)], [Lifetime(48, 0, 4, offset=0), Lifetime(16, 0, 9, offset=48)]
    block = [Lifetime(32, 5, 9), Lifetime(16, 0, 9, offset=32)]
    offsets, _ = memory_planner.place([*tenant, block], 16)
    # Its first piece fits in the tenant's place, but then the second would meet the other tenant.
    assert offsets == [0, 64, 128]
    offsets, _ = memory_planner.place([tenant[1], block], 16)
    assert offsets == [0, 64]


def test_pieces_live_as_long_as_any_part_over_them():
    parts = [Lifetime(32, 0, 3), Lifetime(32, 4, 5, offset=32), Lifetime(64, 6, 8)]
    assert pieces(parts) == [Lifetime(32, 0, 8), Lifetime(32, 4, 8, offset=32)]
    view = Lifetime(16, 9, 9, offset=16)
    assert pieces([*parts, view]) == [
        Lifetime(16, 0, 8),
        Lifetime(16, 0, 9, offset=16),
        Lifetime(32, 4, 8, offset=32),
    ]
    assert pieces([Lifetime(16, 0, 2), Lifetime(16, 0, 2, offset=16)]) == [Lifetime(32, 0, 2)]
    apart = [Lifetime(16, 0, 2), Lifetime(16, 0, 2, offset=32)]
    assert pieces(apart) == apart


@pytest.mark.parametrize("seed", range(20))
def test_random_blocks_never_meet_what_is_alive(seed):
    rng = random.Random(seed)
    blocks = []
    for _ in range(rng.randint(1, 25)):
        block, offset = [], 0
        for _ in range(rng.randint(1, 4)):
            first = rng.randint(0, 30)
            last, nbytes = first + rng.randint(0, 12), rng.randint(1, 40) * 16
            block.append(Lifetime(nbytes, first, last, offset))
            offset = block[-1].end + rng.choice([0, 16])
        blocks.append(block)
    offsets, size = memory_planner.place(blocks, 16)
    held = {}
    for at, block in zip(offsets, blocks, strict=True):
        assert at % 16 == 0
        for piece in block:
            assert at + piece.end <= size
            for place_ in range((at + piece.offset) // 16, (at + piece.end) // 16):
                for moment in range(piece.first, piece.last + 1):
                    assert held.setdefault((place_, moment), piece) is piece
