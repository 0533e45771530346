"""Trained ONNX networks on pictures, from the file to the answer, by the recipes for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.answers.test_real_models import DOGS, FACES, TEXTS, asked, crop, on

from vknn import Session
from vknn.answers import draw, look
from vknn.cli import main
from vknn.pictures import open_picture

pytestmark = pytest.mark.long

pytest.importorskip("PIL.Image")

#: Each model that takes a picture, and one for it.
PICTURES = {
    "bodypix_mnv1_050_s16": "squat.jpg", "mnist_cntk": "mnist_7.png", "openseeface_lm0": "face.jpg",
    "ppocr_det_v3": "text_synthetic.png", "rfb320": "face.jpg", "rfb320_qdq": "face.jpg",
    "selfie_segmentation": "grace_hopper.jpg", "squeezenet_fp16": "cat.jpg",
    "style_mosaic": "cat.jpg", "superres_pre_post": "cat.jpg", "yolox_nano": "dogs.jpg",
}  # fmt: skip


@pytest.mark.device
@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_alone_is_drawn(
    name: str, shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, picture = shared / "models/onnx" / f"{name}.onnx", shared / "images" / PICTURES[name]
    for needed in (model, picture):
        if not needed.exists():
            pytest.skip(f"needs {needed}")
    target = tmp_path / "out.png"
    code = main(["run", str(model), str(picture), "--draw", str(target)])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    assert out.startswith(f"{picture}: ") and "no " not in out.removeprefix(str(picture))
    drawn = np.asarray(open_picture(target).convert("RGB"))
    plain = open_picture(picture).convert("RGB").resize(drawn.shape[1::-1])
    assert (drawn != np.asarray(plain)).any()


@pytest.mark.parametrize("name", ["rfb320", "rfb320_qdq"])
def test_faces(shared: Path, name: str) -> None:
    found = asked(shared, f"onnx/{name}.onnx", "face.jpg")
    assert {thing.label for thing in on(FACES, found, 0.6)} == {"face"}
    assert len(found.found) == 4


def test_dogs_and_text(shared: Path) -> None:
    found = asked(shared, "onnx/yolox_nano.onnx", "dogs.jpg")
    assert {thing.number for thing in on(DOGS, found, 0.75)} == {16}  # COCO's dogs
    assert len(found.found) == 2
    found = asked(shared, "onnx/ppocr_det_v3.onnx", "text_synthetic.png")
    assert {thing.label for thing in on(TEXTS, found, 0.65)} == {"text"}


def test_classes(shared: Path) -> None:
    """The first takes float16: a picture goes in as that."""
    scores = asked(shared, "onnx/squeezenet_fp16.onnx", "cat.jpg").scores
    assert [score.number for score in scores[:3]] == [285, 282, 281]
    assert scores[0].score == pytest.approx(0.561, abs=0.005)
    for digit in range(10):
        assert asked(shared, "onnx/mnist_cntk.onnx", f"mnist_{digit}.png").scores[0].number == digit


def test_people(shared: Path) -> None:
    mask = asked(shared, "onnx/selfie_segmentation.onnx", "grace_hopper.jpg")
    assert (mask.shares[0].label, round(mask.shares[0].share, 2)) == ("person", 0.60)
    (person,) = asked(shared, "onnx/bodypix_mnv1_050_s16.onnx", "squat.jpg").found
    points = {point.name: (point.x, point.y) for point in person.points}
    for name, place in {"nose": (192, 133), "right ankle": (111, 356)}.items():
        assert np.hypot(*np.subtract(points[name], place)) < 14, (name, points[name])


def test_the_points_of_a_face(shared: Path, tmp_path: Path) -> None:
    """In a crop of 114x140 around the face of the second man; measured by hand."""
    path = crop(tmp_path, shared, (248, 40, 362, 180), "face.jpg")
    (face,) = asked(shared, "onnx/openseeface_lm0.onnx", path).found
    assert (face.label, len(face.points)) == ("face", 66)
    places = [(p.x, p.y) for p in face.points]
    eyes = np.mean(places[36:42], axis=0), np.mean(places[42:48], axis=0)
    measured = (32, 59), (74, 57), (53, 83), (59, 132)
    for found, place in zip((*eyes, places[30], places[8]), measured, strict=True):
        assert np.hypot(*np.subtract(found, place)) < 4, (found, place)


@pytest.mark.device
def test_pictures_that_networks_make(shared: Path) -> None:
    """Red, green and blue stay what they are; the style's colours are those of the record."""
    file = shared / "images" / "cat.jpg"
    found = {}
    for name in ("superres_pre_post", "style_mosaic"):
        path = shared / "models/onnx" / f"{name}.onnx"
        if not path.exists():
            pytest.skip(f"needs {path}")
        with Session(path) as session:
            found[name] = look(session, file)
    large, styled = found["superres_pre_post"].image, found["style_mosaic"].image
    assert large is not None and large.shape == (672, 672, 3)
    assert styled is not None and styled.shape == (200, 300, 3)
    # Of the record every sixth pixel is kept.
    assert styled.reshape(-1, 3).mean(axis=0) == pytest.approx((179.3, 168.5, 162.4), abs=0.5)
    assert draw(open_picture(file), found["style_mosaic"]).size == (300, 200)
