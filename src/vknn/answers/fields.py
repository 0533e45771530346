"""Fields of a JSON object, taken one by one and checked.

Whatever is wrong is a VknnError that names the file and the key: recipes are written by hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

from vknn.errors import VknnError, naming

#: No list of a recipe (labels, anchors, points) is longer.
MAX_ITEMS = 1 << 16
T = TypeVar("T")
#: In the place of a default: the key has to be there.
REQUIRED: Any = object()


class Fields:
    """The members of a JSON object. ``where``: its place in the file, "" for the whole."""

    def __init__(self, value: Any, where: str, file: str) -> None:
        self.where, self.file = where, file
        if not isinstance(value, dict):
            self.fail("", f"is {_kind(value)}, not an object")
        self._left: dict[str, Any] = dict(value)

    def fail(self, key: str, problem: str) -> NoReturn:
        """An error about a key of this object ("": about the object). Raises VknnError."""
        place = ".".join(part for part in (self.where, key) if part) or "the recipe"
        with naming(self.file):
            raise VknnError(f"{place}: {problem}")

    def has(self, key: str) -> bool:
        """Whether the key is there and was not taken yet."""
        return key in self._left

    def names(self) -> tuple[str, ...]:
        """The keys that were not taken yet."""
        return tuple(self._left)

    def peek(self, key: str) -> Any:
        """The value as JSON gives it, which stays to be taken."""
        return self._left.get(key)

    def end(self) -> None:
        """Check: VknnError for keys that nobody took."""
        if self._left:
            self.fail(next(iter(self._left)), "there is no such key here (docs/recipes.md has all)")

    def raw(self, key: str, default: Any = REQUIRED) -> Any:
        """The value as JSON gives it."""
        if key not in self._left:
            if default is REQUIRED:
                self.fail(key, "is missing")
            return default
        return self._left.pop(key)

    def _taken(self, key: str, default: T | Any, read: Callable[[Any], T]) -> T:
        value = self.raw(key, default)
        return value if value is default else read(value)  # type: ignore[no-any-return]

    def text(self, key: str, default: Any = REQUIRED) -> str:
        """A string that is not empty."""
        return self._taken(key, default, lambda v: self._text(key, v))

    def choice(self, key: str, choices: Sequence[str], default: Any = REQUIRED) -> str:
        """One of several words."""
        found = self.text(key, default)
        if found is not default and found not in choices:
            self.fail(key, f"is {found!r}, not one of {', '.join(choices)}")
        return found

    def number(
        self, key: str, default: Any = REQUIRED, least: float = -1e9, most: float = 1e9
    ) -> float:
        """A finite number from ``least`` to ``most``."""
        return self._taken(key, default, lambda v: self._number(key, v, least, most))

    def whole(self, key: str, default: Any = REQUIRED, least: int = 0, most: int = 1 << 16) -> int:
        """A whole number from ``least`` to ``most``."""
        return self._taken(key, default, lambda v: self._whole(key, v, least, most))

    def flag(self, key: str, default: bool) -> bool:
        """true or false."""
        value = self.raw(key, default)
        if not isinstance(value, bool):
            self.fail(key, f"is {_kind(value)}, not true or false")
        return value

    def items(self, key: str, default: Any = REQUIRED, count: int | None = None) -> list[Any]:
        """A list, of ``count`` items where that is given."""
        return self._taken(key, default, lambda v: self._list(key, v, count))

    def numbers(
        self, key: str, default: Any = REQUIRED, count: int | None = None, least: float = -1e9
    ) -> tuple[float, ...]:
        """A list of numbers."""
        return self._taken(
            key,
            default,
            lambda v: tuple(self._number(key, n, least, 1e9) for n in self._list(key, v, count)),
        )

    def texts(self, key: str, default: Any = REQUIRED) -> tuple[str, ...]:
        """A list of strings."""
        return self._taken(
            key, default, lambda v: tuple(self._text(key, item) for item in self._list(key, v))
        )

    def rows(
        self, key: str, count: int, most: int, default: Any = REQUIRED
    ) -> tuple[tuple[int, ...], ...]:
        """A list of lists of ``count`` whole numbers from 0 to ``most``."""

        def row(item: Any) -> tuple[int, ...]:
            return tuple(
                self._whole(key, number, 0, most) for number in self._list(key, item, count)
            )

        return self._taken(key, default, lambda v: tuple(map(row, self._list(key, v))))

    def sides(self, key: str) -> tuple[tuple[float, float], ...]:
        """A list, which is not empty, of [width, height] or of squares' sides."""

        def pair(item: Any) -> tuple[float, float]:
            ends = self._list(key, item, 2) if isinstance(item, list) else (item, item)
            width, height = (self._number(key, end, 1e-6, 1e9) for end in ends)
            return width, height

        return tuple(map(pair, self.items(key))) or self.fail(key, "is empty")

    def inner(self, key: str, default: Any = REQUIRED) -> Fields:
        """The fields of an object in this one."""
        return Fields(self.raw(key, default), self._place(key), self.file)

    def each(self, key: str, default: Any = REQUIRED) -> list[Fields]:
        """The fields of each object of a list."""
        found = self.items(key, default)
        return [Fields(v, f"{self._place(key)}[{i}]", self.file) for i, v in enumerate(found)]

    def _place(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key

    def _text(self, key: str, value: Any) -> str:
        if not isinstance(value, str) or not value:
            self.fail(key, f"is {_kind(value)}, not text")
        return value

    def _list(self, key: str, value: Any, count: int | None = None) -> list[Any]:
        if not isinstance(value, list):
            self.fail(key, f"is {_kind(value)}, not a list")
        if len(value) > MAX_ITEMS or (count is not None and len(value) != count):
            self.fail(key, f"has {len(value)} items, not {count or f'at most {MAX_ITEMS}'}")
        return value

    def _number(self, key: str, value: Any, least: float, most: float) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fail(key, f"is {_kind(value)}, not a number")
        if not math.isfinite(value) or not least <= value <= most:
            self.fail(key, f"is {value:g}, not from {least:g} to {most:g}")
        return float(value)

    def _whole(self, key: str, value: Any, least: int, most: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            self.fail(key, f"is {_kind(value)}, not a whole number")
        if not least <= value <= most:
            self.fail(key, f"is {value}, not from {least} to {most}")
        return int(value)


def _kind(value: Any) -> str:
    """A JSON value in words."""
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false"}
    return "null" if value is None else names.get(type(value), "a number")
