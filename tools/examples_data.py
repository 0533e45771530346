"""Writer of examples/data/: pictures and small models for the scripts in examples/.

    python tools/examples_data.py [FOLDER]

The files are the same each time. Needs Pillow.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from vknn.formats.coreml import coreml_pb2 as pb

ROOT = Path(__file__).resolve().parents[1]
DIGIT = 5  # of the demo's held-out samples
#: Squares on cells of 16 x 16 pixels: column, row, colour.
SQUARES = ((0, 1, "red"), (3, 0, "lime"), (1, 3, "blue"), (5, 3, "red"))

#: One convolution computes, from the mean colour of each cell of 16 x 16 pixels, what YOLO version
#: 3 reads: the offset of the centre (2 channels), the logarithm of the size (2), objectness, and a
#: score for each class.
DETECTOR = """7767517
4 4
Input                 data    0 1 data 0=96 1=64 2=3
Pooling               means   1 1 data means 0=1 1=16 2=16
Convolution           heads   1 1 means heads 0=8 1=1 5=1 6=24
Yolov3DetectionOutput found   1 1 heads found 0=3 1=1 2=0.5 3=0.45 \
-23304=2,16.0,16.0 -23305=1,0.0 -23306=1,16.0
"""


def write_digit(folder: Path) -> None:
    """digit.png: a handwritten digit that the demo's network was not trained on."""
    levels = np.load(ROOT / "tools" / "demo_model" / "held_out.npz")["images"][DIGIT]
    Image.fromarray((levels * (255 / 16)).astype(np.uint8)).save(folder / "digit.png")


def write_squares(folder: Path) -> None:
    """squares.png, and a detector of red, green and blue squares: squares.param, .bin, .txt."""
    picture = Image.new("RGB", (96, 64))
    pen = ImageDraw.Draw(picture)
    for column, row, colour in SQUARES:
        left, top = 16 * column, 16 * row
        pen.rectangle((left, top, left + 15, top + 15), fill=colour)
    picture.save(folder / "squares.png")
    weights, bias = np.zeros((8, 3), "<f4"), np.zeros(8, "<f4")
    weights[4], bias[4] = 40, -10
    weights[5:], bias[5:] = 20 * np.eye(3), -10
    (folder / "squares.param").write_text(DETECTOR)
    # The first four bytes say that the weights are float32.
    (folder / "squares.bin").write_bytes(bytes(4) + weights.tobytes() + bias.tobytes())
    (folder / "squares.txt").write_text("background\nred\ngreen\nblue\n")


def write_updatable(folder: Path) -> None:
    """digits.mlmodel: a classifier of digits with random weights, all of them updatable.

    Convolution 3 x 3 with 8 channels, ReLU, max pooling, a dense layer and softmax, to be trained
    by Adam on categorical cross entropy.
    """
    model = pb.Model(specificationVersion=4, isUpdatable=True)
    _describe(model.description)
    network = model.neuralNetworkClassifier
    network.int64ClassLabels.vector.extend(range(10))
    network.preprocessing.add(featureName="image").scaler.channelScale = 1 / 255
    random = np.random.default_rng(3)
    convolution = _layer(network, "convolution1", "image", "convolution1").convolution
    convolution.outputChannels, convolution.kernelChannels, convolution.nGroups = 8, 1, 1
    convolution.kernelSize.extend([3, 3])
    convolution.same.SetInParent()
    _trainable(network.layers[-1], convolution, random.normal(0, 0.5, (8, 9)))
    _layer(network, "relu1", "convolution1", "relu1").activation.ReLU.SetInParent()
    pooling = _layer(network, "pooling1", "relu1", "pooling1").pooling
    pooling.kernelSize.extend([2, 2])
    pooling.stride.extend([2, 2])
    pooling.valid.SetInParent()
    _layer(network, "flatten1", "pooling1", "flatten1").flatten.SetInParent()
    dense = _layer(network, "innerproduct1", "flatten1", "innerproduct1").innerProduct
    dense.inputChannels, dense.outputChannels = 128, 10
    _trainable(network.layers[-1], dense, random.normal(0, 0.1, (10, 128)))
    _layer(network, "softmax1", "innerproduct1", "probabilities").softmax.SetInParent()
    _settings(network.updateParams)
    (folder / "digits.mlmodel").write_bytes(model.SerializeToString(deterministic=True))


def _describe(description: Any) -> None:
    """Grey pictures of 8 x 8 pixels in, a label and its probabilities out."""
    description.predictedFeatureName = "label"
    description.predictedProbabilitiesName = "probabilities"
    for pictures in (description.input, description.trainingInput):
        image = pictures.add(name="image").type.imageType
        image.width, image.height = 8, 8
        image.colorSpace = pb.ImageFeatureType.GRAYSCALE
    for labels in (description.output, description.trainingInput):
        labels.add(name="label").type.int64Type.SetInParent()
    scores = description.output.add(name="probabilities").type.dictionaryType
    scores.int64KeyType.SetInParent()


def _layer(network: Any, name: str, source: str, result: str) -> Any:
    layer = network.layers.add(name=name)
    layer.input.append(source)
    layer.output.append(result)
    return layer


def _trainable(layer: Any, parameters: Any, weights: np.ndarray) -> None:
    """Weights [outputs, inputs] and a bias of zeros, which training changes."""
    parameters.hasBias = True
    parameters.weights.floatValue.extend(weights.reshape(-1).tolist())
    parameters.bias.floatValue.extend([0.0] * len(weights))
    layer.isUpdatable = parameters.weights.isUpdatable = parameters.bias.isUpdatable = True


def _settings(update: Any) -> None:
    loss = update.lossLayers.add(name="loss").categoricalCrossEntropyLossLayer
    loss.input, loss.target = "probabilities", "label"
    adam = update.optimizer.adamOptimizer
    adam.learningRate.defaultValue = 0.01
    adam.beta1.defaultValue, adam.beta2.defaultValue = 0.9, 0.999
    adam.eps.defaultValue = 1e-8
    adam.miniBatchSize.defaultValue = 16
    update.epochs.defaultValue = 10
    update.shuffle.defaultValue = True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default = ROOT / "examples" / "data"
    parser.add_argument("folder", nargs="?", type=Path, default=default, help="examples/data")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for write in (write_digit, write_squares, write_updatable):
        write(folder)


if __name__ == "__main__":
    main()
