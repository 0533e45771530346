"""ncnn: text .param with .bin weights."""

from __future__ import annotations

from pathlib import Path

from vknn.formats import Format
from vknn.formats.model import Model
from vknn.formats.ncnn.reader import looks_like_param

__all__ = ["FORMAT"]


def _load(path: Path, weights: Path | None) -> Model:
    from vknn.formats.ncnn.loader import load

    return load(path, weights)


FORMAT = Format("ncnn", (".param",), looks_like_param, _load)
