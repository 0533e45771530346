"""ncnn models: .param (text) or .param.bin (binary), with weights in a .bin."""

from __future__ import annotations

from pathlib import Path

from vknn.formats import Format
from vknn.formats.model import Model
from vknn.formats.ncnn.reader import looks_like_param, looks_like_param_bin

__all__ = ["FORMAT"]


def _load(path: Path, weights: Path | None) -> Model:
    from vknn.formats.ncnn.loader import load

    return load(path, weights)


def _recognizes(head: bytes) -> bool:
    return looks_like_param(head) or looks_like_param_bin(head)


def _has_layer(name: str) -> bool:
    from vknn.formats.ncnn.layers import layer_type

    return layer_type(name) is not None


FORMAT = Format("ncnn", (".param", ".param.bin"), _recognizes, _load, _has_layer)
