"""Arrays between two graphs of a model, in place of what names stand for while one is built."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from vknn.formats.onnx.steps import Item, Key, NameScope, TensorList
from vknn.graph import DType, GraphBuilder, TensorType, Value

#: Output of a body's graph that says which of its ends are no tensors: their numbers of elements.
KINDS = "\0kinds"
TENSOR, NOTHING = -1, -2


@dataclass(frozen=True, eq=False)
class HeldList:
    """A sequence of arrays."""

    arrays: tuple[np.ndarray, ...]
    dtype: DType | None = None


#: What a name stands for between two graphs: an array, a sequence of arrays, or nothing.
Held = np.ndarray | HeldList | None


def types_of(held: Held) -> object:
    """The type of what is held, equal for all that one graph can take."""
    if held is None:
        return None
    if isinstance(held, HeldList):
        return held.dtype, tuple((a.shape, a.dtype) for a in held.arrays)
    return held.shape, held.dtype


def feeds_of(port: str, held: Held) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of what is held, by names of inputs of a graph."""
    if isinstance(held, HeldList):
        for number, array in enumerate(held.arrays):
            yield element(port, number), array
    elif held is not None:
        yield port, held


def input_item(builder: GraphBuilder, port: str, held: Held) -> Item:
    """Inputs of a graph for what is held, as :func:`feeds_of` feeds them."""
    if isinstance(held, HeldList):
        values = tuple(
            builder.input(element(port, number), TensorType.of(array))
            for number, array in enumerate(held.arrays)
        )
        return TensorList(values, held.dtype)
    return None if held is None else builder.input(port, TensorType.of(held))


def held_item(item: Item, arrays: Mapping[Value, np.ndarray]) -> Held:
    """The arrays that an item stands for; ``arrays``: of its values that are no constants."""
    if isinstance(item, TensorList):
        return HeldList(tuple(_array(v, arrays) for v in item.values), item.dtype)
    return None if item is None else _array(item, arrays)


def _array(value: Value, arrays: Mapping[Value, np.ndarray]) -> np.ndarray:
    return arrays[value] if value.constant is None else value.constant


def ports(name: str, item: Item) -> dict[str, Value]:
    """Names of a graph's outputs, or inputs, for what a name stands for."""
    if isinstance(item, TensorList):
        return {element(name, number): value for number, value in enumerate(item.values)}
    return {} if item is None else {name: item}


def element(name: str, number: int) -> str:
    """Name of an element of a sequence, as an input or output of a graph."""
    return f"{name}\0{number}"


def place_of(items: Mapping[Key, Item], scope: NameScope, name: str) -> Key | None:
    """The key among ``items`` of what a name stands for in a scope, or None."""
    at: NameScope | None = scope
    while at is not None:
        if (at, name) in items:
            return at, name
        at = at.outer
    return None


def is_live(item: Item) -> bool:
    """Whether some of its values are no constants."""
    values = item.values if isinstance(item, TensorList) else (item,)
    return any(v is not None and v.constant is None for v in values)


def constant_item(builder: GraphBuilder, item: Item, made: dict[Value, Value]) -> Item:
    """An item of constants in another graph."""

    def renewed(value: Value) -> Value:
        if value not in made:
            assert value.constant is not None
            made[value] = builder.constant(value.constant, value.name)
        return made[value]

    if isinstance(item, TensorList):
        return TensorList(tuple(map(renewed, item.values)), item.dtype)
    return None if item is None else renewed(item)


def kinds_of(ends: Iterable[Item] | Iterable[Held]) -> np.ndarray | None:
    """Kinds of a body's results; None where all are tensors."""
    kinds = [_kind(end) for end in ends]
    return None if all(kind == TENSOR for kind in kinds) else np.asarray(kinds, np.int32)


def _kind(end: Item | Held) -> int:
    if isinstance(end, TensorList):
        return len(end.values)
    if isinstance(end, HeldList):
        return len(end.arrays)
    return NOTHING if end is None else TENSOR


def bytes_of(array: np.ndarray) -> object:
    """The content of an array, to be compared: its bytes, or its strings."""
    return tuple(array.reshape(-1)) if array.dtype == object else array.tobytes()
