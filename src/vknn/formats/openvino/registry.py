"""The table of layers: type name -> how it is converted. Type names ignore case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vknn.graph import Value

if TYPE_CHECKING:
    from vknn.formats.openvino.context import Context

#: The values of a layer's outputs; a single value for a layer with one.
Result = Value | Sequence[Value]
Convert = Callable[["Context"], Result]


@dataclass(frozen=True)
class LayerType:
    """What is known of a layer. ``inputs`` is the least and the most (None: any) number.

    ``name`` is how the specification writes it, ``aliases`` what else files call it.
    """

    name: str
    convert: Convert
    inputs: tuple[int, int | None]
    outputs: tuple[int, int | None]
    aliases: tuple[str, ...] = ()


_TYPES: dict[str, LayerType] = {}


def layer(
    name: str,
    *aliases: str,
    inputs: int | tuple[int, int | None] = 1,
    outputs: int | tuple[int, int | None] = 1,
) -> Callable[[Convert], Convert]:
    """Registers the decorated function as the converter of this layer, under all its names."""

    def register(convert: Convert) -> Convert:
        found = LayerType(name, convert, _range(inputs), _range(outputs), aliases)
        for known in (name, *aliases):
            if known.lower() in _TYPES:
                raise ValueError(f"layer {known} is registered twice")
            _TYPES[known.lower()] = found
        return convert

    return register


def layer_type(name: str) -> LayerType | None:
    """The type of a layer, or None where vknn has none."""
    return _TYPES.get(name.lower())


def layer_types() -> dict[str, LayerType]:
    """All layers by the names of the specification."""
    return {found.name: found for found in _TYPES.values()}


def _range(arity: int | tuple[int, int | None]) -> tuple[int, int | None]:
    return (arity, arity) if isinstance(arity, int) else arity
