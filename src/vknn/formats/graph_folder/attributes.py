"""Attributes of operators as JSON and back, held against their annotations: files are untrusted."""

from __future__ import annotations

import base64
import dataclasses
import enum
import functools
import importlib
import math
import pkgutil
import types
import typing
from collections.abc import Mapping
from typing import Any

import numpy as np

from vknn import ops
from vknn.errors import VknnError
from vknn.formats.custom import custom_layer
from vknn.graph import Op, op_classes
from vknn.ops.custom import CustomLayer

#: Operators in one another, such as a Fused op's base in a Chain.
_DEEPEST = 4
_SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class BadAttribute(Exception):
    """An attribute that the operator does not have or cannot have; the text says which."""


@functools.cache
def operators() -> Mapping[str, type[Op]]:
    """All operators of vknn by the names of their classes."""
    for module in pkgutil.walk_packages(ops.__path__, f"{ops.__name__}."):
        importlib.import_module(module.name)
    own = f"{ops.__name__}."
    return {cls.__name__: cls for cls in op_classes() if cls.__module__.startswith(own)}


def op_document(op: Op) -> dict[str, Any]:
    """An operator as JSON. Raises VknnError for one that is none of vknn's."""
    if operators().get(type(op).__name__) is not type(op):
        raise VknnError(f"{op.type_name} is no operator of vknn's and cannot be written")
    attributes = {name: _document(value) for name, value in op.attributes().items()}
    return {"type": type(op).__name__, **attributes}


def op_of(document: Any, depth: int = 0) -> Op:
    """The operator of a document. Raises BadAttribute."""
    if not isinstance(document, dict) or not isinstance(document.get("type"), str):
        raise BadAttribute("an operator has no type")
    cls = operators().get(document["type"])
    if cls is None or depth > _DEEPEST:
        raise BadAttribute(f"there is no operator {document['type']!r}")
    given = {name: value for name, value in document.items() if name != "type"}
    fields = _annotations(cls)
    if unknown := sorted(given.keys() - fields.keys()):
        raise BadAttribute(f"{cls.__name__} has no attribute {unknown[0]!r}")
    try:
        made = {n: _value(v, fields[n], f"{cls.__name__}.{n}", depth) for n, v in given.items()}
        return cls(**made)
    except (TypeError, ValueError, OverflowError, ArithmeticError) as error:
        raise BadAttribute(f"{cls.__name__}: {error}") from error


@functools.cache
def _annotations(cls: type) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def _document(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, tuple | list):
        return [_document(v) for v in value]
    if isinstance(value, Op):
        return op_document(value)
    if isinstance(value, CustomLayer):
        return {"format": value.format, "layer": value.name}
    if dataclasses.is_dataclass(value):
        return {f.name: _document(getattr(value, f.name)) for f in dataclasses.fields(value)}
    raise VknnError(f"an attribute of type {type(value).__name__} cannot be written")


def _value(document: Any, wanted: Any, who: str, depth: int) -> Any:
    """The value of an attribute of this annotation. Raises BadAttribute."""
    origin = typing.get_origin(wanted)
    if origin in (typing.Union, types.UnionType):
        for choice in typing.get_args(wanted):
            try:
                return _value(document, choice, who, depth)
            except BadAttribute:
                continue
        raise BadAttribute(f"{who} cannot be {_short(document)}")
    if origin is tuple:
        return _tuple(document, typing.get_args(wanted), who, depth)
    if wanted is Any:
        return _anything(document, who)
    if isinstance(document, dict):
        return _of_mapping(document, wanted, who, depth)
    if isinstance(wanted, type) and issubclass(wanted, enum.Enum):
        try:
            return wanted(document)
        except ValueError:
            raise BadAttribute(f"{who} cannot be {_short(document)}") from None
    if wanted is float and type(document) in (int, float):
        return float(document)
    if wanted in (int, bool, str) and type(document) is wanted:
        return document
    if wanted is type(None) and document is None:
        return None
    raise BadAttribute(f"{who} cannot be {_short(document)}")


def _of_mapping(document: dict[str, Any], wanted: Any, who: str, depth: int) -> Any:
    if wanted in (float, bytes):
        return _anything(document, who, wanted)
    if wanted is Op:
        return op_of(document, depth + 1)
    if wanted is CustomLayer:
        return _layer(document, who)
    if isinstance(wanted, type) and dataclasses.is_dataclass(wanted):
        if issubclass(wanted, Op):
            return op_of(document, depth + 1)
        fields = _annotations(wanted)
        if unknown := sorted(document.keys() - fields.keys()):
            raise BadAttribute(f"{who} has no {unknown[0]!r}")
        return wanted(**{n: _value(v, fields[n], f"{who}.{n}", depth) for n, v in document.items()})
    raise BadAttribute(f"{who} cannot be {_short(document)}")


def _tuple(document: Any, items: tuple[Any, ...], who: str, depth: int) -> tuple[Any, ...]:
    if not isinstance(document, list):
        raise BadAttribute(f"{who} cannot be {_short(document)}")
    if len(items) == 2 and items[1] is Ellipsis:
        return tuple(_value(v, items[0], who, depth) for v in document)
    if len(items) != len(document):
        raise BadAttribute(f"{who} has {len(items)} items, not {len(document)}")
    return tuple(_value(v, item, who, depth) for v, item in zip(document, items, strict=True))


def _anything(document: Any, who: str, wanted: type | None = None) -> Any:
    """A value of no annotation: an option of a custom layer. Lists come as tuples."""
    if isinstance(document, list):
        return tuple(_anything(v, who) for v in document)
    if isinstance(document, dict):
        if document.keys() == {"float"} and document["float"] in _SPECIAL and wanted is not bytes:
            return _SPECIAL[document["float"]]
        if document.keys() == {"bytes"} and isinstance(document["bytes"], str):
            return base64.b64decode(document["bytes"], validate=True)
        raise BadAttribute(f"{who} cannot be {_short(document)}")
    return document


def _layer(document: dict[str, Any], who: str) -> CustomLayer:
    format_, name = document.get("format"), document.get("layer")
    found = custom_layer(str(format_), str(name))
    if found is None:
        raise BadAttribute(
            f"the {format_} layer {name!r} is one of somebody's own and is not registered: give "
            "the file that registers it (--layers, vknn.register_layer)"
        )
    return found.layer


def _short(document: Any) -> str:
    text = repr(document)
    return text if len(text) <= 60 else f"{text[:57]}..."
