"""Texts and other values of a report, each of them once, by number."""

from __future__ import annotations

import json
from typing import Any

#: Characters of a name from which on its middle is left out; a model file may name anything.
LONGEST_NAME = 600


class Texts:
    """Texts by number, each of them once."""

    def __init__(self) -> None:
        self.listed: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: Any) -> int:
        """The number of a text, which is shortened where it is very long."""
        text = str(text)
        if text not in self._numbers:
            self._numbers[text] = len(self.listed)
            self.listed.append(shortened(text))
        return self._numbers[text]


class Values:
    """Values as JSON has them, by number, each of them once."""

    def __init__(self) -> None:
        self.listed: list[Any] = []
        self._numbers: dict[str, int] = {}

    def number(self, value: Any) -> int:
        """The number of a value."""
        key = json.dumps(value, sort_keys=True, allow_nan=False)
        if key not in self._numbers:
            self._numbers[key] = len(self.listed)
            self.listed.append(value)
        return self._numbers[key]


def shortened(text: str) -> str:
    """A text with its middle left out where it has more than LONGEST_NAME characters."""
    if len(text) <= LONGEST_NAME:
        return text
    return f"{text[:400]} … {text[-100:]} ({len(text):,} characters)"


def figure(value: Any) -> str:
    """A number, a list of some, or a word as text."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(figure(each) for each in value[:16])}]"
    return shortened(str(value))


def number(value: Any) -> float:
    """A finite number; raises ValueError for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"no number: {value!r:.80}")
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"not finite: {value!r}")
    return value


def whole(value: Any) -> int:
    """A whole number that is not negative; raises ValueError for what is none."""
    found = number(value)
    if found < 0 or found != int(found):
        raise ValueError(f"not a count: {value!r}")
    return int(found)


def microseconds(seconds: Any) -> float:
    """Microseconds, in thousandths."""
    return round(number(seconds) * 1e6, 3)
