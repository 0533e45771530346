"""XML parser with limits on size, depth and number of elements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from xml.etree.ElementTree import ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from vknn.errors import ModelFormatError

MAX_BYTES = 1 << 28
MAX_DEPTH = 64
MAX_ELEMENTS = 500_000
MAX_ATTRIBUTE = 1 << 20

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


@dataclass
class Element:
    """An element. Text is kept of <dim> elements only."""

    tag: str
    attributes: Mapping[str, str]
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def all(self, tag: str) -> Iterator[Element]:
        """The children of this tag."""
        return (child for child in self.children if child.tag == tag)

    def first(self, tag: str) -> Element | None:
        """The first child of this tag, or None."""
        return next(self.all(tag), None)

    def ports(self, tag: str) -> Iterator[Element]:
        """The <port> elements of all children of this tag (input or output)."""
        return (port for side in self.all(tag) for port in side.all("port"))


class _TreeTarget:
    """Parser target that builds the tree of Elements."""

    def __init__(self) -> None:
        self.root: Element | None = None
        self._open: list[Element] = []
        self._count = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._count += 1
        if self._count > MAX_ELEMENTS:
            raise ModelFormatError(f"more than {MAX_ELEMENTS} XML elements")
        if len(self._open) >= MAX_DEPTH:
            raise ModelFormatError(f"XML elements nested more than {MAX_DEPTH} deep")
        for name, value in attributes.items():
            if len(name) > MAX_ATTRIBUTE or len(value) > MAX_ATTRIBUTE:
                raise ModelFormatError(
                    f"an attribute of <{tag[:40]}> is longer than {MAX_ATTRIBUTE} characters"
                )
        element = Element(tag, attributes)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def end(self, tag: str) -> None:
        self._open.pop()

    def data(self, text: str) -> None:
        if self._open[-1].tag == "dim":
            self._open[-1].text += text
            if len(self._open[-1].text) > 100:
                raise ModelFormatError("a <dim> is longer than 100 characters")

    def close(self) -> None:
        return None


def parse(data: bytes) -> Element:
    """The root element of a document. Raises ModelFormatError, without a file name."""
    if len(data) > MAX_BYTES:
        raise ModelFormatError(f"larger than {MAX_BYTES} bytes, which no net is")
    target = _TreeTarget()
    try:
        parser = DefusedXMLParser(
            target=target, forbid_dtd=True, forbid_entities=True, forbid_external=True
        )
        parser.feed(data)
        parser.close()
    except DefusedXmlException as error:
        kind = type(error).__name__
        raise ModelFormatError(
            f"document types, entities and external references are not allowed ({kind})"
        ) from None
    except ModelFormatError:
        raise
    except ParseError as error:
        raise ModelFormatError(f"this is not well-formed XML: {error}") from None
    except (ValueError, LookupError, RecursionError) as error:
        raise ModelFormatError(f"this XML cannot be read: {error}") from None
    if target.root is None:
        raise ModelFormatError("this XML has no element")
    return target.root


def integer(text: str) -> int | None:
    """The decimal integer of at most 19 digits that a text states, or None."""
    stripped = text.strip()
    return int(stripped) if _INTEGER.fullmatch(stripped) else None
