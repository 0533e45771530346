"""Suppressed boxes, different elements, cumulative products, repeated words: by hand."""

from __future__ import annotations

import numpy as np
import pytest

from vknn.errors import VknnError

RNG = np.random.default_rng(17)
BOXES = np.array(
    [[0, 0, 1, 1], [0.1, 0, 1.1, 1], [0, 10, 1, 11], [1, 1, 0, 0], [5, 5, 5, 5]], np.float32
)
SCORES = np.array([0.9, 0.75, 0.6, 0.95, 0.2], np.float32)


def suppressed(run, *limits, boxes=BOXES, scores=SCORES, fixed=(), **attributes) -> list[list[int]]:
    kinds = (np.int64, np.float32, np.float32)
    given = [
        None if v is None else np.array([v], kind) for v, kind in zip(limits, kinds, strict=False)
    ]
    while given and given[-1] is None:
        given.pop()
    boxes, scores = boxes.reshape(1, -1, 4), scores.reshape(1, -1, boxes.shape[-2])
    inputs = [boxes, scores, *given]
    (found,) = run("NonMaxSuppression", inputs, opset=11, fixed=fixed, **attributes)
    assert found.dtype == np.int64 and found.shape[1] == 3
    return found[:, 2].tolist()


def test_boxes_that_stay(run) -> None:
    assert suppressed(run, 9, 0.5, 0.0) == [3, 2, 4]
    assert suppressed(run, 9, 0.5, 0.0, fixed=(2, 3, 4)) == [3, 2, 4]
    assert suppressed(run, 2, 0.5, 0.0) == [3, 2]
    assert suppressed(run, 9, 0.5, 0.6) == [3]  # not equal to the threshold, but above
    assert suppressed(run, 9, 1.0) == [3, 0, 1, 2, 4]
    assert suppressed(run, 0, 0.5, 0.0) == []
    assert suppressed(run) == []  # without a limit none is wanted
    # Centre, width and height of the same boxes.
    corners = BOXES.reshape(-1, 2, 2)
    low, high = corners.min(axis=1), corners.max(axis=1)
    centres = np.concatenate([(low + high) / 2, high - low], axis=1)
    assert suppressed(run, 9, 0.5, 0.0, boxes=centres, center_point_box=1) == [3, 2, 4]


def test_suppression_of_batches_and_classes(run) -> None:
    boxes = np.stack([BOXES, BOXES + 3])
    scores = np.stack([[SCORES, SCORES[::-1]], [SCORES, SCORES]])
    given = [boxes, scores, np.array([9]), np.array([0.5], np.float32)]
    (found,) = run("NonMaxSuppression", given)
    rows = [(0, 0, 3), (0, 0, 2), (0, 0, 4), (0, 1, 1), (0, 1, 4), (0, 1, 2)]
    rows += [(1, n, box) for n in range(2) for box in (3, 2, 4)]
    assert found.tolist() == [list(row) for row in rows]


def test_lowest_scores_count_where_there_is_no_threshold(run) -> None:
    scores = np.array([-np.inf, 1, -np.inf, -3e38, -np.inf], np.float32)
    apart = np.arange(20, dtype=np.float32).reshape(5, 4) * 10
    assert set(suppressed(run, 9, 0.5, boxes=apart, scores=scores)) == set(range(5))
    assert suppressed(run, 9, 0.5, -1e38, boxes=apart, scores=scores) == [1]


def test_boxes_and_scores_that_do_not_suit(run) -> None:
    with pytest.raises(VknnError, match="do not suit each other"):
        run("NonMaxSuppression", [BOXES[None], SCORES[None, None, :3]])
    with pytest.raises(VknnError, match="iou_threshold 1.5"):
        suppressed(run, 9, 1.5)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_different_entries_along_an_axis(run, axis: int) -> None:
    x = RNG.integers(0, 2, (4, 3, 2)).astype(np.float32)
    values, first, which, counts = run("Unique", [x], axis=axis, outputs=4)
    want = np.unique(x, axis=axis, return_index=True, return_inverse=True, return_counts=True)
    for found, own in zip((values, first, which, counts), want, strict=True):
        np.testing.assert_array_equal(found, own.reshape(found.shape))
    values, first, which, counts = run("Unique", [x], axis=axis, sorted=0, outputs=4)
    assert (np.diff(first) > 0).all()
    np.testing.assert_array_equal(np.take(values, which, axis), x)
    np.testing.assert_array_equal(np.take(x, first, axis), values)
    assert counts.tolist() == np.bincount(which).tolist()


def test_different_elements(run) -> None:
    x = np.array([[2, 1], [1, 3]], np.int64)
    found = run("Unique", [x], outputs=4)
    assert [v.tolist() for v in found] == [[1, 2, 3], [1, 0, 3], [1, 0, 0, 2], [2, 1, 1]]
    vector = x.reshape(-1).astype(np.float32)
    found = run("Unique", [vector], domain="com.microsoft", outputs=3)
    assert [v.tolist() for v in found] == [[2, 1, 3], [0, 1, 1, 2], [1, 2, 1]]


