"""Layers of the user's own (vknn.formats.custom) by their type names, and the table of layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from vknn.formats.custom import Registration, custom_layer, custom_layers
from vknn.formats.openvino.context import Context
from vknn.formats.openvino.registry import Convert, LayerType, Result, layer_type
from vknn.ops.custom import Custom


def known_type(name: str) -> LayerType | None:
    """The type of a layer, the user's before vknn's own, or None where there is none."""
    found = _registered(name)
    if found is None:
        return layer_type(name)
    return LayerType(found.layer.name, _converter(found), found.inputs, found.outputs)


def _registered(name: str) -> Registration | None:
    """The user's layer of this name; case matters only where names differ in nothing else."""
    found = custom_layer("openvino", name)
    if found is not None:
        return found
    return next(
        (r for n, r in custom_layers("openvino").items() if n.lower() == name.lower()), None
    )


def _converter(found: Registration) -> Convert:
    def convert(c: Context) -> Result:
        """Tensors go in and come out as the graph has them."""
        options = _options(c, found)
        weights = _weights(c, found, options)
        values = [c.value(i) for i in range(len(c.inputs))]
        values += [c.constant(array, name) for name, array in weights.items()]
        op = Custom(found.layer, tuple(options.items()), tuple(weights), len(c.layer.outputs))
        return c.add_many(op, *values)

    return convert


def _options(c: Context, found: Registration) -> dict[Any, Any]:
    """The attributes as text, or what the registration names of them in the types it gives."""
    if found.parameters is None:
        return dict(c.layer.attributes)
    return {name: _read(c, key, default) for name, (key, default) in found.parameters.items()}


def _read(c: Context, key: str, default: Any) -> Any:
    if isinstance(default, tuple):
        floats = any(isinstance(v, float) for v in default)
        return c.floats(key, default) if floats else c.ints(key, default)
    if isinstance(default, bool):
        return c.bool(key, default)
    if isinstance(default, int):
        return c.int(key, default)
    return c.float(key, default) if isinstance(default, float) else c.text(key, default)


def _weights(c: Context, found: Registration, options: dict[Any, Any]) -> dict[str, np.ndarray]:
    """The blobs by their names, in the shapes that the registration gives; flat without it."""
    if found.weights is None:
        return {name: c.blob(name) for name in c.layer.blobs}
    return {name: c.blob(name, shape, np.float32) for name, shape in found.weights(options).items()}
