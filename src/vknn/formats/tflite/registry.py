"""The table of operators: builtin or custom name -> how it is converted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vknn.graph import Value

if TYPE_CHECKING:
    from vknn.formats.tflite.context import Context

#: The values of an operator's outputs; a single value for an operator with one.
Result = Value | Sequence[Value]
Convert = Callable[["Context"], Result]


@dataclass
class OperatorType:
    """What is known of an operator. ``inputs`` is the least and the most (None: any) number.

    ``quantized`` converts it where its tensors are quantized integers; None where it has no such
    form, and the same function as ``convert`` where values do not matter to it.
    """

    name: str
    convert: Convert
    inputs: tuple[int, int | None]
    outputs: tuple[int, int | None]
    quantized: Convert | None = None


_BUILTINS: dict[str, OperatorType] = {}
_CUSTOM: dict[str, OperatorType] = {}


def operator(
    *names: str,
    inputs: int | tuple[int, int | None] = 1,
    outputs: int | tuple[int, int | None] = 1,
    moves: bool = False,
    custom: bool = False,
) -> Callable[[Convert], Convert]:
    """Registers the decorated function as the converter of these operators, each taken once.

    ``moves``: it serves quantized tensors too, as it looks at no value or sees to the scales
    itself; for others :func:`quantized` registers a second function.
    """
    table = _CUSTOM if custom else _BUILTINS

    def register(convert: Convert) -> Convert:
        for name in names:
            if name in table:
                raise ValueError(f"operator {name} is registered twice")
            second = convert if moves else None
            table[name] = OperatorType(name, convert, _range(inputs), _range(outputs), second)
        return convert

    return register


def quantized(*names: str) -> Callable[[Convert], Convert]:
    """Registers the decorated function for quantized tensors of operators that are known."""

    def register(convert: Convert) -> Convert:
        for name in names:
            if _BUILTINS[name].quantized is not None:
                raise ValueError(f"operator {name} has a quantized form already")
            _BUILTINS[name].quantized = convert
        return convert

    return register


def operator_type(code: str, custom_code: str = "") -> OperatorType | None:
    """The type of an operator, or None where vknn has none."""
    return _CUSTOM.get(custom_code) if custom_code else _BUILTINS.get(code)


def operator_types() -> dict[str, OperatorType]:
    """All builtin operators by name."""
    return dict(_BUILTINS)


def custom_types() -> dict[str, OperatorType]:
    """All custom operators by name."""
    return dict(_CUSTOM)


def _range(arity: int | tuple[int, int | None]) -> tuple[int, int | None]:
    return (arity, arity) if isinstance(arity, int) else arity
