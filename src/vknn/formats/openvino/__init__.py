"""OpenVINO IR format, versions 2 to 7: .xml with the layers, .bin with the weights."""

from __future__ import annotations

from pathlib import Path

from vknn.formats import Format
from vknn.formats.model import Model

__all__ = ["FORMAT"]

#: Start and end of markup before the root element. A document type is accepted here so that the
#: reader can report why it refuses the file.
_PROLOG = ((b"<?", b"?>"), (b"<!--", b"-->"), (b"<!DOCTYPE", b"<net"))


def _recognizes(head: bytes) -> bool:
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        head = head.decode("utf-16", "ignore").encode()
    rest = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    while opened := next((end for start, end in _PROLOG if rest.startswith(start)), None):
        _, found, rest = rest.partition(opened)
        if opened == b"<net":
            return True
        if not found:  # a comment longer than ``head``: the reader will tell
            return opened == b"-->"
        rest = rest.lstrip()
    return rest[:4] == b"<net" and rest[4:5] in (b" ", b">", b"\t", b"\r", b"\n")


def _load(path: Path, weights: Path | None) -> Model:
    from vknn.formats.openvino.loader import load

    return load(path, weights)


def _has_layer(name: str) -> bool:
    from vknn.formats.openvino import layers as _layers  # noqa: F401 (registers the layers)
    from vknn.formats.openvino.registry import layer_type

    return layer_type(name) is not None


FORMAT = Format("openvino", (".xml",), _recognizes, _load, _has_layer)
