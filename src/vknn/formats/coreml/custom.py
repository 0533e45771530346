"""Custom layers by their class names: those that a user registered (vknn.formats.custom)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vknn.formats.coreml.context import Context
from vknn.formats.coreml.records import LayerRecord
from vknn.formats.coreml.registry import LayerType, layer_type
from vknn.formats.coreml.weights import flat
from vknn.formats.custom import Registration, custom_layer
from vknn.formats.custom_converter import Options, custom_type, named_options


def known_type(layer: LayerRecord) -> LayerType | None:
    """The type of a layer: built in, or a user's for a custom layer; None for an unknown one."""
    if layer.type != "custom":
        return layer_type(layer.type)
    found = custom_layer("coreml", layer.params.className)
    if found is None:
        return None
    return custom_type(found, _options, _weights, lambda c: len(c.layer.outputs))


def _options(c: Context, found: Registration) -> Options:
    given = {key: _parameter(value) for key, value in c.params.parameters.items()}

    def read(key: str, default: Any) -> Any:
        return _converted(c, key, given[key], default) if key in given else default

    return named_options(found, given, read)


def _parameter(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind else None


def _converted(c: Context, key: str, given: Any, default: Any) -> Any:
    """``given`` in the type of ``default``."""
    numbers = isinstance(given, bool | int | float) and isinstance(default, bool | int | float)
    if numbers and not (isinstance(given, float) and isinstance(default, int)):
        return type(default)(given)
    if default is not None and not isinstance(given, type(default)):
        c.fail(f"has the parameter {key!r} = {given!r}, which is no {type(default).__name__}")
    return given


def _weights(c: Context, found: Registration, options: Options) -> Mapping[str, np.ndarray]:
    """Weights by the registration's names and in its shapes; else by index and flat."""
    given = c.params.weights
    if found.weights is None:
        return {str(i): flat(w, f"weights {i}") for i, w in enumerate(given)}
    shapes = found.weights(options)
    c.require(len(given) == len(shapes), f"has {len(given)} weights, not {len(shapes)}")
    return {
        name: c.weight(message, shape, name)
        for message, (name, shape) in zip(given, shapes.items(), strict=True)
    }
