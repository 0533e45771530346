"""Core ML format: .mlmodel, a protobuf message with description, network and weights."""

from __future__ import annotations

from pathlib import Path

from vknn.formats import Format
from vknn.formats.coreml.signature import looks_like_model
from vknn.formats.model import Model

__all__ = ["FORMAT"]


def _load(path: Path, weights: Path | None) -> Model:
    from vknn.formats.coreml.loader import load

    return load(path, weights)


FORMAT = Format("coreml", (".mlmodel",), looks_like_model, _load)
