"""Decoders of masks, pictures and scores, against pixels worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from tests.answers.readings import answered, recipe, same_place

from vknn.answers import Placement
from vknn.answers.regions import connected
from vknn.errors import VknnError


def test_the_best_class_of_each_pixel() -> None:
    scores = np.zeros((3, 2, 2), np.float32)
    scores[2, 0, 1] = scores[1, 1, 1] = 1
    scores[1, 0, 0] = np.nan
    made = recipe("segmentation", map="m", labels=["ground", "cat"])
    found = answered(made, {"m": scores[None]}, same_place(2, 2))
    assert found.mask is not None
    assert found.mask.tolist() == [[0, 2], [0, 1]]
    assert [(s.text, s.pixels, s.share) for s in found.shares] == [
        ("ground", 2, 0.5), ("cat", 1, 0.25), ("2", 1, 0.25),
    ]  # fmt: skip
    last = recipe("segmentation", map="m", layout="hwc")
    again = answered(last, {"m": scores.transpose(1, 2, 0)[None]}, same_place(2, 2))
    assert again.mask is not None
    assert again.mask.tolist() == found.mask.tolist()
    assert found.to_json()["classes"][2] == {"class": 2, "label": None, "pixels": 1, "share": 0.25}


def test_class_numbers_of_a_padded_picture() -> None:
    """A picture of 8x4 in an input of 4x4: its rows 1 and 2."""
    numbers = np.array([[9] * 4, [1, 1, 2, 2], [3, 3, 4, 4], [9] * 4], np.int64)
    place = Placement((8, 4), (4, 4), (0.5, 0.5), (0.0, 1.0))
    found = answered(recipe("segmentation", map="m"), {"m": numbers[None]}, place)
    assert found.mask is not None
    assert found.mask.tolist() == [[1] * 4 + [2] * 4] * 2 + [[3] * 4 + [4] * 4] * 2


def test_one_channel_is_a_probability() -> None:
    plane = np.array([[0.9, 0.1], [0.5, np.nan]], np.float32)
    made = recipe("segmentation", map="m", threshold=0.5)
    found = answered(made, {"m": plane[None, :, :, None]}, same_place(2, 2))  # chw: 2 channels
    assert found.mask is not None
    found = answered(made, {"m": plane}, same_place(2, 2))
    assert found.mask is not None
    assert found.mask.tolist() == [[1, 0], [1, 0]]


def test_small_maps_are_made_smooth() -> None:
    scores = np.zeros((2, 2, 2), np.float32)
    scores[0], scores[1, :, 1] = 0.5, 1
    found = answered(recipe("segmentation", map="m"), {"m": scores}, same_place(40, 40))
    assert found.mask is not None
    assert found.mask[7].tolist() == [0] * 20 + [1] * 20
    single = answered(recipe("segmentation", map="m"), {"m": scores}, same_place(1, 1))
    assert single.mask is not None
    assert single.mask.shape == (1, 1)


def test_regions_hang_together_as_a_flood_finds_them() -> None:
    there = np.random.default_rng(5).uniform(size=(37, 41)) > 0.6
    numbers, count = connected(there)
    expected = np.zeros(there.shape, int)
    regions = 0
    for start in zip(*np.nonzero(there), strict=True):
        if expected[start]:
            continue
        regions += 1
        left = [start]
        while left:
            y, x = left.pop()
            inside = 0 <= y < 37 and 0 <= x < 41
            if inside and there[y, x] and not expected[y, x]:
                expected[y, x] = regions
                left += [(y + a, x + b) for a in (-1, 0, 1) for b in (-1, 0, 1)]
    assert count == regions > 20
    pairs = {(int(a), int(b)) for a, b in zip(numbers.flat, expected.flat, strict=True)}
    assert len(pairs) == regions + 1
    assert connected(np.zeros((3, 3), bool))[1] == 0
    assert connected(np.ones((1, 1), bool))[1] == 1


def test_pictures() -> None:
    planes = np.zeros((1, 3, 2, 4), np.float32)
    planes[0, 0], planes[0, 2] = 1, -5
    planes[0, 1, 0, 0], planes[0, 1, 0, 1], planes[0, 1, 0, 2] = np.nan, np.inf, 0.5
    made = recipe("image", image="o", std=[255])
    found = answered(made, {"o": planes}, same_place(4, 2))
    assert found.image is not None
    assert found.image[0].tolist() == [[255, 0, 0], [255, 255, 0], [255, 128, 0], [255, 0, 0]]
    turned = recipe("image", image="o", std=[255], channels="bgr", layout="hwc")
    found = answered(turned, {"o": planes.transpose(0, 2, 3, 1)}, same_place(4, 2))
    assert found.image is not None
    assert found.image[1, 1].tolist() == [0, 0, 255]
    gray = answered(recipe("image", image="o", mean=[7]), {"o": planes[0, 0]}, same_place(4, 2))
    assert gray.image is not None
    assert gray.image.tolist() == [[[8] * 3] * 4] * 2
    assert gray.to_json() == {"task": "image", "picture": [4, 2], "image": [4, 2]}
    assert str(gray) == "a picture of 4x2"


def test_pictures_in_their_size() -> None:
    planes = np.zeros((3, 8, 8), np.float32)
    planes[:, 2:6] = 200
    padded = Placement((8, 4), (4, 4), (0.5, 0.5), (0.0, 1.0))
    cut = answered(recipe("image", image="o"), {"o": planes}, padded).image
    assert cut is not None
    assert cut.shape == (4, 8, 3)
    assert cut.min() == 200
    larger = answered(recipe("image", image="o", scale=3), {"o": planes}, padded).image
    assert larger is not None
    assert larger.shape == (12, 24, 3)
    single = Placement((1, 1), (8, 8), (8.0, 8.0), (0.0, 0.0))
    small = answered(recipe("image", image="o", scale=1), {"o": planes}, single).image
    assert small is not None
    assert small.shape == (1, 1, 3)
    made, place = recipe("image", image="o", scale=2), same_place(30000, 1)
    with pytest.raises(VknnError, match="would have sides"):
        answered(made, {"o": planes}, place)


def test_scores() -> None:
    made = recipe("classification", labels=["a", "b"], most=3)
    found = answered(made, {"o": [[0.1, 0.5, np.nan, 0.4]], "map": np.zeros((2, 2))})
    assert [(s.output, s.text, round(s.score, 3)) for s in found.scores] == [
        ("o", "b", 0.5), ("o", "3", 0.4), ("o", "a", 0.1),
    ]  # fmt: skip
    assert str(found) == "b 0.5, 3 0.4, a 0.1"
    soft = recipe("classification", outputs=["o"], activation="softmax", most=1)
    assert answered(soft, {"o": np.log([1.0, 3.0])}).scores[0].score == pytest.approx(0.75)
    named = answered(
        recipe("classification"), {"o": {"cat": 0.2, 7: 0.8}, "label": np.array("cat")}
    )
    assert [(s.label, s.score) for s in named.scores] == [("7", 0.8), ("cat", 0.2)]
    assert found.to_json()["scores"][1] == {
        "output": "o", "class": 3, "label": None, "score": pytest.approx(0.4),
    }  # fmt: skip


def test_labels_for_each_output() -> None:
    made = recipe("classification", labels={"a": ["x", "y"]}, most=1)
    found = answered(made, {"a": [0, 1], "b": [0, 1]})
    assert [s.text for s in found.scores] == ["y", "1"]


@pytest.mark.parametrize(
    "task, members, outputs",
    [
        ("segmentation", {"map": "o"}, {"o": np.zeros((2, 3, 4, 5))}),
        ("segmentation", {"map": "o"}, {"o": np.zeros((0, 3, 4))}),
        ("image", {"image": "o"}, {"o": np.zeros((2, 3, 4))}),
        ("image", {"image": "o", "mean": [1, 2, 3]}, {"o": np.zeros((3, 4))}),
        ("classification", {"outputs": ["o"]}, {"o": np.zeros((3, 4))}),
        ("classification", {"outputs": ["o"]}, {"o": np.zeros(0)}),
    ],
)
def test_outputs_that_do_not_fit(task: str, members: dict, outputs: dict) -> None:
    with pytest.raises(VknnError, match="output 'o' has the shape"):
        answered(recipe(task, **members), outputs)
    with pytest.raises(VknnError, match="wants an output 'o'; the model has p"):
        answered(recipe(task, **members), {"p": np.zeros(3)})
