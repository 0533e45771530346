"""Trained networks on pictures: answers against what people see in them.

Boxes, joints and shapes were measured by hand in the pictures.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vknn import Session
from vknn.answers import Answer, Found, draw, find_recipe, look
from vknn.answers.nms import overlaps
from vknn.pictures import open_picture

pytestmark = pytest.mark.long

Image = pytest.importorskip("PIL.Image")

FACES = [(131, 95, 222, 208), (258, 55, 350, 174), (438, 116, 491, 185), (6, 101, 50, 160)]
DOGS = [(97, 28, 255, 383), (366, 143, 545, 336)]
#: Some of the cars that nothing hides.
CARS = [(102, 179, 218, 286), (248, 88, 308, 140), (287, 172, 371, 256), (166, 62, 243, 116)]
TEXTS = [(20, 36, 287, 68), (60, 103, 261, 133)]


def asked(shared: Path, model: str, picture: str | Path, **options: object) -> Answer:
    path, file = shared / "models" / model, shared / "images" / picture
    for needed in (path, file):
        if not needed.exists():
            pytest.skip(f"needs {needed}")
    with Session(path, device="cpu") as session:
        return look(session, file, **options)  # type: ignore[arg-type]


def on(boxes: list[tuple[int, ...]], found: Answer, least: float = 0.6) -> list[Found]:
    """What was found on each of the boxes; every box overlaps something by at least so much."""
    rows = np.array([thing.box for thing in found.found], float).reshape(-1, 4)
    taken = []
    for box in boxes:
        shares = overlaps(np.array(box, float), rows)
        assert shares.size and shares.max() >= least, (box, rows.round().tolist())
        taken.append(found.found[int(shares.argmax())])
    return taken


@pytest.mark.parametrize(
    "model, faces, least",
    [
        ("ncnn/RFB-320.param", 4, 0.7),
        ("tflite/RFB-320_without_postprocessing.tflite", 4, 0.7),
        ("openvino/RFB-320.v6-fp32.xml", 4, 0.7),
        ("openvino/RFB-320.v7-fp16.xml", 4, 0.7),
        ("openvino/face-detection-retail-0004.v4-fp16.xml", 4, 0.7),
        ("openvino/face-detection-retail-0004.v3-int8stats.xml", 4, 0.7),
        ("tflite/face_detection_front.tflite", 3, 0.6),
        ("tflite/face_detection_short_range.tflite", 1, 0.55),
        ("tflite/face_detection_full_range_sparse.tflite", 3, 0.55),
        ("coreml/BlazeFaceScaled.mlmodel", 3, 0.6),
    ],
)
def test_faces(shared: Path, model: str, faces: int, least: float) -> None:
    found = asked(shared, model, "face.jpg")
    order = FACES if faces > 1 else FACES[1:]
    for thing in on(order[:faces], found, least):
        assert thing.label == "face"
        if thing.points:
            inside(thing)
    assert len(found.found) <= 4


def inside(thing: Found) -> None:
    """The eyes, the nose and the mouth of a face are where a face has them."""
    assert thing.box is not None
    left, top, right, bottom = thing.box
    points = {p.name: ((p.x - left) / (right - left), (p.y - top) / (bottom - top))
              for p in thing.points}  # fmt: skip
    (rx, ry), (lx, ly) = points["right eye"], points["left eye"]
    assert 0 < rx < lx < 1
    assert max(ry, ly) < points["nose"][1] < points["mouth"][1] < 1


def test_dogs_and_cars(shared: Path) -> None:
    found = asked(shared, "ncnn/nanodet_m.param", "dogs.jpg")
    assert {thing.number for thing in on(DOGS, found, 0.75)} == {16}  # COCO's dogs
    assert len(found.found) == 2
    found = asked(shared, "ncnn/nanodet_m.param", "vehicles.jpg")
    assert {thing.number for thing in on(CARS, found, 0.75)} == {2}


@pytest.mark.device
def test_dogs_on_a_device(shared: Path) -> None:
    with Session(shared / "models" / "ncnn" / "nanodet_m.param") as session:
        on(DOGS, look(session, shared / "images" / "dogs.jpg"), 0.75)


def test_lines_of_text(shared: Path) -> None:
    found = asked(shared, "ncnn/PP_OCRv5_mobile_det.ncnn.param", "text_synthetic.png")
    assert {thing.label for thing in on(TEXTS, found, 0.7)} == {"text"}
    assert len(found.found) == 2


def test_a_cat_in_a_mask(shared: Path) -> None:
    found = asked(shared, "tflite/deeplabv3_mnv2_dm05_pascal_quant.tflite", "cat.jpg")
    mask = found.mask
    assert mask is not None
    assert mask.shape == (200, 300)
    assert {share.number for share in found.shares} == {0, 8}
    cat, ground = [(155, 75), (95, 160), (180, 130)], [(28, 28), (226, 20), (264, 190), (95, 55)]
    assert [int(mask[y, x]) for x, y in cat] == [8] * 3
    assert [int(mask[y, x]) for x, y in ground] == [0] * 4


#: Joints of the man who does a squat, where the pictures shows them (x, y).
JOINTS = {
    "openvino/pose-mobilenet_v2_0.5_224.v5-fp16.xml": {
        "nose": (193, 132), "neck": (160, 165), "right shoulder": (138, 165),
        "right ankle": (112, 360), "right elbow": (112, 217),
    },
    "coreml/pose_hourglass.mlmodel": {
        "head": (180, 95), "neck": (172, 150), "right shoulder": (140, 168),
        "right ankle": (112, 358), "left ankle": (170, 325), "left knee": (195, 268),
    },
}  # fmt: skip


def test_four_peoples_faces(shared: Path) -> None:
    """Each face in the picture has a nose, and between its eyes."""
    found = asked(shared, "openvino/pose-mobilenet_v2_0.5_224.v5-fp16.xml", "face.jpg")
    assert len(found.found) == len(FACES) == 4
    for left, top, right, bottom in FACES:
        inside = []
        for person in found.found:
            points = {p.name: p for p in person.points}
            if left < points["nose"].x < right and top < points["nose"].y < bottom:
                inside.append(points)
        (points,) = inside
        assert points["right eye"].x < points["nose"].x < points["left eye"].x


@pytest.mark.parametrize("model", JOINTS)
def test_a_persons_joints(shared: Path, model: str) -> None:
    found = asked(shared, model, "squat.jpg")
    (person,) = found.found
    assert person.label == "person"
    points = {point.name: (point.x, point.y) for point in person.points}
    for name, place in JOINTS[model].items():
        assert np.hypot(*np.subtract(points[name], place)) < 14, (name, points[name])
    assert max(max(pair) for pair in found.skeleton) < len(person.points)


def crop(tmp_path: Path, shared: Path, box: tuple[int, int, int, int], picture: str) -> Path:
    path = tmp_path / "crop.png"
    open_picture(shared / "images" / picture).crop(box).save(path)
    return path


def test_the_points_of_a_face(shared: Path, tmp_path: Path) -> None:
    """In a crop of 128x128 around the face of the second man."""
    path = crop(tmp_path, shared, (240, 50, 368, 178), "face.jpg")
    mesh = asked(shared, "tflite/face_landmark.tflite", path).found[0]
    assert len(mesh.points) == 468
    assert mesh.score > 0.9
    assert np.hypot(mesh.points[1].x - 65, mesh.points[1].y - 76) < 10  # the tip of the nose
    xs, ys = zip(*((p.x, p.y) for p in mesh.points), strict=True)
    assert 10 < min(xs) < 30 and 98 < max(xs) < 120 and max(ys) < 128 and min(ys) > 0
    five = asked(shared, "openvino/landmarks-regression-retail-0009.v4-fp32.xml", path).found[0]
    places = {p.name: (p.x, p.y) for p in five.points}
    for name, place in {"right eye": (43, 47), "left eye": (85, 46), "nose": (65, 76)}.items():
        assert np.hypot(*np.subtract(places[name], place)) < 12, (name, places[name])


def test_cats(shared: Path) -> None:
    for model in ("ncnn/squeezenet_v1.1.param", "openvino/squeezenet1.1.v3-fp16.xml"):
        scores = asked(shared, model, "cat.jpg").scores
        assert [score.number for score in scores[:3]] == [285, 282, 281]  # kinds of cats
        assert scores[0].score == pytest.approx(0.469 if "ncnn" in model else 0.607, abs=0.002)
    for model in ("mobilenet_v1_0.25_128_quant", "tf2_mobilenet_v2_1.0_224_ptq"):
        found = asked(
            shared, f"tflite/{model}.tflite", "cat.jpg",
            labels=shared / "images" / "labels" / "imagenet_1001_labels.txt",
        )  # fmt: skip
        assert found.scores[0].label == "Egyptian cat"
        assert 0.1 < found.scores[0].score <= 1  # quantized, and real numbers here


@pytest.mark.parametrize("digit", [0, 3, 7])
@pytest.mark.parametrize(
    "model",
    ["coreml/mnistCNN.mlmodel", "tflite/trained_lstm.tflite", "tflite/keras_lstm_mnist_ptq.tflite"],
)
def test_digits(shared: Path, model: str, digit: int) -> None:
    found = asked(shared, model, f"mnist_{digit}.png")
    assert found.scores[0].text == str(digit)
    assert found.scores[0].score > 0.85


def test_a_person_and_none(shared: Path, tmp_path: Path) -> None:
    """The files hold the bytes of int8: as pictures they are wrapped, and are turned back here."""
    for name, label in (("person", "person"), ("no_person", "no person")):
        pixels = np.asarray(open_picture(shared / "images" / f"{name}_96x96.bmp").convert("L"))
        path = tmp_path / f"{name}.png"
        Image.fromarray(pixels ^ 0x80).save(path)
        found = asked(shared, "tflite/person_detect.tflite", path)
        assert found.scores[0].label == label


def test_the_colour_of_a_car(shared: Path, tmp_path: Path) -> None:
    path = crop(tmp_path, shared, (100, 178, 220, 288), "vehicles.jpg")
    found = asked(shared, "openvino/vehicle-attributes-recognition-barrier-0039.v4-fp32.xml", path)
    best = {score.output: score.label for score in reversed(found.scores)}
    assert best["color"] == "white"
    assert best["type"] in ("car", "van")


def test_a_picture_twice_as_large(shared: Path, tmp_path: Path) -> None:
    """As ncnn makes it of the same pixels; and none of it is moved."""
    model = "ncnn/waifu2x_upconv_7_photo_scale2.0x.param"
    recorded = (shared / "models" / model).with_suffix(".expected.npz")
    if not recorded.exists():
        pytest.skip(f"needs {recorded}")
    with np.load(recorded) as arrays:
        given, made = arrays["in_Input1"], arrays["out_Eltwise4"]
    half = np.rint(255 * given[:, 7:-7, 7:-7].transpose(1, 2, 0)).astype(np.uint8)
    Image.fromarray(half).save(tmp_path / "half.png")
    found = asked(shared, model, tmp_path / "half.png").image
    assert found is not None
    assert found.shape == (96, 96, 3)
    wanted = np.rint(255 * made.clip(0, 1)).transpose(1, 2, 0)
    assert np.abs(found - wanted).max() <= 1
    wide = np.asarray(Image.fromarray(half).resize((96, 96), Image.Resampling.BICUBIC), float)
    errors = {
        (x, y): np.square(np.roll(found.astype(float), (y, x), (0, 1)) - wide)[4:-4, 4:-4].mean()
        for x in (-1, 0, 1)
        for y in (-1, 0, 1)
    }
    assert min(errors, key=errors.__getitem__) == (0, 0)


def test_a_picture_in_a_style(shared: Path) -> None:
    model = shared / "models" / "tflite" / "style_transfer_dynamic.tflite"
    if not model.exists():
        pytest.skip(f"needs {model}")
    with np.load(model.with_suffix(".expected.npz")) as arrays:
        style = arrays["in_1"]
    found = asked(
        shared, "tflite/style_transfer_dynamic.tflite", "cat.jpg",
        feeds={"mobilenet_conv/Conv/BiasAdd": style},
    )  # fmt: skip
    assert found.image is not None
    assert found.image.shape == (200, 300, 3)
    before = np.asarray(open_picture(shared / "images" / "cat.jpg").convert("L"), float)
    after = np.asarray(Image.fromarray(found.image).convert("L"), float)
    assert np.corrcoef(before.ravel(), after.ravel())[0, 1] > 0.5  # the same cat
    assert np.abs(before - after).mean() > 10  # looks otherwise


def test_networks_without_pictures_have_no_recipe(shared: Path) -> None:
    for model in ("openvino/gru-bidirectional.v6-fp16.xml", "tflite/hello_world_float.tflite",
                  "coreml/TinyDrawingEmbedding.mlmodel", "coreml/house_trainable_updatable.mlmodel",
                  "openvino/anomaly-mobilenetv2.v4-fp16.xml"):  # fmt: skip
        path = shared / "models" / model
        if not path.exists():
            pytest.skip(f"needs {path}")
        with Session(path, device="cpu") as session:
            assert find_recipe(session) is None, model


def test_drawings_of_all_tasks(shared: Path) -> None:
    picture = open_picture(shared / "images" / "dogs.jpg")
    found = asked(shared, "ncnn/nanodet_m.param", "dogs.jpg")
    drawn = np.asarray(draw(picture, found), int)
    changed = np.abs(drawn - np.asarray(picture.convert("RGB"), int)).any(axis=2)
    for left, top, right, bottom in DOGS:
        middle = changed[(top + bottom) // 2, max(0, left - 15) : right + 15]
        assert 4 <= middle.sum() <= 20  # the left and the right side of a box
