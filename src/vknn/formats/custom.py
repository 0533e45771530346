"""Layer types of the user's own: one call for every format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vknn.formats.layer_table import Arity, arity
from vknn.graph import DType
from vknn.ops.custom import CustomLayer, Options, Shader, Shapes

#: A number of inputs or outputs: exactly n, or (least, most) where most None means any number.
Count = int | Arity

#: Formats whose loaders ask :func:`custom_layer` for names that they do not know.
FORMATS = ("coreml", "ncnn", "openvino", "tflite")


@dataclass(frozen=True, eq=False)
class Registration:
    """A layer type and how a file states it; what the arguments of :func:`register_layer` were."""

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
    """Makes a layer type known that files of ``format`` call ``name``; see docs/custom-layers.md.

    ``shape(shapes, options)`` gives the shape of the output (a list for several outputs), and
    ``compute(arrays, weights, options)`` the output's array (or a list); all in the format's own
    layout, without a batch axis for ncnn. ``shader``: how the device computes it (GLSL text, or a
    Shader); without one the layer is computed by ``compute``, on the host.

    ``parameters``: name -> (key in the file, default); a default's type is the parameter's. Without
    them ``options`` are what stands in the file. ``weights(options)``: name -> shape of the arrays
    that the layer reads, in the file's order. ``dtype``: of the outputs. ``index``: ncnn's number
    of the type in a .param.bin. ``replace``: the name may be taken, by vknn's own layer too.

    Raises ValueError for a name that is taken and an unknown format.
    """
    if format not in FORMATS:
        raise ValueError(f"register_layer: no format {format!r}; known: {', '.join(FORMATS)}")
    if not replace and ((format, name) in _LAYERS or _is_built_in(format, name)):
        raise ValueError(f"{format} layer {name} is there already (replace=True takes its place)")
    given = Shader(shader) if isinstance(shader, str) else shader
    layer = CustomLayer(format, name, shape, compute, given, DType(dtype))
    _LAYERS[format, name] = Registration(
        layer, arity(inputs), arity(outputs), parameters, weights, index
    )


def unregister_layer(format: str, name: str) -> None:
    """Forgets a layer type that was registered; no error where there is none."""
    _LAYERS.pop((format, name), None)


def custom_layer(format: str, name: str) -> Registration | None:
    """The registered layer type of this name, or None."""
    return _LAYERS.get((format, name))


def custom_layers(format: str) -> dict[str, Registration]:
    """All registered layer types of a format by name."""
    return {name: layer for (own, name), layer in _LAYERS.items() if own == format}


def _is_built_in(format: str, name: str) -> bool:
    from vknn.formats import formats

    found = next((f for f in formats() if f.name == format), None)
    return found is not None and found.has_layer(name)
