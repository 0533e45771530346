"""Pictures as files hold them."""

from __future__ import annotations

from vknn.formats.onnx.context import Context
from vknn.formats.onnx.registry import operator
from vknn.graph import Value
from vknn.ops.pictures import PIXEL_FORMATS, ImageDecoder


@operator("ImageDecoder", 20)
def image_decoder(c: Context) -> Value:
    """The pixels of an encoded picture; nothing where the bytes are none"""
    return c.add(ImageDecoder(c.text("pixel_format", "RGB", PIXEL_FORMATS)), c.x)
