"""Several people in a picture, against persons that were put there."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.answers.readings import answered, recipe, same_place

from vknn.answers import Answer, draw
from vknn.answers.decoder import Reading
from vknn.answers.people import local_peaks
from vknn.answers.recipe import built_in
from vknn.errors import VknnError
from vknn.pictures import placed

Image = pytest.importorskip("PIL.Image")

#: Head, left and right hand of two people whose hands are nearer to the other's head (x, y).
PEOPLE = [[(3, 4), (9, 2), (1, 9)], [(12, 4), (6, 7), (14, 8)]]
HEIGHT, WIDTH = 11, 17


def heat(people: list[list[tuple[int, int]]]) -> np.ndarray:
    maps = np.zeros((3, HEIGHT, WIDTH), np.float32)
    for index, person in enumerate(people):
        for part, (x, y) in enumerate(person):
            maps[part, y, x] = 0.9 - 0.1 * index
    return maps


def fields(people: list[list[tuple[int, int]]]) -> np.ndarray:
    """Unit vectors along the ways from each head to both hands: x and y of the one, the other."""
    made = np.zeros((4, HEIGHT, WIDTH), np.float32)
    for person in people:
        head = np.array(person[0])
        for limb in (0, 1):
            line = np.array(person[1 + limb]) - head
            for share in np.linspace(0, 1, 40):
                x, y = np.rint(head + share * line).astype(int)
                made[2 * limb : 2 * limb + 2, y, x] = line / np.linalg.norm(line)
    return made


LIMBS = recipe(
    "keypoints", "limbs", heatmaps="m", fields="f", names=["head", "left", "right"],
    limbs=[[0, 1, 0, 1], [0, 2, 2, 3]], skeleton=[[0, 1], [0, 2]], labels=["person"],
)  # fmt: skip


def spots(answer: Answer, cell: float = 1.0) -> list[list[tuple[float, float]]]:
    """Cells of the points of each person."""
    return [
        [(round(p.x / cell - 0.5), round(p.y / cell - 0.5)) for p in person.points]
        for person in answer.found
    ]


def test_limbs_join_peaks_to_persons() -> None:
    place = same_place(10 * WIDTH, 10 * HEIGHT)
    found = answered(LIMBS, {"m": heat(PEOPLE), "f": fields(PEOPLE)}, place)
    assert spots(found, 10) == PEOPLE
    assert [person.score for person in found.found] == pytest.approx([0.9, 0.8])
    assert {person.label for person in found.found} == {"person"}
    assert found.skeleton == ((0, 1), (0, 2))


def test_points_that_are_missing_have_no_place() -> None:
    """A hand that nobody sees; the person has two points, and counts where two are enough."""
    outputs = {"m": heat([PEOPLE[0], PEOPLE[1][:2]]), "f": fields(PEOPLE)}
    place = same_place(WIDTH, HEIGHT)
    assert spots(answered(LIMBS, outputs, place)) == PEOPLE[:1]
    two = recipe("keypoints", "limbs", heatmaps="m", fields="f", least=2,
                 limbs=[[0, 1, 0, 1], [0, 2, 2, 3]])  # fmt: skip
    found = answered(two, outputs, place)
    assert [len([p for p in person.points if p.is_found]) for person in found.found] == [3, 2]
    told = found.to_json()["found"][1]["points"][2]
    assert told == {"name": None, "x": None, "y": None, "score": 0.0}
    assert str(found).endswith("0.80 with 2 points")


def test_unsure_people_are_left_out() -> None:
    outputs = {"m": heat(PEOPLE), "f": fields(PEOPLE)}
    sure = recipe("keypoints", "limbs", heatmaps="m", fields="f", sure=0.85,
                  limbs=[[0, 1, 0, 1], [0, 2, 2, 3]])  # fmt: skip
    assert spots(answered(sure, outputs, same_place(WIDTH, HEIGHT))) == PEOPLE[:1]
    assert answered(LIMBS, {"m": 0 * heat(PEOPLE), "f": fields(PEOPLE)}).found == ()
    assert answered(LIMBS, {"m": heat(PEOPLE), "f": 0 * fields(PEOPLE)}).found == ()


def test_parts_of_a_person_become_one() -> None:
    """Limbs of elbows and hands first, then of the body: two parts are joined by a third."""
    chain = [(1, 1), (5, 1), (9, 1), (13, 1)]
    maps, along = np.zeros((4, 3, 15), np.float32), np.zeros((2, 3, 15), np.float32)
    for part, (x, y) in enumerate(chain):
        maps[part, y, x] = 1
    along[0, 1, 1:14] = 1
    made = recipe("keypoints", "limbs", heatmaps="m", fields="f", least=4,
                  limbs=[[0, 1, 0, 1], [2, 3, 0, 1], [1, 2, 0, 1]])  # fmt: skip
    assert spots(answered(made, {"m": maps, "f": along}, same_place(15, 3))) == [chain]


def test_peaks() -> None:
    plane = np.float32([[1, 1, 0, 0], [0, 0, 0, 0.5], [0.2, 0, 0, 0]])
    places, values = local_peaks(plane, 0.1)
    assert places.tolist() == [[0, 0], [3, 1], [0, 2]]
    assert values.tolist() == pytest.approx([1, 0.5, 0.2])
    assert len(local_peaks(plane, 2)[0]) == 0


@pytest.mark.parametrize(
    "outputs",
    [
        {"m": np.ones((3, 4, 5)), "f": np.ones((4, 4, 6))},
        {"m": np.ones((3, 4, 5)), "f": np.ones((3, 4, 5))},
        {"m": np.ones((2, 4, 5)), "f": np.ones((4, 4, 5))},
    ],
)
def test_fields_that_do_not_fit(outputs: dict) -> None:
    with pytest.raises(VknnError, match="output 'f' has the shape"):
        answered(LIMBS, outputs)


def test_two_copies_of_a_person(shared: Path) -> None:
    """PoseNet's recorded outputs beside each other: the same person twice."""
    file = shared / "models" / "onnx" / "bodypix_mnv1_050_s16.expected.npz"
    if not file.exists():
        pytest.skip(f"needs {file}")
    (made,) = (each for each in built_in() if each.name == "bodypix-mobilenet-v1")
    with np.load(file) as arrays:
        outputs = {
            name.removeprefix("out_"): np.concatenate([arrays[name]] * 2, axis=2)
            for name in arrays
            if name.startswith("out_")
        }
    cells = outputs["heatmaps"].shape[2]
    size = (16 * (cells - 1) + 1, 257)
    reading = Reading(outputs, placed(size, size, "stretch"), 0.3, None, 100, made.labels)
    found = made.decoder.decode(reading).found
    assert len(found) == 2
    left, right = sorted(found, key=lambda person: person.points[0].x)
    for one, other in zip(left.points, right.points, strict=True):
        if min(one.score or 0, other.score or 0) >= 0.3:
            assert (other.x - one.x, other.y - one.y) == pytest.approx((8 * cells, 0), abs=0.01)
    assert left.score == pytest.approx(right.score)


