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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from vknn.runtime.spirv import operands, words

# Opcodes that only this module needs.
_LINE, _NO_LINE, _EXT_INST, _ENTRY_POINT = 8, 317, 12, 15
_PARAMETER, _FUNCTION_END, _CALL = 55, 56, 57
_GROUP_DECORATE, _DECORATION_GROUP = 74, 73
_LOOP_MERGE, _UNREACHABLE = 246, 255
_EXECUTION_MODE_ID, _DECORATE_ID = 331, 332
_BUILT_IN = 11  # decoration
#: No module has more ids (SPIR-V specification, 2.17 "Universal Limits").
_MOST_IDS = 4_194_303


def swept(spirv: bytes) -> bytes:
    """``spirv`` without what nothing reaches; as it is where it is no whole SPIR-V module.

    A phi whose parent's edge was cut keeps the values of those that are left. Modules with groups
    of decorations, and those whose blocks are not whole, stay as they are.
    """
    if len(spirv) % 4 or len(spirv) <= 4 * words.HEADER_WORDS:
        return spirv
    code = np.frombuffer(spirv, np.uint32)
    if code[0] != words.MAGIC or code[words.BOUND] > _MOST_IDS:
        return spirv
    starts = instruction_starts(code)
    if starts is None:
        return spirv
    try:
        module = _Module(spirv, starts)
        if not module.is_plain():
            return spirv
        module.sweep_functions()
        module.sweep_declarations()
    except (_NotWhole, IndexError):  # of operands that are not there
        return spirv
    return module.left()


def instruction_starts(code: np.ndarray) -> np.ndarray | None:
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
        jumps.append(jumps[-1].take(jumps[-1]))
    at, far, listed = words.HEADER_WORDS, jumps.pop().data, list[int]()
    while at < end:
        listed.append(at)
        at = far[at]
    if at > end:
        return None
    found = np.array(listed)
    for jump in reversed(jumps):
        found = np.stack((found, jump.take(found)), axis=1).reshape(-1)
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


@dataclass
class _Paths:
    """What paths lead to.

    Attributes:
        reached: The labels, and those of the blocks that come next.
        merges: Headers' labels, and their merge blocks.
        continues: Loop headers' labels, and their continue targets.
    """

    reached: dict[int, Sequence[int]] = field(default_factory=dict)
    merges: list[tuple[int, int]] = field(default_factory=list)
    continues: list[tuple[int, int]] = field(default_factory=list)


class _NotWhole(Exception):
    """Functions are not made of whole blocks."""


