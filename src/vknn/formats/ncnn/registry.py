"""Registry of layer types: ncnn's name -> parameters, weights, converter and element types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vknn.formats.ncnn.params import Params
from vknn.formats.ncnn.weights import WeightSpec
from vknn.graph import DType, Value

if TYPE_CHECKING:
    from vknn.formats.ncnn.context import Context

#: A number of blobs: exactly n, or (least, most) where most None means any number.
Arity = int | tuple[int, int | None]
#: Values of a layer's outputs, or the value of its only one.
Result = Value | Sequence[Value]
Convert = Callable[["Context[Any]"], Result]

FLOAT = frozenset({DType.FLOAT32})
FLOAT_OR_INT8 = frozenset({DType.FLOAT32, DType.INT8})
INT32 = frozenset({DType.INT32})
#: Types of layers that move elements without computing with them.
ANY = frozenset({DType.FLOAT32, DType.FLOAT16, DType.INT8, DType.INT32})


@dataclass(frozen=True)
class LayerType:
    """A layer type.

    ``bottoms``, ``tops``: least and most (None: any) number of inputs and outputs. ``accepts``:
    element types of the first input. ``result``: element type of the outputs, from the parameters
    and the type of the first input. ``value_slots``: inputs whose data decide shapes.
    ``may_be_empty``: inputs that may have no elements, from the parameters and the number of
    inputs. ``quantized``, ``batched``: True for parameters with which the layer takes int8 data,
    and blobs with a batch, as they are. ``index``: number of a custom type in a .param.bin.
    """

    name: str
    convert: Convert
    params: type[Params]
    weights: Callable[[Any], Sequence[WeightSpec]]
    bottoms: tuple[int, int | None]
    tops: tuple[int, int | None]
    accepts: frozenset[DType]
    result: Callable[[Any, DType], DType]
    value_slots: Callable[[Any], Sequence[int]]
    quantized: Callable[[Any], bool]
    batched: Callable[[Any], bool]
    index: int | None = None
    may_be_empty: Callable[[Any, int], Sequence[int]] = lambda p, count: ()


_TYPES: dict[str, LayerType] = {}


def layer(
    name: str,
    *,
    params: type[Params] = Params,
    weights: Callable[[Any], Sequence[WeightSpec]] = lambda p: (),
    bottoms: Arity = 1,
    tops: Arity = 1,
    accepts: frozenset[DType] = FLOAT,
    result: Callable[[Any, DType], DType] = lambda p, dtype: DType.FLOAT32,
    value_slots: Callable[[Any], Sequence[int]] = lambda p: (),
    quantized: Callable[[Any], bool] = lambda p: False,
    batched: Callable[[Any], bool] = lambda p: False,
    index: int | None = None,
    may_be_empty: Callable[[Any, int], Sequence[int]] = lambda p, count: (),
) -> Callable[[Convert], Convert]:
    """Registration of a function as the converter of layer ``name``; see :class:`LayerType`.

    Layers that are not ``batched`` are added once for each item of a batch. Raises ValueError for
    a name that is registered already.
    """

    def register(convert: Convert) -> Convert:
        if name in _TYPES:
            raise ValueError(f"layer {name} is registered twice")
        _TYPES[name] = LayerType(
            name, convert, params, weights, _range(bottoms), _range(tops), accepts, result,
            value_slots, quantized, batched, index, may_be_empty,
        )  # fmt: skip
        return convert

    return register


def same_type(params: Any, dtype: DType) -> DType:
    """The type of the input, as the ``result`` of layers that keep it."""
    return dtype


def registered() -> Mapping[str, LayerType]:
    """Layer types registered so far by name; importing the modules of ``layers`` registers them."""
    return _TYPES


def _range(arity: Arity) -> tuple[int, int | None]:
    return (arity, arity) if isinstance(arity, int) else arity
