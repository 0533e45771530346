"""The table of layers: foreign name -> how to read its parameters and weights and convert it."""

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
#: The values of a layer's outputs; a single value for a layer with one.
Result = Value | Sequence[Value]
Convert = Callable[["Context[Any]"], Result]

FLOAT = frozenset({DType.FLOAT32})
FLOAT_OR_INT8 = frozenset({DType.FLOAT32, DType.INT8})
INT32 = frozenset({DType.INT32})
#: For layers that move elements without looking at them.
ANY = frozenset({DType.FLOAT32, DType.FLOAT16, DType.INT8, DType.INT32})


@dataclass(frozen=True)
class LayerType:
    """What is known of a layer type.

    ``accepts`` are the element types of its first input. ``result`` gives the element type of its
    outputs from the parameters and the type of the first input. ``value_slots`` gives the inputs
    whose data decide shapes, ``may_be_empty`` those that may be without elements, from the
    parameters and the number of inputs. ``index``: the number of a user's own type in a .param.bin.
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
    """Registers the decorated function as the converter of layer ``name``.

    ``quantized`` says whether the layer takes int8 data as it is, ``batched`` whether it takes
    blobs with a batch as they are; of other layers there is one for each item. Names are taken
    once.
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
    """For ``result``: the outputs have the element type of the input."""
    return dtype


def registered() -> Mapping[str, LayerType]:
    """The layer types registered so far, by name (``layers`` finds and registers them)."""
    return _TYPES


def _range(arity: Arity) -> tuple[int, int | None]:
    return (arity, arity) if isinstance(arity, int) else arity
