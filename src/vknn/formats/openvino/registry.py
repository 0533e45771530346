"""Table of OpenVINO's layer types by name; names that differ only in case are one."""

from __future__ import annotations

from collections.abc import Callable

from vknn.formats import layer_table
from vknn.formats.layer_table import LayerTable, Result
from vknn.formats.openvino.context import Context

__all__ = ["Convert", "LayerType", "Result", "layer", "layer_type", "layer_types"]

LayerType = layer_table.LayerType[Context]
Convert = Callable[[Context], Result]

_TABLE: LayerTable[LayerType] = LayerTable(ignore_case=True)
layer = _TABLE.register
layer_type = _TABLE.get
layer_types = _TABLE.all
