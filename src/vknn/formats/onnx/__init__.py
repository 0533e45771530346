"""ONNX: .onnx, a protobuf message with graph and weights; large weights lie in files beside it."""

from __future__ import annotations

from pathlib import Path

from vknn.formats import Format
from vknn.formats.model import Model
from vknn.formats.onnx.signature import looks_like_model

__all__ = ["FORMAT"]


def _load(path: Path, weights: Path | None) -> Model:
    from vknn.formats.onnx.loader import load

    return load(path, weights)


def _has_layer(name: str) -> bool:
    from vknn.formats.onnx.layers import versions_of
    from vknn.formats.onnx.registry import split_name

    return bool(versions_of(*split_name(name)))


FORMAT = Format("onnx", (".onnx",), looks_like_model, _load, _has_layer)
