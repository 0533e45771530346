"""Drawings: what is drawn is where the answer says, and text can be read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vknn.answers import Answer, Found, Point, Score, Share, draw
from vknn.answers.drawing import _ink, colour_of, drawable
from vknn.errors import VknnError

Image = pytest.importorskip("PIL.Image")
ImageFont = pytest.importorskip("PIL.ImageFont")


def pixels(answer: Answer, size: tuple[int, int] = (400, 300), ground: int = 128) -> np.ndarray:
    return np.asarray(draw(Image.new("RGB", size, (ground,) * 3), answer))


def thing(box: tuple[float, float, float, float], label: str | None = None) -> Found:
    return Found(3, label, 0.875, box)


@pytest.mark.parametrize("ground", [0, 128, 255])
def test_a_box_is_where_it_is_said_to_be(ground: int) -> None:
    found = pixels(Answer("detection", (400, 300), (thing((100, 120, 201, 221)),)), ground=ground)
    coloured = (found == colour_of(3)).all(axis=2)
    rows, columns = np.nonzero(coloured)
    assert (columns.min(), columns.max(), rows.max()) == (100, 200, 220)
    assert (found[150:180, 130:180] == ground).all()
    assert coloured[170, 100] and coloured[170, 200] and coloured[220, 150]


@pytest.mark.parametrize("number", range(40))
def test_text_stands_on_a_ground_that_it_can_be_read_on(number: int) -> None:
    """A contrast of at least 4.5, as the Web's guidelines have it."""

    def light(colour: tuple[int, int, int]) -> float:
        parts = [c / 255 / 12.92 if c < 11 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    ground = colour_of(number)
    bright, dark = sorted((light(ground), light(_ink(ground))), reverse=True)
    assert (bright + 0.05) / (dark + 0.05) >= 4.4


def test_labels_stay_in_the_picture() -> None:
    """A label of a box at an edge is wholly seen: as much of its ground as in the middle."""

    def ground(box: tuple[float, float, float, float]) -> int:
        found = pixels(Answer("detection", (400, 300), (Found(3, "label", 0.5, box),)))
        return int((found == _ink(colour_of(3))).all(axis=2)[:, :].sum())

    middle = ground((150, 150, 151, 151))
    for box in ((0, 0, 1, 1), (399, 0, 400, 1), (399, 299, 400, 300), (0, 299, 1, 300)):
        assert ground(box) == pytest.approx(middle, abs=20)  # the boxes' own black edges


@pytest.mark.parametrize("label", ["猫", "кот", "löwe", "a\nb\tc", "\u202e\0", "x" * 500, "🐈", ""])
@pytest.mark.parametrize("size", [(1, 1), (1, 500), (500, 1), (40, 30)])
def test_any_label_on_any_picture(label: str, size: tuple[int, int]) -> None:
    found = Found(3, label, 0.5, (0, 0, *map(float, size)), (Point(0, 0), Point(1e9, -1e9)))
    scores = (Score("o", 1, label, 0.5),) * 40
    drawn = draw(Image.new("RGB", size), Answer("detection", size, (found,), scores))
    assert drawn.mode == "RGB"
    assert drawn.width * size[1] == drawn.height * size[0]


def test_letters_that_the_font_lacks() -> None:
    font = ImageFont.load_default(20)
    assert drawable("cat é, löwe: 猫\n", font) == "cat e, lowe: ? "
    old = ImageFont.ImageFont()
    assert drawable("löwe 猫", old) == "löwe ?"


def test_a_font_of_ones_own(tmp_path: Path) -> None:
    bad = tmp_path / "bad.ttf"
    bad.write_text("none")
    with pytest.raises(VknnError, match=r"bad\.ttf cannot be read as a font"):
        draw(Image.new("RGB", (9, 9)), Answer("detection", (9, 9)), bad)


def test_small_pictures_are_made_larger() -> None:
    found = pixels(Answer("detection", (10, 5), (thing((2, 1, 8, 4)),)), (10, 5))
    assert found.shape == (160, 320, 3)
    rows, columns = np.nonzero((found == colour_of(3)).all(axis=2))
    assert (columns.min(), rows.max()) == (2 * 32, 4 * 32 - 1)


def test_masks_colour_all_but_the_background() -> None:
    mask = np.zeros((300, 400), np.int32)
    mask[200:, 300:] = 5
    shares = (Share(0, "ground", 110000, 11 / 12), Share(5, "cat", 10000, 1 / 12))
    found = pixels(Answer("segmentation", (400, 300), shares=shares, mask=mask))
    assert (found[200:, :300] == 128).all()
    expected = np.rint(0.45 * 128 + 0.55 * np.array(colour_of(5)))
    assert np.abs(found[200:, 300:] - expected).max() <= 1
    assert (found[:16, :30] == colour_of(0)).all(axis=2).any()  # the legend


def test_keypoints_that_are_unsure_are_not_drawn() -> None:
    points = (Point(100, 100, 0.9), Point(200, 100, 0.9), Point(100, 250, 0.1), Point(50, 50))
    person = Found(None, "person", 0.9, None, points)
    answer = Answer("keypoints", (400, 300), (person,), skeleton=((0, 1), (0, 2)), threshold=0.3)
    found = pixels(answer)
    assert tuple(found[100, 100]) == colour_of(0)
    assert tuple(found[50, 50]) == colour_of(3)
    assert tuple(found[100, 150]) == colour_of(None)  # the line between
    assert (found[200:] == 128).all()


def test_scores_are_written_and_pictures_are_given() -> None:
    scores = tuple(Score("o", n, f"class {n}", 0.5) for n in range(3))
    found = pixels(Answer("classification", (400, 300), scores=scores))
    for n in range(3):
        assert (found[:80, :120] == colour_of(n)).all(axis=2).sum() > 200
    image = np.random.default_rng(0).integers(0, 256, (7, 5, 3), np.uint8)
    made = draw(Image.new("RGB", (3, 3)), Answer("image", (3, 3), image=image))
    assert np.array_equal(np.asarray(made), image)


def test_the_picture_itself_stays_as_it_is() -> None:
    picture = Image.new("RGBA", (400, 300), (0, 0, 0, 0))
    found = draw(picture, Answer("detection", (400, 300), (thing((1, 2, 30, 40)),)))
    assert np.asarray(picture).max() == 0
    assert found.getpixel((399, 299)) == (255, 255, 255)
