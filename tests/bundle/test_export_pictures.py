"""Pictures of Core ML as ports: bytes, height x width x 3 or height x width."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vknn import Session, export
from vknn.bundle import Bundle
from vknn.cli.main import main
from vknn.errors import InputError

pytest.importorskip("PIL.Image")
from tests.formats.coreml.test_images import GRAY_PIXELS, PIXELS, net

pytestmark = pytest.mark.glsl


def saved(color: str, folder: Path) -> Path:
    path = folder / "net.mlmodel"
    path.write_bytes(net(color).SerializeToString())
    return path


def port_and_example(path: Path, **options: Any) -> tuple[Any, np.ndarray]:
    """The picture's port in a bundle, and its example."""
    out = path.with_suffix(".vkb")
    export(path, out, **options)
    [plan] = Bundle.open(out).plans
    [port] = plan.inputs
    [array] = [e.array for e in plan.examples if e.port.name == port.name]
    return port, array


def told(port: Any) -> tuple[Any, ...]:
    return port.shape, port.dtype, port.layout, port.picture


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shapes": {"x": (3, 4, 1)}},
        {"example": {"x": GRAY_PIXELS}},
        {"example": {"x": GRAY_PIXELS[..., None]}},
        {"example": {"x": GRAY_PIXELS.astype(np.float32)}},
    ],
)
def test_grey_pictures(options: dict[str, Any], tmp_path: Path) -> None:
    """With the axis of the one colour or without it, in whatever type: a byte a pixel."""
    port, array = port_and_example(saved("GRAYSCALE", tmp_path), **options)
    assert told(port) == ((3, 4), np.uint8, "HW", "GRAY")
    if "example" in options:
        assert np.array_equal(array, GRAY_PIXELS)


@pytest.mark.parametrize("color", ["RGB", "BGR"])
def test_pictures_of_colours(color: str, tmp_path: Path) -> None:
    example = {"x": PIXELS.astype(np.float64)}
    port, array = port_and_example(saved(color, tmp_path), example=example)
    assert told(port) == ((3, 4, 3), np.uint8, "HWC", "RGB")
    assert np.array_equal(array, PIXELS)


@pytest.mark.parametrize("number", [0.5, -1.0, 256.0, np.nan])
def test_numbers_that_are_no_pixels(number: float, tmp_path: Path) -> None:
    pixels = PIXELS.astype(np.float32)
    pixels[1, 2, 0] = number
    path = saved("RGB", tmp_path)
    with pytest.raises(InputError, match="picture 'x' has numbers that are no pixels"):
        export(path, tmp_path / "net.vkb", example={"x": pixels})
    pixels[1, 2, 0] = 7.0
    export(path, tmp_path / "net.vkb", example={"x": pixels})


def test_shapes_on_the_command_line(tmp_path: Path) -> None:
    path, out = saved("GRAYSCALE", tmp_path), tmp_path / "net.vkb"
    assert main(["export", str(path), "-o", str(out), "--shape", "x=3,4,1"]) == 0
    [plan] = Bundle.open(out).plans
    assert plan.shapes == "x=3,4"
    with Session(path, device="cpu") as session:
        wanted = session.run({"x": plan.examples[0].array})["y"]
    np.testing.assert_array_equal(plan.examples[1].array, wanted)
