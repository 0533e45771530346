"""DocumentFields of a document from elsewhere, each read with the type that it must have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NoReturn

from vknn.errors import VknnError

_NAME = re.compile(r"[A-Za-z_]\w{0,255}")
_MACRO = re.compile(r"[\w.+-]{1,64}")
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+ -]{0,200}")
#: Integers are those of 64 bits, so that products of a few cannot take long.
_LARGEST = 1 << 62
#: Elements of a list, or members of an object, at most.
_MOST = 4096
_TEXT = 1 << 16


class DocumentFields:
    """An object of a JSON document; ``place`` names it in errors, which are VknnError."""

    def __init__(self, given: Any, place: str) -> None:
        self.place = place
        if not isinstance(given, dict) or len(given) > _MOST:
            raise VknnError(f"{place}: an object is expected")
        self.given: dict[str, Any] = given

    def inner(self, name: str) -> DocumentFields:
        return DocumentFields(self.given.get(name), f"{self.place}: {name!r}")

    def optional(self, name: str) -> DocumentFields | None:
        return None if self.given.get(name) is None else self.inner(name)

    def entries(self, name: str, most: int) -> list[DocumentFields]:
        """The objects of a list."""
        return [
            DocumentFields(entry, f"{self.place}: {name!r} {number}")
            for number, entry in enumerate(self._list(name, most))
        ]

    def text(self, name: str) -> str:
        value = self.given.get(name)
        if not isinstance(value, str) or len(value) > _TEXT:
            self._wrong(name, "a text")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        values = self._list(name, _MOST)
        if not all(isinstance(v, str) and len(v) <= _TEXT for v in values):
            self._wrong(name, "a list of texts")
        return tuple(values)

    def flag(self, name: str) -> bool:
        value = self.given.get(name)
        if not isinstance(value, bool):
            self._wrong(name, "true or false")
        return value

    def one_of(self, name: str, known: Sequence[str]) -> str:
        value = self.text(name)
        if value not in known:
            self._wrong(name, f"one of {', '.join(known)}")
        return value

    def integer(self, name: str, least: int) -> int:
        return self._integer(name, self.given.get(name), least)

    def sizes(self, name: str) -> tuple[int, ...]:
        """Integers above 0, as many as tensors have axes."""
        return tuple(self._integer(name, v, 1) for v in self._list(name, 16))

    def triple(self, name: str) -> tuple[int, int, int]:
        """Three integers above 0."""
        values = tuple(self._integer(name, v, 1) for v in self._list(name, 3))
        if len(values) != 3:
            self._wrong(name, "three integers")
        return values[0], values[1], values[2]

    def number(self, name: str) -> float:
        value = _number(self.given.get(name))
        if value is None or not 0 <= value <= _LARGEST:
            self._wrong(name, "a number that is not negative")
        return float(value)

    def numbers(self, name: str) -> dict[str, int | float]:
        """Numbers by names of GLSL."""
        found = {key: _number(value) for key, value in self._named(name).items()}
        if None in found.values():
            self._wrong(name, "numbers by name")
        return found  # type: ignore[return-value]

    def pushed(self, name: str) -> dict[str, Any]:
        """Numbers, or tuples of numbers, by names of GLSL."""
        found: dict[str, Any] = {}
        for key, value in self._named(name).items():
            many = isinstance(value, list)
            parts = [_number(v) for v in (value if many else [value])[:_MOST]]
            if None in parts:
                self._wrong(name, "numbers by name")
            found[key] = tuple(parts) if many else parts[0]
        return found

    def macros(self, name: str) -> dict[str, str]:
        """Values of macros by name: one word each."""
        found = self._named(name)
        if not all(isinstance(v, str) and _MACRO.fullmatch(v) for v in found.values()):
            self._wrong(name, "words by name")
        return dict(found)

    def hashes(self, name: str) -> dict[str, str]:
        """SHA-256 of files by their paths."""
        found = self.inner(name).given
        if not all(isinstance(v, str) and re.fullmatch("[0-9a-f]{64}", v) for v in found.values()):
            self._wrong(name, "SHA-256 by file")
        for key in found:
            self._inside(name, key)
        return found

    def kernel(self, name: str) -> str:
        return self._inside(name, self.text(name))

    def file(self, name: str) -> str | None:
        """A file of the lab's folder; None where there is none."""
        return None if self.given.get(name) is None else self._inside(name, self.text(name))

    def _inside(self, name: str, path: str) -> str:
        """A path that cannot lead out of its folder, on any system."""
        parts = path.split("/")
        if len(path) > 1024 or not all(_PART.fullmatch(p) and ".." not in p for p in parts):
            self._wrong(name, f"a file inside the folder, not {path[:80]!r}")
        return str(PurePosixPath(*parts))

    def _named(self, name: str) -> Mapping[str, Any]:
        found = self.inner(name).given
        if not all(_NAME.fullmatch(key) for key in found):
            self._wrong(name, "names of GLSL")
        return found

    def _list(self, name: str, most: int) -> list[Any]:
        values = self.given.get(name)
        if not isinstance(values, list) or len(values) > most:
            self._wrong(name, f"a list of at most {most}")
        return values

    def _integer(self, name: str, value: Any, least: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _LARGEST:
            self._wrong(name, f"an integer of at least {least}")
        return value

    def _wrong(self, name: str, expected: str) -> NoReturn:
        raise VknnError(f"{self.place}: {name!r} must be {expected}")


def _number(value: Any) -> int | float | None:
    """A number; infinities and NaN are texts in JSON. None for what is none."""
    if value in ("inf", "-inf", "nan"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) <= _LARGEST or isinstance(value, float) else None
