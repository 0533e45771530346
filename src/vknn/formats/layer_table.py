"""Table of a format's layer types: name -> the function that converts a layer to graph ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from vknn.formats.layer_context import LayerContext
from vknn.graph import Value
from vknn.reimports import comes_again

C = TypeVar("C", bound=LayerContext)
T = TypeVar("T", bound="LayerType[Any]")

#: The values of a layer's outputs; a single value for a layer with one output.
Result = Value | Sequence[Value]
#: The least and the greatest number of inputs or outputs; None: no limit.
Arity = tuple[int, int | None]
#: The same, or an exact number.
Count = int | Arity


def arity(count: Count) -> Arity:
    """A number of inputs or outputs, exact where ``count`` is an int, as least and greatest."""
    return (count, count) if isinstance(count, int) else count


def count_problem(count: int, allowed: Arity, what: str) -> str | None:
    """Text like "takes 1 to 2 inputs, not 3" for a ``count`` outside ``allowed``, else None.

    ``what``: "inputs" or "outputs".
    """
    least, most = allowed
    if count >= least and (most is None or count <= most):
        return None
    end = " or more" if most is None else f" to {most}" if most != least else ""
    return f"takes {least}{end} {what}, not {count}"


@dataclass(frozen=True)
class LayerType(Generic[C]):
    """A layer type: how it is converted, and how many inputs and outputs it takes.

    ``name`` is the specification's, ``aliases`` are other names for it in files. Formats that know
    more of a type derive a class of their own.
    """

    name: str
    convert: Callable[[C], Result]
    inputs: Arity
    outputs: Arity
    aliases: tuple[str, ...] = ()

    def arity_problem(self, inputs: int, outputs: int) -> str | None:
        """Text like "takes 1 inputs, not 2", or None for numbers that the type takes."""
        return count_problem(inputs, self.inputs, "inputs") or count_problem(
            outputs, self.outputs, "outputs"
        )


class LayerTable(Generic[T]):
    """Layer types by name; with ``ignore_case`` names that differ only in case are one."""

    def __init__(self, *, ignore_case: bool = False) -> None:
        self._ignore_case = ignore_case
        self._types: dict[str, T] = {}

    def add(self, type_: T) -> None:
        """Addition of a layer type by its name and aliases. Raises ValueError for a known name."""
        for name in (type_.name, *type_.aliases):
            known = self._types.get(self._key(name))
            if known is not None:
                again = known.name == type_.name and comes_again(known.convert, type_.convert)
                if not again:
                    raise ValueError(f"layer {name} is registered twice")
            self._types[self._key(name)] = type_

    def register(
        self: LayerTable[LayerType[C]],
        name: str,
        *aliases: str,
        inputs: Count = 1,
        outputs: Count = 1,
    ) -> Callable[[Callable[[C], Result]], Callable[[C], Result]]:
        """Decorator: makes a function the converter of the layer ``name`` and of its aliases.

        Raises ValueError for a name that is registered already.
        """

        def decorate(convert: Callable[[C], Result]) -> Callable[[C], Result]:
            self.add(LayerType(name, convert, arity(inputs), arity(outputs), aliases))
            return convert

        return decorate

    def get(self, name: str) -> T | None:
        """The layer type of this name or alias; None for a name that is not registered."""
        return self._types.get(self._key(name))

    def all(self) -> dict[str, T]:
        """All layer types by the names of the specification."""
        return {found.name: found for found in self._types.values()}

    def _key(self, name: str) -> str:
        return name.lower() if self._ignore_case else name
