"""Custom operators of the user's own (vknn.formats.custom)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vknn.formats.custom import Registration, custom_layer
from vknn.formats.tflite.context import Context
from vknn.formats.tflite.registry import Convert, OperatorType, Result, operator_type
from vknn.ops.custom import Custom


def known_type(code: str, custom_code: str = "") -> OperatorType | None:
    """The type of an operator, the user's before vknn's own, or None where there is none."""
    found = custom_layer("tflite", custom_code) if custom_code else None
    return operator_type(code, custom_code) if found is None else _type(found)


def _type(found: Registration) -> OperatorType:
    convert = _converter(found)
    return OperatorType(found.layer.name, convert, found.inputs, found.outputs, convert)


def _converter(found: Registration) -> Convert:
    def convert(c: Context) -> Result:
        """The tensors go in and come out as the file has them, quantized integers too."""
        if found.weights is not None:
            c.refuse("weights: those of a TensorFlow Lite operator are among its inputs")
        options = tuple((k, _held(v)) for k, v in _options(c, found).items())
        values = [c.value(i) for i in range(len(c.inputs))]
        op = Custom(found.layer, options, (), len(c.operator.outputs))
        return c.add_many(op, *values)

    return convert


def _options(c: Context, found: Registration) -> Mapping[str, Any]:
    """What the file's options hold, or what the registration names of them."""
    if found.parameters is None:
        return c.options
    options = {}
    for name, (key, default) in found.parameters.items():
        given = c.options.get(key)
        options[name] = default if given is None else _converted(c, key, given, default)
    return options


def _converted(c: Context, key: str, given: Any, default: Any) -> Any:
    """``given`` in the type of ``default``."""
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


def _held(value: Any) -> Any:
    """Lists as tuples: options belong to an op, which can be compared."""
    if isinstance(value, list):
        return tuple(_held(v) for v in value)
    return value
