"""Signatures of operators, version by version: what types their inputs have, which attributes.

They stand in signatures.txt, one row for each version that differs from the one before:

    domain::Operator version inputs|outputs|type variables|attributes

An input or output is a type variable or a set of types, with "?" where it may be left out, "..."
for any number of one type and "*" for any number of any types. A set names types and classes of
types, with commas between; "seq" and "optional" stand for all sequences and optionals. Behind an
attribute's name stands the letter of its kind, and "!" where it must be there.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vknn.graph import DType

__all__ = [
    "CLASSES", "KINDS", "LIST", "OPTIONAL", "OperatorSignature", "SignaturePort", "short",
    "signature",
]  # fmt: skip

#: Sets of types that have a name in the table.
CLASSES = {
    "floats": ("f16", "f32", "f64"),
    "ints": ("i8", "i16", "i32", "i64"),
    "uints": ("u8", "u16", "u32", "u64"),
    "f8": ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
    "complex": ("c64", "c128"),
}
#: Kinds of attributes by their letters.
KINDS = {
    "f": "float", "i": "int", "s": "string", "t": "tensor", "g": "graph", "F": "floats",
    "I": "ints", "S": "strings", "T": "tensors", "G": "graphs", "p": "sparse_tensor", "y": "type",
}  # fmt: skip
#: What is no tensor, among types.
LIST, OPTIONAL = "seq", "optional"
_TABLE = Path(__file__).with_name("signatures.txt")
_PREFIXES = {"float": "f", "int": "i", "uint": "u", "complex": "c"}
_OTHERS = {"bfloat16": "bf16", "string": "str"}


@dataclass(frozen=True)
class SignaturePort:
    """An input or output. ``variable``: its type variable or "".

    ``types``: those that it allows, values of DType, LIST and OPTIONAL. ``optional``: it may be
    left out. ``many``: it stands for any number, with ``same`` of one type.
    """

    variable: str
    types: frozenset[str]
    optional: bool
    many: bool
    same: bool


@dataclass(frozen=True)
class OperatorSignature:
    """One version of an operator. ``attributes``: kinds by name; ``required``: names."""

    version: int
    inputs: tuple[SignaturePort, ...]
    outputs: tuple[SignaturePort, ...]
    attributes: Mapping[str, str]
    required: frozenset[str]


def short(dtype: DType) -> str:
    """The name of an element type in the table: f32, u8, str."""
    name = dtype.value
    head = name.rstrip("0123456789")
    return _OTHERS.get(name) or _PREFIXES.get(head, head) + name[len(head) :]


@functools.cache
def signature(name: str, opset: int) -> OperatorSignature | None:
    """The signature that counts for ``domain::Operator`` in a model that imports ``opset``.

    None where the table has none.
    """
    text, place, found = _text(), 0, None
    while (place := text.find(f"\n{name} ", place)) >= 0:
        end = text.index("\n", place + 1)
        version, _, row = text[place + len(name) + 2 : end].partition(" ")
        if int(version) > opset:
            break
        found, place = (int(version), row), end
    return None if found is None else _parsed(*found)


@functools.cache
def _text() -> str:
    return "\n" + _TABLE.read_text(encoding="ascii")


def _parsed(version: int, row: str) -> OperatorSignature:
    inputs, outputs, sets, attributes = row.split("|")
    variables = dict(pair.split("=") for pair in sets.split())
    kinds = dict(pair.split(":") for pair in attributes.split())
    return OperatorSignature(
        version,
        tuple(_port(word, variables) for word in inputs.split()),
        tuple(_port(word, variables) for word in outputs.split()),
        {name: KINDS[kind[0]] for name, kind in kinds.items()},
        frozenset(name for name, kind in kinds.items() if kind.endswith("!")),
    )  # fmt: skip


def _port(word: str, variables: Mapping[str, str]) -> SignaturePort:
    name = word.rstrip("?.*")
    types = _members(variables.get(name, name))
    many = word.endswith(("...", "*"))
    same = many and not word.endswith("*")
    return SignaturePort(name if name in variables else "", types, word.endswith("?"), many, same)


@functools.cache
def _members(names: str) -> frozenset[str]:
    single = [part for name in names.split(",") for part in CLASSES.get(name, (name,))]
    return frozenset(_long_names().get(name, name) for name in single)


@functools.cache
def _long_names() -> Mapping[str, str]:
    return {short(dtype): dtype.value for dtype in DType}
