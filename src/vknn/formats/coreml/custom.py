"""Layers of the user's own (vknn.formats.custom), and the table of all layers."""

from __future__ import annotations

from vknn.formats.coreml.records import LayerRecord
from vknn.formats.coreml.registry import LayerType, layer_type


def known_type(layer: LayerRecord) -> LayerType | None:
    """The type of a layer, or None where there is none."""
    return layer_type(layer.type)
