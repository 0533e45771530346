"""Options that the scripts share, and arrays for a model: from a picture, a .npz file, or random.

The other scripts import this module; it does nothing when it is run. What a session wants is in
``session.inputs``: name, shape (None where it is free, for ncnn all of it) and dtype of each input.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

import vknn


def add_model_arguments(
    parser: argparse.ArgumentParser, model: str = ".param, .tflite, .mlmodel or .xml"
) -> None:
    """The options for the model's files; a second one is found by itself where its name fits."""
    parser.add_argument("model", type=Path, help=model)
    parser.add_argument("--weights", type=Path, help="the second file, if it has another name")


def add_picture_arguments(parser: argparse.ArgumentParser) -> None:
    """The options for a picture, the names of classes, and how the model wants its pictures: see
    the model's own description."""
    parser.add_argument("picture", type=Path, help="any picture file that Pillow reads")
    parser.add_argument(
        "--labels", type=_lines, default=[], help="a text file with the name of a class a line"
    )
    parser.add_argument("--size", type=_size, help="WxH; default: the model's, else the picture's")
    parser.add_argument("--order", choices=["rgb", "bgr", "gray"], help="order of the channels")
    parser.add_argument(
        "--mean", type=_numbers, default=[0.0], help="is subtracted, e.g. 104,117,123"
    )
    parser.add_argument("--std", type=_numbers, default=[1.0], help="divides, e.g. 255")


def open_picture(path: Path) -> Image.Image:
    """The picture, upright: cameras store how they were held."""
    with Image.open(path) as file:
        return ImageOps.exif_transpose(file)


def picture_array(
    session: vknn.Session, picture: Image.Image, options: argparse.Namespace
) -> np.ndarray:
    """The picture as the model's first input takes it: (pixel - mean) / std, pixels 0 to 255.

    TensorFlow Lite has [batch, height, width, channels], OpenVINO IR [batch, channels, height,
    width], ncnn [channels, height, width], Core ML's picture inputs [height, width, 3] or [height,
    width].
    """
    spec = session.inputs[0]
    shape = spec.shape or (None, None, None)
    channels_last = len(shape) == 2 or shape[-1] in (1, 3)
    axes = (*shape, 1) if len(shape) == 2 else shape[-3:]
    height, width, channels = axes if channels_last else (*axes[1:], axes[0])
    order = options.order or ("gray" if channels == 1 else "rgb")
    asked = (width, height) if width is not None and height is not None else picture.size
    picture = picture.convert("L" if order == "gray" else "RGB")
    picture = picture.resize(options.size or asked, Image.Resampling.BILINEAR)
    pixels = np.asarray(picture, np.float32).reshape(picture.height, picture.width, -1)
    if order == "bgr":
        pixels = pixels[:, :, ::-1]
    values = (pixels - np.float32(options.mean)) / np.float32(options.std)
    array = (values if channels_last else values.transpose(2, 0, 1)).astype(spec.dtype)
    if len(shape) == 2:
        return array[:, :, 0]
    return array[None] if len(shape) == 4 else array


def add_feed_arguments(parser: argparse.ArgumentParser) -> None:
    """The options for models with any inputs."""
    parser.add_argument("--inputs", type=Path, help="a .npz with an array for each input, by name")
    parser.add_argument(
        "--shape",
        type=_named_shape,
        action="append",
        default=[],
        help="NAME=3,227,227: of a random input whose shape the model leaves free; repeatable",
    )


def feeds_for(session: vknn.Session, options: argparse.Namespace) -> dict[str, np.ndarray]:
    """The arrays of the file --inputs, and random ones for the inputs that it lacks.

    Floats are normally distributed, 8-bit integers have their full range, others are 0 or 1.
    """
    feeds = dict(np.load(options.inputs)) if options.inputs else {}
    shapes = dict(options.shape)
    random = np.random.default_rng(0)
    for spec in session.inputs:
        if spec.name in feeds:
            continue
        shape = shapes.get(spec.name, spec.shape)
        if shape is None or None in shape[1:]:
            raise SystemExit(f"the model leaves the shape free: give --shape {spec.name}=...")
        dims = [1 if n is None else n for n in shape]
        dtype = np.dtype(spec.dtype)
        if dtype.kind == "f":
            feeds[spec.name] = random.standard_normal(dims).astype(dtype)
        elif dtype in (np.int8, np.uint8):
            feeds[spec.name] = random.integers(0, 256, dims).astype(np.uint8).view(dtype)
        else:
            feeds[spec.name] = random.integers(0, 2, dims).astype(dtype)
    return feeds


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines()


def _size(text: str) -> tuple[int, int]:
    width, height = text.lower().split("x")
    return int(width), int(height)


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def _named_shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, dims = text.rpartition("=")
    return name, tuple(int(part) for part in dims.split(","))
