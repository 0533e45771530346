"""Shares and bounds as users write them: 1/1000, 0.1%, 12."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from vknn.errors import InputError

#: Letters of a share or a bound, and what exact arithmetic would take minutes or gigabytes for.
_MOST_LETTERS = 40
_HUGE_POWER = re.compile(r"e[-+]?[\d_]{4}", re.IGNORECASE)


def share_of(given: str | float | Fraction, what: str) -> Fraction:
    """A share from 0 to 1, of a number or of text such as "1/1000" or "0.1%".

    Raises InputError.
    """
    found = _fraction(given)
    if found is None or not 0 <= found <= 1:
        raise InputError(f"{what}={given!r} is no share: write it as 1/1000, 0.1% or 0.001")
    return found


@dataclass(frozen=True)
class ErrorBound:
    """Bound of records that may fail: a number, or a share of all; None: as many as do."""

    number: int | None = None
    share: Fraction | None = None

    @classmethod
    def of(cls, given: str | float | None) -> ErrorBound:
        """The bound that a number (of records), text such as "5" or "0.1%", or None says."""
        if given is None or isinstance(given, ErrorBound):
            return given or cls()
        text = str(given).strip()
        if text.isdecimal() and len(text) <= _MOST_LETTERS:
            return cls(number=int(text))
        if text.endswith("%") or "/" in text:
            return cls(share=share_of(text, "errors"))
        share = _fraction(given)
        if share is not None and 0 <= share < 1:
            return cls(share=share)
        raise InputError(
            f"errors={given!r}: expected a number of records (0, 5) or a share (0.1%, 0.001)"
        )

    def most(self, rows: int) -> float:
        """Errors that are allowed among so many rows."""
        if self.number is not None:
            return self.number
        return math.inf if self.share is None else float(self.share * rows)

    def __str__(self) -> str:
        if self.number is not None:
            return str(self.number)
        return "any number" if self.share is None else f"{100 * float(self.share):g}%"


def _fraction(given: str | float | Fraction) -> Fraction | None:
    if isinstance(given, bool):
        return None
    if isinstance(given, str) and (len(given) > _MOST_LETTERS or _HUGE_POWER.search(given)):
        return None
    try:
        if isinstance(given, str) and given.strip().endswith("%"):
            return Fraction(given.strip()[:-1].strip()) / 100
        return Fraction(given)
    except (ValueError, ZeroDivisionError, OverflowError, TypeError):
        return None
