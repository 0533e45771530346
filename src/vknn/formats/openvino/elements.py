"""Attributes, precisions and blobs of single XML elements, with errors that name file and layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from vknn.errors import ModelFormatError
from vknn.formats.openvino.records import DTYPES, Blob
from vknn.formats.openvino.xml import Element, integer

#: Limits of a port's axes, and of the nesting of TensorIterators.
MAX_RANK = 16
MAX_NESTING = 8


@dataclass(frozen=True)
class ElementReader:
    """Access to the elements of one <net> or <body>.

    ``precision``: the default of its ports; ``nesting``: how many bodies it lies in.
    """

    file: str | None
    precision: str
    nesting: int = 0

    def fail(self, message: str, layer: str | None = None) -> NoReturn:
        """Error for a file that contradicts itself."""
        raise ModelFormatError(message, file=self.file, layer=layer)

    def number(self, element: Element, name: str, layer: str | None = None) -> int:
        """A required attribute that is an integer. Raises ModelFormatError."""
        text = element.attributes.get(name)
        value = None if text is None else integer(text)
        if value is None:
            said = "has no" if text is None else f"has {text[:40]!r} as"
            self.fail(f"<{element.tag}> {said} {name}", layer)
        return value

    def precision_of(self, element: Element, default: str, layer: str | None = None) -> str:
        """The precision that an element states, or ``default``."""
        text = element.attributes.get("precision", "")
        if text in ("", "UNSPECIFIED", "MIXED"):
            return default
        if text.upper() not in DTYPES:
            self.fail(f"<{element.tag}> has the unknown precision {text[:40]!r}", layer)
        return text.upper()

    def inner(self, precision: str) -> ElementReader:
        """The reader of a TensorIterator's body."""
        if self.nesting >= MAX_NESTING:
            self.fail(f"bodies nested more than {MAX_NESTING} deep")
        return ElementReader(self.file, precision, self.nesting + 1)

    def blob(self, element: Element, default: str, layer: str | None = None) -> Blob:
        """The place in the .bin that a <weights>, <biases>, <custom> or <mean> states."""
        offset = self.number(element, "offset", layer)
        size = self.number(element, "size", layer)
        if offset < 0 or size < 0 or offset + size >= 1 << 63:
            self.fail(f"<{element.tag}> has offset {offset} and size {size}", layer)
        return Blob(offset, size, self.precision_of(element, default, layer))
