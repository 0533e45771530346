"""Attributes of nodes: messages -> records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vknn.formats.onnx.external import ExternalData
from vknn.formats.onnx.records import AttributeRecord, GraphRecord
from vknn.formats.onnx.tensors import BadTensor, read_sparse, read_tensor
from vknn.formats.onnx.value_types import read_type

#: Kinds by their numbers in files: name, field, whether the field is repeated.
_KINDS = {
    1: ("float", "f", False), 2: ("int", "i", False), 3: ("string", "s", False),
    4: ("tensor", "t", False), 5: ("graph", "g", False), 6: ("floats", "floats", True),
    7: ("ints", "ints", True), 8: ("strings", "strings", True), 9: ("tensors", "tensors", True),
    10: ("graphs", "graphs", True), 11: ("sparse_tensor", "sparse_tensor", False),
    12: ("sparse_tensors", "sparse_tensors", True), 13: ("type", "tp", False),
    14: ("types", "type_protos", True),
}  # fmt: skip

#: The fields that hold their values.
_VALUES = frozenset(kind[1] for kind in _KINDS.values())


def read_attribute(
    message: Any, external: ExternalData, graph: Callable[[Any], GraphRecord]
) -> AttributeRecord:
    """The record of an attribute; ``graph`` reads graphs. Raises BadTensor."""
    if message.ref_attr_name:
        kind = _KINDS.get(message.type, ("", "", False))[0]
        return AttributeRecord(message.name, kind, None, message.ref_attr_name)
    kind, field, many = _kind(message)
    value = getattr(message, field)
    readers: dict[str, Callable[[Any], Any]] = {
        "tensor": lambda m: read_tensor(m, external),
        "sparse_tensor": lambda m: read_sparse(m, external),
        "graph": graph,
        "type": read_type,
    }
    read = readers.get(kind.removesuffix("s") if many else kind)
    if read is None:
        return AttributeRecord(message.name, kind, tuple(value) if many else value)
    return AttributeRecord(message.name, kind, tuple(map(read, value)) if many else read(value))


def _kind(message: Any) -> tuple[str, str, bool]:
    """The kind that the attribute states. Raises BadTensor where it has values of others, too."""
    found = _KINDS.get(message.type)
    if found is None:
        raise BadTensor(f"it is of the unknown kind {message.type}")
    for descriptor, _ in message.ListFields():
        if descriptor.name in _VALUES and descriptor.name != found[1]:
            raise BadTensor(f"it is of the kind {found[0]}, and has a value {descriptor.name!r}")
    return found
