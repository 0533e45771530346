"""Regular expressions in RE2's syntax, read into trees.

Syntax: https://github.com/google/re2/wiki/Syntax, the rows that RE2 itself accepts. What it lacks
(back references, looking around, possessive repetition) is an error here as there; so are scripts
of Unicode (\\p{Greek}) and single bytes (\\C), which RE2 knows and vknn does not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from vknn.ops.text.character_sets import CATEGORIES, LAST, PERL, POSIX, CharacterSet

#: Repetitions that one count may ask for, as in RE2.
MOST_REPEATS = 1000
_MOST_DEPTH = 200
_ESCAPES = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_ASSERTIONS = {"A": "begin", "z": "end", "b": "word", "B": "no word"}


class BadPattern(ValueError):
    """A pattern that is none, or that vknn cannot match; the text says why."""


@dataclass(frozen=True)
class Single:
    """One character of a set."""

    among: CharacterSet


@dataclass(frozen=True)
class Assertion:
    """A place: "begin", "end" of the text, "line begin", "line end", "word" border, "no word"."""

    kind: str


@dataclass(frozen=True)
class Sequence:
    """Parts one after the other."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True)
class Choice:
    """One of several parts."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True)
class Repeat:
    """A part from ``least`` to ``most`` times; None: any number of times."""

    part: Tree
    least: int
    most: int | None


Tree = Single | Assertion | Sequence | Choice | Repeat


@dataclass(frozen=True)
class _Flags:
    folds: bool = False
    lines: bool = False
    dot_all: bool = False


def parsed(pattern: str) -> Tree:
    """The tree of a pattern. Raises BadPattern."""
    reader = _Reader(pattern)
    tree = reader.choice(0)
    if reader.rest:
        raise BadPattern("has a ) without a (")
    return tree


class _Reader:
    """The part of a pattern that has not been read, and the flags that count there."""

    def __init__(self, pattern: str) -> None:
        self.text, self.at, self.flags = pattern, 0, _Flags()

    @property
    def rest(self) -> str:
        return self.text[self.at :]

    def take(self, wanted: str) -> bool:
        """Whether ``wanted`` comes next, which is read then."""
        if not self.text.startswith(wanted, self.at):
            return False
        self.at += len(wanted)
        return True

    def next(self) -> str:
        """The next character, which is read. Raises BadPattern at the end."""
        if self.at >= len(self.text):
            raise BadPattern("ends too early")
        self.at += 1
        return self.text[self.at - 1]

    def until(self, end: str) -> str:
        """The text up to ``end``, both of which are read."""
        found = self.text.find(end, self.at)
        if found < 0:
            raise BadPattern(f"has no {end} behind {self.rest[:10]!r}")
        text, self.at = self.text[self.at : found], found + len(end)
        return text

    # --- structure --------------------------------------------------------------------------------

    def choice(self, depth: int) -> Tree:
        """Parts between bars, up to the end or a closing parenthesis."""
        if depth > _MOST_DEPTH:
            raise BadPattern(f"nests more than {_MOST_DEPTH} groups")
        outer, parts = self.flags, [self._sequence(depth)]
        while self.take("|"):
            parts.append(self._sequence(depth))
        self.flags = outer
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _sequence(self, depth: int) -> Tree:
        parts: list[Tree] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            if self.take("\\Q"):
                parts += self._quoted()
            elif (part := self._atom(depth)) is not None:
                parts.append(self._repeated(part))
        return Sequence(tuple(parts))

    def _quoted(self) -> list[Tree]:
        """The characters up to "\\E" or the end, of which the last may be repeated."""
        literal, _, rest = self.rest.partition("\\E")
        self.at = len(self.text) - len(rest)
        found = [self._literal(ord(character)) for character in literal]
        return [*found[:-1], self._repeated(found[-1])] if found else []

    def _repeated(self, part: Tree) -> Tree:
        counts = self._counts()
        if counts is None:
            return part
        self.take("?")  # as few as possible: the same texts match as a whole
        if self._counts() is not None:
            raise BadPattern("repeats a repetition")
        return Repeat(part, *counts)

    def _counts(self) -> tuple[int, int | None] | None:
        for sign, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.take(sign):
                return counts
        end = self.text.find("}", self.at)
        if end < 0 or not self.text.startswith("{", self.at):
            return None
        low, comma, high = self.text[self.at + 1 : end].partition(",")
        if not _is_count(low) or (high and not _is_count(high)):
            return None
        self.at = end + 1
        least = int(low)
        most = (int(high) if high else None) if comma else least
        if max(least, most or 0) > MOST_REPEATS or (most is not None and most < least):
            raise BadPattern(f"repeats {low}{comma}{high} times")
        return least, most

    # --- atoms ------------------------------------------------------------------------------------

    def _atom(self, depth: int) -> Tree | None:
        """The next part; None for flags, which are no part."""
        sign = self.next()
        if sign == "(":
            return self._group(depth)
        if sign == "[":
            return Single(self._bracket())
        if sign == ".":
            gaps = () if self.flags.dot_all else ((10, 10),)
            return Single(CharacterSet(gaps, negated=True))
        if sign == "^":
            return Assertion("line begin" if self.flags.lines else "begin")
        if sign == "$":
            return Assertion("line end" if self.flags.lines else "end")
        if sign in "*+?":
            raise BadPattern(f"repeats nothing: {sign}")
        if sign == "\\":
            return self._escape()
        return self._literal(ord(sign))

    def _group(self, depth: int) -> Tree | None:
        outer = self.flags
        if self.take("?P<") or self.take("?<"):
            name = self.until(">")
            if not name or not all(c.isalnum() or c == "_" for c in name):
                raise BadPattern(f"names a group {name!r}, or looks around, which RE2 does not")
        elif self.take("?"):
            inner, ends = self._read_flags()
            if ends:
                self.flags = inner
                return None
            self.flags = inner
        tree = self.choice(depth + 1)
        if not self.take(")"):
            raise BadPattern("has a ( without a )")
        self.flags = outer
        return tree

    def _read_flags(self) -> tuple[_Flags, bool]:
        """Flags of "(?flags)" (True) or of "(?flags:"."""
        found, value = self.flags, True
        while (sign := self.next()) not in "):":
            if sign == "-" and value:
                value = False
            elif sign == "i":
                found = replace(found, folds=value)
            elif sign == "m":
                found = replace(found, lines=value)
            elif sign == "s":
                found = replace(found, dot_all=value)
            elif sign != "U":  # which repetitions take more does not matter for whole texts
                raise BadPattern(f"has the group (?{sign}, which RE2 does not know")
        return found, sign == ")"

    def _literal(self, code: int) -> Tree:
        return Single(CharacterSet(((code, code),), folds=self.flags.folds))

    def _escape(self) -> Tree:
        sign = self.text[self.at : self.at + 1]
        if sign and sign in _ASSERTIONS:
            self.at += 1
            return Assertion(_ASSERTIONS[sign])
        known = self._class_escape()
        return self._literal(self._escaped_code()) if known is None else Single(known)

    def _class_escape(self) -> CharacterSet | None:
        """The set of a class behind a backslash; None where there is none."""
        sign = self.text[self.at : self.at + 1]
        if sign and sign.lower() in PERL:
            self.at += 1
            folds = self.flags.folds
            return CharacterSet(PERL[sign.lower()], negated=sign.isupper(), folds=folds)
        if sign not in ("p", "P"):
            return None
        self.at += 1
        name = self.until("}") if self.take("{") else self.next()
        negated = (sign == "P") != name.startswith("^")
        name = name.removeprefix("^")
        if name == "Any":
            return CharacterSet(((0, LAST),), negated=negated)
        if name not in CATEGORIES:
            raise BadPattern(f"asks for \\p{{{name}}}; of Unicode vknn knows general categories")
        return CharacterSet(categories=(name,), negated=negated, folds=self.flags.folds)

    def _escaped_code(self) -> int:
        sign = self.next()
        if sign in _ESCAPES:
            return _ESCAPES[sign]
        if sign == "x":
            digits = self.until("}") if self.take("{") else self.next() + self.next()
            return _number(digits, 16)
        if sign in "01234567":
            following = self.text[self.at : self.at + 2]
            octal = next((n for n in range(len(following)) if following[n] not in "01234567"), None)
            count = len(following) if octal is None else octal
            if sign != "0" and count == 0:
                raise BadPattern("refers back to a group, which RE2 does not")
            self.at += count
            return _number(sign + following[:count], 8)
        if sign.isalnum() and ord(sign) < 0x80:
            raise BadPattern(f"has the escape \\{sign}, which vknn does not know")
        return ord(sign)

    # --- brackets ---------------------------------------------------------------------------------

    def _bracket(self) -> CharacterSet:
        """A set between brackets, of which the first is read."""
        negated = self.take("^")
        ranges: list[tuple[int, int]] = []
        others: list[CharacterSet] = []
        first = True
        while first or not self.take("]"):
            first = False
            if (whole := self._class_inside()) is not None:
                others.append(whole)
                continue
            low = self._code_inside()
            high = low
            if self.text.startswith("-", self.at) and not self.text.startswith("-]", self.at):
                self.at += 1
                high = self._code_inside()
            if high < low:
                raise BadPattern(f"has the range {chr(low)}-{chr(high)}")
            ranges.append((low, high))
        return CharacterSet(tuple(ranges), (), tuple(others), negated, self.flags.folds)

    def _class_inside(self) -> CharacterSet | None:
        if self.text.startswith("[:", self.at) and ":]" in self.rest:
            self.at += 2
            name = self.until(":]")
            plain = name.removeprefix("^")
            if plain not in POSIX:
                raise BadPattern(f"has the class [:{name}:]")
            folds = self.flags.folds
            return CharacterSet(POSIX[plain], negated=plain != name, folds=folds)
        if not self.text.startswith("\\", self.at):
            return None
        self.at += 1
        found = self._class_escape()
        self.at -= found is None
        return found

    def _code_inside(self) -> int:
        sign = self.next()
        return self._escaped_code() if sign == "\\" else ord(sign)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 8


def _number(digits: str, base: int) -> int:
    try:
        code = int(digits, base)
    except ValueError:
        raise BadPattern(f"has the code {digits!r}") from None
    if code > LAST:
        raise BadPattern(f"has the code {digits!r}")
    return code
