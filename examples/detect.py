"""Object detection: the objects in a picture, with a box drawn around each.

    python examples/detect.py examples/data/squares.param examples/data/squares.png \\
        --std 255 --labels examples/data/squares.txt --output boxes.png

Works with networks whose last layer is a detector of its format, which gives boxes in fractions of
the picture:

- ncnn (DetectionOutput, Yolov3DetectionOutput): rows of class, score, left, top, right, bottom
- OpenVINO IR (DetectionOutput): the same behind the number of the picture, which is -1 behind the
  last row
- TensorFlow Lite (TFLite_Detection_PostProcess): boxes (top, left, bottom, right), classes, scores
  and the number of boxes, each an output

With --priors it works with SSD networks that end before this layer. Their outputs are how far each
prior box is to be moved, [priors, 4], and its scores, [priors, classes], where class 0 is the
background. The option gives for each feature map its stride and the sides of its squares in pixels;
those of the RFB-320 face detector are 8:10,16,24 16:32,48 32:64,96 64:128,192,256.

Prints a line for each object: label, score and box (left, top, right, bottom in pixels of the
picture). Writes the picture with the boxes drawn.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

import vknn
from inputs import add_model_arguments, add_picture_arguments, open_picture, picture_array

COLOURS = ("yellow", "cyan", "magenta", "orange", "white")
MAX_OVERLAP = 0.45

Maps = Sequence[tuple[int, Sequence[float]]]


def detections(outputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """Rows [n, 6] of class, score, left, top, right, bottom, whatever the format."""
    arrays = list(outputs.values())
    if len(arrays) == 4:  # TensorFlow Lite
        boxes, classes, scores, count = arrays
        rows = np.stack([classes[0], scores[0], *boxes[0, :, [1, 0, 3, 2]]], axis=1)
        return rows[: int(count[0])]
    if len(arrays) == 1 and arrays[0].shape[-1] == 7:  # OpenVINO IR
        rows = arrays[0].reshape(-1, 7)
        ended = np.flatnonzero(rows[:, 0] < 0)
        return rows[: ended[0] if len(ended) else len(rows), 1:]
    if len(arrays) == 1 and arrays[0].shape[-1] == 6:  # ncnn
        return arrays[0].reshape(-1, 6)
    raise SystemExit(f"the outputs are not those of a detector's last layer: {shapes(outputs)}")


def prior_boxes(width: int, height: int, maps: Maps) -> np.ndarray:
    """The prior boxes of all feature maps: centre x, y, width and height, [n, 4] in fractions."""
    boxes = []
    for stride, sides in maps:
        counts = math.ceil(height / stride), math.ceil(width / stride)
        y, x, side = np.meshgrid(*(np.arange(n) + 0.5 for n in counts), sides, indexing="ij")
        parts = (x * stride / width, y * stride / height, side / width, side / height)
        boxes.append(np.stack(parts, axis=-1).reshape(-1, 4))
    return np.concatenate(boxes)


def from_heads(
    outputs: Mapping[str, np.ndarray], priors: np.ndarray, threshold: float
) -> np.ndarray:
    """Rows as of ``detections``, from how priors move (with SSD's variances) and their scores."""
    heads = [array.reshape(-1, array.shape[-1]) for array in outputs.values()]
    if sorted(head.shape[1] == 4 for head in heads) != [False, True]:
        raise SystemExit(f"the outputs are not boxes and scores: {shapes(outputs)}")
    moves, scores = sorted(heads, key=lambda head: head.shape[1] != 4)
    if len(moves) != len(priors):
        raise SystemExit(f"the network has {len(moves)} priors, --priors gives {len(priors)}")
    centres = priors[:, :2] + 0.1 * moves[:, :2] * priors[:, 2:]
    halves = priors[:, 2:] * np.exp(0.2 * moves[:, 2:]) / 2
    kinds = 1 + scores[:, 1:].argmax(axis=1)
    best = scores[np.arange(len(scores)), kinds]
    rows = np.column_stack([kinds, best, centres - halves, centres + halves])
    return without_doubles(rows[best >= threshold])


def without_doubles(rows: np.ndarray) -> np.ndarray:
    """Non-maximum suppression: of boxes of a class that overlap, the one with the best score."""
    left, kept = rows[np.argsort(-rows[:, 1])], []
    while len(left):
        first, left = left[0], left[1:]
        kept.append(first)
        inner = np.minimum(left[:, 4:], first[4:]) - np.maximum(left[:, 2:4], first[2:4])
        inner = inner.clip(0).prod(axis=1)
        areas = (left[:, 4:] - left[:, 2:4]).prod(axis=1) + (first[4:] - first[2:4]).prod()
        left = left[(inner <= MAX_OVERLAP * (areas - inner)) | (left[:, 0] != first[0])]
    return np.array(kept).reshape(-1, 6)


def shapes(outputs: Mapping[str, np.ndarray]) -> str:
    return ", ".join(f"{name} {array.shape}" for name, array in outputs.items())


def draw(picture: Image.Image, box: Sequence[float], kind: int, text: str) -> None:
    """A box (in pixels) and a text at its upper left corner."""
    pen, colour = ImageDraw.Draw(picture), COLOURS[kind % len(COLOURS)]
    pen.rectangle(list(box), outline=colour, width=max(1, picture.width // 200))
    pen.text((box[0] + 3, box[1] + 1), text, fill=colour)


def detect(picture: Image.Image, options: argparse.Namespace) -> np.ndarray:
    """Rows [n, 6] of what the model finds with a score of at least the threshold."""
    with vknn.Session(options.model, options.weights, device=options.device) as session:
        array = picture_array(session, picture, options)
        outputs = session.run({session.inputs[0].name: array})
    if options.priors:
        height, width = array.shape[-3:-1] if array.shape[-1] in (1, 3) else array.shape[-2:]
        return from_heads(outputs, prior_boxes(width, height, options.priors), options.threshold)
    rows = detections(outputs)
    return rows[rows[:, 1] >= options.threshold]


def feature_map(text: str) -> tuple[int, list[float]]:
    """8:10,16,24 as a stride and the sides of prior boxes."""
    stride, _, sides = text.partition(":")
    return int(stride), [float(side) for side in sides.split(",")]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_model_arguments(parser, "a detector: .param, .tflite or .xml")
    add_picture_arguments(parser)
    parser.add_argument("--threshold", type=float, default=0.5, help="lowest score (0.5)")
    parser.add_argument("--priors", type=feature_map, nargs="+", metavar="STRIDE:SIDE,SIDE")
    parser.add_argument("--output", type=Path, default=Path("boxes.png"), help="(boxes.png)")
    parser.add_argument("--device", default="auto", help="auto, vulkan:1, numpy or part of a name")
    options = parser.parse_args(arguments)
    picture = open_picture(options.picture).convert("RGB")
    rows = detect(picture, options)
    for number, score, *corners in rows.tolist():
        kind = int(number)
        label = options.labels[kind] if kind < len(options.labels) else str(kind)
        box = [c * side for c, side in zip(corners, picture.size * 2, strict=True)]
        print(f"{label} {score:.3f} at " + ", ".join(f"{value:.0f}" for value in box))
        draw(picture, box, kind, f"{label} {score:.2f}")
    picture.save(options.output)
    print(f"{len(rows)} objects; boxes are drawn in {options.output}")
    return 0


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except vknn.VknnError as error:
        raise SystemExit(f"error: {error}") from None
