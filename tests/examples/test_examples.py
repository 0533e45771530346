"""The scripts in examples/: what they print and write is right, on both backends."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from flatbuffers import flexbuffers
from tests.examples.conftest import Run
from tests.tflite_writer import Net

import vknn

Image = pytest.importorskip("PIL.Image")

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "examples" / "data"
DIGITS = ROOT / "tools" / "demo_model" / "digits.param"
DIGIT_SHAPE = ("--shape", "image=1,8,8")
#: Label and corners of the squares in examples/data/squares.png.
SQUARES = {
    ("red", 0, 16, 16, 32),
    ("green", 48, 0, 64, 16),
    ("blue", 16, 48, 32, 64),
    ("red", 80, 48, 96, 64),
}


def scores(lines: list[str]) -> list[tuple[str, float]]:
    """Label and score of the lines that name a class."""
    pairs = [line.split(maxsplit=1) for line in lines if len(line.split(maxsplit=1)) == 2]
    return [(label, float(score)) for score, label in pairs]


def boxes(lines: list[str]) -> set[tuple[str | int, ...]]:
    """Label and corners of the lines that tell of an object."""
    found = [re.fullmatch(r"(\S+) [\d.]+ at (.*)", line) for line in lines]
    return {(m[1], *(int(n) for n in m[2].split(", "))) for m in found if m}


def test_a_digit_is_classified(run: Run, device: str) -> None:
    lines = run("classify", DIGITS, DATA / "digit.png", "--order", "gray", "--std", 255,
                "--device", device, "--top", 3)  # fmt: skip
    assert lines[0] == "probabilities:"
    found = scores(lines)
    assert len(found) == 3
    assert found == sorted(found, key=lambda pair: -pair[1])
    with vknn.Session(DIGITS, device="numpy") as session:
        pixels = np.asarray(Image.open(DATA / "digit.png"), np.float32)
        right = session.run({"image": pixels[None] / 255})["probabilities"]
    assert found[0] == (str(right.argmax()), pytest.approx(right.max(), abs=1e-4))
    held_out = np.load(DIGITS.with_name("held_out.npz"))
    assert str(held_out["labels"][5]) == found[0][0]


def test_a_core_ml_classifier_gives_labels(run: Run, device: str) -> None:
    lines = run("classify", DATA / "digits.mlmodel", DATA / "digit.png", "--device", device)
    assert lines[0] == "label:"
    assert lines[2] == "probabilities:"
    found = scores(lines)
    assert len(found) == 5
    assert found[0][0] == lines[1].strip()


@pytest.mark.parametrize(
    "model, picture, options, best",
    [
        ("ncnn/squeezenet_v1.1.param", "sunflower.jpg",
         ["--size", "227x227", "--order", "bgr", "--mean", "104,117,123"], "985"),
        ("openvino/squeezenet1.1.v3-fp16.xml", "cat.jpg",
         ["--order", "bgr", "--mean", "104,117,123"], "285"),
        ("tflite/mobilenet_v1_0.25_128_quant.tflite", "cat.jpg",
         ["--labels", "imagenet_1001_labels.txt"], "Egyptian cat"),
    ],
)  # fmt: skip
@pytest.mark.device
def test_pictures_of_the_world(
    model: str, picture: str, options: list[str], best: str, run: Run, shared: Path
) -> None:
    labels = shared / "images" / "labels"
    options = [str(labels / o) if o.endswith(".txt") else o for o in options]
    lines = run("classify", shared / "models" / model, shared / "images" / picture, *options,
                "--device", "vulkan")  # fmt: skip
    assert scores(lines)[0][0] == best


def test_squares_are_detected_and_drawn(run: Run, device: str) -> None:
    lines = run("detect", DATA / "squares.param", DATA / "squares.png", "--std", 255,
                "--labels", DATA / "squares.txt", "--device", device)  # fmt: skip
    assert boxes(lines) == SQUARES
    assert lines[-1] == "4 objects; boxes are drawn in boxes.png"
    before = np.asarray(Image.open(DATA / "squares.png").convert("RGB"), int)
    changed = np.abs(np.asarray(Image.open("boxes.png"), int) - before).any(axis=2)
    assert changed[16:32, 0].all()  # the left edge of the first square
    assert not changed[34:46, 34:78].any()  # no box is there


def test_a_picture_lying_on_its_side_is_turned(run: Run) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the top of the picture is its right side
    upright = Image.open(DATA / "squares.png").convert("RGB")
    upright.transpose(Image.Transpose.ROTATE_90).save("lying.png", exif=exif)
    lines = run("detect", DATA / "squares.param", "lying.png", "--std", 255,
                "--labels", DATA / "squares.txt", "--device", "numpy")  # fmt: skip
    assert boxes(lines) == SQUARES


def test_nothing_is_detected_in_black(run: Run, device: str) -> None:
    Image.new("RGB", (96, 64)).save("black.png")
    lines = run("detect", DATA / "squares.param", "black.png", "--device", device)
    assert lines == ["0 objects; boxes are drawn in boxes.png"]


def tflite_detector() -> Net:
    """Squares by the mean colour of cells of 16 x 16 pixels, each a box, as scores of classes."""
    net = Net()
    picture = net.tensor("picture", (1, 64, 96, 3))
    means, listed = net.tensor("means", (1, 4, 6, 3)), net.tensor("listed", (1, 24, 3))
    window = {"padding": 1, "stride_w": 16, "stride_h": 16, "filter_width": 16, "filter_height": 16}
    net.add("AVERAGE_POOL_2D", [picture], [means], window)
    shape = net.tensor("shape", data=[1, 24, 3], dtype="int32")
    net.add("RESHAPE", [means, shape], [listed], {"new_shape": [1, 24, 3]})
    rows, columns = np.mgrid[:4, :6]
    anchors = np.stack(
        [(rows + 0.5) / 4, (columns + 0.5) / 6, np.full((4, 6), 1 / 4), np.full((4, 6), 1 / 6)], -1
    ).reshape(24, 4)  # fmt: skip
    net.inputs = [picture]
    net.outputs = [
        net.tensor("boxes", (1, 5, 4)), net.tensor("classes", (1, 5)),
        net.tensor("scores", (1, 5)), net.tensor("count", (1,)),
    ]  # fmt: skip
    options = {
        "max_detections": 5, "max_classes_per_detection": 1, "use_regular_nms": False,
        "nms_score_threshold": 0.5, "nms_iou_threshold": 0.5, "num_classes": 3,
        "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0,
    }  # fmt: skip
    moves = net.tensor("moves", data=np.zeros((1, 24, 4), np.float32))
    constants = net.tensor("anchors", data=anchors.astype(np.float32))
    net.add("CUSTOM", [moves, listed, constants], net.outputs,
            custom_code="TFLite_Detection_PostProcess",
            custom_options=np.frombuffer(flexbuffers.Dumps(options), np.uint8))  # fmt: skip
    return net


def test_a_tflite_detector(run: Run, device: str) -> None:
    Path("squares.tflite").write_bytes(tflite_detector().file())
    Path("labels.txt").write_text("red\ngreen\nblue\n", encoding="utf-8")
    lines = run("detect", "squares.tflite", DATA / "squares.png", "--std", 255,
                "--labels", "labels.txt", "--device", device)  # fmt: skip
    assert boxes(lines) == SQUARES


#: Two prior boxes a cell, of sides 8 and 12. The first is moved to twice its size.
HEADS = """7767517
9 10
Input       data    0 1 data 0=96 1=64 2=3
Pooling     means   1 1 data means 0=1 1=16 2=16
Split       split   1 2 means left right
Convolution scores  1 1 left scores 0=6 1=1 5=1 6=18
Permute     last1   1 1 scores last1 0=3
Reshape     rows1   1 1 last1 found 0=3 1=-1
Convolution moves   1 1 right moves 0=8 1=1 5=1 6=24
Permute     last2   1 1 moves last2 0=3
Reshape     rows2   1 1 last2 boxes 0=4 1=-1
"""


def test_heads_without_a_last_layer(run: Run, device: str) -> None:
    scores = np.zeros((6, 3), "<f4")
    scores[[1, 2], [0, 1]], scores[[4, 5], [0, 1]] = 1, 0.9  # red and green; blue has no class
    moves = np.zeros(8, "<f4")
    moves[2:4] = np.log(2) / 0.2
    arrays = (scores, np.zeros(6, "<f4"), np.zeros((8, 3), "<f4"), moves)
    data = [bytes(4) * (array.ndim == 2) + array.tobytes() for array in arrays]
    Path("heads.bin").write_bytes(b"".join(data))
    Path("heads.param").write_text(HEADS, encoding="utf-8")
    Path("labels.txt").write_text("background\nred\ngreen\n", encoding="utf-8")
    arguments = ("heads.param", DATA / "squares.png", "--std", 255, "--labels", "labels.txt",
                 "--device", device, "--priors")  # fmt: skip
    assert boxes(run("detect", *arguments, "16:8,12")) == {s for s in SQUARES if s[0] != "blue"}
    with pytest.raises(SystemExit, match="has 48 priors, --priors gives 24"):
        run("detect", *arguments, "16:8")


RFB = ("--priors", "8:10,16,24", "16:32,48", "32:64,96", "64:128,192,256")


@pytest.mark.parametrize(
    "model, options",
    [
        ("openvino/face-detection-retail-0004.v4-fp16.xml", ["--order", "bgr"]),
        ("ncnn/RFB-320.param", ["--size", "320x240", "--mean", "127", "--std", "128", *RFB]),
    ],
)
@pytest.mark.device
def test_faces_are_detected(model: str, options: list[str], run: Run, shared: Path) -> None:
    lines = run("detect", shared / "models" / model, shared / "images" / "face.jpg",
                "--device", "vulkan", *options)  # fmt: skip
    found = boxes(lines)
    assert len(found) == 4
    centres = sorted((box[1] + box[3]) // 2 for box in found)  # type: ignore[operator]
    assert np.allclose(centres, [28, 175, 303, 466], atol=8)


def test_what_is_no_detector_is_refused(run: Run) -> None:
    with pytest.raises(SystemExit, match=r"not those of a detector.*probabilities \(10,\)"):
        run("detect", DIGITS, DATA / "digit.png", "--order", "gray", "--device", "numpy")


@pytest.mark.device
def test_devices_agree(run: Run) -> None:
    lines = run("compare_devices", DIGITS, *DIGIT_SHAPE)
    assert lines[0].startswith("vulkan: all 8 operators agree")
    apart = re.fullmatch(r"  probabilities: (\S+) \(\S+ of the largest value\) at .*", lines[-1])
    assert apart and float(apart[1]) < 1e-5


@pytest.mark.device
def test_a_classifier_given_a_file_is_compared(run: Run) -> None:
    np.savez("inputs.npz", image=np.asarray(Image.open(DATA / "digit.png")))
    lines = run("compare_devices", DATA / "digits.mlmodel", "--inputs", "inputs.npz",
                "--devices", "vulkan", "vulkan", "--table")  # fmt: skip
    (label,) = (line for line in lines if line.startswith("  label: "))
    (apart,) = (line for line in lines if line.startswith("  probabilities: "))
    assert label.startswith("  label: 0 ") and apart.startswith("  probabilities: 0 ")
    assert sum("Softmax" in line for line in lines) == 2  # a table of each device


WRONG = """
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/tensor.glsl"
#include "common/grid.glsl"
INPUT1F(0, x);
OUTPUT1F(1, y);
layout(push_constant) uniform P { int count; } p;
void main() {
    int i = linear_lane();
    if (i < p.count) STORE1(y, i, LOAD1(x, i) * (i == 5 ? 3.0 : 2.0));
}
"""


@pytest.mark.device
def test_the_first_wrong_layer_is_named(run: Run) -> None:
    Path("net.param").write_text(
        "7767517\n4 4\nInput in 0 1 x\nReLU first 1 1 x a\nDouble second 1 1 a b\n"
        "ReLU third 1 1 b y\n",
        encoding="utf-8",
    )
    Path("net.bin").touch()
    vknn.register_layer(
        "ncnn",
        "Double",
        shape=lambda shapes, options: shapes[0],
        compute=lambda arrays, weights, options: arrays[0] * np.float32(2),
        shader=vknn.Shader(WRONG),
    )
    try:
        np.savez("ones.npz", x=np.ones((2, 3, 4), np.float32))
        lines = run("compare_devices", "net.param", "--inputs", "ones.npz", status=1)
    finally:
        vknn.unregister_layer("ncnn", "Double")
    assert lines[1].startswith("first wrong layer: second,")
    assert lines[-1] == "  y: 1 (0.5 of the largest value) at [0, 1, 1]: 3 and 2"


def test_free_shapes_are_asked_for(run: Run) -> None:
    with pytest.raises(SystemExit, match="give --shape image="):
        run("compare_devices", DIGITS, "--devices", "numpy", "numpy")


def test_before_and_after_are_compared(run: Run, device: str) -> None:
    lines = run("profile_and_switch", DIGITS, *DIGIT_SHAPE, "--disable", "fusion",
                "--runs", 3, "--limit", 20, "--device", device)  # fmt: skip
    layers = [re.fullmatch(r" *([\d.,]+) +([\d.]+)% +([\d.,]+)  (.*?): (.*)", x) for x in lines]
    rows = [row for row in layers if row]
    times = [float(row[1].replace(",", "")) for row in rows]
    assert times == sorted(times, reverse=True)
    assert sum(float(row[2]) for row in rows) == pytest.approx(100, abs=1)
    changed = {row[4]: row[5] for row in rows if "->" in row[5]}
    # Without fusion each activation is a dispatch of its own.
    assert set(changed) == {f"convolution{i}+relu{i}" for i in (1, 2, 3)}
    assert all(", Relu" in kernels.split("->")[1] for kernels in changed.values())
    before, after, speedup = ([float(n.strip("x")) for n in x.split()[1:]] for x in lines[-3:])
    assert before[0] <= before[1] and after[0] <= after[1]
    assert np.allclose(np.divide(before, after), speedup, rtol=0.02, atol=0.01)


@pytest.mark.device
def test_precision_is_switched(run: Run) -> None:
    with vknn.Session(DIGITS, device="vulkan") as session:
        assert session.device is not None
        if "fp16_storage" not in session.device.limits.features:
            pytest.skip(f"{session.device.name} has no 16-bit storage")
    lines = run("profile_and_switch", DATA / "digits.mlmodel", "--precision", "fp16", "--runs", 2)
    assert [line.split()[0] for line in lines[-3:]] == ["before", "after", "speedup"]


def filtered(picture: np.ndarray, strength: float) -> np.ndarray:
    """A picture [height, width, 3] behind the median of 3 x 3 pixels, pixel by pixel."""
    height, width, _ = picture.shape
    result = np.empty_like(picture)
    for y in range(height):
        for x in range(width):
            rows = [min(max(y + d, 0), height - 1) for d in (-1, 0, 1)]
            columns = [min(max(x + d, 0), width - 1) for d in (-1, 0, 1)]
            middle = np.sort(picture[rows][:, columns].reshape(9, 3), axis=0)[4]
            result[y, x] = picture[y, x] + strength * (middle - picture[y, x])
    return result


@pytest.mark.parametrize("strength", [1.0, 0.25])
def test_a_layer_is_added(strength: float, run: Run, device: str) -> None:
    picture = np.random.default_rng(2).integers(0, 256, (20, 24, 3)).astype(np.uint8)
    Image.fromarray(picture).save("picture.png")
    lines = run("custom_layer", "--picture", "picture.png", "--share", 0, "--output", "out.png",
                "--strength", strength, "--device", device)  # fmt: skip
    where = "vulkan" if device == "vulkan" else "host"
    assert f"({where})" in lines[2] and "(host)" in lines[1]
    assert lines[3].startswith("no operator" if device == "numpy" else "all 3 operators agree")
    found = np.asarray(Image.open("out.png"), np.float32)
    assert np.abs(found - filtered(picture.astype(np.float32), strength)).max() <= 0.5


def test_wrong_pixels_are_taken_out(run: Run, device: str) -> None:
    lines = run("custom_layer", "--device", device)
    noisy, one, other = (float(line.split()[-1]) for line in lines[:3])
    assert one < 0.05 * noisy
    assert one == other
    clean = np.asarray(Image.open("clean.png"), np.float64)
    original = np.asarray(Image.open(DATA / "squares.png").convert("RGB"), np.float64)
    assert np.abs(clean - original).mean() == pytest.approx(other, abs=1e-3)


def test_digits_are_learned(run: Run, device: str) -> None:
    lines = run("train", "--device", device, "--epochs", 3)
    losses = [float(line.split()[3]) for line in lines if line.startswith("epoch")]
    assert len(losses) == 3
    assert losses[-1] < 0.4 * losses[0]
    (before, after) = (float(n) for n in re.findall(r"([\d.]+)%", lines[-2]))
    assert before < 35 and after > 80
    assert lines[-1] == "learned.mlmodel predicts the same"
    samples = np.load(DIGITS.with_name("held_out.npz"))
    images = np.rint(samples["images"][270:] * (255 / 16)).astype(np.uint8)
    with vknn.Session("learned.mlmodel", device="numpy") as session:
        labels = [session.run({"image": image})["label"] for image in images]
    assert np.mean(labels == samples["labels"][270:]) * 100 == pytest.approx(after, abs=0.06)
