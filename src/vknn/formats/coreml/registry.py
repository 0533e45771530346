"""Table of Core ML's layer types, by the name of the layer's parameters in the file."""

from __future__ import annotations

from collections.abc import Callable

from vknn.formats import layer_table
from vknn.formats.coreml.context import Context
from vknn.formats.layer_table import LayerTable, Result

__all__ = ["Convert", "LayerType", "Result", "layer", "layer_type", "layer_types"]

LayerType = layer_table.LayerType[Context]
Convert = Callable[[Context], Result]

_TABLE: LayerTable[LayerType] = LayerTable()
layer = _TABLE.register
layer_type = _TABLE.get
#: All layers but those of control flow.
layer_types = _TABLE.all
