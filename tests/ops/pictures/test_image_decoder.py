"""ImageDecoder: pictures of every format, and what is none."""

from __future__ import annotations

import io

import numpy as np
import pytest

from reference_helper import f32, refuses
from vknn.errors import OutOfMemoryError
from vknn.graph import DType, TensorType
from vknn.ops.pictures import ImageDecoder
from vknn.run_limits import RunLimit, within

Image = pytest.importorskip("PIL.Image")
PIXELS = np.random.default_rng(0).integers(0, 256, (7, 5, 3)).astype(np.uint8)


def encoded(pixels: np.ndarray, kind: str, **options: object) -> np.ndarray:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind, **options)
    return np.frombuffer(stream.getvalue(), np.uint8)


def decoded(data: np.ndarray, pixel_format: str = "RGB") -> np.ndarray:
    (y,) = ImageDecoder(pixel_format).reference(data)
    assert y.dtype == np.uint8 and y.flags.c_contiguous
    return y


@pytest.mark.parametrize(
    ("kind", "options"),
    [("BMP", {}), ("PNG", {}), ("TIFF", {}), ("PPM", {}), ("WEBP", {"lossless": True}),
     ("JPEG2000", {"irreversible": False})],
)  # fmt: skip
def test_exact_formats(kind: str, options: dict[str, object]) -> None:
    data = encoded(PIXELS, kind, **options)
    np.testing.assert_array_equal(decoded(data), PIXELS)
    np.testing.assert_array_equal(decoded(data, "BGR"), PIXELS[..., ::-1])


def test_jpeg_is_near() -> None:
    smooth = np.add.outer(np.arange(32) * 4, np.arange(24) * 4).astype(np.uint8)
    colours = np.repeat(smooth[..., None], 3, -1)
    found = decoded(encoded(colours, "JPEG", quality=95))
    assert np.abs(found.astype(int) - colours).max() < 6


def test_grey() -> None:
    grey = PIXELS[..., 0]
    assert decoded(encoded(grey, "PNG"), "Grayscale").tolist() == grey[..., None].tolist()
    assert decoded(encoded(grey, "PNG")).tolist() == np.repeat(grey[..., None], 3, -1).tolist()
    luma = decoded(encoded(PIXELS, "PNG"), "Grayscale")[..., 0]
    wanted = PIXELS @ np.array([0.299, 0.587, 0.114])
    assert np.abs(luma - wanted).max() < 1


def test_sixteen_bits_and_palettes() -> None:
    deep = (PIXELS[..., 0].astype(np.uint16) << 8) + 77
    assert decoded(encoded(deep, "PNG"), "Grayscale")[..., 0].tolist() == PIXELS[..., 0].tolist()
    stream = io.BytesIO()
    Image.fromarray(PIXELS).convert("P").save(stream, "PNG")
    assert decoded(np.frombuffer(stream.getvalue(), np.uint8)).shape == (7, 5, 3)


def test_what_is_no_picture() -> None:
    whole = encoded(PIXELS, "PNG")
    for data in (whole[:0], whole[:20], np.arange(99, dtype=np.uint8), encoded(PIXELS, "GIF")):
        assert decoded(data).shape == (0, 0, 3)
        assert decoded(data, "Grayscale").shape == (0, 0, 1)


def test_the_memory_of_pixels_is_bounded() -> None:
    with within(RunLimit(memory=400)), pytest.raises(OutOfMemoryError, match="5 x 7: 420 bytes"):
        decoded(encoded(PIXELS, "PNG"))


def test_types() -> None:
    bytes_ = TensorType((9,), DType.UINT8)
    assert ImageDecoder("Grayscale").infer(bytes_)[0].shape == (None, None, 1)
    refuses(ImageDecoder(), f32(9), match="bytes of a file")
    refuses(ImageDecoder("CMYK"), bytes_, match="no pixel format")
