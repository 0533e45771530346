"""Remedies of pictures and answers on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.remedies.case import HOST, Case, Place
from tests.tflite_writer import Net

#: A network whose output nothing explains.
COPY = "7767517\n2 2\nInput data 0 1 data\nNoop n 1 1 data out\n"


def picture(place: Place, name: str = "cat.png", frames: int = 1) -> Path:
    image = pytest.importorskip("PIL.Image")
    path = place.folder / name
    made = [image.new("RGB", (8, 8), (99 * n, 0, 0)) for n in range(frames)]
    made[0].save(path, save_all=frames > 1, **({"append_images": made[1:]} if frames > 1 else {}))
    return path


def draw(place: Place, target: str, *given: Path) -> str:
    """The small classifier on pictures, drawn."""
    files = given or (picture(place),)
    return place.command("run", place.model, *files, *HOST, "--draw", place.folder / target)


def two(place: Place) -> tuple[Path, Path]:
    return picture(place), picture(place, "dog.png")


def array(place: Place) -> Path:
    path = place.folder / "data.npy"
    np.save(path, np.zeros((3, 8, 8), np.float32))
    return path


def copying(place: Place, *argv: object) -> str:
    model = place.folder / "copy.param"
    model.write_text(COPY)
    model.with_suffix(".bin").write_bytes(b"")
    target = place.folder / "out.png"
    return place.command("run", model, picture(place), *HOST, "--draw", target, *argv)


def recipe(place: Place, output: str) -> Path:
    path = place.folder / "mine.json"
    path.write_text(json.dumps({"task": "image", "decode": {"image": output}}))
    return path


def image_of_scores(place: Place, *argv: object) -> str:
    """A recipe that takes the classifier's scores for a picture: [5] is none."""
    given = argv or ("--recipe", recipe(place, "out"))
    return place.command("run", place.model, picture(place), *HOST, *given)


def without_a_recipe(place: Place) -> None:
    image_of_scores(place, "--recipe", "none")
    path = place.folder / "scores.json"
    path.write_text(json.dumps({"task": "classification"}))
    image_of_scores(place, "--recipe", path)


def bytes_of(place: Place, dtype: str, *argv: object) -> None:
    """A picture with white in it for an input of small integers."""
    image = pytest.importorskip("PIL.Image")
    image.new("L", (4, 4), 255).save(place.folder / "white.png")
    image.new("L", (4, 4), 0).save(place.folder / "black.png")
    net = Net()
    net.inputs = [net.tensor("x", (1, 4, 4, 1), dtype)]
    net.outputs = [net.tensor("y", (1, 4, 4, 1), dtype)]
    net.add("RESHAPE", [0, net.tensor("shape", data=[1, 4, 4, 1], dtype="int32")], [1])
    model = place.folder / f"{dtype}.tflite"
    model.write_bytes(net.file())
    for name in ("white.png", "black.png"):
        place.command("run", model, place.folder / name, *HOST, *argv)


CASES = [
    Case(
        "--draw {} is one file and there are {}: give it a folder",
        lambda p: draw(p, "out.png", *two(p)),
        lambda p: draw(p, "drawn", *two(p)),
    ),
    Case(
        "{} has several frames and --draw {} is one file: give it a folder",
        lambda p: draw(p, "out.png", picture(p, "moving.gif", 2)),
        lambda p: draw(p, "drawn", picture(p, "moving.gif", 2)),
    ),
    Case(
        "--draw {}: Pillow writes no such pictures; .png and .jpg are some it does",
        lambda p: draw(p, "out.xyz"),
        lambda p: (draw(p, "out.png"), draw(p, "out.jpg")),
    ),
    Case(
        "--draw would write over the picture {}: give another folder",
        lambda p: draw(p, "."),
        lambda p: draw(p, "drawn"),
    ),
    Case(
        "the input takes {} and the picture has values from {} to {}: (value - mean) / std must be "
        "within {} and {}; for all of a picture use --mean {} --std 1",
        lambda p: bytes_of(p, "int8"),
        lambda p: (
            bytes_of(p, "int8", "--mean", 128, "--std", 1),
            bytes_of(p, "uint8", "--mean", 0, "--std", 1),
        ),
    ),
    Case(
        "--draw draws on pictures, and the input is none",
        lambda p: draw(p, "out.png", array(p)),
        lambda p: draw(p, "out.png"),
    ),
    Case(
        "nothing says what the outputs ({}) of this model mean: give a recipe (--recipe FILE, or "
        "<model>.recipe.json beside the model; docs/recipes.md)",
        copying,
        lambda p: (
            copying(p, "--recipe", recipe(p, "out")),
            recipe(p, "out").rename(p.folder / "copy.param.recipe.json"),
            copying(p),
        ),
    ),
    Case(
        "output {} has the shape {}, which the recipe's {} do not fit: vknn run --recipe FILE "
        "gives another recipe (docs/recipes.md), --recipe none none",
        image_of_scores,
        without_a_recipe,
    ),
]
