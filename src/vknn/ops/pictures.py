"""ImageDecoder: the pixels of an encoded picture, read by Pillow on the host."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from vknn.errors import ShapeError
from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.checks import arguments, require
from vknn.run_limits import make_room

PIXEL_FORMATS = ("RGB", "BGR", "Grayscale")
#: Pillow's names of the formats that ONNX lists.
_READERS = ("BMP", "DIB", "JPEG", "JPEG2000", "TIFF", "PNG", "WEBP", "PPM")
#: Bytes of a pixel while it is decoded, converted and copied.
_PIXEL_BYTES = 12


@attributes
class ImageDecoder(Op):
    """The pixels of a picture: uint8 [n], the bytes of its file -> uint8 [height, width, channels].

    ``pixel_format``: the channels, "RGB", "BGR" or "Grayscale" (one). BMP, JPEG, JPEG 2000, TIFF,
    PNG, WebP and PNM; of several pictures the first. Transparency is left out. What is no such
    picture has the shape [0, 0, channels].
    """

    pixel_format: str = "RGB"

    @property
    def channels(self) -> int:
        """Numbers of a pixel."""
        return 1 if self.pixel_format == "Grayscale" else 3

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        good = x.dtype is DType.UINT8 and x.rank == 1
        require(good, f"ImageDecoder: takes the bytes of a file, not {x}")
        known = self.pixel_format in PIXEL_FORMATS
        require(known, f"ImageDecoder: no pixel format {self.pixel_format!r}")
        return (TensorType((None, None, self.channels), DType.UINT8),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        found = self._decoded(x.tobytes())
        if found is None:
            return (np.zeros((0, 0, self.channels), np.uint8),)
        pixels = np.asarray(found)
        pixels = pixels[..., None] if pixels.ndim == 2 else pixels
        if self.pixel_format == "BGR":
            pixels = pixels[..., ::-1]
        return (np.ascontiguousarray(pixels),)

    def _decoded(self, data: bytes) -> Any:
        """The picture in the channels asked for; None where the bytes are none."""
        from PIL import Image

        Image.init()  # a list of formats alone does not load their readers
        try:
            with Image.open(io.BytesIO(data), formats=_READERS) as file:
                what = f"ImageDecoder: a picture of {file.width} x {file.height}"
                make_room(_PIXEL_BYTES * file.width * file.height, what)
                file.load()
                picture = _of_bytes(file)
                return picture.convert("L" if self.channels == 1 else "RGB")
        except Image.DecompressionBombError as error:
            raise ShapeError(f"ImageDecoder: {error}") from None
        except MemoryError:
            raise
        except Exception:  # Pillow's readers of damaged files raise errors of many kinds
            return None


def _of_bytes(picture: Any) -> Any:
    """A picture of 16 bits a pixel as one of 8 bits."""
    if not picture.mode.startswith("I"):
        return picture
    from PIL import Image

    values = np.clip(np.asarray(picture).astype(np.int64), 0, 0xFFFF) >> 8
    return Image.fromarray(values.astype(np.uint8))
