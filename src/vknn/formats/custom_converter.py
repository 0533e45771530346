"""Conversion of layers that a user registered (:mod:`vknn.formats.custom`) to :class:`Custom` ops.

A format reads parameters and weights from its own records; the rest is the same for all formats
but ncnn, whose values have an axis that its blobs lack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from vknn.formats.custom import Registration
from vknn.formats.layer_context import LayerContext
from vknn.formats.layer_table import LayerType
from vknn.graph import Value
from vknn.ops.custom import Custom

C = TypeVar("C", bound=LayerContext)
Options = Mapping[Any, Any]


def custom_type(
    found: Registration,
    options: Callable[[C, Registration], Options],
    weights: Callable[[C, Registration, Options], Mapping[str, np.ndarray]],
    outputs: Callable[[C], int],
) -> LayerType[C]:
    """The layer type of a registration. Values go in and come out in the format's own layout.

    ``options(c, found)``: the layer's parameters by name; ``weights(c, found, options)``: its
    arrays by name; ``outputs(c)``: the number of its outputs.
    """

    def convert(c: C) -> tuple[Value, ...]:
        own = options(c, found)
        arrays = weights(c, found, own)
        values = [c.value(i) for i in range(len(c.inputs))]
        values += [c.constant(array, name) for name, array in arrays.items()]
        op = Custom(found.layer, tuple(own.items()), tuple(arrays), outputs(c))
        return c.add_many(op, *values)

    return LayerType(found.layer.name, convert, found.inputs, found.outputs)


def named_options(found: Registration, given: Options, read: Callable[[Any, Any], Any]) -> Options:
    """The parameters of a layer by the registration's names; ``given`` without such names.

    ``given``: all parameters that the file states. ``read(key, default)``: the value of one in the
    type of its default, or the default where the file does not state it.
    """
    if found.parameters is None:
        return dict(given)
    return {name: read(key, default) for name, (key, default) in found.parameters.items()}
