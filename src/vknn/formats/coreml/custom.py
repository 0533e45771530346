"""Layers of the user's own (vknn.formats.custom) by their class names, and the table of layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vknn.formats.coreml.context import Context
from vknn.formats.coreml.records import LayerRecord
from vknn.formats.coreml.registry import Convert, LayerType, Result, layer_type
from vknn.formats.coreml.weights import flat
from vknn.formats.custom import Registration, custom_layer
from vknn.ops.custom import Custom


def known_type(layer: LayerRecord) -> LayerType | None:
    """The type of a layer, or None where there is none."""
    if layer.type != "custom":
        return layer_type(layer.type)
    found = custom_layer("coreml", layer.params.className)
    if found is None:
        return None
    return LayerType(found.layer.name, _converter(found), found.inputs, found.outputs)


def _converter(found: Registration) -> Convert:
    def convert(c: Context) -> Result:
        """Blobs go in and come out as the layers see them."""
        options = _options(c, found)
        weights = _weights(c, found, options)
        values = [c.value(i) for i in range(len(c.inputs))]
        values += [c.constant(array, name) for name, array in weights.items()]
        op = Custom(found.layer, tuple(options.items()), tuple(weights), len(c.layer.outputs))
        return c.add_many(op, *values)

    return convert


def _options(c: Context, found: Registration) -> dict[Any, Any]:
    """What the file's parameters are, or what the registration names of them."""
    given = {key: _parameter(value) for key, value in c.params.parameters.items()}
    if found.parameters is None:
        return given
    return {
        name: _converted(c, key, given[key], default) if key in given else default
        for name, (key, default) in found.parameters.items()
    }


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


def _weights(c: Context, found: Registration, options: Mapping[Any, Any]) -> dict[str, np.ndarray]:
    """The weights by the names that the registration gives them; by their numbers without it."""
    given = c.params.weights
    if found.weights is None:
        return {str(i): flat(w, f"weights {i}") for i, w in enumerate(given)}
    shapes = found.weights(options)
    c.require(len(given) == len(shapes), f"has {len(given)} weights, not {len(shapes)}")
    return {
        name: c.weight(message, shape, name)
        for message, (name, shape) in zip(given, shapes.items(), strict=True)
    }
