"""TensorFlow Lite: .tflite, a FlatBuffer that holds graph and weights."""

from __future__ import annotations

from pathlib import Path

from vknn.formats import Format
from vknn.formats.model import Model

__all__ = ["FORMAT"]


def _recognizes(head: bytes) -> bool:
    return head[4:8] == b"TFL3"


def _load(path: Path, weights: Path | None) -> Model:
    from vknn.formats.tflite.loader import load

    return load(path, weights)


def _has_layer(name: str) -> bool:
    from vknn.formats.tflite import layers as _layers  # noqa: F401 (registers the operators)
    from vknn.formats.tflite.registry import operator_type

    return operator_type("CUSTOM", name) is not None


FORMAT = Format("tflite", (".tflite",), _recognizes, _load, _has_layer)
