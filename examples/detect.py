"""Detects objects in a picture and draws a box around each.

    python examples/detect.py examples/data/squares.param examples/data/squares.png \\
        --std 255 --labels examples/data/squares.txt --output boxes.png

Works with networks whose last layer is a detector of its format, which gives boxes in fractions of
the picture:

- ncnn (DetectionOutput, Yolov3DetectionOutput): rows of class, score, left, top, right, bottom
- OpenVINO IR (DetectionOutput): the same behind the number of the picture, which is -1 behind the
  last row
- TensorFlow Lite (TFLite_Detection_PostProcess): boxes (top, left, bottom, right), classes, scores
  and the number of boxes, each an output

Prints a line for each object: label, score and box (left, top, right, bottom in pixels of the
picture). Writes the picture with the boxes drawn.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

import vknn
from inputs import add_picture_arguments, picture_array

COLOURS = ("yellow", "cyan", "magenta", "orange", "white")


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
    shapes = ", ".join(f"{name} {array.shape}" for name, array in outputs.items())
    raise SystemExit(f"the outputs are not those of a detector's last layer: {shapes}")


def draw(picture: Image.Image, box: Sequence[float], kind: int, text: str) -> None:
    """A box (in pixels) and a text at its upper left corner."""
    pen, colour = ImageDraw.Draw(picture), COLOURS[kind % len(COLOURS)]
    pen.rectangle(list(box), outline=colour, width=max(1, picture.width // 200))
    pen.text((box[0] + 3, box[1] + 1), text, fill=colour)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, help="a detector: .param, .tflite or .xml")
    parser.add_argument("picture", type=Path, help="any picture file that Pillow reads")
    parser.add_argument("--weights", type=Path, help="the second file, if it has another name")
    parser.add_argument("--labels", type=Path, help="a text file with the name of a class a line")
    parser.add_argument("--threshold", type=float, default=0.5, help="lowest score (0.5)")
    parser.add_argument("--output", type=Path, default=Path("boxes.png"), help="(boxes.png)")
    parser.add_argument("--device", default="auto", help="auto, vulkan:1, numpy or part of a name")
    add_picture_arguments(parser)
    options = parser.parse_args(arguments)
    labels = options.labels.read_text(encoding="utf-8").splitlines() if options.labels else []
    with Image.open(options.picture) as file:
        picture = file.convert("RGB")
    with vknn.Session(options.model, options.weights, device=options.device) as session:
        array = picture_array(session, picture, options)
        rows = detections(session.run({session.inputs[0].name: array}))
    rows = rows[rows[:, 1] >= options.threshold]
    for number, score, *corners in rows.tolist():
        kind = int(number)
        label = labels[kind] if kind < len(labels) else str(kind)
        box = [c * side for c, side in zip(corners, picture.size * 2, strict=True)]
        print(f"{label} {score:.3f} at " + ", ".join(f"{value:.0f}" for value in box))
        draw(picture, box, kind, f"{label} {score:.2f}")
    picture.save(options.output)
    print(f"{len(rows)} objects; boxes are drawn in {options.output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
