"""Layers by their type names, vknn's own and those that a user registered (vknn.formats.custom)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from vknn.formats.custom import Registration, custom_layer, custom_layers
from vknn.formats.custom_converter import Options, custom_type, named_options
from vknn.formats.openvino.context import Context
from vknn.formats.openvino.registry import LayerType, layer_type


def known_type(name: str) -> LayerType | None:
    """The type of a layer, a user's before vknn's own; None for an unknown name."""
    found = _registered(name)
    if found is None:
        return layer_type(name)
    return custom_type(found, _options, _weights, lambda c: len(c.layer.outputs))


def _registered(name: str) -> Registration | None:
    """The user's layer of this name; case matters only where names differ in nothing else."""
    found = custom_layer("openvino", name)
    if found is not None:
        return found
    return next(
        (r for n, r in custom_layers("openvino").items() if n.lower() == name.lower()), None
    )


def _options(c: Context, found: Registration) -> Options:
    """Attributes as text, or in the types of the registration's defaults."""
    return named_options(found, c.attributes, functools.partial(_read, c))


def _read(c: Context, key: str, default: Any) -> Any:
    if isinstance(default, tuple):
        floats = any(isinstance(v, float) for v in default)
        return c.floats(key, default) if floats else c.ints(key, default)
    if isinstance(default, bool):
        return c.bool(key, default)
    if isinstance(default, int):
        return c.int(key, default)
    return c.float(key, default) if isinstance(default, float) else c.text(key, default)


def _weights(c: Context, found: Registration, options: Options) -> Mapping[str, np.ndarray]:
    """Blobs by name, in the shapes of the registration; flat without it."""
    if found.weights is None:
        return {name: c.blob(name) for name in c.layer.blobs}
    return {name: c.blob(name, shape, np.float32) for name, shape in found.weights(options).items()}
