"""Matching of whole texts by regular expressions, in time that is linear in the text.

All ways through the pattern are followed at once (Thompson, "Regular expression search algorithm",
CACM 1968), so that no pattern takes exponential time.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from vknn import run_limits
from vknn.graph import DType, Op, TensorType, attributes
from vknn.ops.common.checks import arguments, require
from vknn.ops.text.character_sets import PERL, CharacterSet
from vknn.ops.text.patterns import (
    Assertion,
    BadPattern,
    Choice,
    Repeat,
    Sequence,
    Single,
    Tree,
    parsed,
)

#: Steps that a pattern may have, its repetitions written out.
MOST_STEPS = 100_000
_WORD = CharacterSet(PERL["w"])


@dataclass
class _Step:
    """One step: a character of a set or a place, and the steps that may follow."""

    among: CharacterSet | None = None
    place: str = ""
    following: tuple[int, ...] = ()


class Matcher:
    """A pattern made ready. Raises BadPattern."""

    def __init__(self, pattern: str) -> None:
        self._steps = [_Step()]  # the first is the end
        self._known: dict[tuple[int, str], bool] = {}
        self._start = self._added(parsed(pattern), 0)

    def matches(self, text: str) -> bool:
        """Whether the pattern matches all of ``text``."""
        states = self._reached([self._start], text, 0)
        for at, character in enumerate(text):
            run_limits.check()
            moved = [
                follower
                for state in states
                if self._takes(state, character)
                for follower in self._steps[state].following
            ]
            if not moved:
                return False
            states = self._reached(moved, text, at + 1)
        return 0 in states

    def _takes(self, state: int, character: str) -> bool:
        among = self._steps[state].among
        if among is None:
            return False
        key = state, character
        if key not in self._known:
            self._known[key] = ord(character) in among
        return self._known[key]

    def _reached(self, states: list[int], text: str, at: int) -> set[int]:
        """States that are reached from these without a character."""
        found: set[int] = set()
        while states:
            state = states.pop()
            if state in found:
                continue
            found.add(state)
            step = self._steps[state]
            if step.among is None and state and _is_place(step.place, text, at):
                states += step.following
        return found

    # --- steps of a tree --------------------------------------------------------------------------

    def _new(self, step: _Step) -> int:
        if len(self._steps) >= MOST_STEPS:
            raise BadPattern(f"has more than {MOST_STEPS} steps with all repetitions")
        self._steps.append(step)
        return len(self._steps) - 1

    def _added(self, tree: Tree, end: int) -> int:
        """The first step of a tree behind which ``end`` follows."""
        if isinstance(tree, Single):
            return self._new(_Step(tree.among, "", (end,)))
        if isinstance(tree, Assertion):
            return self._new(_Step(None, tree.kind, (end,)))
        if isinstance(tree, Sequence):
            for part in reversed(tree.parts):
                end = self._added(part, end)
            return end
        if isinstance(tree, Choice):
            return self._new(_Step(None, "", tuple(self._added(p, end) for p in tree.parts)))
        return self._repeated(tree, end)

    def _repeated(self, tree: Repeat, end: int) -> int:
        if tree.most is None:
            loop = self._new(_Step())
            self._steps[loop].following = (self._added(tree.part, loop), end)
            start = loop
        else:
            start = end
            for _ in range(tree.most - tree.least):
                start = self._new(_Step(None, "", (self._added(tree.part, start), end)))
        for _ in range(tree.least):
            start = self._added(tree.part, start)
        return start


def _is_place(kind: str, text: str, at: int) -> bool:
    if not kind:
        return True
    if kind == "begin":
        return at == 0
    if kind == "end":
        return at == len(text)
    if kind == "line begin":
        return at == 0 or text[at - 1] == "\n"
    if kind == "line end":
        return at == len(text) or text[at] == "\n"
    before = at > 0 and ord(text[at - 1]) in _WORD
    behind = at < len(text) and ord(text[at]) in _WORD
    return (before != behind) == (kind == "word")


@functools.lru_cache(maxsize=64)
def matcher(pattern: str) -> Matcher:
    """The matcher of a pattern, made once. Raises BadPattern."""
    return Matcher(pattern)


@attributes
class RegexFullMatch(Op):
    """Whether ``pattern``, in RE2's syntax, matches a whole string; bool of the shape of x."""

    pattern: str

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = arguments(self, inputs, 1)
        require(x.dtype is DType.STRING, f"RegexFullMatch: takes strings, not {x}")
        return (x.with_dtype(DType.BOOL),)

    def reference(self, *inputs: np.ndarray | None) -> tuple[np.ndarray, ...]:
        (x,) = arguments(self, inputs, 1)
        found, made = np.zeros(x.shape, np.bool_), matcher(self.pattern)
        for place, text in np.ndenumerate(x):
            run_limits.check()
            found[place] = made.matches(bytes(text).decode("utf-8", "surrogateescape"))
        return (found,)