def test_cumulative_products(run) -> None:
    x = RNG.standard_normal((3, 5)).astype(np.float32)
    axis = np.array(1, np.int64)
    (found,) = run("CumProd", [x, axis], opset=26, fixed=(1,))
    np.testing.assert_allclose(found, np.cumprod(x, axis=1), rtol=1e-5)
    (found,) = run("CumProd", [x, axis], opset=26, exclusive=1, reverse=1)
    want = np.cumprod(np.pad(x, [(0, 0), (0, 1)], constant_values=1)[:, ::-1], axis=1)[:, -2::-1]
    np.testing.assert_allclose(found, want, rtol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_repeated_groups_of_words(run, size: int) -> None:
    words = RNG.integers(0, 3, (4, 8)).astype(np.int64)
    scores = RNG.standard_normal((4, 5)).astype(np.float32)
    given = [words, scores]
    (found,) = run("NGramRepeatBlock", given, domain="com.microsoft", ngram_size=size)
    want = scores.copy()
    for row in range(4):
        own = words[row].tolist()
        last = own[len(own) - size + 1 :]
        for at in range(len(own) - size + 1):
            if own[at : at + size - 1] == last:
                want[row, own[at + size - 1]] = -np.inf
    np.testing.assert_array_equal(found, want)


def test_words_foretold(run) -> None:
    def detected(source, words, start, foretold=None):
        given = [np.array(v, np.int64) for v in (source, words, start)]
        given += [] if foretold is None else [np.array(foretold, np.int64)]
        tokens, match = run("BifurcationDetector", given, domain="com.microsoft", outputs=2)
        return tokens.tolist(), int(match)

    # What onnxruntime gives.
    assert detected([1, 5, 3, 4, 2], [2], 0) == ([2], 5)
    assert detected([1, 5, 3, 4, 2], [2], 0, [1, 5, 3, 5, 2, 4]) == ([2, 1, 5, 3, 5], 2)
    assert detected([1, 2, 1, 2, 3], [7, 1], 0) == ([7, 1], -1)
    given = [np.array(v, np.int64) for v in ([1, 5], [5], [0])]  # the place as it came
    assert run("BifurcationDetector", given, domain="com.microsoft", outputs=2)[1].tolist() == [2]


def test_middles_and_windows(run) -> None:
    x = RNG.standard_normal((5, 8)).astype(np.float32)
    (found,) = run("CenterCropPad", [x, np.array([2, 11], np.int64)], fixed=(1,))
    np.testing.assert_array_equal(found, np.pad(x[1:3], [(0, 0), (1, 2)]))
    (found,) = run("CenterCropPad", [x, np.array([5], np.int64)], axes=(-1,))
    np.testing.assert_array_equal(found, x[:, 1:6])
    (found,) = run("UnfoldTensor", [x], domain="com.microsoft", dim=1, size=3, step=2)
    np.testing.assert_array_equal(found, np.lib.stride_tricks.sliding_window_view(x, 3, 1)[:, ::2])


def test_older_forms_of_com_microsoft(run) -> None:
    x = RNG.standard_normal((4, 5)).astype(np.float32)
    places = np.array([[0, 1], [3, -1]], np.int64)
    (found,) = run("GatherND", [x, places], domain="com.microsoft")
    np.testing.assert_array_equal(found, x[[0, 3], [1, 4]])
    (found,) = run("Trilu", [x, np.array(1, np.int64)], domain="com.microsoft", upper=0)
    np.testing.assert_array_equal(found, np.tril(x, 1))
    pads = np.array([[1, 0, 0, -2]], np.int64)
    given = [x, pads, np.array([7], np.float32)]
    (found,) = run("Pad", given, domain="com.microsoft", mode="constant")
    np.testing.assert_array_equal(found, np.pad(x[:, :3], [(1, 0), (0, 0)], constant_values=7))
    ends = [np.array(v, np.float32) for v in (1.5, 5)]
    (found,) = run("Range", ends, domain="com.microsoft")
    assert found.tolist() == [1.5, 2.5, 3.5, 4.5] and found.dtype == np.float32
    (found,) = run("ThresholdedRelu", [x], opset=7, alpha=0.5)
    np.testing.assert_array_equal(found, np.where(x > 0.5, x, 0))


@pytest.mark.parametrize("pads", [(3, -4), (-4, 3), (4, -6), (0, -2), (1, 2)])
def test_pads_that_crop_the_padding(run, pads: tuple[int, int]) -> None:
    """What is cut off beyond an axis is cut off the padding at its other end."""
    x = np.array([5, 6], np.float32)
    whole = np.pad(x, [max(p, 0) for p in pads], constant_values=9)
    want = whole[max(-pads[0], 0) : len(whole) - max(-pads[1], 0)]
    (found,) = run("Pad", [x, np.array(pads, np.int64), np.float32(9)], fixed=(1,))
    np.testing.assert_array_equal(found, want)
    with pytest.raises(VknnError, match="crops"):
        run("Pad", [x, np.array([1, -4], np.int64)], fixed=(1,))
