"""OpenVINO IR, versions 2 to 7: .xml with the layers, .bin with the weights."""

from __future__ import annotations

import re
from pathlib import Path

from vknn.formats import Format
from vknn.formats.model import Model

__all__ = ["FORMAT"]

#: The root element, behind a declaration, comments and white space. A document type is let through
#: so that the reader can say why it refuses the file.
_ROOT = re.compile(
    rb"\A(?:\xef\xbb\xbf)?\s*(?:(?:<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>]*(?:>|\Z))\s*)*<net[\s>]", re.S
)


def _recognizes(head: bytes) -> bool:
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        head = head.decode("utf-16", "ignore").encode()
    return _ROOT.search(head) is not None


def _load(path: Path, weights: Path | None) -> Model:
    from vknn.formats.openvino.loader import load

    return load(path, weights)


def _has_layer(name: str) -> bool:
    from vknn.formats.openvino import layers as _layers  # noqa: F401 (registers the layers)
    from vknn.formats.openvino.registry import layer_type

    return layer_type(name) is not None


FORMAT = Format("openvino", (".xml",), _recognizes, _load, _has_layer)
