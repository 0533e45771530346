"""The commands on .mlmodel files: pictures, classifiers, control flow, pipelines."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import (
    array_feature,
    layer,
    model,
    network,
    number_feature,
    suppression,
    weights,
)
from tests.formats.coreml.test_classifier import net as classifier
from tests.formats.coreml.test_images import feature
from tests.formats.coreml.test_images import net as image_net
from tests.formats.coreml.test_pipelines import pipeline

from vknn.cli import main

Image = pytest.importorskip("PIL.Image")


def run_json(capsys: pytest.CaptureFixture[str], *argv: object, code: int = 0) -> Any:
    assert main([str(a) for a in (*argv, "--json")]) == code
    return json.loads(capsys.readouterr().out)


def written(message: Any, folder: Path) -> Path:
    path = folder / "net.mlmodel"
    path.write_bytes(message.SerializeToString())
    return path


@pytest.mark.parametrize("color", ["RGB", "BGR", "GRAYSCALE"])
def test_pictures_from_files(color: str, capsys: Any, tmp_path: Path) -> None:
    path = written(image_net(color), tmp_path)
    pixels = np.random.default_rng(1).integers(0, 256, (3, 4, 3), np.uint8)
    picture = Image.fromarray(pixels)
    picture = picture.convert("L") if color == "GRAYSCALE" else picture
    picture.save(tmp_path / "picture.png")
    run_json(capsys, "run", path, "--input", tmp_path / "picture.png", "--output",
             tmp_path / "out.npz", "--device", "numpy")  # fmt: skip
    with np.load(tmp_path / "out.npz") as made:
        found = made["y"][0]
    wanted = np.asarray(picture, np.float32)
    wanted = wanted[None] if wanted.ndim == 2 else wanted.transpose(2, 0, 1)
    assert np.array_equal(found, wanted[::-1] if color == "BGR" else wanted)


def test_a_picture_is_scaled_to_the_models_size(capsys: Any, tmp_path: Path) -> None:
    path = written(image_net("RGB", height=8, width=6), tmp_path)
    Image.new("RGB", (40, 40), (9, 8, 7)).save(tmp_path / "picture.png")
    found = run_json(capsys, "run", path, "--input", tmp_path / "picture.png")
    assert found["outputs"][0]["shape"] == [1, 3, 8, 6]
    assert found["outputs"][0]["max"] == 9


def test_a_classifier(capsys: Any, tmp_path: Path) -> None:
    path = written(classifier(["cat", "dog", "owl", "ant"]), tmp_path)
    np.save(tmp_path / "x.npy", np.float32([0.1, 0.7, 0.2, 0.0]))
    arguments = ("run", path, "--input", tmp_path / "x.npy", "--device", "numpy")
    label, scores = run_json(capsys, *arguments)["outputs"]
    assert (label["name"], label["value"]) == ("label", "dog")
    assert [entry["label"] for entry in scores["top"][:2]] == ["dog", "owl"]
    assert main([str(a) for a in arguments]) == 0
    assert "dog" in capsys.readouterr().out
    assert main([str(a) for a in (*arguments, "--output", tmp_path / "out.npz")]) == 0
    with np.load(tmp_path / "out.npz") as made:
        assert str(made["label"]) == "dog"
        assert made["scores"].shape == (4,)


@pytest.mark.device
def test_verify(capsys: Any, tmp_path: Path) -> None:
    loop = layer(
        "loop", ["n"], [],
        bodyNetwork=network([
            layer("scale", ["y"], ["t"], scale=weights([2]), shapeScale=[1]),
            layer("copy", ["t"], ["y"], name="back"),
        ]),
    )  # fmt: skip
    looping = model([layer("copy"), loop], {"x": (1, 2, 3, 3), "n": (1,)})
    np.savez(tmp_path / "feeds.npz", x=np.ones((1, 2, 3, 3), np.float32), n=np.float32([3]))
    path = written(looping, tmp_path)
    found = run_json(capsys, "verify", path, "--input", tmp_path / "feeds.npz")
    assert found["ok"]
    path = written(classifier(["a", "b", "c", "d"]), tmp_path)
    # It has no operator: nothing is wrong, and nothing was checked.
    assert run_json(capsys, "verify", path, code=1)["ok"]
    stages = [image_net("RGB"), classifier(["a", "b", "c", "d"])]
    outputs = [array_feature("label"), array_feature("y")]
    message = pipeline(stages, [feature("RGB")], outputs)
    stages[1].description.input[0].name = stages[1].neuralNetworkClassifier.layers[0].input[0] = "s"
    message = pipeline(stages, [feature("RGB"), array_feature("s", (4,))], outputs)
    assert run_json(capsys, "verify", written(message, tmp_path))["ok"]


def detector() -> Any:
    """From a picture: the colours of its halves, the left one twice, and the halves."""
    layers = [
        layer("pooling", ["image"], ["means"], type="AVERAGE", kernelSize=[6, 6], stride=[6, 6],
              valid={}),
        layer("reshapeStatic", ["means"], ["flat"], targetShape=[3, 2]),
        layer("transpose", ["flat"], ["rows"], axes=[1, 0]),
        layer("loadConstantND", [], ["which"], name="which", shape=[3], data=weights([0, 1, 0])),
        layer("gather", ["rows", "which"], ["scores"], axis=0),
        layer("loadConstantND", [], ["boxes"], name="boxes", shape=[3, 4], data=weights(
            [(0.25, 0.5, 0.5, 1), (0.75, 0.5, 0.5, 1), (0.3, 0.5, 0.4, 1)])),
    ]  # fmt: skip
    first = model(layers, {}, ["scores", "boxes"])
    picture = feature("RGB", 6, 12, name="image")
    first.description.input.append(picture)
    first.neuralNetwork.preprocessing.add(featureName="image").scaler.channelScale = 1 / 255
    last = suppression(
        labels=["red", "green", "blue"],
        iouThresholdInputFeatureName="iouThreshold",
        confidenceThresholdInputFeatureName="confidenceThreshold",
    )
    numbers = [number_feature(n) for n in ("iouThreshold", "confidenceThreshold")]
    outputs = [array_feature(n) for n in ("confidence", "coordinates")]
    return pipeline([first, last], [picture, *numbers], outputs)


@pytest.mark.device
def test_a_detector(capsys: Any, tmp_path: Path) -> None:
    """The picture is all that it needs; the thresholds are the model's unless they are given."""
    path, picture, drawn = written(detector(), tmp_path), tmp_path / "a.png", tmp_path / "b.png"
    pixels = np.zeros((12, 24, 3), np.uint8)
    pixels[:, :12, 0], pixels[:, 12:, 2] = 255, 200
    Image.fromarray(pixels).save(picture)
    assert main(["run", str(path), str(picture), "--draw", str(drawn), "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    # The scaling of the picture blurs the colours a little where they meet.
    assert re.search(r"red 0\.9\d at 0,0,12,12; blue 0\.7\d at 12,0,24,12$", out.strip())
    with Image.open(drawn) as image:
        assert not np.array_equal(np.asarray(image.resize((24, 12))), pixels)
    for threshold, count in ((0.9, 1), (0.0, 2)):
        np.save(tmp_path / "t.npy", np.float32([threshold]))
        given = ("--input", f"image={picture}", "--input",
                 f"confidenceThreshold={tmp_path / 't.npy'}")  # fmt: skip
        found = run_json(capsys, "run", path, *given, "--device", "cpu")
        assert len(found["answer"]["found"]) == count
    assert run_json(capsys, "verify", path, "--input", picture)["ok"]


def test_info(capsys: Any, tmp_path: Path) -> None:
    found = run_json(capsys, "info", written(image_net("RGB"), tmp_path))
    assert found["inputs"][0]["shape"] == [3, 4, 3]
    assert found["inputs"][0]["dtype"] == "uint8"


def test_bench_and_profile(capsys: Any, tmp_path: Path) -> None:
    path = written(classifier(["a", "b", "c", "d"]), tmp_path)
    assert main(["bench", str(path), "--device", "numpy", "--json"]) == 0
    assert main(["profile", str(path), "--device", "numpy", "--json"]) == 0
