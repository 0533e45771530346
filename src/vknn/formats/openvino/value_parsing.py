"""Parsing of numbers, truth values and lists in the text of attributes."""

from __future__ import annotations

import math
import re

from vknn.formats.openvino.xml import integer

_REAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?f?")
_WORDS = {
    "inf": math.inf, "+inf": math.inf, "-inf": -math.inf, "infinity": math.inf,
    "-infinity": -math.inf,
}  # fmt: skip
_LARGEST = 1 << 63


def parse_float(text: str) -> float | None:
    """The number that a text states, or None; None for text of more than 400 characters."""
    stripped = text.strip()
    if len(stripped) > 400:
        return None
    if _REAL.fullmatch(stripped):
        return float(stripped.rstrip("f"))
    return _WORDS.get(stripped.lower())


def parse_int(text: str) -> int | None:
    """The integer that a text states, also as a number without fraction (3.0), or None."""
    value = integer(text)
    if value is not None:
        return value if -_LARGEST <= value < _LARGEST else None
    number = parse_float(text)
    if number is None or not math.isfinite(number) or number != int(number):
        return None
    return int(number) if abs(number) < _LARGEST else None


def parse_bool(text: str) -> bool | None:
    """The truth value of "true", "false" (in any case) or an integer, or None."""
    word = text.strip().lower()
    if word in ("true", "false"):
        return word == "true"
    number = parse_int(word)
    return None if number is None else number != 0


def split_list(text: str) -> list[str]:
    """The items of a list, separated by commas; an empty text is an empty list."""
    items = [item.strip() for item in text.split(",")]
    while items and not items[-1]:
        items.pop()
    return items