class _Module:
    """A module as words, ``starts`` the places of its instructions and its end.

    What is read word by word is read as it was at first.
    """

    def __init__(self, spirv: bytes, starts: np.ndarray) -> None:
        self._words = memoryview(spirv).cast("I")
        self._code = np.frombuffer(spirv, np.uint32).copy()
        #: 1 for each word that stays; the same memory twice, as bytes are marked faster one by one.
        self._marks = bytearray(len(self._code))
        self._kept = np.frombuffer(self._marks, bool)
        self._marks[: words.HEADER_WORDS] = b"\1" * words.HEADER_WORDS
        self._starts, self._ends, self._at = starts[:-1], starts[1:], starts.data
        self._kinds = self._code[self._starts] & 0xFFFF
        self._opcodes = self._kinds.data
        self._functions = self._indices(words.FUNCTION)
        self._calls, self._phis = self._indices(_CALL), self._indices(words.PHI)
        labels = np.flatnonzero(self._kinds == words.LABEL)
        if (np.diff(labels) == 1).any():
            raise _NotWhole
        self._labels: list[int] = labels.tolist()
        self._label_ids: list[int] = self._operand(labels, 1).tolist()
        self._first = self._functions[0] if self._functions else len(self._kinds)

    def is_plain(self) -> bool:
        """Whether nothing is declared in ways that are not known here."""
        declared = self._opcodes[: self._first].tolist()
        return not {_GROUP_DECORATE, _DECORATION_GROUP, _EXT_INST} & {*declared}

    def left(self) -> bytes:
        """The words that stay."""
        return self._code[self._kept].tobytes()

    def sweep_functions(self) -> None:
        """Marks of what is left of all functions. Raises _NotWhole."""
        names = self._operand(np.array(self._functions, int), 2).tolist()
        places = {name: place for place, name in enumerate(names)}
        entries = (n for n in self._indices(_ENTRY_POINT) if n < self._first)
        waiting = [self._words[self._at[n] + 2] for n in entries]
        seen: set[int] = set()
        while waiting:
            result = waiting.pop()
            if result not in places or result in seen:
                continue
            seen.add(result)
            function = self._function(places[result])
            self._keep(function)
            calls = _between(self._calls, function.first, function.behind)
            at = [self._at[n] for n in calls]
            waiting += [self._words[place + 3] for place in at if self._marks[place]]
        for n in (*self._indices(_LINE), *self._indices(_NO_LINE)):
            self._kept[self._at[n] : self._at[n + 1]] = False
        self._kept[self._starts[self._kinds == words.NOP]] = False

    def sweep_declarations(self) -> None:
        """Marks of what stands before the functions and is named still. Raises _NotWhole."""
        used = self._used()
        kinds = self._kinds[: self._first]
        declared = np.flatnonzero(~operands.IS_DEBUG[kinds])
        kinds = kinds[declared]
        places, owners, named = self._operands(declared)
        named &= operands.IS_RESULT[kinds][owners]
        begins = np.searchsorted(owners[named], np.arange(len(declared) + 1)).tolist()
        ids: list[int] = self._ids(places[named]).tolist()
        key = operands.KEY[kinds]
        keys: list[int] = self._ids(self._starts[declared] + key).tolist()
        if (key >= (self._ends - self._starts)[declared]).any():
            raise _NotWhole
        stay = (key == 0).tolist()
        left = np.zeros(len(declared), bool)
        for n in range(len(declared) - 1, -1, -1):  # each stands behind what it names
            if stay[n] or used[keys[n]]:
                left[n] = True
                for number in ids[begins[n] : begins[n + 1]]:
                    used[number] = 1
        self._kept[places[left[owners]]] = True
        for n in declared[left & (kinds == _ENTRY_POINT)].tolist():
            self._keep_entry(n, used)

    def _keep_entry(self, n: int, used: bytearray) -> None:
        """Leaves to an entry point those of its variables that are used. Raises _NotWhole."""
        start, end = self._at[n], self._at[n + 1]
        # The name is words up to the first that holds a zero byte.
        behind = 1 + next((p for p in range(start + 3, end) if _holds_end(self._words[p])), end)
        if behind > end:
            raise _NotWhole
        ids = self._ids(np.arange(behind, end)).tolist()
        gone = [behind + n for n, number in enumerate(ids) if not used[number]]
        self._kept[gone] = False
        self._code[start] = _first(_ENTRY_POINT, end - start - 1 - len(gone))

    def _indices(self, opcode: int) -> list[int]:
        found: list[int] = np.flatnonzero(self._kinds == opcode).tolist()
        return found

    def _operand(self, instructions: np.ndarray, number: int) -> np.ndarray:
        """A word of each of some instructions. Raises IndexError behind the end of the module."""
        found: np.ndarray = self._code[self._starts[instructions] + number]
        return found

    def _operands(self, instructions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Places of instructions' words, whose of these they are, and which of them may be ids."""
        starts = self._starts[instructions]
        sizes = self._ends[instructions] - starts
        before = np.cumsum(sizes) - sizes
        owners = np.repeat(np.arange(len(sizes)), sizes)
        within = np.arange(len(owners)) - before[owners]
        kinds = self._kinds[instructions]
        literal = (within >= operands.LITERAL_FROM[kinds][owners]) & (
            within < operands.LITERAL_TO[kinds][owners]
        )
        return starts[owners] + within, owners, (within > 0) & ~literal

    def _ids(self, places: np.ndarray) -> np.ndarray:
        """Words as ids; what is none is the bound, which no id is."""
        return np.minimum(self._code[places], self._code[words.BOUND])

    def _used(self) -> bytearray:
        """By id, 1 for what functions name, or has to stay: too many, if any, but all that are."""
        used = bytearray(int(self._code[words.BOUND]) + 1)
        marks = np.frombuffer(used, np.uint8)
        body = np.flatnonzero(self._kept[self._starts])
        places, _, named = self._operands(body)
        marks[self._ids(places[named & self._kept[places]])] = 1
        # The workgroup size is named by its decoration alone.
        decorations = np.flatnonzero(self._kinds[: self._first] == words.DECORATE)
        decorations = decorations[self._operand(decorations, 2) == _BUILT_IN]
        variables = np.flatnonzero(self._kinds[: self._first] == words.VARIABLE)
        built_in = {*self._operand(decorations, 1).tolist()}
        for number in built_in.difference(self._operand(variables, 2).tolist()):
            used[min(number, len(used) - 1)] = 1
        # Constants that stand behind those that name them.
        for opcode in (_EXECUTION_MODE_ID, _DECORATE_ID):
            for n in self._indices(opcode):
                marks[self._ids(np.arange(self._at[n] + 3, self._at[n + 1]))] = 1
        return used

    def _function(self, place: int) -> _Function:
        """The function at a place among them."""
        first, last = self._functions[place], len(self._kinds) - 1
        if place + 1 < len(self._functions):
            last = self._functions[place + 1] - 1
        begin, end = bisect_left(self._labels, first), bisect_left(self._labels, last)
        labels, ids = self._labels[begin:end], self._label_ids[begin:end]
        head = self._opcodes[first + 1 : labels[0] if labels else last].tolist()
        if self._opcodes[last] != _FUNCTION_END or any(opcode != _PARAMETER for opcode in head):
            raise _NotWhole
        if labels and labels[-1] + 1 == last:
            raise _NotWhole
        blocks = dict(zip(ids, zip(labels, [*labels[1:], last], strict=False), strict=True))
        return _Function(first, last + 1, labels, blocks)

    def _targets(self, behind: int) -> Sequence[int]:
        """Labels of the blocks that come next, where a block ends."""
        opcode, at = self._opcodes[behind - 1], self._at[behind - 1]
        if opcode == words.BRANCH:
            return (self._words[at + 1],)
        if opcode == words.BRANCH_CONDITIONAL:
            return self._words[at + 2], self._words[at + 3]
        if opcode == words.SWITCH:
            labels = self._words[at + 2 : self._at[behind]].tolist()
            return [labels[0], *labels[2::2]]
        return ()

    def _paths(self, function: _Function) -> _Paths:
        """What paths through a function lead to."""
        waiting, paths = list(function.blocks)[:1], _Paths()
        while waiting:
            label = waiting.pop()
            if label in paths.reached:
                continue
            if label not in function.blocks:
                raise _NotWhole
            behind = function.blocks[label][1]
            targets = paths.reached[label] = self._targets(behind)
            waiting += targets
            opcode, at = self._opcodes[behind - 2], self._at[behind - 2]
            if opcode in (words.SELECTION_MERGE, _LOOP_MERGE):
                paths.merges.append((label, self._words[at + 1]))
            if opcode == _LOOP_MERGE:
                paths.continues.append((label, self._words[at + 2]))
        return paths

    def _keep(self, function: _Function) -> None:
        """Marks of the words of a function that stay."""
        paths = self._paths(function)
        first, last = function.first, function.behind - 1
        self._mark(first, function.labels[0] if function.labels else last)
        self._mark(last, last + 1)
        for label in paths.reached:
            self._mark(*function.blocks[label])
        # What is a merge block and a continue target as well jumps back.
        stubs: dict[int, int | None] = {target: None for _, target in paths.merges}
        stubs.update({target: label for label, target in paths.continues})
        stubs = {label: back for label, back in stubs.items() if label not in paths.reached}
        for label, back in stubs.items():
            if label not in function.blocks:
                raise _NotWhole
            self._stub(*function.blocks[label], back)
        phis = [n for n in _between(self._phis, first, last) if self._marks[self._at[n]]]
        if phis:
            self._keep_phis(phis, function, _parents(paths.reached, stubs))

    def _mark(self, first: int, behind: int) -> None:
        """Marks of all words of instructions that follow each other."""
        start, end = self._at[first], self._at[behind]
        self._marks[start:end] = b"\1" * (end - start)

    def _stub(self, label: int, behind: int, back: int | None) -> None:
        """Marks and makes a block of one jump ``back``, or one that nothing reaches."""
        start, body, end = self._at[label], self._at[label + 1], self._at[behind]
        made = [_first(_UNREACHABLE, 0)] if back is None else [_first(words.BRANCH, 1), back]
        if end - len(made) < body:
            raise _NotWhole
        self._code[end - len(made) : end] = made
        self._kept[start:body] = True
        self._kept[end - len(made) : end] = True

    def _keep_phis(
        self, phis: Sequence[int], function: _Function, parents: Mapping[int, set[int]]
    ) -> None:
        """Leaves to phis the pairs of the parents that are left. Raises _NotWhole."""
        for n in phis:
            label = function.labels[bisect_left(function.labels, n) - 1]
            left = parents.get(self._words[self._at[label] + 1], set())
            start, end = self._at[n], self._at[n + 1]
            pairs = range(start + 3, end, 2)
            gone = [p for p in pairs if self._words[p + 1] not in left]
            for place in gone:
                self._kept[place : place + 2] = False
            stay = len(pairs) - len(gone)
            if (end - start - 3) % 2 or stay != len(
                left
            ):  # a loop whose way back was another block
                raise _NotWhole
            self._code[start] = _first(words.PHI, 2 + 2 * stay)


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
