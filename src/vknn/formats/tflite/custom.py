"""Custom operators that users have registered (vknn.formats.custom) in TensorFlow Lite files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vknn.formats.custom import Registration, custom_layer
from vknn.formats.tflite.context import Context
from vknn.formats.tflite.registry import Convert, OperatorType, Result, operator_type
from vknn.ops.custom import Custom


def known_type(code: str, custom_code: str = "") -> OperatorType | None:
    """Type of an operator: a user's, else vknn's own, else None."""
    found = custom_layer("tflite", custom_code) if custom_code else None
    return operator_type(code, custom_code) if found is None else _type(found)


def _type(found: Registration) -> OperatorType:
    convert = _converter(found)
    return OperatorType(found.layer.name, convert, found.inputs, found.outputs, convert)


def _converter(found: Registration) -> Convert:
    def convert(c: Context) -> Result:
        """Adds a Custom op on the tensors as the file has them, quantized integers included."""
        if found.weights is not None:
            c.refuse("weights: those of a TensorFlow Lite operator are among its inputs")
        options = tuple((k, _hashable(v)) for k, v in _options(c, found).items())
        values = [c.value(i) for i in range(len(c.inputs))]
        op = Custom(found.layer, options, (), len(c.operator.outputs))
        return c.add_many(op, *values)

    return convert


def _options(c: Context, found: Registration) -> Mapping[str, Any]:
    """The file's options, or those that the registration declares, by their declared names."""
    if found.parameters is None:
        return c.options
    options = {}
    for name, (key, default) in found.parameters.items():
        given = c.options.get(key)
        options[name] = default if given is None else _converted(c, key, given, default)
    return options


def _converted(c: Context, key: str, given: Any, default: Any) -> Any:
    """``given`` converted to the type of ``default``. Raises Malformed."""
    try:
        if isinstance(default, tuple):
            number = float if any(isinstance(v, float) for v in default) else int
            return tuple(number(v) for v in given)
        if isinstance(default, bool | int | float) and isinstance(given, bool | int | float):
            return type(default)(given)
    except (TypeError, ValueError, OverflowError):
        pass
    if not isinstance(given, type(default)):
        c.fail(f"has the option {key!r} = {given!r}, which is no {type(default).__name__}")
    return given


def _hashable(value: Any) -> Any:
    """Lists as tuples: attributes of an op have to be hashable."""
    if isinstance(value, list):
        return tuple(_hashable(v) for v in value)
    return value
