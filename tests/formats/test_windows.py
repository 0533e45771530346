"""Sliding windows that all formats share: extents and SAME padding."""

from __future__ import annotations

import pytest

from vknn.formats.windows import flat_pads, halves, same_pads, window_extents


def test_extents_count_the_gaps_of_dilated_windows() -> None:
    assert window_extents((3, 1, 2), (1, 5, 4)) == (3, 1, 5)


def test_the_larger_half_is_the_end_by_default() -> None:
    assert halves(5) == (2, 3)
    assert halves(5, larger_first=True) == (3, 2)
    assert halves(4) == halves(4, larger_first=True) == (2, 2)


@pytest.mark.parametrize("size", range(1, 9))
@pytest.mark.parametrize("extent", range(1, 6))
@pytest.mark.parametrize("stride", range(1, 5))
def test_same_pads_give_an_output_for_each_stride(size: int, extent: int, stride: int) -> None:
    ((begin, end),) = same_pads([size], [extent], [stride])
    assert same_pads([size], [extent], [stride], larger_first=True) == ((end, begin),)
    assert 0 <= end - begin <= 1
    outputs = -(-size // stride)
    assert (size + begin + end - extent) // stride + 1 >= outputs
    least = (outputs - 1) * stride + extent
    assert begin + end == max(0, least - size)


def test_pads_are_flat_with_the_begins_first() -> None:
    assert flat_pads(((1, 2), (3, 4))) == (1, 3, 2, 4)
