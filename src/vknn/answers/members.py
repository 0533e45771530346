"""Members of what recipes describe, each read from the key of its name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from vknn.answers.fields import REQUIRED, Fields

M = TypeVar("M", bound="Members")


@dataclass(frozen=True, kw_only=True)
class Members:
    """Base of what a JSON object of a recipe describes: dataclasses of the members below."""

    @classmethod
    def read(cls: type[M], fields: Fields) -> M:
        """Object that the fields describe. Raises VknnError; :meth:`Fields.end` is the caller's."""
        return cls(
            **{f.name: f.metadata["read"](fields, key_of(f)) for f in dataclasses.fields(cls)}
        )


def key_of(member: dataclasses.Field[Any]) -> str:
    """The key of a recipe that a member is read from."""
    return str(member.metadata["key"] or member.name)


def member(
    read: Callable[[Fields, str], Any], default: Any = REQUIRED, key: str | None = None
) -> Any:
    """A field that ``read`` takes from its key: by default the one of its name."""
    metadata = {"read": read, "key": key}
    if default is REQUIRED:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def text(default: Any = REQUIRED) -> Any:
    """A string, such as the name of an output."""
    return member(lambda fields, key: fields.text(key, default), default)


def texts(default: Any = REQUIRED) -> Any:
    """A list of strings."""
    return member(lambda fields, key: fields.texts(key, default), default)


def choice(choices: Sequence[str], default: Any = "") -> Any:
    """One of several words, by default the first."""
    usual = choices[0] if default == "" else default
    return member(lambda fields, key: fields.choice(key, choices, usual), usual)


def flag() -> Any:
    """True or false; false by default."""
    return member(lambda fields, key: fields.flag(key, False), False)


def whole(
    default: Any = REQUIRED, least: int = 0, most: int = 1 << 16, key: str | None = None
) -> Any:
    """A whole number from ``least`` to ``most``."""
    return member(lambda fields, name: fields.whole(name, default, least, most), default, key)


def number(default: Any = REQUIRED, least: float = -1e9, most: float = 1e9) -> Any:
    """A finite number from ``least`` to ``most``."""
    return member(lambda fields, key: fields.number(key, default, least, most), default)


def numbers(default: Any = REQUIRED, count: int | None = None) -> Any:
    """A list of numbers, of ``count`` where that is given."""
    return member(lambda fields, key: fields.numbers(key, default, count), default)


def rows(default: Any = REQUIRED, count: int = 2, most: int = 1 << 12) -> Any:
    """A list of lists of ``count`` whole numbers."""
    return member(lambda fields, key: fields.rows(key, count, most, default), default)


def each(kind: type[Members]) -> Any:
    """A list, which is not empty, of objects that ``kind`` reads."""

    def read(fields: Fields, key: str) -> tuple[Members, ...]:
        made = []
        for inner in fields.each(key):
            made.append(kind.read(inner))
            inner.end()
        return tuple(made) or fields.fail(key, "is empty")

    return member(read)
