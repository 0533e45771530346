"""Decoders of detections, against boxes worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.answers.readings import answered, recipe

from vknn.answers import Answer, Placement
from vknn.errors import VknnError


def boxes_of(answer: Answer) -> list[tuple[float, ...]]:
    return [tuple(round(side, 3) for side in thing.box or ()) for thing in answer.found]


def logit(p: float) -> float:
    return math.log(p / (1 - p))


ROWS = {"rows": "out", "class": 1, "score": 2, "box": 3, "picture": 0}


def test_rows_end_where_the_picture_is_below_zero() -> None:
    rows = [(0, 3, 0.9, 0.1, 0.2, 0.5, 0.6), (-1, 1, 0.9, 0, 0, 1, 1), (0, 1, 0.9, 0, 0, 1, 1)]
    found = answered(recipe("detection", "rows", **ROWS), {"out": [[rows]]})
    assert boxes_of(found) == [(10, 20, 50, 60)]
    assert (found.found[0].number, found.found[0].label) == (3, None)


def test_rows_of_ncnn_and_of_nothing() -> None:
    made = recipe("detection", "rows", rows="out", labels=["a", "b"])
    found = answered(made, {"out": [(1, 0.7, 0, 0, 0.5, 0.25)]})
    assert boxes_of(found) == [(0, 0, 50, 25)]
    assert found.found[0].label == "b"
    assert answered(made, {"out": np.zeros((0, 6), np.float32)}).found == ()
    assert answered(made, {"out": np.zeros(0, np.float32)}).found == ()


def test_labels_fewer_than_classes() -> None:
    made = recipe("detection", "rows", rows="out", labels=["a"])
    rows = [(0, 0.9, 0, 0, 1, 1), (7, 0.8, 0, 0, 1, 1), (-2, 0.7, 0, 0, 1, 1)]
    found = answered(made, {"out": rows})
    assert [thing.text for thing in found.found] == ["a", "7", "-2"]
    assert str(found).startswith("a 0.90 at 0,0,100,100; 7 0.80")


def test_the_four_outputs_of_post_processing() -> None:
    made = recipe("detection", "post-process", outputs=["b", "c", "s", "n"])
    outputs = {
        "b": [[(0.1, 0.2, 0.3, 0.4), (0, 0, 1, 1), (0, 0, 0.5, 0.5)]],
        "c": [[2, 0, 1]], "s": [[0.9, 0.8, 0.7]], "n": [2],
    }  # fmt: skip
    found = answered(made, outputs)
    assert boxes_of(found) == [(20, 10, 40, 30), (0, 0, 100, 100)]
    assert [thing.number for thing in found.found] == [2, 0]
    for count in (np.nan, -1):
        assert answered(made, {**outputs, "n": [count]}).found == ()
    assert len(answered(made, {**outputs, "n": [1e9]}).found) == 3


@pytest.mark.parametrize(
    "form, numbers",
    [
        ("xyxy", (0.1, 0.2, 0.5, 0.8)), ("yxyx", (0.2, 0.1, 0.8, 0.5)),
        ("xywh", (0.1, 0.2, 0.4, 0.6)), ("cxcywh", (0.3, 0.5, 0.4, 0.6)),
    ],
)  # fmt: skip
def test_boxes_of_all_forms(form: str, numbers: tuple[float, ...]) -> None:
    made = recipe("detection", "boxes", boxes="b", scores="s", format=form)
    found = answered(made, {"b": [numbers], "s": [(0.1, 0.7, 0.2)]})
    assert boxes_of(found) == [(10, 20, 50, 80)]
    assert found.found[0].number == 1
    assert found.found[0].score == pytest.approx(0.7)
    pixels = recipe("detection", "boxes", boxes="b", scores="s", format=form, units="pixels")
    found = answered(pixels, {"b": [[100 * n for n in numbers]], "s": [(0.1, 0.7, 0.2)]})
    assert boxes_of(found) == [(10, 20, 50, 80)]


def test_scores_behind_boxes_in_columns() -> None:
    """The output of newer YOLO networks: [4 + classes, n]."""
    made = recipe("detection", "boxes", boxes="o", format="cxcywh", units="pixels", transposed=True)
    rows = np.array([(50, 50, 20, 10, 0.1, 0.9), (51, 50, 20, 10, 0.1, 0.8), (9, 9, 2, 2, 0.6, 0)])
    found = answered(made, {"o": rows.T[None].astype(np.float32)})
    assert boxes_of(found) == [(40, 45, 60, 55), (8, 8, 10, 10)]
    assert [thing.number for thing in found.found] == [1, 0]


def test_background_and_activations() -> None:
    common = {"boxes": "b", "scores": "s", "background": 0}
    box = [(0, 0, 1, 1)]
    plain = answered(recipe("detection", "boxes", **common), {"b": box, "s": [(0.99, 0.6, 0.1)]})
    assert [(t.number, round(t.score, 3)) for t in plain.found] == [(1, 0.6)]
    soft = recipe("detection", "boxes", **common, activation="softmax", threshold=0.1)
    found = answered(soft, {"b": box, "s": [(0, math.log(2), 0)]}).found
    assert [(t.number, round(t.score, 3)) for t in found] == [(1, 0.5)]
    one = recipe("detection", "boxes", boxes="b", scores="s", activation="sigmoid")
    found = answered(one, {"b": box, "s": [[logit(0.75)]]}).found
    assert [(t.number, round(t.score, 3)) for t in found] == [(0, 0.75)]
    found = answered(one, {"b": box, "s": [[-1e30]]}).found
    assert found == ()


def test_priors_of_ssd() -> None:
    """Two cells of stride 8 with two priors each, then one of stride 16."""
    levels = [{"stride": 8, "sizes": [4, [6, 2]]}, {"stride": 16, "sizes": [10]}]
    made = recipe("detection", "priors", boxes="b", scores="s", levels=levels, background=0)
    moves, scores = np.zeros((5, 4), np.float32), np.zeros((5, 2), np.float32)
    moves[2] = (1, -2, math.log(2) / 0.2, 0)  # the second cell's square
    scores[2, 1], scores[1, 1], scores[4, 1] = 0.9, 0.8, 0.7
    found = answered(made, {"b": moves[None], "s": scores[None]}, place_of(16, 8))
    assert boxes_of(found) == [
        (12 + 0.4 - 4, 1.2, 16, 1.2 + 4),  # twice as wide, cut at 16; 2 * 0.1 * 4 higher
        (1, 3, 7, 5),
        (3, 3, 13, 8),
    ]


def place_of(width: int, height: int) -> Placement:
    return Placement((width, height), (width, height), (1.0, 1.0), (0.0, 0.0))


def test_clipped_priors() -> None:
    levels = [{"stride": 16, "sizes": [40]}]
    common = {"boxes": "b", "scores": "s", "levels": levels}
    outputs = {"b": [(0, 10, 0, 0)], "s": [[1]]}
    place = Placement((100, 100), (16, 8), (1.0, 1.0), (0.0, 0.0))
    free = answered(recipe("detection", "priors", **common), outputs, place)
    clip = answered(recipe("detection", "priors", **common, clip=True), outputs, place)
    assert boxes_of(free) == [(0, 8 + 40 - 20, 28, 68)]
    assert boxes_of(clip) == [(0, 8 + 8 - 4, 16, 20)]


def test_offsets_in_pixels_with_points() -> None:
    made = recipe(
        "detection", "priors", coder="pixels", boxes="b", scores="s", activation="sigmoid",
        levels=[{"stride": 8, "count": 2}], points=1, names=["nose"],
    )  # fmt: skip
    moves = np.zeros((4, 6), np.float32)
    moves[3] = (1, 1, 6, 4, -2, 1)
    scores = np.full((4, 1), -9, np.float32)
    scores[3] = logit(0.75)
    (thing,) = answered(made, {"b": moves, "s": scores}, place_of(16, 8)).found
    assert thing.box == pytest.approx((10, 3, 16, 7))
    assert [(p.name, p.x, p.y) for p in thing.points] == [("nose", 10, 5)]
    assert thing.score == pytest.approx(0.75)


def test_distances() -> None:
    """The mean of a distribution over 0 to 3 strides, from the middle of a cell."""
    made = recipe("detection", "distances", levels=[{"stride": 8, "scores": "s", "distances": "d"}])
    bins = np.full((6, 4, 4), -50, np.float32)
    for side, (first, second) in enumerate([(1, 1), (0, 1), (1, 2), (0, 0)]):
        bins[4, side, first] = bins[4, side, second] = 50  # half each, or all in one
    scores = np.zeros((6, 3), np.float32)
    scores[4, 2] = 0.9
    found = answered(made, {"s": scores, "d": bins.reshape(6, 16)}, place_of(24, 16))
    assert boxes_of(found) == [(12 - 8, 12 - 4, 12 + 12, 12)]
    assert found.found[0].number == 2


@pytest.mark.parametrize("layout", ["chw", "hwc", "rows"])
@pytest.mark.parametrize("coder", ["v3", "v5"])
def test_yolo(coder: str, layout: str) -> None:
    levels = [{"stride": 16, "anchors": [[10, 20], [6, 4]]}, {"stride": 32, "anchors": [[32, 16]]}]
    first = np.full((2, 7, 2, 3), -20, np.float32)  # anchors, numbers, rows, columns
    first[1, :, 1, 2] = (0, logit(0.25), math.log(2) if coder == "v3" else logit(0.75),
                         0, logit(0.9), -9, logit(0.8))  # fmt: skip
    second = np.full((1, 7, 1, 2), -20, np.float32)
    maps = [first.reshape(14, 2, 3), second.reshape(7, 1, 2)]
    outputs = dict(zip("ab", maps, strict=True))
    if layout == "hwc":
        outputs = {n: a.transpose(1, 2, 0)[None] for n, a in outputs.items()}
    if layout == "rows":
        rows = [
            a.reshape(a.shape[0], 7, -1).transpose(0, 2, 1).reshape(-1, 7) for a in (first, second)
        ]
        outputs = {"a": np.concatenate(rows)[None]}
    made = recipe(
        "detection", "yolo", coder=coder, outputs=list(outputs), levels=levels,
        **({} if layout == "rows" else {"layout": layout}),
    )  # fmt: skip
    (thing,) = answered(made, outputs, place_of(48, 32)).found
    if coder == "v3":
        x, y, w, h = 16 * 2.5, 16 * 1.25, 12, 4
    else:
        x, y, w, h = 16 * 2.5, 16 * (2 * 0.25 - 0.5 + 1), 6 * 1.5**2, 4
    assert thing.box == pytest.approx((x - w / 2, y - h / 2, x + w / 2, y + h / 2), abs=1e-4)
    assert (thing.number, thing.score) == (1, pytest.approx(0.72, abs=1e-5))


def test_yolox() -> None:
    made = recipe(
        "detection", "yolo", coder="x", outputs=["o"], levels=[{"stride": 8}, {"stride": 16}]
    )
    rows = np.zeros((5, 7), np.float32)
    rows[1] = (0.5, 0.25, math.log(2), 0, 0.9, 0.8, 0.1)
    (thing,) = answered(made, {"o": rows[None]}, place_of(16, 16)).found
    assert thing.box == pytest.approx((12 - 8, 0, 16, 2 + 4), abs=1e-5)
    assert (thing.number, thing.score) == (0, pytest.approx(0.72))


def test_what_is_no_box_is_left_out() -> None:
    made = recipe("detection", "rows", rows="out")
    rows = [
        (0, np.nan, 0, 0, 1, 1), (0, 0.9, np.nan, 0, 1, 1), (0, 0.9, 0.5, 0.5, 0.5, 0.9),
        (0, 0.9, 0.8, 0.1, 0.2, 0.3), (0, 0.9, 1.5, 0, 1.9, 1), (0, 0.49, 0, 0, 1, 1),
        (np.inf, 0.9, 0, 0, 1, 1), (0, np.inf, 0, 0, 1, 1), (0, 0.6, -np.inf, 0, 1, 1),
    ]  # fmt: skip
    assert answered(made, {"out": rows}).found == ()
    over = answered(made, {"out": [(0, 0.5, -1, -1, 2, 0.5)]})
    assert boxes_of(over) == [(0, 0, 100, 50)]


def test_boxes_come_back_to_the_picture() -> None:
    """A picture of 200x100 in the middle of an input of 50x50."""
    place = Placement((200, 100), (50, 50), (0.25, 0.25), (0.0, 12.5))
    made = recipe("detection", "rows", rows="out")
    found = answered(made, {"out": [(0, 0.9, 0.5, 0.5, 1, 1), (0, 0.8, 0, 0, 1, 0.2)]}, place)
    assert boxes_of(found) == [(100, 50, 200, 100)]
    single = Placement((1, 1), (50, 50), (50.0, 50.0), (0.0, 0.0))
    assert boxes_of(answered(made, {"out": [(0, 0.9, 0, 0, 1, 1)]}, single)) == [(0, 0, 1, 1)]


def test_hundreds_of_boxes_are_cut() -> None:
    random = np.random.default_rng(0)
    rows = np.concatenate(
        [np.zeros((900, 1)), random.uniform(0.6, 1, (900, 1)), random.uniform(0, 0.4, (900, 2)),
         random.uniform(0.6, 1, (900, 2))], axis=1,
    )  # fmt: skip
    found = answered(recipe("detection", "rows", rows="out", most=37), {"out": rows})
    scores = [thing.score for thing in found.found]
    assert len(scores) == 37
    assert scores == sorted(rows[:, 1].tolist(), reverse=True)[:37]


def test_regions() -> None:
    plane = np.zeros((20, 30), np.float32)
    plane[2:6, 3:13] = 0.8
    plane[6, 13] = 0.7  # touches at a corner
    plane[10:12, 5:8] = 0.9  # too small
    plane[12:18, 20:22] = plane[12:14, 22:28] = plane[16:18, 22:28] = plane[12:18, 26:28] = 0.5
    made = recipe("detection", "regions", map="m", labels=["text"], threshold=0.4)
    found = answered(made, {"m": plane[None]}, place_of(60, 40))
    assert boxes_of(found) == [(6, 4, 28, 14), (40, 24, 56, 36)]
    assert found.found[0].score == pytest.approx((40 * 0.8 + 0.7) / 41)
    grown = recipe("detection", "regions", map="m", threshold=0.4, grow=1.0)
    first = answered(grown, {"m": plane[None]}, place_of(30, 20)).found[0]
    step = 11 * 5 / (2 * (11 + 5))
    assert first.box == pytest.approx((3 - step, max(0, 2 - step), 14 + step, 7 + step))
    assert answered(made, {"m": np.full((1, 4, 4), np.nan, np.float32)}).found == ()


@pytest.mark.parametrize(
    "kind, members, outputs",
    [
        ("rows", {"rows": "o"}, {"o": np.zeros((3, 5))}),
        ("rows", {"rows": "p"}, {"o": np.zeros((3, 6))}),
        ("boxes", {"boxes": "o", "scores": "s"}, {"o": np.zeros((3, 4)), "s": np.zeros(5)}),
        ("boxes", {"boxes": "o"}, {"o": np.zeros((3, 4))}),
        ("post-process", {"outputs": list("bcsn")},
         {"b": np.zeros((3, 4)), "c": np.zeros(2), "s": np.zeros(3), "n": np.zeros(1)}),
        ("priors", {"boxes": "o", "scores": "s", "levels": [{"stride": 8, "sizes": [4]}]},
         {"o": np.zeros((3, 4)), "s": np.zeros((3, 2))}),
        ("distances", {"levels": [{"stride": 8, "scores": "s", "distances": "o"}]},
         {"o": np.zeros((3, 8)), "s": np.zeros((3, 2))}),
        ("yolo", {"outputs": ["o"], "levels": [{"stride": 8, "anchors": [4]}], "coder": "v3"},
         {"o": np.zeros((7, 3, 3))}),
        ("yolo", {"outputs": ["o"], "levels": [{"stride": 50}], "coder": "x", "layout": "rows"},
         {"o": np.zeros((4, 4))}),
        ("regions", {"map": "o"}, {"o": np.zeros(7)}),
        ("regions", {"map": "o"}, {"o": np.array("text")}),
    ],
)  # fmt: skip
def test_outputs_that_do_not_fit(kind: str, members: dict, outputs: dict) -> None:
    with pytest.raises(VknnError, match=r"output '\w'"):
        answered(recipe("detection", kind, **members), outputs)
