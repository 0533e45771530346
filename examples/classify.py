"""Classification of a picture: the classes that a network sees in it, and how sure it is.

    python examples/classify.py examples/data/digits.mlmodel examples/data/digit.png

Shows how a picture file becomes the array that a model takes, in any of the formats, and how to
read the outputs: arrays of scores, or for Core ML's classifiers a label and a dictionary of
probabilities. Prints the best classes of each output, the best first. Quantized models give scores
as integers (of 255, say); they are printed as they come.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

import vknn
from inputs import add_model_arguments, add_picture_arguments, open_picture, picture_array


def classify(options: argparse.Namespace) -> dict[str, Any]:
    """The model's outputs for the picture, by name."""
    picture = open_picture(options.picture)
    with vknn.Session(options.model, options.weights, device=options.device) as session:
        array = picture_array(session, picture, options)
        return session.run({session.inputs[0].name: array})


def best(scores: Any, count: int, labels: Sequence[str]) -> list[tuple[str, float]]:
    """The classes with the highest scores, by label or, without labels, by number."""
    if isinstance(scores, dict):  # of a Core ML classifier: label -> probability
        pairs = [(str(label), float(score)) for label, score in scores.items()]
    else:
        flat = np.ravel(scores)
        names = [labels[i] if i < len(labels) else str(i) for i in range(len(flat))]
        pairs = list(zip(names, flat.tolist(), strict=True))
    return sorted(pairs, key=lambda pair: -pair[1])[:count]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_model_arguments(parser)
    add_picture_arguments(parser)
    parser.add_argument("--top", type=int, default=5, help="how many classes to print (5)")
    parser.add_argument("--device", default="auto", help="auto, vulkan:1, numpy or part of a name")
    options = parser.parse_args(arguments)
    for name, value in classify(options).items():
        print(f"{name}:")
        if not isinstance(value, dict) and np.size(value) == 1:
            print(f"  {value}")  # the label that a Core ML classifier predicts
            continue
        for label, score in best(value, options.top, options.labels):
            print(f"  {score:8.4f}  {label}")
    return 0


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except vknn.VknnError as error:
        raise SystemExit(f"error: {error}") from None
