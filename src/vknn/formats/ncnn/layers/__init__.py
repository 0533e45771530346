"""Converters of layers by family; a module registers its layers when it is imported."""

from __future__ import annotations

import importlib
import pkgutil

from vknn.formats.ncnn.registry import NcnnLayerType, registered, registered_type

#: Modules with the layers of most networks, imported first. The others are imported when a layer is
#: asked for that these lack: importing all of them takes longer than reading a network.
_FIRST = (
    "sources", "convolution.conv", "pooling.pool", "elementwise.activation", "movement.shape",
    "matmul.inner_product", "elementwise.arithmetic", "normalization", "sampling.resize",
)  # fmt: skip
_PATHS = pkgutil.walk_packages(__path__, f"{__name__}.")
_ALL = (module.name.removeprefix(f"{__name__}.") for module in _PATHS)
_OTHERS = tuple(sorted(set(_ALL) - set(_FIRST)))


def layer_type(name: str) -> NcnnLayerType | None:
    """vknn's own layer type of this name, or None."""
    for family in (*_FIRST, *_OTHERS):
        if registered_type(name) is not None:
            break
        importlib.import_module(f"{__name__}.{family}")
    return registered_type(name)


def layer_types() -> dict[str, NcnnLayerType]:
    """vknn's own layer types by name."""
    for family in (*_FIRST, *_OTHERS):
        importlib.import_module(f"{__name__}.{family}")
    return registered()