def test_displacements_that_do_not_fit() -> None:
    made = recipe("keypoints", "displacements", heatmaps="m", offsets="o", forward="f",
                  backward="b", tree=[[0, 1]])  # fmt: skip
    good = {"m": np.zeros((2, 3, 3)), "o": np.zeros((4, 3, 3)), "f": np.zeros((2, 3, 3)),
            "b": np.zeros((2, 3, 3))}  # fmt: skip
    assert answered(made, good).found == ()
    for name in "ofb":
        with pytest.raises(VknnError, match=f"output '{name}' has the shape"):
            answered(made, {**good, name: np.zeros((3, 3, 3))})
    with pytest.raises(VknnError, match="output 'm' has the shape"):
        answered(made, {**good, "m": np.zeros((1, 3, 3))})


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(7))
def test_outputs_of_any_numbers(seed: int) -> None:
    """NaN, infinities and numbers without bounds lead to no place, and to no warning."""
    random = np.random.default_rng(seed)
    height, width = random.integers(1, 9, 2)

    def some(count: int) -> np.ndarray:
        made = random.standard_normal((count, height, width)).astype(np.float32)
        made *= 10.0 ** random.integers(-2, 30)
        for value in (np.nan, np.inf, -np.inf):
            made[random.random(made.shape) < 0.1] = value
        return made

    maps = {"m": some(3), "o": some(6), "f": some(4), "b": some(4)}
    for kind, members in (
        ("limbs", {"fields": "f", "limbs": [[0, 1, 0, 1], [1, 2, 2, 3], [0, 0, 0, 1]]}),
        ("displacements", {"offsets": "o", "forward": "f", "backward": "b",
                           "tree": [[0, 1], [1, 2]]}),
    ):  # fmt: skip
        made = recipe("keypoints", kind, heatmaps="m", least=1, threshold=-1e9, **members)
        for size in ((1, 1), (40, 30)):
            found = answered(made, maps, same_place(*size))
            json.dumps(found.to_json(), allow_nan=False)
            drawn = draw(Image.new("RGB", size), found)
            assert drawn.width % size[0] == 0


def test_noise_takes_no_time() -> None:
    """Everywhere is a peak: people are no more than are told, the best ones."""
    random = np.random.default_rng(1)
    made = recipe("keypoints", "displacements", heatmaps="m", offsets="o", forward="f",
                  backward="b", tree=[[i, i + 1] for i in range(16)], most=13)  # fmt: skip
    counts = {"m": 17, "o": 34, "f": 32, "b": 32}
    outputs = {name: random.random((count, 31, 37)) for name, count in counts.items()}
    assert len(answered(made, outputs, same_place(577, 481)).found) == 13
