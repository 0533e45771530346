"""Built-in recipes on what other engines recorded: the input that they make, and the answer.

These networks' formats may not all be read; their pictures and outputs are recorded all the same.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.answers.test_real_models import FACES, TEXTS, on

from vknn.answers import Answer, Placement
from vknn.answers.decoder import Reading
from vknn.answers.recipe import built_in
from vknn.pictures import open_picture, picture_array

pytest.importorskip("PIL.Image")


def recorded(
    shared: Path, name: str, record: str, picture: str, place: Placement | None = None,
    prefix: str = "",
) -> tuple[Answer, float]:  # fmt: skip
    """The answer to recorded outputs, and how far our input is from the recorded one at most."""
    file = shared / "models" / f"{record}.expected.npz"
    if not file.exists():
        pytest.skip(f"needs {file}")
    (recipe,) = (recipe for recipe in built_in() if recipe.name == name)
    with np.load(file) as arrays:
        (given,) = (arrays[key] for key in arrays if key.startswith(f"{prefix}in_"))
        start = f"{prefix}out_"
        outputs = {k.removeprefix(start): arrays[k] for k in arrays if k.startswith(start)}
    image = open_picture(shared / "images" / picture)
    made, own = picture_array(image, given.shape, recipe.options)
    far = float(np.abs(made.reshape(given.shape).astype(float) - given).max())
    reading = Reading(
        outputs, place or own, recipe.threshold, recipe.iou, recipe.most, recipe.labels
    )
    return recipe.decoder.decode(reading), far


@pytest.mark.parametrize("record", ["onnx/rfb320", "onnx/rfb320_qdq"])
def test_rfb(shared: Path, record: str) -> None:
    """The quantized one's boxes and this export's are a little higher than ncnn's."""
    found, far = recorded(shared, "rfb-320-face.onnx", record, "face.jpg")
    assert far == 0
    on(FACES, found, 0.6)
    assert len(found.found) == 4


def test_face_detection_adas(shared: Path) -> None:
    record = "openvino-ir11/face-detection-adas-0001.int8"
    found, far = recorded(shared, "face-detection-adas-0001", record, "face.jpg")
    assert far == 0
    assert {thing.label for thing in on(FACES, found, 0.7)} == {"face"}


def test_yolox(shared: Path) -> None:
    """The recorded input has the picture in its upper left corner."""
    scale = 416 / 300
    place = Placement((300, 200), (416, 416), (scale, scale), (0.0, 0.0))
    found, _ = recorded(shared, "yolox-nano", "onnx/yolox_nano", "cat.jpg", place)
    assert [(t.number, round(t.score, 3)) for t in found.found] == [(15, 0.752)]  # COCO's cats
    on([(35, 22, 217, 200)], found, 0.75)


def test_a_person_in_a_mask(shared: Path) -> None:
    found, far = recorded(
        shared, "selfie-segmentation", "onnx/selfie_segmentation", "grace_hopper.jpg"
    )
    assert far == 0
    assert (found.shares[0].label, round(found.shares[0].share, 2)) == ("person", 0.60)


def test_bodypix(shared: Path) -> None:
    found, far = recorded(shared, "bodypix-mobilenet-v1", "onnx/bodypix_mnv1_050_s16", "squat.jpg")
    assert far < 1e-6
    points = {p.name: (p.x, p.y) for p in found.found[0].points}
    joints = {
        "nose": (192, 133), "right shoulder": (141, 165), "left shoulder": (186, 163),
        "right ankle": (111, 356), "left knee": (200, 264), "left ankle": (180, 334),
    }  # fmt: skip
    for name, place in joints.items():
        assert np.hypot(*np.subtract(points[name], place)) < 14, (name, points[name])


def test_text(shared: Path) -> None:
    found, far = recorded(shared, "pp-ocr-v3-det", "onnx/ppocr_det_v3", "text_synthetic.png")
    assert far < 1e-5
    on(TEXTS, found, 0.65)
    assert len(found.found) == 2


def test_classes(shared: Path) -> None:
    record = "onnx/squeezenet_fp16"
    found, far = recorded(shared, "squeezenet-onnx", record, "cat.jpg", prefix="r0_")
    assert far == 0
    assert [s.number for s in found.scores[:3]] == [285, 282, 281]
    found, far = recorded(shared, "mnist-cntk", "onnx/mnist_cntk", "mnist_0.png", prefix="r0_")
    assert far == 0
    assert (found.scores[0].number, found.scores[0].score) == (0, pytest.approx(1, abs=1e-3))


def test_a_cat_in_a_mask(shared: Path) -> None:
    """The recorded input is the picture stretched."""
    place = Placement((300, 200), (513, 513), (513 / 300, 513 / 200), (0.0, 0.0))
    record = "openvino-ir11/deeplabv3"
    found, _ = recorded(shared, "deeplab-v3.openvino", record, "cat.jpg", place)
    assert found.mask is not None
    assert [int(found.mask[y, x]) for x, y in ((155, 75), (95, 160), (180, 130))] == [8] * 3
    assert [int(found.mask[y, x]) for x, y in ((28, 28), (264, 190), (95, 55))] == [0] * 3
    assert found.shares[1].share == pytest.approx(106616 / 513**2, abs=0.003)


def test_a_picture_three_times_as_large(shared: Path) -> None:
    """Red, green and blue come back as they went in, seen in the means of the channels."""
    found, _ = recorded(shared, "superres-pre-post-3x", "onnx/superres_pre_post", "cat.jpg")
    assert found.image is not None
    assert found.image.shape == (672, 672, 3)
    red, green, blue = found.image.reshape(-1, 3).mean(axis=0)
    with np.load(shared / "models" / "onnx" / "superres_pre_post.expected.npz") as arrays:
        (given,) = (arrays[key] for key in arrays if key.startswith("in_"))
    assert (blue, green, red) == pytest.approx(given.reshape(-1, 3).mean(axis=0), abs=2)
