"""Schemas of JSON documents: functions of a value and of the place where it stands.

They raise :class:`Wrong` for a value that is not as they say. Fields that are not named may be
anything.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from typing import Any

Schema = Callable[[Any, str], None]
#: No time is longer, in whatever unit, so that sums and ratios of times are numbers.
MOST_TIME = 1e9


class Wrong(Exception):
    """A value that is not as its schema says; the text names its place."""


def _wrong(value: Any, at: str, wanted: str) -> Wrong:
    return Wrong(f"{at or 'document'}: {wanted} in place of {repr(value)[:60]}")


def nothing(value: Any, at: str) -> None:
    """Anything at all."""


def text(value: Any, at: str) -> None:
    """A string."""
    if not isinstance(value, str):
        raise _wrong(value, at, "a string")


def flag(value: Any, at: str) -> None:
    """True or false."""
    if not isinstance(value, bool):
        raise _wrong(value, at, "true or false")


def count(value: Any, at: str) -> None:
    """A whole number of 64 bits, 0 or more."""
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise _wrong(value, at, "a number without a fraction, 0 or more,")


def whole(value: Any, at: str) -> None:
    """A whole number of 64 bits."""
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise _wrong(value, at, "a number without a fraction")


def number(value: Any, at: str) -> None:
    """A finite number."""
    if type(value) not in (int, float) or not -1e300 <= value <= 1e300:
        raise _wrong(value, at, "a number")


def amount(value: Any, at: str) -> None:
    """A finite number, 0 or more."""
    if type(value) not in (int, float) or not 0 <= value <= 1e300 or not math.isfinite(value):
        raise _wrong(value, at, "a number, 0 or more,")


def duration(value: Any, at: str) -> None:
    """A time, 0 or more."""
    amount(value, at)
    if value > MOST_TIME:
        raise _wrong(value, at, "a time")


def constant(value: Any, at: str) -> None:
    """A specialization constant: a number, or the name of one that JSON lacks."""
    number = type(value) in (int, float, bool) and math.isfinite(value)
    if not number and value not in ("inf", "-inf", "nan"):
        raise _wrong(value, at, "a number")


def interval(value: Any, at: str) -> None:
    """A list of a begin and an end, in whatever unit of time."""
    numbers = isinstance(value, list) and len(value) == 2
    if not numbers or not all(type(v) in (int, float) and abs(v) <= MOST_TIME for v in value):
        raise _wrong(value, at, "a begin and an end")
    if value[1] < value[0]:
        raise _wrong(value, at, "an end behind the begin")


def hexadecimal(value: Any, at: str) -> None:
    """Bytes as hexadecimal digits."""
    if not isinstance(value, str) or not re.fullmatch("(?:[0-9a-f]{2})*", value):
        raise _wrong(value, at, "hexadecimal digits")


def base64_text(value: Any, at: str) -> None:
    """Bytes in base64."""
    text(value, at)
    try:
        base64.b64decode(value, validate=True)
    except ValueError:
        raise _wrong(value, at, "base64") from None


def one_of(*allowed: str) -> Schema:
    """One of these strings."""

    def check(value: Any, at: str) -> None:
        if value not in allowed:
            raise _wrong(value, at, f"one of {', '.join(allowed)}")

    return check


def maybe(inner: Schema) -> Schema:
    """``inner``, or null."""

    def check(value: Any, at: str) -> None:
        if value is not None:
            inner(value, at)

    return check


def list_of(inner: Schema, length: int | None = None, least: int = 0) -> Schema:
    """A list of ``inner``, of this length or of ``least`` at least."""

    def check(value: Any, at: str) -> None:
        if not isinstance(value, list):
            raise _wrong(value, at, "a list")
        if len(value) < least or (length is not None and len(value) != length):
            raise _wrong(value, at, f"a list of {length or f'at least {least}'}")
        for number, item in enumerate(value):
            inner(item, f"{at}[{number}]")

    return check


def table_of(inner: Schema) -> Schema:
    """An object of whatever names, whose values are ``inner``."""

    def check(value: Any, at: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(value, at, "an object")
        for name, item in value.items():
            inner(item, f"{at}.{name[:60]}")

    return check


def object_of(**fields: Schema) -> Schema:
    """An object with these fields, and perhaps others."""

    def check(value: Any, at: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(value, at, "an object")
        front = f"{at}." if at else ""
        for name, inner in fields.items():
            if name not in value:
                raise Wrong(f"{front}{name} is missing")
            inner(value[name], front + name)

    return check
