"""Typed access to the attributes of a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vknn.formats.layer_errors import Malformed
from vknn.formats.onnx.element_types import ELEMENT_TYPES
from vknn.formats.onnx.records import AttributeRecord, GraphRecord, TensorProtoRecord

#: The default of a required attribute.
REQUIRED: Any = object()


class NodeAttributeReader:
    """Attributes by name. ``call``: those of the call of a function, for nodes that refer to them.

    Methods raise Malformed for an attribute that is absent and has no default, and for one of
    another kind.
    """

    def __init__(
        self, attributes: Mapping[str, AttributeRecord], call: Mapping[str, AttributeRecord]
    ) -> None:
        self._attributes, self._call = attributes, call

    def has(self, name: str) -> bool:
        """Whether the node has this attribute; in a function the call may leave it out."""
        return self.attribute(name) is not None

    def attribute(self, name: str) -> AttributeRecord | None:
        """An attribute of any kind, or None."""
        found = self._attributes.get(name)
        if found is not None and found.reference:
            return self._call.get(found.reference)
        return found

    def int(self, name: str, default: Any = REQUIRED) -> Any:
        """An integer."""
        return self._value(name, "int", default)

    def flag(self, name: str, default: bool = False) -> bool:
        """An integer that stands for a truth."""
        return bool(self._value(name, "int", default))

    def float(self, name: str, default: Any = REQUIRED) -> Any:
        """A floating-point number."""
        return self._value(name, "float", default)

    def text(self, name: str, default: Any = REQUIRED, choices: Sequence[str] | None = None) -> Any:
        """A text, with ``choices`` one of them."""
        found = self._value(name, "string", default)
        text = _decoded(name, found) if isinstance(found, bytes) else found
        if choices is not None and text not in choices:
            raise Malformed(f"attribute {name!r} is {text!r}, not one of {', '.join(choices)}")
        return text

    def int_list(self, name: str, default: Any = REQUIRED, count: Any = None) -> Any:
        """A tuple of integers; ``count``: the length that it must have."""
        return self._many(name, "ints", default, count)

    def float_list(self, name: str, default: Any = REQUIRED, count: Any = None) -> Any:
        """A tuple of floats; ``count``: the length that it must have."""
        return self._many(name, "floats", default, count)

    def texts(self, name: str, default: Any = REQUIRED, count: Any = None) -> Any:
        """A tuple of texts; ``count``: the length that it must have."""
        found = self._many(name, "strings", default, count)
        if found is default:
            return found
        return tuple(_decoded(name, text) for text in found)

    def tensor(self, name: str, default: Any = REQUIRED) -> Any:
        """A tensor's array."""
        found = self._value(name, "tensor", default)
        return found.array if isinstance(found, TensorProtoRecord) else found

    def graph(self, name: str) -> GraphRecord:
        """A graph, which must be there."""
        found: GraphRecord = self._value(name, "graph", REQUIRED)
        return found

    def dtype(self, name: str, default: Any = REQUIRED) -> Any:
        """The dtype that an attribute states as the number of an element type."""
        number = self._value(name, "int", default)
        if not isinstance(number, int):
            return number
        element = ELEMENT_TYPES.get(number)
        if element is None:
            raise Malformed(f"{name} is the element type number {number}, which vknn does not know")
        return element.dtype

    def _many(self, name: str, kind: str, default: Any, count: Any) -> Any:
        found = self._value(name, kind, default)
        if found is not default and count is not None and len(found) != count:
            raise Malformed(f"attribute {name!r} has {len(found)} entries, not {count}")
        return found

    def _value(self, name: str, kind: str, default: Any) -> Any:
        found = self.attribute(name)
        if found is None:
            if default is REQUIRED:
                raise Malformed(f"has no attribute {name!r}, which it must have")
            return default
        if found.kind != kind:
            raise Malformed(f"attribute {name!r} is of the kind {found.kind}, not {kind}")
        return found.value


def _decoded(name: str, found: bytes) -> str:
    try:
        return found.decode("utf-8")
    except UnicodeDecodeError:
        raise Malformed(f"attribute {name!r} is no UTF-8") from None
