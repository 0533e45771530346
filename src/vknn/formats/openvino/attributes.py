"""Typed access to the attributes of a layer, which are text in the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from vknn.formats.layer_errors import Malformed
from vknn.formats.openvino.value_parsing import parse_bool, parse_float, parse_int, split_list

T = TypeVar("T")
#: The default of a required attribute.
REQUIRED: Any = object()


class AttributeReader:
    """Attributes by name. ``names`` may hold alternatives, as in "local-size|local_size".

    Methods raise Malformed for an attribute that is absent and has no default, and for text of
    another type.
    """

    def __init__(self, attributes: Mapping[str, str]) -> None:
        self.attributes = attributes

    def has_attribute(self, names: str) -> bool:
        """Whether the layer has one of the alternatives."""
        return self._text(names) is not None

    def int(self, names: str, default: Any = REQUIRED) -> Any:
        """An integer; also one written as a float, as in 3.0."""
        return self._one(names, default, parse_int, "an integer")

    def float(self, names: str, default: Any = REQUIRED) -> Any:
        """A floating-point number."""
        return self._one(names, default, parse_float, "a number")

    def bool(self, names: str, default: Any = REQUIRED) -> Any:
        """A truth value: true, false, or an integer, of which 0 is false."""
        return self._one(names, default, parse_bool, "true or false")

    def text(
        self, names: str, default: Any = REQUIRED, choices: Sequence[str] | None = None
    ) -> Any:
        """A text. With ``choices``: the one of them that it equals but for case."""
        found = self._text(names)
        if found is None:
            return self._default(names, default)
        if choices is None:
            return found[1]
        for choice in choices:
            if choice.lower() == found[1].strip().lower():
                return choice
        raise Malformed(f"{found[0]} is {found[1][:60]!r}, not one of {', '.join(choices)}")

    def ints(self, names: str, default: Any = REQUIRED, count: Any = None) -> Any:
        """A list of integers; ``count``: the length that it must have.

        An alternative may be a list of attributes that hold one number each ("kernel-y,kernel-x");
        the default's number stands for each of them that is absent.
        """
        return self._list(names, default, count, parse_int, "integers")

    def floats(self, names: str, default: Any = REQUIRED, count: Any = None) -> Any:
        """A list of floats, otherwise as :meth:`ints`."""
        return self._list(names, default, count, parse_float, "numbers")

    def texts(self, names: str, default: Any = REQUIRED) -> Any:
        """A list of words."""
        found = self._text(names)
        return self._default(names, default) if found is None else tuple(split_list(found[1]))

    def _text(self, names: str) -> tuple[str, str] | None:
        for name in names.split("|"):
            if name in self.attributes:
                return name, self.attributes[name]
        return None

    def _default(self, names: str, default: Any) -> Any:
        if default is REQUIRED:
            raise Malformed(f"has no {' or '.join(names.split('|'))}")
        return default

    def _one(self, names: str, default: Any, read: Callable[[str], T | None], kind: str) -> Any:
        found = self._text(names)
        if found is None:
            return self._default(names, default)
        value = read(found[1])
        if value is None:
            raise Malformed(f"{found[0]} is {found[1][:60]!r}, not {kind}")
        return value

    def _list(
        self, names: str, default: Any, count: Any, read: Callable[[str], T | None], kind: str
    ) -> Any:
        for name in names.split("|"):
            several = name.split(",")
            if len(several) > 1 and any(n in self.attributes for n in several):
                return self._gathered(several, default, read, kind)
            if name in self.attributes:
                text = self.attributes[name]
                values = [read(item) for item in split_list(text)]
                if any(v is None for v in values):
                    raise Malformed(f"{name} is {text[:60]!r}, not a list of {kind}")
                if count is not None and len(values) != count:
                    raise Malformed(f"{name} holds {len(values)} {kind}, not {count}")
                return tuple(values)
        found = self._default(names, default)
        return tuple(found) if isinstance(found, list) else found

    def _gathered(
        self, names: Sequence[str], default: Any, read: Callable[[str], T | None], kind: str
    ) -> Any:
        fits = isinstance(default, Sequence) and len(default) == len(names)
        values = []
        for number, name in enumerate(names):
            alternative = default[number] if fits else REQUIRED
            values.append(self._one(name, alternative, read, f"one of {kind}"))
        return tuple(values)
