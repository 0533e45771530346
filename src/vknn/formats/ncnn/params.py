"""Parameters of layers, declared by name, id and default.

    @attributes
    class PoolingParams(Params):
        kernel_w: int = param(1)
        kernel_h: int = param(11, like="kernel_w")

The annotation is the type that the file must have: int, float, str, or a tuple of ints or floats.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import typing
from collections.abc import Sequence
from typing import Any, TypeVar

from vknn.formats.layer_errors import Malformed
from vknn.formats.ncnn.records import Bits, LayerRecord, ParamValue
from vknn.graph import Attributes, attributes

P = TypeVar("P", bound="Params")

#: Bits of the smallest normal float32: integers from here on are bit patterns of floats.
_FIRST_BIT_PATTERN = 1 << 23


def param(id: int, default: Any = 0, like: str | None = None) -> Any:
    """A field for parameter ``id``; ``like``: name of an earlier one whose value is the default."""
    return dataclasses.field(default=default, metadata={"id": id, "like": like})


@attributes
class Params(Attributes):
    """Base class of parameters, and the class for layers without parameters."""

    @classmethod
    def read(cls: type[P], record: LayerRecord) -> P:
        """Parameters of ``record``, converted and checked. Raises Malformed and Unsupported."""
        kinds = _kinds(typing.cast("type", cls))
        values: dict[str, Any] = {}
        for field in dataclasses.fields(cls):
            id_, like = field.metadata["id"], field.metadata["like"]
            if id_ in record.params:
                label = f"parameter {id_} ({field.name})"
                values[field.name] = _convert(record.params[id_], kinds[field.name], label)
            else:
                values[field.name] = values[like] if like else field.default
        params = cls(**values)
        params.check()
        return params

    def check(self) -> None:
        """Check: Malformed for values that no input could suit, Unsupported for what vknn lacks."""


@functools.cache
def _kinds(cls: type[Params]) -> dict[str, Any]:
    """Types of a class's fields by name."""
    return typing.get_type_hints(cls)


def require(condition: bool, message: str) -> None:
    """Check: Malformed unless ``condition`` holds."""
    if not condition:
        raise Malformed(message)


def require_axes(axes: Sequence[int]) -> None:
    """Check: Malformed unless these are at most four axes from -4 to 3, as ncnn demands."""
    require(len(axes) <= 4, f"axes {list(axes)} are more than four")
    require(all(-4 <= a < 4 for a in axes), f"axes {list(axes)} are not all from -4 to 3")


def _convert(value: ParamValue, kind: Any, label: str) -> Any:
    if kind is str:
        require(isinstance(value, str), f"{label} must be text, not {value!r}")
        return value
    if isinstance(value, str):
        raise Malformed(f"{label} must be a number, not {value!r}")
    if kind is int or kind is float:
        require(not isinstance(value, tuple), f"{label} must be a single number, not an array")
        return _number(value, kind, label)
    if not isinstance(value, tuple):
        raise Malformed(f"{label} must be an array ({value}, with a comma), not a single number")
    if typing.get_args(kind)[0] is int:
        return tuple(_number(v, int, label) for v in value)
    return tuple(float_element(v, label) for v in value)


def float_element(value: int | float, label: str) -> float:
    """An element of an array of floats, which old tools wrote as the bits of a float32."""
    if isinstance(value, Bits):
        return _finite(value, label)
    if isinstance(value, float) or abs(value) < _FIRST_BIT_PATTERN:
        return float(value)
    return _finite(Bits(value), label)


def _finite(bits: Bits, label: str) -> float:
    number = bits.as_float()
    require(math.isfinite(number), f"{label} holds {number}, which is not a finite number")
    return number


def _number(value: Any, kind: type, label: str) -> int | float:
    if kind is float and isinstance(value, Bits):
        return _finite(value, label)
    if kind is float:
        return float(value)
    if value == 0:  # "0.0" has the bits of 0
        return 0
    if not isinstance(value, int):
        raise Malformed(f"{label} must be a whole number, not {value}")
    return int(value)
