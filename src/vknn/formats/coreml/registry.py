"""The table of layers: the name of a layer's parameters in the file -> how it is converted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vknn.graph import Value

if TYPE_CHECKING:
    from vknn.formats.coreml.context import Context

#: The values of a layer's outputs; a single value for a layer with one.
Result = Value | Sequence[Value]
Convert = Callable[["Context"], Result]


@dataclass(frozen=True)
class LayerType:
    """What is known of a layer. ``inputs`` is the least and the most (None: any) number."""

    name: str
    convert: Convert
    inputs: tuple[int, int | None]
    outputs: tuple[int, int | None]


_LAYERS: dict[str, LayerType] = {}


def layer(
    *names: str,
    inputs: int | tuple[int, int | None] = 1,
    outputs: int | tuple[int, int | None] = 1,
) -> Callable[[Convert], Convert]:
    """Registers the decorated function as the converter of these layers, each taken once."""

    def register(convert: Convert) -> Convert:
        for name in names:
            if name in _LAYERS:
                raise ValueError(f"layer {name} is registered twice")
            _LAYERS[name] = LayerType(name, convert, _range(inputs), _range(outputs))
        return convert

    return register


def layer_type(name: str) -> LayerType | None:
    """The type of a layer, or None where vknn has none."""
    return _LAYERS.get(name)


def layer_types() -> dict[str, LayerType]:
    """All layers by name; those of control flow are not among them."""
    return dict(_LAYERS)


def _range(arity: int | tuple[int, int | None]) -> tuple[int, int | None]:
    return (arity, arity) if isinstance(arity, int) else arity
