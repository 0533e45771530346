"""Registry of operators: builtin or custom name -> converter and numbers of inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vknn.graph import Value

if TYPE_CHECKING:
    from vknn.formats.tflite.context import Context

#: Values of an operator's outputs, or the value of its only one.
Result = Value | Sequence[Value]
Convert = Callable[["Context"], Result]


@dataclass
class OperatorType:
    """A type of operators. ``inputs``, ``outputs``: least and most (None: any) number.

    ``convert`` converts operators on floats and plain integers, ``quantized`` those whose tensors
    are quantized; None where quantized tensors are not supported.
    """

    name: str
    convert: Convert
    inputs: tuple[int, int | None]
    outputs: tuple[int, int | None]
    quantized: Convert | None = None


_BUILTINS: dict[str, OperatorType] = {}
_CUSTOM: dict[str, OperatorType] = {}
#: Converters of quantized forms, whose modules may be imported before those of the operators.
_QUANTIZED: dict[str, Convert] = {}


def operator(
    *names: str,
    inputs: int | tuple[int, int | None] = 1,
    outputs: int | tuple[int, int | None] = 1,
    takes_quantized: bool = False,
    custom: bool = False,
) -> Callable[[Convert], Convert]:
    """Registration of the decorated function as the converter of these operators, each taken once.

    ``takes_quantized``: the function converts operators on quantized tensors too. For others
    :func:`quantized` registers a second function.
    """
    table = _CUSTOM if custom else _BUILTINS

    def register(convert: Convert) -> Convert:
        for name in names:
            if name in table:
                raise ValueError(f"operator {name} is registered twice")
            second = convert if takes_quantized else None if custom else _QUANTIZED.get(name)
            table[name] = OperatorType(name, convert, _range(inputs), _range(outputs), second)
        return convert

    return register


def quantized(*names: str) -> Callable[[Convert], Convert]:
    """Registration of a function as the converter of quantized forms of these operators."""

    def register(convert: Convert) -> Convert:
        for name in names:
            known = _BUILTINS.get(name)
            if name in _QUANTIZED or (known is not None and known.quantized is not None):
                raise ValueError(f"operator {name} has a quantized form already")
            _QUANTIZED[name] = convert
            if known is not None:
                known.quantized = convert
        return convert

    return register


def operator_type(code: str, custom_code: str = "") -> OperatorType | None:
    """Type of a builtin operator or, with ``custom_code``, of a custom one; None if unknown."""
    return _CUSTOM.get(custom_code) if custom_code else _BUILTINS.get(code)


def operator_types() -> dict[str, OperatorType]:
    """Types of all builtin operators by name."""
    return dict(_BUILTINS)


def custom_types() -> dict[str, OperatorType]:
    """Types of all custom operators by name."""
    return dict(_CUSTOM)


def _range(arity: int | tuple[int, int | None]) -> tuple[int, int | None]:
    return (arity, arity) if isinstance(arity, int) else arity
