"""Registry of layer types that a user defines, for all formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vknn.formats import formats
from vknn.formats.layer_table import Arity, arity
from vknn.graph import DType
from vknn.ops.custom import CustomLayer, Options, Shader, Shapes

#: A number of inputs or outputs: exact, or (least, most), where most None means no limit.
Count = int | Arity


@dataclass(frozen=True, eq=False)
class Registration:
    """A registered layer type.

    The fields but ``layer`` are arguments of :func:`register_layer`: how a file states the layer.
    """

    layer: CustomLayer
    inputs: Arity
    outputs: Arity
    parameters: Mapping[str, tuple[Any, Any]] | None
    weights: Callable[[Options], Mapping[str, tuple[int, ...]]] | None
    index: int | None


_LAYERS: dict[tuple[str, str], Registration] = {}


def register_layer(
    format: str,
    name: str,
    *,
    shape: Callable[[Shapes, Options], Any],
    compute: Callable[[Sequence[np.ndarray], Mapping[str, np.ndarray], Options], Any],
    shader: Shader | str | None = None,
    inputs: Count = 1,
    outputs: Count = 1,
    parameters: Mapping[str, tuple[Any, Any]] | None = None,
    weights: Callable[[Options], Mapping[str, tuple[int, ...]]] | None = None,
    dtype: str = "float32",
    index: int | None = None,
    replace: bool = False,
) -> None:
    """Registers a layer type ``name`` of files of ``format``; see docs/custom-layers.md.

    ``shape(shapes, options)`` gives the shape of the output (a list for several outputs), and
    ``compute(arrays, weights, options)`` the output's array (or a list). Shapes and arrays are in
    the format's own layout, for ncnn without a batch axis. ``shader``: GLSL text, or a Shader, for
    the device; without one ``compute`` runs on the host.

    ``parameters``: name -> (key in the file, default); a parameter has the type of its default.
    Without ``parameters`` the ``options`` are all that the file states. ``weights(options)``: name
    -> shape of the arrays that the layer reads, in the file's order. ``dtype``: of the outputs.
    ``index``: ncnn's number of the type in a .param.bin. ``replace``: ``name`` may be registered
    already, or be a built-in layer.

    Raises ValueError for an unknown format, and for a name that is taken unless ``replace`` is set.
    """
    known = {found.name: found for found in formats()}
    if format not in known:
        raise ValueError(f"register_layer: no format {format!r}; known: {', '.join(known)}")
    if not replace and ((format, name) in _LAYERS or known[format].has_layer(name)):
        raise ValueError(f"{format} layer {name} is there already (replace=True takes its place)")
    given = Shader(shader) if isinstance(shader, str) else shader
    layer = CustomLayer(format, name, shape, compute, given, DType(dtype))
    _LAYERS[format, name] = Registration(
        layer, arity(inputs), arity(outputs), parameters, weights, index
    )


def unregister_layer(format: str, name: str) -> None:
    """Removes a registered layer type; no error where there is none of this name."""
    _LAYERS.pop((format, name), None)


def custom_layer(format: str, name: str) -> Registration | None:
    """The registered layer type of this name, or None."""
    return _LAYERS.get((format, name))


def custom_layers(format: str) -> dict[str, Registration]:
    """All registered layer types of a format by name."""
    return {name: layer for (own, name), layer in _LAYERS.items() if own == format}
