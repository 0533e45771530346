"""Operators by their names, vknn's own and those that a user registered (vknn.formats.custom)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from vknn.formats.custom import Registration, custom_layer
from vknn.formats.custom_converter import Options, custom_type, named_options
from vknn.formats.onnx.context import Context
from vknn.formats.onnx.layers import operator_type
from vknn.formats.onnx.records import NodeRecord
from vknn.formats.onnx.registry import OperatorVersion


def known_type(node: NodeRecord, imports: Mapping[str, int]) -> OperatorVersion | None:
    """Meaning of a node's operator, a user's before vknn's own; None for an unknown one."""
    domain, name, _ = node.key
    found = custom_layer("onnx", f"{domain}::{name}" if domain else name)
    if found is None:
        return operator_type(domain, name, imports.get(domain, 1))
    made = custom_type(found, _options, _weights, lambda c: len(c.node.outputs))
    return OperatorVersion(
        made.name, made.convert, made.inputs, made.outputs, (), domain, imports.get(domain, 1)
    )


def _options(c: Context, found: Registration) -> Options:
    """Attributes that are numbers and text, or in the types of the registration's defaults."""
    given = {name: c.attribute(name) for name in c.node.attributes}
    plain = {
        name: _plain(record.value)
        for name, record in given.items()
        if record is not None and record.kind in _PLAIN
    }
    return named_options(found, plain, functools.partial(_read, c))


_PLAIN = ("int", "float", "string", "ints", "floats", "strings")


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value


def _read(c: Context, key: str, default: Any) -> Any:
    if isinstance(default, tuple):
        if any(isinstance(v, str) for v in default):
            return c.texts(key, default)
        floats = any(isinstance(v, float) for v in default)
        return c.float_list(key, default) if floats else c.int_list(key, default)
    if isinstance(default, bool):
        return c.flag(key, default)
    if isinstance(default, int):
        return c.int(key, default)
    return c.float(key, default) if isinstance(default, float) else c.text(key, default)


def _weights(c: Context, found: Registration, options: Options) -> Mapping[str, np.ndarray]:
    if found.weights is not None:
        c.refuse("weights: those of an ONNX operator are among its inputs")
    return {}
