"""Image inputs and outputs, and their preprocessing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.coreml_writer import layer, model, session
from tests.helpers import shared_device

from vknn.errors import InputError, ModelFormatError, ShapeError
from vknn.formats.coreml import coreml_pb2 as pb
from vknn.graph import DType

Image = pytest.importorskip("PIL.Image")
RNG = np.random.default_rng(5)
PIXELS = RNG.integers(0, 256, (3, 4, 3), np.uint8)
GRAY_PIXELS = PIXELS[..., 1]


def feature(color: str, height: int = 3, width: int = 4, name: str = "x") -> Any:
    described = pb.FeatureDescription(name=name)
    image = described.type.imageType
    image.height, image.width = height, width
    image.colorSpace = pb.ImageFeatureType.ColorSpace.Value(color)
    return described


def net(color: str, rank: int = 4, **size: int) -> Any:
    """A network that copies an image into a blob."""
    message = model([layer("copy")], {})
    message.description.input.append(feature(color, **size))
    message.neuralNetwork.imageInputShapeMapping = (
        pb.RANK4_IMAGE_MAPPING if rank == 4 else pb.RANK5_IMAGE_MAPPING
    )
    return message


def blob(message: Any, x: Any, device: Any = "numpy") -> np.ndarray:
    with session(message, device) as s:
        return s.run({"x": x})["y"]


@pytest.mark.parametrize("rank", [4, 5])
@pytest.mark.parametrize("color", ["RGB", "BGR", "GRAYSCALE", "GRAYSCALE_FLOAT16"])
@pytest.mark.parametrize("device", ["numpy", pytest.param("vulkan", marks=pytest.mark.device)])
def test_pixels_become_channels(color: str, rank: int, device: str) -> None:
    gray = color.startswith("GRAY")
    pixels = GRAY_PIXELS if gray else PIXELS
    found = blob(net(color, rank), pixels, device if device == "numpy" else shared_device())
    wanted = pixels[None] if gray else pixels.transpose(2, 0, 1)
    wanted = wanted[::-1] if color == "BGR" else wanted
    assert found.dtype == np.float32
    assert found.shape == (1,) * (rank - 3) + wanted.shape
    assert np.array_equal(found.reshape(wanted.shape), wanted)


def test_a_transposition_of_three_axes_of_a_picture() -> None:
    """As coremltools writes it where a picture takes the place of an array (height, width, 3)."""
    message = net("RGB")
    del message.neuralNetwork.layers[:]
    message.neuralNetwork.layers.append(layer("transpose", axes=[1, 2, 0]))
    assert np.array_equal(blob(message, PIXELS), PIXELS)


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "P", "1"])
def test_pictures(mode: str) -> None:
    picture = Image.fromarray(PIXELS).convert(mode)
    color = np.asarray(picture.convert("RGB"), np.float32).transpose(2, 0, 1)[None]
    assert np.array_equal(blob(net("RGB"), picture), color)
    assert np.array_equal(blob(net("BGR"), picture), color[:, ::-1])
    gray = np.asarray(picture.convert("L"), np.float32)[None, None]
    assert np.array_equal(blob(net("GRAYSCALE"), picture), gray)


def test_other_arrays_of_pixels() -> None:
    wanted = blob(net("RGB"), PIXELS)
    for dtype in ("int32", "int64", "uint16", "float32", "float64"):
        assert np.array_equal(blob(net("RGB"), PIXELS.astype(dtype)), wanted), dtype
    assert np.array_equal(blob(net("RGB"), PIXELS[:, ::-1][:, ::-1]), wanted)
    assert np.array_equal(blob(net("GRAYSCALE"), GRAY_PIXELS[..., None])[0, 0], GRAY_PIXELS)
    halves = blob(net("RGB"), PIXELS.astype(np.float32) / 2)
    assert np.array_equal(halves, wanted / 2)


@pytest.mark.parametrize(
    "bad",
    [np.zeros((4, 3, 3)), np.zeros((3, 4)), np.zeros((3, 4, 4)), np.zeros((3, 3, 4)),
     np.zeros((1, 3, 4, 3)), np.full((3, 4, 3), 256), np.full((3, 4, 3), -1)],
)  # fmt: skip
def test_what_is_no_such_image(bad: np.ndarray) -> None:
    with pytest.raises(InputError, match="'x'"):
        blob(net("RGB"), bad)


def test_a_picture_of_another_size() -> None:
    with pytest.raises(InputError, match=r"height and width \[6, 5\].*\[3, 4\].*resize it before"):
        blob(net("RGB"), Image.new("RGB", (5, 6)))


def scaled(color: str, **scaler: float) -> Any:
    message = net(color)
    entry = message.neuralNetwork.preprocessing.add(featureName="x")
    entry.scaler.SetInParent()
    for key, value in scaler.items():
        setattr(entry.scaler, key, value)
    return message


SCALER = {
    "channelScale": 0.5, "redBias": 1.0, "greenBias": -2.0, "blueBias": 3.0, "grayBias": 4.0,
}  # fmt: skip


@pytest.mark.parametrize("device", ["numpy", pytest.param("vulkan", marks=pytest.mark.device)])
def test_scaler(device: str) -> None:
    where = device if device == "numpy" else shared_device()
    channels = PIXELS.transpose(2, 0, 1).astype(np.float32)
    bias = np.array([1, -2, 3], np.float32)[:, None, None]
    wanted = channels * 0.5 + bias
    assert np.array_equal(blob(scaled("RGB", **SCALER), PIXELS, where)[0], wanted)
    assert np.array_equal(blob(scaled("BGR", **SCALER), PIXELS, where)[0], wanted[::-1])
    gray = blob(scaled("GRAYSCALE", **SCALER), GRAY_PIXELS, where)[0, 0]
    assert np.array_equal(gray, GRAY_PIXELS * np.float32(0.5) + 4)


def test_a_scaler_without_a_scale() -> None:
    channels = PIXELS.transpose(2, 0, 1).astype(np.float32)
    assert np.array_equal(blob(scaled("RGB", blueBias=2.0), PIXELS)[0, 2], channels[2] + 2)
    assert np.array_equal(blob(scaled("RGB"), PIXELS)[0], channels)


@pytest.mark.parametrize("color", ["RGB", "BGR", "GRAYSCALE"])
def test_mean_image(color: str) -> None:
    channels = 1 if color == "GRAYSCALE" else 3
    mean = RNG.uniform(0, 255, (channels, 3, 4)).astype(np.float32)
    message = net(color, rank=5)
    entry = message.neuralNetwork.preprocessing.add()  # no name: the only image
    entry.meanImage.meanImage.extend(mean.reshape(-1).tolist())
    pixels = GRAY_PIXELS if channels == 1 else PIXELS
    plain = blob(net(color, rank=5), pixels)
    assert np.array_equal(blob(message, pixels), plain - mean)
    entry.meanImage.meanImage.append(1.0)
    with pytest.raises(ModelFormatError, match=r"mean image of 'x'"):
        session(message)


def test_preprocessing_goes_by_name() -> None:
    layers = [layer("copy"), layer("copy", ["x2"], ["y2"], name="second")]
    message = model(layers, {}, ["y", "y2"])
    message.description.input.extend([feature("RGB"), feature("RGB", name="x2")])
    first = message.neuralNetwork.preprocessing.add(featureName="x2")
    first.scaler.channelScale = 2
    message.neuralNetwork.preprocessing.add(featureName="someone else").scaler.channelScale = 9
    with session(message) as s:
        made = s.run({"x": PIXELS, "x2": PIXELS})
    assert np.array_equal(made["y2"], 2 * made["y"])


def test_sizes_that_may_differ() -> None:
    message = net("RGB")
    sizes = message.description.input[0].type.imageType.enumeratedSizes.sizes
    sizes.extend([pb.ImageFeatureType.ImageSize(width=w, height=h) for w, h in ((4, 3), (8, 6))])
    with session(message) as s:
        assert s.inputs[0].shape == (None, None, 3)
        assert s.model.shape_hints["x"] == (3, 4, 3)
        for shape in ((3, 4, 3), (6, 8, 3)):
            assert s.run({"x": np.zeros(shape, np.uint8)})["y"].shape == (1, 3, *shape[:2])
        with pytest.raises(InputError, match=r"\[3, 4\] or \[6, 8\]"):
            s.run({"x": np.zeros((3, 8, 3), np.uint8)})
    message = net("GRAYSCALE")
    ranges = message.description.input[0].type.imageType.imageSizeRange
    ranges.widthRange.lowerBound, ranges.widthRange.upperBound = 2, -1
    ranges.heightRange.lowerBound, ranges.heightRange.upperBound = 3, 5
    with session(message) as s:
        assert s.run({"x": np.zeros((5, 99), np.uint8)})["y"].shape == (1, 1, 5, 99)
        for shape in ((2, 4), (6, 4), (3, 1)):
            with pytest.raises(InputError, match=r"3\.\.5, 2\.\.any"):
                s.run({"x": np.zeros(shape, np.uint8)})
    image = message.description.input[0].type.imageType
    image.width = image.height = 0
    with session(message) as s:
        assert s.model.shape_hints["x"] == (3, 2)  # the least size, where none is stated


def test_specs() -> None:
    with session(net("BGR")) as s:
        assert (s.inputs[0].shape, s.inputs[0].dtype) == ((3, 4, 3), DType.UINT8)
    with session(net("GRAYSCALE")) as s:
        assert s.inputs[0].shape == (3, 4)


def test_images_need_a_colour_space() -> None:
    message = net("RGB")
    message.description.input[0].type.imageType.colorSpace = 0
    with pytest.raises(ModelFormatError, match=r"colour space"):
        session(message)


def image_output(color: str, shape: tuple[int, ...], rank5: bool = False) -> Any:
    message = model([layer("copy")], {"x": shape}, [], rank5=rank5)
    message.description.output.append(feature(color, name="y"))
    return message


@pytest.mark.parametrize("lead", [(), (1,), (1, 1)])
def test_image_outputs(lead: tuple[int, ...]) -> None:
    values = np.array([-5.0, 0.0, 1.4, 1.6, 254.6, 300.0, np.nan, 7.0], np.float32)
    wanted = np.array([0, 0, 1, 2, 255, 255, 0, 7], np.uint8)
    x = np.stack([values, values[::-1], values * 0]).reshape(*lead, 3, 2, 4)
    rgb = np.stack([wanted, wanted[::-1], wanted * 0], axis=-1).reshape(2, 4, 3)
    with session(image_output("RGB", x.shape)) as s:
        found = s.run({"x": x})["y"]
        assert found.dtype == np.uint8
        assert np.array_equal(found, rgb)
        assert s.outputs[0].dtype == DType.UINT8
    with session(image_output("BGR", x.shape)) as s:
        assert np.array_equal(s.run({"x": x})["y"], rgb[..., ::-1])
    gray = x[..., :1, :, :]
    with session(image_output("GRAYSCALE", gray.shape)) as s:
        assert np.array_equal(s.run({"x": gray})["y"], wanted.reshape(2, 4))


@pytest.mark.parametrize("shape", [(1, 3, 4), (2, 3, 2, 4), (24,), (4, 3, 4), (3, 4)])
def test_blobs_that_are_no_image(shape: tuple[int, ...]) -> None:
    with session(image_output("RGB", shape)) as s, pytest.raises(ShapeError, match="'y'"):
        s.run({"x": np.zeros(shape)})


@pytest.mark.parametrize("color", ["RGB", "BGR", "GRAYSCALE"])
def test_an_image_goes_through(color: str) -> None:
    message = net(color)
    message.description.output[0].CopyFrom(feature(color, name="y"))
    pixels = GRAY_PIXELS if color == "GRAYSCALE" else PIXELS
    assert np.array_equal(blob(message, pixels), pixels)
