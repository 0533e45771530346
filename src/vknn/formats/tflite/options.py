"""Builtin options: the options table of an operator -> a mapping by field names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from vknn.formats.tflite.generated import accessors
from vknn.formats.tflite.generated.layout import ENUMS, TABLES, UNIONS

#: The two unions that may hold an operator's options: names of their accessors and members.
_UNIONS = (
    ("BuiltinOptions", UNIONS["BuiltinOptions"]),
    ("BuiltinOptions2", UNIONS["BuiltinOptions2"]),
)
#: Builtins whose options table has another name than theirs.
_TABLES = {
    "AVERAGE_POOL_2D": "Pool2D", "MAX_POOL_2D": "Pool2D", "L2_POOL_2D": "Pool2D",
    "LOCAL_RESPONSE_NORMALIZATION": "LocalResponseNormalization", "L2_NORMALIZATION": "L2Norm",
    "CONV_3D_TRANSPOSE": "Conv3D",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNN", "MEAN": "Reducer", "SUM": "Reducer",
    "REDUCE_PROD": "Reducer", "REDUCE_MAX": "Reducer", "REDUCE_MIN": "Reducer",
    "REDUCE_ANY": "Reducer", "REDUCE_ALL": "Reducer", "RANDOM_STANDARD_NORMAL": "Random",
    "RANDOM_UNIFORM": "Random", "MULTINOMIAL": "Random", "MAXIMUM": "MaximumMinimum",
    "MINIMUM": "MaximumMinimum",
}  # fmt: skip


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


_BY_PLAIN = {
    _plain(member.removesuffix("Options")): member for _, members in _UNIONS for member in members
}


def options_table(code: str) -> str | None:
    """Name of a builtin's options table in the schema; None where it has none."""
    return _BY_PLAIN.get(_plain(_TABLES.get(code, code)))


def read_options(operator: Any, code: str) -> Mapping[str, Any]:
    """Fields of a builtin's options by name; the schema's defaults for fields that are absent.

    ``operator`` is a verified Operator table. A table of another builtin's type is ignored, as in
    TensorFlow Lite.
    """
    name = options_table(code)
    if name is None:
        return {}
    options = getattr(accessors, name)()
    options.Init(_EMPTY, 4)
    for union, members in _UNIONS:
        table, given = getattr(operator, union)(), getattr(operator, f"{union}Type")()
        if table is not None and 0 < given <= len(members) and members[given - 1] == name:
            options.Init(table.Bytes, table.Pos)
    return {slot: _value(options, slot, kind) for slot, kind, _ in TABLES[name]}


def unknown_member(code: str, options: Mapping[str, Any]) -> str | None:
    """Problem, as text, of a builtin's options that hold a number that is no member of its enum."""
    for slot, enum in ENUMS.get(options_table(code) or "", {}).items():
        members = vars(getattr(accessors, enum))
        numbers = [number for name, number in members.items() if name[0] != "_"]
        if options[slot] not in numbers:
            return f"{slot} is {options[slot]}; {enum} has the members 0 to {max(numbers)}"
    return None


#: An empty vtable and a table without fields, from which accessors read the defaults.
_EMPTY = bytearray(b"\x04\x00\x04\x00\x04\x00\x00\x00")


def _value(options: Any, slot: str, kind: str) -> Any:
    camel = re.sub(r"(?:^|_)(\w)", lambda m: m[1].upper(), slot)
    if kind == "string":
        return (getattr(options, camel)() or b"").decode("utf-8", "backslashreplace")
    if kind != "vector":
        return getattr(options, camel)()
    array = getattr(options, f"{camel}AsNumpy")()
    return tuple(array.tolist()) if isinstance(array, np.ndarray) else ()
