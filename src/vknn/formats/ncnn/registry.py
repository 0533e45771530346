"""Registry of layer types: ncnn's name -> parameters, weights, converter and element types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from vknn.formats.layer_table import Count, LayerTable, LayerType, Result, arity
from vknn.formats.ncnn.context import Context
from vknn.formats.ncnn.params import Params
from vknn.formats.ncnn.weights import WeightSpec
from vknn.graph import DType

__all__ = [
    "ANY", "FLOAT", "FLOAT_OR_INT8", "INT32", "Convert", "NcnnLayerType", "Result", "layer",
    "registered", "registered_type", "same_type",
]  # fmt: skip

Convert = Callable[[Context[Any]], Result]

FLOAT = frozenset({DType.FLOAT32})
FLOAT_OR_INT8 = frozenset({DType.FLOAT32, DType.INT8})
INT32 = frozenset({DType.INT32})
#: Types of layers that move elements without computing with them.
ANY = frozenset({DType.FLOAT32, DType.FLOAT16, DType.INT8, DType.INT32})


@dataclass(frozen=True, kw_only=True)
class NcnnLayerType(LayerType[Context[Any]]):
    """A layer type, and what is known of its layers before their inputs are.

    ``accepts``: element types of the first input. ``result``: element type of the outputs, from the
    parameters and the type of the first input. ``value_slots``: inputs whose data decide shapes.
    ``may_be_empty``: inputs that may have no elements, from the parameters and the number of
    inputs. ``quantized``, ``batched``: True for parameters with which the layer takes int8 data,
    and blobs with a batch, as they are. ``index``: number of a custom type in a .param.bin.
    """

    params: type[Params] = Params
    weights: Callable[[Any], Sequence[WeightSpec]] = lambda p: ()
    accepts: frozenset[DType] = FLOAT
    result: Callable[[Any, DType], DType] = lambda p, dtype: DType.FLOAT32
    value_slots: Callable[[Any], Sequence[int]] = lambda p: ()
    quantized: Callable[[Any], bool] = lambda p: False
    batched: Callable[[Any], bool] = lambda p: False
    index: int | None = None
    may_be_empty: Callable[[Any, int], Sequence[int]] = lambda p, count: ()


_TABLE: LayerTable[NcnnLayerType] = LayerTable()
#: Those whose modules in ``layers`` are imported.
registered_type = _TABLE.get
registered = _TABLE.all


def layer(
    name: str, *, inputs: Count = 1, outputs: Count = 1, **known: Any
) -> Callable[[Convert], Convert]:
    """Registration of a function as the converter of layer ``name``.

    ``known``: fields of :class:`NcnnLayerType`. Layers that are not ``batched`` are added once for
    each item of a batch. Raises ValueError for a name that is registered already.
    """

    def register(convert: Convert) -> Convert:
        _TABLE.add(NcnnLayerType(name, convert, arity(inputs), arity(outputs), **known))
        return convert

    return register


def same_type(params: Any, dtype: DType) -> DType:
    """The type of the input, as the ``result`` of layers that keep it."""
    return dtype
