"""Models that suppress boxes, against the words of the format, box by box."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import number_feature, session, suppression
from tests.formats.coreml.suppressions import OUTPUTS, check, expected, found
from tests.formats.coreml.test_non_max_suppression import some

from vknn.errors import InputError, ModelFormatError, OutOfMemoryError, ShapeError


@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize(("count", "classes"), [(1, 1), (13, 1), (29, 3), (61, 7)])
@pytest.mark.parametrize(("iou", "least"), [(0.3, 0.25), (0.5, 0.8), (0.0, 0.0), (1.0, 0.6)])
def test_boxes(by_class: bool, count: int, classes: int, iou: float, least: float) -> None:
    (boxes,), (scores,) = some(1, count, classes)
    message = suppression(by_class=by_class, iouThreshold=iou, confidenceThreshold=least)
    made = check(message, boxes, scores, iou, least, by_class)
    if count > 20 and iou < 1:
        assert 0 < len(made["confidence"]) < count


def test_nothing_to_choose_from() -> None:
    (boxes,), (scores,) = some(1, 11, 3)
    for by_class in (False, True):
        message = suppression(confidenceThreshold=1.5, by_class=by_class)
        made = check(message, boxes, scores, 0.5, 1.5, by_class)
        assert [made[name].shape for name in OUTPUTS] == [(0, 3), (0, 4)]
        made = found(message, {"scores": np.zeros((0, 3)), "boxes": np.zeros((0, 4))})
        assert [made[name].shape for name in OUTPUTS] == [(0, 3), (0, 4)]


@pytest.mark.parametrize("by_class", [False, True])
def test_confidences_that_are_no_numbers(by_class: bool) -> None:
    """A class that is NaN counts as none; minus infinity is below all thresholds."""
    (boxes,), (scores,) = some(1, 17, 3)
    scores[0] = np.nan
    scores[1, 0], scores[2, 1], scores[3, 2] = np.nan, np.nan, np.inf
    scores[4], scores[5, 1] = -np.inf, -np.inf
    for least in (0.0, 0.5):
        message = suppression(confidenceThreshold=least, by_class=by_class)
        made = check(message, boxes, scores, 0.5, least, by_class)
        assert made["confidence"][0, 2] == np.inf
        assert np.isnan(made["confidence"]).any()


@pytest.mark.parametrize("by_class", [False, True])
def test_coordinates_that_are_no_numbers_overlap_nothing(by_class: bool) -> None:
    boxes, scores = np.tile(np.float32([1, 2, 3, 4]), (6, 1)), np.full((6, 2), 0.5, np.float32)
    boxes[1, 0], boxes[2, 3], boxes[4, 2] = np.nan, np.inf, -np.inf
    message = suppression(by_class=by_class)
    made = check(message, boxes, scores, 0.5, 0.25, by_class)
    assert len(made["coordinates"]) == 4
    boxes[:, 2:] = 0.0  # boxes without an area, too
    assert len(found(message, {"scores": scores, "boxes": boxes})["confidence"]) == 6


def test_of_equal_confidences_the_first_stays_and_goes_first() -> None:
    boxes = np.float32([[9 * (i % 3), 0, 2, 2] for i in range(7)])
    scores = np.tile(np.float32([0.5, 0.75]), (7, 1))
    for by_class in (False, True):
        made = check(suppression(by_class=by_class), boxes, scores, 0.5, 0.25, by_class)
        assert made["coordinates"][:, 0].tolist() == [0, 9, 18]


def test_equality() -> None:
    """A confidence equal to the threshold counts; an overlap equal to it suppresses nothing."""
    boxes = np.float32([[0, 0, 2, 2], [1, 0, 2, 2]])  # a third of both is shared
    scores = np.float32([[0.5], [0.75]])
    for iou, count in ((float(np.float32(1) / np.float32(3)), 2), (0.333, 1)):
        message = suppression(iouThreshold=iou, confidenceThreshold=0.5)
        assert len(check(message, boxes, scores, iou, 0.5, True)["confidence"]) == count


@pytest.mark.parametrize("described", [False, True])
def test_thresholds_as_inputs(described: bool) -> None:
    """They may be left out, whether or not the description knows them."""
    names = {"iouThresholdInputFeatureName": "iou", "confidenceThresholdInputFeatureName": "least"}
    message = suppression(iouThreshold=0.125, confidenceThreshold=0.5, **names)
    if described:
        message.description.input.extend([number_feature("iou"), number_feature("least", True)])
    (boxes,), (scores,) = some(1, 31, 3)
    feeds = {"scores": scores, "boxes": boxes}
    counts = set()
    for iou, least in ((None, None), (0.75, None), (None, 0.875), (0.5, 0.75), (1, 0)):
        given = {"iou": iou, "least": least}
        own = {n: v for n, v in given.items() if v is not None}
        made = found(message, feeds | own)
        wanted = expected(boxes, scores, 0.125 if iou is None else iou,
                          0.5 if least is None else least, True)  # fmt: skip
        np.testing.assert_array_equal(made["coordinates"], wanted["coordinates"])
        counts.add(len(made["coordinates"]))
    assert len(counts) == 5
    with session(message) as s:
        assert [spec.name for spec in s.inputs] == ["scores", "boxes", "iou", "least"]
        # One session, one value after another.
        again = [len(s.run({**feeds, "iou": i})["confidence"]) for i in (1.0, 0.125, 1.0)]
        assert again[0] == again[2] > again[1]
        for wrong in (math.nan, -0.5, math.inf, [0.5, 0.5], "x"):
            with pytest.raises(InputError, match="'least'"):
                s.run({**feeds, "least": wrong})


@pytest.mark.parametrize(
    ("boxes_shape", "scores_shape"),
    [((1, 12, 4), (1, 12, 3)), ((1, 1, 1, 12, 4), (1, 1, 1, 12, 3)),
     ((1, 1, 12, 1, 4), (1, 1, 12, 1, 3)), ((1, 12, 4, 1, 1), (12, 3))],
)  # fmt: skip
def test_axes_of_size_1(boxes_shape: tuple[int, ...], scores_shape: tuple[int, ...]) -> None:
    (boxes,), (scores,) = some(1, 12, 3)
    wanted = expected(boxes, scores, 0.5, 0.25, True)
    feeds = {"scores": scores.reshape(scores_shape), "boxes": boxes.reshape(boxes_shape)}
    for declared in (None, {"scores": (12, 3), "boxes": (12, 4)}):
        made = found(suppression(declared), feeds)
        for name in OUTPUTS:
            np.testing.assert_array_equal(made[name], wanted[name])


@pytest.mark.parametrize(
    ("boxes", "scores", "shape"),
    [((4,), (3,), (1, 3)), ((1, 1, 4, 1, 1), (1, 1, 3, 1, 1), (1, 3)), ((1, 4), (1,), (1, 1)),
     ((2, 4), (2,), (2, 1)), ((1, 1, 2, 1, 4), (1, 1, 2, 1, 1), (2, 1)), ((4, 4), (4, 1), (4, 1))],
)  # fmt: skip
def test_one_box_or_one_class(
    boxes: tuple[int, ...], scores: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    feeds = {"scores": np.ones(scores), "boxes": np.arange(1, 1 + math.prod(boxes)).reshape(boxes)}
    assert found(suppression(iouThreshold=1), feeds)["confidence"].shape == shape


@pytest.mark.parametrize(
    ("boxes", "scores", "named"),
    [((4, 5), (5, 3), "boxes"), ((5, 4), (4, 3), "scores"), ((2, 5, 4), (2, 5, 3), "boxes"),
     ((5,), (5,), "boxes"), ((5, 4), (3, 5), "scores"), ((4, 1), (1, 3), "boxes"),
     ((5, 4), (5, 0), "scores"), ((5, 4), (1, 5), "scores"), ((), (1,), "boxes")],
)  # fmt: skip
def test_shapes_that_are_no_boxes(
    boxes: tuple[int, ...], scores: tuple[int, ...], named: str
) -> None:
    with session(suppression()) as s, pytest.raises(InputError, match=f"'{named}' has the shape"):
        s.run({"scores": np.ones(scores), "boxes": np.ones(boxes)})


def test_declared_shapes_are_checked() -> None:
    message = suppression({"scores": (12, 3), "boxes": (12, 4)})
    with session(message) as s:
        assert [spec.shape for spec in s.inputs] == [(12, 3), (12, 4)]
        assert [spec.shape for spec in s.outputs] == [(None, 3), (None, 4)]
        with pytest.raises(InputError, match=r"\[11, 3\], the model takes \[12, 3\]"):
            s.run({"scores": np.ones((11, 3)), "boxes": np.ones((11, 4))})


def bounded(low: int, high: int, name: str = "confidence", columns: int = 3) -> Any:
    """A model whose output has from ``low`` to ``high`` rows."""
    message = suppression()
    for feature in message.description.output:
        if feature.name == name:
            for ends in ((low, high), (columns, columns)):
                feature.type.multiArrayType.shapeRange.sizeRanges.add(
                    lowerBound=ends[0], upperBound=ends[1]
                )
    return message


@pytest.mark.parametrize(
    ("low", "high"), [(0, -1), (0, 2), (1, 1), (0, 0), (9, 9), (7, -1), (40, 50)]
)
def test_bounds_of_the_number_of_rows(low: int, high: int) -> None:
    """Rows behind the last box are zeros; of too many boxes the best stay."""
    (boxes,), (scores,) = some(1, 23, 3)
    wanted = expected(boxes, scores, 0.5, 0.25, True)
    own = len(wanted["confidence"])
    rows = max(min(own, high if high >= 0 else own), low)
    for name, columns in (("confidence", 3), ("coordinates", 4)):
        made = found(bounded(low, high, name, columns), {"scores": scores, "boxes": boxes})
        for each in OUTPUTS:
            assert len(made[each]) == rows
            np.testing.assert_array_equal(made[each][:own], wanted[each][:rows])
            assert not made[each][own:].any()
        empty = found(bounded(low, high, name, columns),
                      {"scores": np.ones((0, 3)), "boxes": np.ones((0, 4))})  # fmt: skip
        assert [empty[n].shape for n in OUTPUTS] == [(low, 3), (low, 4)]
        assert not empty["confidence"].any()


def test_a_fixed_number_of_rows() -> None:
    (boxes,), (scores,) = some(1, 23, 3)
    message = suppression()
    message.description.output[1].type.multiArrayType.shape.extend((5, 4))
    with session(message) as s:
        assert [spec.shape for spec in s.outputs] == [(5, None), (5, 4)]
        assert s.run({"scores": scores, "boxes": boxes})["confidence"].shape == (5, 3)
    several = message.description.output[0].type.multiArrayType.enumeratedShapes.shapes
    several.add(shape=(1, 3))
    several.add(shape=(4, 3))
    with pytest.raises(ModelFormatError, match="5 rows or more and 4 or fewer"):
        session(message)


@pytest.mark.parametrize("rows", [1 << 26, 1 << 30, 1 << 62])
def test_absurd_numbers_of_rows(rows: int) -> None:
    (boxes,), (scores,) = some(1, 5, 3)
    for count in (0, 5):
        feeds = {"scores": scores[:count], "boxes": boxes[:count]}
        message, errors = bounded(rows, -1), (OutOfMemoryError, ShapeError)
        with session(message, memory_limit="64MB") as s, pytest.raises(errors):
            s.run(feeds)
