"""Sweep: what nothing reaches any more leaves a SPIR-V module.

Specialization turns branches into jumps and leaves what they jumped over where it was. Here go
blocks that no path reaches, functions that nothing calls, then types, constants, variables and
decorations that nothing names, and all debug names. Instructions within blocks that stay are not
touched, so results cannot differ.

What structured control flow (SPIR-V specification 2.11) wants stays: the merge block of a header
that stays, as OpUnreachable where no path leads there, and the continue target of a loop, as a jump
back. The workgroup size is a constant that its decoration alone names; it stays, too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vknn.runtime.spirv import words

# Opcodes that only this module needs.
_SOURCE_CONTINUED, _SOURCE, _SOURCE_EXTENSION, _STRING, _LINE = 2, 3, 4, 7, 8
_EXT_INST_IMPORT, _EXT_INST, _ENTRY_POINT = 11, 12, 15
_TYPE_VOID, _TYPE_VECTOR, _TYPE_MATRIX, _TYPE_IMAGE = 19, 23, 24, 25
_PARAMETER, _FUNCTION_END, _CALL = 55, 56, 57
_GROUP_DECORATE, _DECORATION_GROUP = 74, 73
_VECTOR_SHUFFLE, _COMPOSITE_EXTRACT, _COMPOSITE_INSERT = 79, 81, 82
_LOOP_MERGE, _UNREACHABLE = 246, 255
_NO_LINE, _MODULE_PROCESSED, _EXECUTION_MODE_ID, _DECORATE_ID = 317, 330, 331, 332
_BUILT_IN = 11  # decoration

_DEBUG = frozenset(
    (_SOURCE_CONTINUED, _SOURCE, _SOURCE_EXTENSION, words.NAME, words.MEMBER_NAME, _STRING,
     _LINE, _NO_LINE, _MODULE_PROCESSED)
)  # fmt: skip
_ANNOTATIONS = frozenset((words.DECORATE, words.MEMBER_DECORATE, _DECORATE_ID))
#: Module-level instructions whose result is the first operand; of all others it is the second.
_TYPES = frozenset((*range(_TYPE_VOID, 40), words.TYPE_COOPERATIVE_MATRIX, 5341, 4472))
#: Opcode of a declaration -> operands that are literals; all others may be ids.
_LITERALS: dict[int, slice] = {
    words.TYPE_INT: slice(1, None),
    words.TYPE_FLOAT: slice(1, None),
    _TYPE_VECTOR: slice(2, None),
    _TYPE_MATRIX: slice(2, None),
    _TYPE_IMAGE: slice(2, None),
    words.TYPE_POINTER: slice(1, 2),
    words.CONSTANT: slice(2, None),
    words.SPEC_CONSTANT: slice(2, None),
    words.SPEC_CONSTANT_OP: slice(2, 3),
    words.VARIABLE: slice(2, 3),
}
#: Opcode within functions -> first operand that is a literal, and whether those behind it are, too.
_LITERALS_FROM = {
    _EXT_INST: (3, False),
    words.VARIABLE: (2, False),
    words.FUNCTION: (2, False),
    _VECTOR_SHUFFLE: (4, True),
    _COMPOSITE_EXTRACT: (3, True),
    _COMPOSITE_INSERT: (4, True),
    _LOOP_MERGE: (2, True),
    words.SELECTION_MERGE: (1, True),
}
#: No module has more ids (SPIR-V specification, 2.17 "Universal Limits").
_MOST_IDS = 4_194_303


def swept(spirv: bytes) -> bytes:
    """``spirv`` without what nothing reaches; as it is where it is no whole SPIR-V module.

    A phi whose parent's edge was cut keeps the values of those that are left. Modules with groups
    of decorations, and those whose blocks are not whole, stay as they are.
    """
    code = np.frombuffer(spirv[: len(spirv) // 4 * 4], np.uint32).copy()
    if len(spirv) % 4 or len(code) <= words.HEADER_WORDS or code[0] != words.MAGIC:
        return spirv
    if code[words.BOUND] > _MOST_IDS:
        return spirv
    starts = _starts(code)
    if starts is None:
        return spirv
    module = _Module(code, starts)
    if not module.is_plain():
        return spirv
    try:
        kept = module.swept_functions()
        module.keep_declarations(kept)
    except (_NotWhole, IndexError):  # of operands that are not there
        return spirv
    kept[: words.HEADER_WORDS] = True
    return code[kept].tobytes()


def _starts(code: np.ndarray) -> np.ndarray | None:
    """The places of all instructions, and the end; None where the last one is not whole.

    Each word is taken for an instruction's first. Every sixteenth instruction is looked up behind
    the one before it, those between them all at once.
    """
    end = len(code)
    jump = np.arange(end + 2)  # the end leads to itself, and so does what is no place
    jump[:end] += code >> 16
    jump[:end][code < 1 << 16] = end + 1
    jumps = [np.minimum(jump, end + 1)]
    while len(jumps) < 5:
        jumps.append(jumps[-1][jumps[-1]])
    at, far, listed = words.HEADER_WORDS, jumps.pop(), list[int]()
    while at < end:
        listed.append(at)
        at = int(far[at])
    if at > end:
        return None
    found = np.array(listed)
    for jump in reversed(jumps):
        found = np.stack((found, jump[found]), axis=1).reshape(-1)
    return np.append(found[found < end], end)


@dataclass(frozen=True)
class _Function:
    """A function: its instructions, by index, its labels' instructions, in order, and its blocks.

    A block, by its label, is the instruction of the label and the one behind the terminator.
    """

    first: int
    behind: int
    labels: list[int]
    blocks: dict[int, tuple[int, int]]


class _NotWhole(Exception):
    """Functions are not made of whole blocks."""


class _Module:
    """A module as words, which are changed, ``at`` the places of its instructions and its end.

    What is read word by word is read as it was at first.
    """

    def __init__(self, code: np.ndarray, at: np.ndarray) -> None:
        self.code, self.starts, self.ends = code, at[:-1], at[1:]
        self._at: list[int] = at.tolist()
        self._words: list[int] = code.tolist()
        self.opcodes = code[self.starts] & 0xFFFF
        self._opcodes: list[int] = self.opcodes.tolist()
        self._functions = self._indices(words.FUNCTION)
        self._labels, self._calls = self._indices(words.LABEL), self._indices(_CALL)
        self._phis = self._indices(words.PHI)
        self.first = self._functions[0] if self._functions else len(self._opcodes)

    def is_plain(self) -> bool:
        """Whether nothing is declared in ways that are not known here."""
        declared = self._opcodes[: self.first]
        return not {_GROUP_DECORATE, _DECORATION_GROUP, _EXT_INST} & {*declared}

    def swept_functions(self) -> np.ndarray:
        """Which words are left of all functions. Raises _NotWhole."""
        places = {self._words[self._at[n] + 2]: i for i, n in enumerate(self._functions)}
        entries = range(self.first)
        waiting = [self._operands(n)[1] for n in entries if self._opcodes[n] == _ENTRY_POINT]
        kept = np.zeros(len(self.code), bool)
        seen: set[int] = set()
        while waiting:
            result = waiting.pop()
            if result not in places or result in seen:
                continue
            seen.add(result)
            function = self._function(places[result])
            self._keep(function, kept)
            calls = _between(self._calls, function.first, function.behind)
            waiting += [self._operands(n)[2] for n in calls if kept[self._at[n]]]
        for n in (*self._indices(_LINE), *self._indices(_NO_LINE)):
            kept[self._at[n] : self._at[n + 1]] = False
        kept[self.starts[self.opcodes == words.NOP]] = False
        return kept

    def keep_declarations(self, kept: np.ndarray) -> None:
        """Marks of what stands before the functions all that is named still."""
        used = self._used(kept)
        opcodes = self._opcodes[: self.first]
        declarations = [
            (n, opcode, self._operands(n))
            for n, opcode in enumerate(opcodes)
            if opcode not in _DEBUG
        ]
        variables = {o[1] for _, opcode, o in declarations if opcode == words.VARIABLE}
        # The workgroup size is named by its decoration alone.
        built_in = {
            o[0] for _, opcode, o in declarations if opcode == words.DECORATE and o[1] == _BUILT_IN
        }
        used |= built_in - variables
        # Constants that stand behind those that name them.
        for _, opcode, operands in declarations:
            if opcode in (_EXECUTION_MODE_ID, _DECORATE_ID):
                used.update(operands[2:])
        for n, opcode, operands in reversed(declarations):
            if opcode in _ANNOTATIONS:
                if operands[0] not in used:
                    continue
            elif _has_result(opcode):
                place = 0 if opcode in _TYPES or opcode == _EXT_INST_IMPORT else 1
                if operands[place] not in used:
                    continue
                used.update(_named(opcode, operands))
            kept[self._at[n] : self._at[n + 1]] = True
            if opcode == _ENTRY_POINT:
                self._keep_entry(n, operands, used, kept)

    def _keep_entry(
        self, n: int, operands: Sequence[int], used: set[int], kept: np.ndarray
    ) -> None:
        """Leaves to an entry point those of its variables that are used. Raises _NotWhole."""
        # The name is words up to the first that holds a zero byte.
        behind = 1 + next(
            (place for place in range(2, len(operands)) if _holds_end(operands[place])),
            len(operands),
        )
        if behind > len(operands):
            raise _NotWhole
        start = self._at[n] + 1
        gone = [place for place in range(behind, len(operands)) if operands[place] not in used]
        kept[[start + place for place in gone]] = False
        self.code[start - 1] = _first(_ENTRY_POINT, len(operands) - len(gone))

    def _operands(self, n: int) -> list[int]:
        return self._words[self._at[n] + 1 : self._at[n + 1]]

    def _indices(self, opcode: int) -> list[int]:
        found: list[int] = np.flatnonzero(self.opcodes == opcode).tolist()
        return found

    def _function(self, place: int) -> _Function:
        """The function at a place among them."""
        first, last = self._functions[place], len(self._opcodes) - 1
        if place + 1 < len(self._functions):
            last = self._functions[place + 1] - 1
        labels = _between(self._labels, first, last)
        head = self._opcodes[first + 1 : labels[0] if labels else last]
        if self._opcodes[last] != _FUNCTION_END or any(opcode != _PARAMETER for opcode in head):
            raise _NotWhole
        blocks = {}
        for label, behind in zip(labels, [*labels[1:], last], strict=True):
            if behind == label + 1:
                raise _NotWhole
            blocks[self._words[self._at[label] + 1]] = label, behind
        return _Function(first, last + 1, labels, blocks)

    def _targets(self, behind: int) -> Sequence[int]:
        """Labels of the blocks that come next, where a block ends."""
        opcode, operands = self._opcodes[behind - 1], self._operands(behind - 1)
        if opcode == words.BRANCH:
            return operands
        if opcode == words.BRANCH_CONDITIONAL:
            return operands[1:3]
        if opcode == words.SWITCH:
            return [operands[1], *operands[3::2]]
        return ()

    def _merges(self, behind: int) -> Sequence[int]:
        """Merge block, and continue target, of a header that ends there."""
        opcode = self._opcodes[behind - 2]
        if opcode == words.SELECTION_MERGE:
            return self._operands(behind - 2)[:1]
        if opcode == _LOOP_MERGE:
            return self._operands(behind - 2)[:2]
        return ()

    def _reached(self, function: _Function) -> dict[int, Sequence[int]]:
        """Labels of the blocks that paths lead to, and of those that come next."""
        waiting = list(function.blocks)[:1]
        reached: dict[int, Sequence[int]] = {}
        while waiting:
            label = waiting.pop()
            if label not in reached:
                if label not in function.blocks:
                    raise _NotWhole
                reached[label] = self._targets(function.blocks[label][1])
                waiting += reached[label]
        return reached

    def _keep(self, function: _Function, kept: np.ndarray) -> None:
        """Marks the words of a function that stay."""
        reached = self._reached(function)
        first, last = function.first, function.behind - 1
        head = function.labels[0] if function.labels else last
        kept[self._at[first] : self._at[head]] = True
        kept[self._at[last] : self._at[last + 1]] = True
        stubs: dict[int, int | None] = {}
        for label in reached:
            start, behind = function.blocks[label]
            kept[self._at[start] : self._at[behind]] = True
            for place, target in enumerate(self._merges(behind)):
                if target not in reached and (place or target not in stubs):
                    stubs[target] = label if place else None
        for label, back in stubs.items():
            if label not in function.blocks:
                raise _NotWhole
            self._stub(*function.blocks[label], back, kept)
        phis = [n for n in _between(self._phis, first, last) if kept[self._at[n]]]
        if phis:
            self._keep_phis(phis, function, _parents(reached, stubs), kept)

    def _stub(self, label: int, behind: int, back: int | None, kept: np.ndarray) -> None:
        """Marks and makes a block of one jump ``back``, or one that nothing reaches."""
        start, body, end = self._at[label], self._at[label + 1], self._at[behind]
        made = [_first(_UNREACHABLE, 0)] if back is None else [_first(words.BRANCH, 1), back]
        if end - len(made) < body:
            raise _NotWhole
        self.code[end - len(made) : end] = made
        kept[start:body] = True
        kept[end - len(made) : end] = True

    def _keep_phis(
        self,
        phis: Sequence[int],
        function: _Function,
        parents: Mapping[int, set[int]],
        kept: np.ndarray,
    ) -> None:
        """Leaves to phis the pairs of the parents that are left. Raises _NotWhole."""
        for n in phis:
            label = function.labels[bisect_left(function.labels, n) - 1]
            left = parents.get(self._words[self._at[label] + 1], set())
            start, operands = self._at[n], self._operands(n)
            gone = [p for p in range(2, len(operands), 2) if operands[p + 1] not in left]
            for place in gone:
                kept[start + 1 + place : start + 3 + place] = False
            pairs = len(range(2, len(operands), 2)) - len(gone)
            if pairs != len(left):  # a loop whose way back was another block
                raise _NotWhole
            self.code[start] = _first(words.PHI, 2 + 2 * pairs)

    def _used(self, body: np.ndarray) -> set[int]:
        """The words of functions that may be ids: too many, if any, but all that are."""
        may = body.copy()
        may[self.starts] = False
        for opcode, (literal, behind) in _LITERALS_FROM.items():
            places = np.flatnonzero(self.opcodes == opcode)
            begin, end = self.starts[places] + 1 + literal, self.ends[places]
            for step in range(int((end - begin).max(initial=0)) if behind else 1):
                at = begin + step
                may[at[at < end]] = False
        found = self.code[may]
        ids = np.zeros(int(self.code[words.BOUND]), bool)
        ids[found[found < len(ids)]] = True
        return set(np.flatnonzero(ids).tolist())


def _between(indices: list[int], first: int, behind: int) -> list[int]:
    """Those of sorted indices that lie in a range."""
    return indices[bisect_left(indices, first) : bisect_left(indices, behind)]


def _parents(
    reached: Mapping[int, Sequence[int]], stubs: Mapping[int, int | None]
) -> dict[int, set[int]]:
    """Labels of the blocks that lead to each: of ``reached``, and of jumps back."""
    parents: dict[int, set[int]] = {}
    for label, targets in reached.items():
        for target in targets:
            parents.setdefault(target, set()).add(label)
    for label, back in stubs.items():
        if back is not None:
            parents.setdefault(back, set()).add(label)
    return parents


def _first(opcode: int, operands: int) -> int:
    return words.first_word(opcode, operands)


def _holds_end(word: int) -> bool:
    return any(not word >> shift & 0xFF for shift in (0, 8, 16, 24))


def _has_result(opcode: int) -> bool:
    """Whether a module-level instruction defines an id."""
    return opcode in _TYPES or opcode == _EXT_INST_IMPORT or 41 <= opcode <= 52 or opcode in (1, 59)


def _named(opcode: int, operands: Sequence[int]) -> Iterable[int]:
    """Words of a declaration that may be ids."""
    literal = _LITERALS.get(opcode)
    if literal is None:
        return operands
    first, behind, _ = literal.indices(len(operands))
    return (*operands[:first], *operands[behind:])
