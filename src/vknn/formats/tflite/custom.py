"""Custom operators that users have registered (vknn.formats.custom) in TensorFlow Lite files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vknn.formats.custom import Registration, custom_layer
from vknn.formats.custom_converter import Options, custom_type, named_options
from vknn.formats.tflite.context import Context
from vknn.formats.tflite.registry import OperatorType, operator_type


def known_type(code: str, custom_code: str = "") -> OperatorType | None:
    """Type of an operator: a user's, else vknn's own, else None."""
    found = custom_layer("tflite", custom_code) if custom_code else None
    if found is None:
        return operator_type(code, custom_code)
    type_ = custom_type(found, _options, _weights, lambda c: len(c.operator.outputs))
    return OperatorType(
        type_.name, type_.convert, type_.inputs, type_.outputs, takes_quantized=True
    )


def _options(c: Context, found: Registration) -> Options:
    """The file's options, or those that the registration declares, by their declared names."""

    def read(key: str, default: Any) -> Any:
        given = c.options.get(key)
        return default if given is None else _converted(c, key, given, default)

    return {name: _hashable(v) for name, v in named_options(found, c.options, read).items()}


def _weights(c: Context, found: Registration, options: Options) -> Mapping[str, np.ndarray]:
    if found.weights is not None:
        c.refuse("weights: those of a TensorFlow Lite operator are among its inputs")
    return {}


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
