"""The memory planner places buffers so that live ones never overlap."""

import random

import pytest

from vknn.lowering.memory import Lifetime, align, place


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
