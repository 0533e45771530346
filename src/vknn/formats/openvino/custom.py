"""Custom layers of the user's own (vknn.formats.custom)."""

from __future__ import annotations

from vknn.formats.openvino.registry import LayerType, layer_type


def known_type(name: str) -> LayerType | None:
    """The type of a layer, the user's before vknn's own, or None where there is none."""
    return layer_type(name)
