"""Registry of operators: builtin or custom name -> converter and numbers of inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vknn.formats.layer_errors import Unsupported
from vknn.formats.layer_table import Count, LayerTable, LayerType, Result, arity
from vknn.formats.tflite.context import Context
from vknn.reimports import comes_again

__all__ = [
    "Convert", "OperatorType", "Result", "custom_types", "operator", "operator_type",
    "operator_types", "quantized",
]  # fmt: skip

Convert = Callable[[Context], Result]


@dataclass(frozen=True)
class OperatorType(LayerType[Context]):
    """A type of operators.

    ``takes_quantized``: ``convert`` converts operators on quantized tensors too, not only those on
    floats and plain integers.
    """

    takes_quantized: bool = False

    @property
    def quantized(self) -> Convert | None:
        """The converter of operators on quantized tensors; None where they are not supported."""
        return self.convert if self.takes_quantized else _QUANTIZED.get(self.name)

    def convert_of(self, quantized: bool) -> Convert:
        """The converter of operators on quantized tensors, or on others. Raises Unsupported."""
        found = self.quantized if quantized else self.convert
        if found is None:
            raise Unsupported("quantized tensors")
        return found


_BUILTINS: LayerTable[OperatorType] = LayerTable()
_CUSTOM: LayerTable[OperatorType] = LayerTable()
#: Converters of quantized forms, by the names of builtin operators.
_QUANTIZED: dict[str, Convert] = {}

#: Types of all builtin operators, and of all custom ones, by name.
operator_types = _BUILTINS.all
custom_types = _CUSTOM.all


def operator(
    *names: str,
    inputs: Count = 1,
    outputs: Count = 1,
    takes_quantized: bool = False,
    custom: bool = False,
) -> Callable[[Convert], Convert]:
    """Registration of the decorated function as the converter of these operators, each taken once.

    ``takes_quantized``: the function converts operators on quantized tensors too. For others
    :func:`quantized` registers a second function.
    """
    table = _CUSTOM if custom else _BUILTINS

    def register(convert: Convert) -> Convert:
        ends = arity(inputs), arity(outputs)
        for name in names:
            table.add(OperatorType(name, convert, *ends, takes_quantized=takes_quantized))
        return convert

    return register


def quantized(*names: str) -> Callable[[Convert], Convert]:
    """Registration of a function as the converter of quantized forms of these operators."""

    def register(convert: Convert) -> Convert:
        for name in names:
            known = _BUILTINS.get(name)
            again = name in _QUANTIZED and comes_again(_QUANTIZED[name], convert)
            if (name in _QUANTIZED and not again) or (known is not None and known.takes_quantized):
                raise ValueError(f"operator {name} has a quantized form already")
            _QUANTIZED[name] = convert
        return convert

    return register


def operator_type(code: str, custom_code: str = "") -> OperatorType | None:
    """Type of a builtin operator or, with ``custom_code``, of a custom one; None if unknown."""
    return _CUSTOM.get(custom_code) if custom_code else _BUILTINS.get(code)
