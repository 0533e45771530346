"""Decoders of keypoints, against places worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from tests.answers.readings import answered, recipe, same_place

from vknn.answers import Placement
from vknn.errors import VknnError


def test_peaks_move_towards_the_larger_neighbour() -> None:
    maps = np.zeros((2, 4, 5), np.float32)
    maps[0, 2, 3], maps[0, 2, 2], maps[0, 3, 3] = 0.9, 0.5, 0.25
    maps[1, 0, 0], maps[1, 0, 1] = 0.8, 0.7  # at the edge nothing moves
    made = recipe("keypoints", heatmaps="m", names=["a", "b"], skeleton=[[0, 1]])
    found = answered(made, {"m": maps[None]}, same_place(50, 40))
    (thing,) = found.found
    assert [(p.name, p.x, p.y) for p in thing.points] == [("a", 32.5, 27.5), ("b", 5, 5)]
    assert [p.score for p in thing.points] == pytest.approx([0.9, 0.8])
    assert thing.score == pytest.approx(0.85)
    assert (thing.number, thing.box, found.skeleton) == (None, None, ((0, 1),))


def test_unsure_points_stay_and_do_not_count() -> None:
    maps = np.zeros((3, 3, 3), np.float32)
    maps[0, 1, 1], maps[1, 1, 1] = 0.9, 0.1
    maps[2] = np.nan
    made = recipe("keypoints", heatmaps="m", first=0, count=2, threshold=0.3)
    found = answered(made, {"m": maps}, same_place(30, 30))
    assert found.found[0].score == pytest.approx(0.9)
    assert [p.score for p in found.found[0].points] == pytest.approx([0.9, 0.1])
    assert answered(made, {"m": maps * 0.1}, same_place(30, 30)).found == ()
    assert answered(made, {"m": np.full_like(maps, np.nan)}, same_place(30, 30)).found == ()


def test_some_maps_of_channels_last_come_back_to_the_picture() -> None:
    maps = np.zeros((1, 2, 2, 4), np.float32)
    maps[0, 1, 0, 2] = 0.9
    place = Placement((200, 100), (40, 40), (0.2, 0.2), (0.0, 10.0))
    made = recipe("keypoints", heatmaps="m", layout="hwc", first=2, count=1)
    (thing,) = answered(made, {"m": maps}, place).found
    assert [(p.x, p.y) for p in thing.points] == [(50, 100)]  # (10, 30) of the input


def test_offsets() -> None:
    """PoseNet: stride 16 for an input of 33, and corners at corners."""
    maps = np.full((2, 3, 3), -9, np.float32)
    maps[1, 2, 1] = 9
    moves = np.zeros((4, 3, 3), np.float32)
    moves[1, 2, 1], moves[3, 2, 1] = -3, 5
    made = recipe("keypoints", heatmaps="m", first=1, offsets="o", activation="sigmoid")
    (thing,) = answered(made, {"m": maps, "o": moves}, same_place(33, 33)).found
    assert [(p.x, p.y) for p in thing.points] == [(16 + 5, 32 - 3)]
    assert thing.score == pytest.approx(1 / (1 + np.exp(-9)))


def test_offsets_that_are_logits() -> None:
    """OpenSeeFace: an input of 33 x 25 and 5 x 4 cells, with the first and last at the corners."""
    maps = np.full((1, 6, 4, 5), 0.5, np.float32)
    maps[0, :2] = 0
    maps[0, 0, 2, 3], maps[0, 1, 0, 0] = 0.9, 0.8
    maps[0, 2, 2, 3] = 1 / (1 + np.exp(-2))  # of the first point's row
    maps[0, 5, 0, 0] = 1 / (1 + np.exp(1))  # of the second one's column
    made = recipe("keypoints", kind="logits", heatmaps="m", count=2, factor=8)
    (thing,) = answered(made, {"m": maps}, same_place(33, 25)).found
    found = [(p.x, p.y) for p in thing.points]
    assert found == [pytest.approx((24, 16 + 24 * 2 / 8)), pytest.approx((-32 / 8, 0), abs=1e-5)]
    assert [p.score for p in thing.points] == pytest.approx([0.9, 0.8])
    sure = np.where(maps == 0.5, np.float32(1), maps)  # ln(1 / 0): far, and no error
    assert len(answered(made, {"m": sure}, same_place(33, 25)).found) == 1
    with pytest.raises(VknnError, match="3 x 2 maps"):
        answered(made, {"m": maps[:, :5]}, same_place(33, 25))


@pytest.mark.parametrize("columns", [2, 3])
def test_coordinates(columns: int) -> None:
    pairs = np.zeros((2, columns), np.float32)
    pairs[:, :2] = [(0.25, 0.5), (1, 0)]
    made = recipe("keypoints", "points", points="p", count=2)
    (thing,) = answered(made, {"p": pairs.reshape(1, -1, 1, 1)}, same_place(40, 80)).found
    assert [(p.x, p.y) for p in thing.points] == [(10, 40), (40, 0)]
    sure = recipe(
        "keypoints", "points", points="p", count=2, units="pixels", score="s", activation="sigmoid"
    )
    (thing,) = answered(sure, {"p": 8 * pairs, "s": [[4]]}, same_place(40, 80)).found
    assert [(p.x, p.y) for p in thing.points] == [(2, 4), (8, 0)]
    assert thing.score == pytest.approx(1 / (1 + np.exp(-4)))
    assert answered(sure, {"p": 8 * pairs, "s": [[-4]]}, same_place(40, 80)).found == ()


def test_json() -> None:
    maps = np.zeros((1, 1, 1), np.float32) + 0.5
    made = recipe("keypoints", heatmaps="m", names=["nose"], labels=["person"])
    found = answered(made, {"m": maps}, same_place(1, 1))
    assert found.to_json() == {
        "task": "keypoints",
        "picture": [1, 1],
        "found": [
            {"class": None, "label": "person", "score": 0.5,
             "points": [{"name": "nose", "x": 0.5, "y": 0.5, "score": 0.5}]},
        ],
    }  # fmt: skip
    assert str(found) == "person 0.50 with 1 points"


@pytest.mark.parametrize(
    "members, outputs",
    [
        ({"heatmaps": "o", "count": 4}, {"o": np.zeros((3, 2, 2))}),
        ({"heatmaps": "o"}, {"o": np.zeros((0, 2, 2))}),
        ({"heatmaps": "m", "offsets": "o"}, {"m": np.ones((3, 2, 2)), "o": np.zeros((5, 2, 2))}),
        ({"kind": "points", "points": "o", "count": 3}, {"o": np.zeros(7)}),
        ({"kind": "points", "points": "p", "count": 1, "score": "o"},
         {"p": np.zeros(2), "o": np.zeros(2)}),
    ],
)  # fmt: skip
def test_outputs_that_do_not_fit(members: dict, outputs: dict) -> None:
    with pytest.raises(VknnError, match="output 'o' has the shape"):
        answered(recipe("keypoints", **members), outputs)
