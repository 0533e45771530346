"""Registry of layer types that a user defines, for all formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vknn.formats import formats
from vknn.formats.layer_table import Arity, Count, arity
from vknn.graph import DType
from vknn.ops.custom import CustomLayer, Options, Shader, Shapes


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


#: What helps where a file has layers of types that neither vknn nor a registration knows.
TO_REGISTER = "give a file that registers such layers (--layers, vknn.register_layer)"

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
    """Registration of a layer type that files of ``format`` call ``name``.

    Shapes and arrays are in the format's own layout, without a batch axis for ncnn. ``options`` is
    a dict of the layer's parameters. Sessions that are open keep what they know. What the functions
    raise later becomes a :class:`vknn.VknnError` that names the layer. The page on layers of one's
    own has an example for each format.

    Args:
        format: "ncnn", "tflite", "coreml", "openvino" or "onnx".
        name: The layer's type in the file; ``className`` in Core ML, ``custom_code`` in TensorFlow
            Lite, "domain::operator" in ONNX.
        shape: ``shape(shapes, options)`` gives the shape of the output, from those of the inputs; a
            list of shapes for several outputs.
        compute: ``compute(arrays, weights, options)`` gives the output's array, with NumPy; a list
            of them for several outputs. ``weights`` is a dict of arrays.
        shader: How the device computes it, GLSL text or a :class:`vknn.Shader`; without one
            ``compute`` does, on the host.
        inputs: How many there are, a number or (least, most) where most None means any number.
        outputs: As ``inputs``.
        parameters: Name -> (key in the file, default). The type of the default is that of the
            parameter. Without them ``options`` holds what stands in the file.
        weights: ``weights(options)`` gives name -> shape of the arrays that the layer reads, in the
            file's order.
        dtype: Of the outputs.
        index: The number of the type in ncnn's ``.param.bin``, from 0.
        replace: Whether the name may be taken already, by a layer of vknn's too.

    Raises:
        ValueError: The name is taken, or the format is unknown.
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
    """Removal of a layer type that was registered; no error where there is none.

    Args:
        format: As for :func:`vknn.register_layer`.
        name: As for :func:`vknn.register_layer`.
    """
    _LAYERS.pop((format, name), None)


def custom_layer(format: str, name: str) -> Registration | None:
    """The registered layer type of this name, or None."""
    return _LAYERS.get((format, name))


def custom_layers(format: str) -> dict[str, Registration]:
    """All registered layer types of a format by name."""
    return {name: layer for (own, name), layer in _LAYERS.items() if own == format}
