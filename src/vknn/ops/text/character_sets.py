"""Characters that a regular expression takes: ranges, Unicode categories, both cases."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

#: Largest code point.
LAST = 0x10FFFF
Ranges = tuple[tuple[int, int], ...]

_DIGITS: Ranges = ((0x30, 0x39),)
_LOWER: Ranges = ((0x61, 0x7A),)
_UPPER: Ranges = ((0x41, 0x5A),)
_LETTERS: Ranges = (*_UPPER, *_LOWER)
#: Classes after a backslash.
PERL: dict[str, Ranges] = {
    "d": _DIGITS,
    "s": ((9, 10), (12, 13), (32, 32)),
    "w": (*_DIGITS, *_LETTERS, (0x5F, 0x5F)),
}
#: Classes between "[:" and ":]".
POSIX: dict[str, Ranges] = {
    "alnum": (*_DIGITS, *_LETTERS),
    "alpha": _LETTERS,
    "ascii": ((0, 0x7F),),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 0x1F), (0x7F, 0x7F)),
    "digit": _DIGITS,
    "graph": ((0x21, 0x7E),),
    "lower": _LOWER,
    "print": ((0x20, 0x7E),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": ((9, 13), (32, 32)),
    "upper": _UPPER,
    "word": PERL["w"],
    "xdigit": (*_DIGITS, (0x41, 0x46), (0x61, 0x66)),
}
#: General categories of Unicode, whole groups by their first letter.
CATEGORIES = frozenset(
    group + kind
    for group, kinds in (
        ("L", "ultmo"), ("M", "nce"), ("N", "dlo"), ("P", "cdseifo"), ("S", "mcko"), ("Z", "slp"),
        ("C", "cfso"),
    )
    for kind in ("", *kinds)
)  # fmt: skip


@dataclass(frozen=True)
class CharacterSet:
    """Code points that belong together.

    Those in ``ranges``, of ``categories``, or in one of ``others``. ``negated``: all the rest.
    ``folds``: upper and lower case letters count as one.
    """

    ranges: Ranges = ()
    categories: tuple[str, ...] = ()
    others: tuple[CharacterSet, ...] = ()
    negated: bool = False
    folds: bool = False

    def __contains__(self, code: int) -> bool:
        codes = same_letters(code) if self.folds else (code,)
        return any(self._holds(c) for c in codes) != self.negated

    def _holds(self, code: int) -> bool:
        if any(low <= code <= high for low, high in self.ranges):
            return True
        if any(code in other for other in self.others):
            return True
        if not self.categories:
            return False
        return unicodedata.category(chr(code)).startswith(self.categories)


def same_letters(code: int) -> Iterable[int]:
    """The code points that are one letter but for case."""
    if code < 0x80 and not chr(code).isalpha():
        return (code,)
    return _letters().get(_folded(code), (code,))


def _folded(code: int) -> int:
    """One code point for a letter in all its cases."""
    found = chr(code)
    for change in (str.upper, str.lower):
        changed = change(found)
        found = changed if len(changed) == 1 else found
    return ord(found)


@functools.cache
def _letters() -> dict[int, tuple[int, ...]]:
    """The code points of each letter that has several cases, by the folded one."""
    groups: dict[int, list[int]] = {}
    for code in range(0x1F000):
        folded = _folded(code)
        if folded != code:
            groups.setdefault(folded, [folded]).append(code)
    return {folded: tuple(codes) for folded, codes in groups.items()}
