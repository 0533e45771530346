"""Specialization: the branches of a SPIR-V module that its constants decide, cut.

A kernel's epilogue names every operator there is; a pipeline uses one or two. Drivers
fold the rest away, but some (Mesa) only after they have inlined all of it: 250 ms a pipeline, at
every start, instead of 1 ms. So a selection whose condition is a specialization constant, or
computed from some, is replaced by a jump to the side taken before a driver sees the module. What
the other side holds stays where it is and is never reached; sizes and ids do not change.

Only structured selections of modules that no optimizer has merged into phis are touched: where the
construct's end begins with OpPhi, it is left to the driver.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from vknn.runtime.spirv import words

#: Instructions that constants are made of; all stand before the first function.
_CONSTANTS = frozenset(
    (
        words.DECORATE,
        words.TYPE_INT,
        words.CONSTANT,
        words.CONSTANT_TRUE,
        words.CONSTANT_FALSE,
        words.SPEC_CONSTANT,
        words.SPEC_CONSTANT_TRUE,
        words.SPEC_CONSTANT_FALSE,
        words.SPEC_CONSTANT_OP,
    )
)
_MERGE_SIZE = 3
# First words of instructions of fixed size.
_SELECTION_MERGE_WORD = words.first_word(words.SELECTION_MERGE, _MERGE_SIZE - 1)
_FUNCTION_WORD = words.first_word(words.FUNCTION, 4)
_LABEL_WORD = words.first_word(words.LABEL, 1)
_NOP_WORD = words.first_word(words.NOP, 0)

#: Opcodes of OpSpecConstantOp: add, subtract, multiply; equal, not equal, or, and, not, select of
#: bools; equal, not equal, >, >=, <, <= of signed integers; or, exclusive or, and of bits.
OPERATORS: dict[int, Callable[..., int]] = {
    128: operator.add,
    130: operator.sub,
    132: operator.mul,
    164: lambda a, b: int(bool(a) == bool(b)),
    165: lambda a, b: int(bool(a) != bool(b)),
    166: lambda a, b: int(bool(a) or bool(b)),
    167: lambda a, b: int(bool(a) and bool(b)),
    168: lambda a: int(not a),
    169: lambda c, a, b: a if c else b,
    170: lambda a, b: int(a == b),
    171: lambda a, b: int(a != b),
    173: lambda a, b: int(a > b),
    175: lambda a, b: int(a >= b),
    177: lambda a, b: int(a < b),
    179: lambda a, b: int(a <= b),
    197: operator.or_,
    198: operator.xor,
    199: operator.and_,
}


def specialized(spirv: bytes, constants: Iterable[tuple[int, int | float]]) -> bytes:
    """``spirv`` with the branches cut that ``constants`` (id, value) decide; of the same size."""
    return _parsed(spirv).fold(dict(constants))


@dataclass
class _Selection:
    """A selection merge, from word ``start`` on, and the branch behind it."""

    start: int
    words: int
    selector: int
    default: int
    targets: dict[int, int]


@dataclass
class Module:
    """A SPIR-V module with its constants and selections found once, to be folded many times."""

    code: np.ndarray
    _values: dict[int, int] = field(default_factory=dict)
    _by_spec_id: dict[int, int] = field(default_factory=dict)
    _operations: list[tuple[int, int, tuple[int, ...]]] = field(default_factory=list)
    _selections: list[_Selection] = field(default_factory=list)

    @classmethod
    def parse(cls, spirv: bytes) -> Module:
        """Reading of a module; one that is not SPIR-V or not whole gets nothing folded."""
        module = cls(np.frombuffer(spirv[: len(spirv) // 4 * 4], np.uint32))
        if len(module.code) > words.HEADER_WORDS and module.code[0] == words.MAGIC:
            module._scan()
        return module

    def fold(self, constants: Mapping[int, int | float]) -> bytes:
        """The module with the selections cut that ``constants`` (by specialization id) decide.

        Ids that are not named keep their defaults, as in a pipeline.
        """
        values = self._evaluate(constants)
        code = self.code.copy()
        for selection in self._selections:
            if selection.selector in values:
                value = values[selection.selector]
                _jump(code, selection, selection.targets.get(value, selection.default))
        return code.tobytes()

    def _evaluate(self, constants: Mapping[int, int | float]) -> dict[int, int]:
        values = dict(self._values)
        for spec_id, value in constants.items():
            result = self._by_spec_id.get(spec_id)
            if result is not None and not isinstance(value, float):
                values[result] = int(value)
        for result, code, operands in self._operations:
            if all(o in values for o in operands):
                value = OPERATORS[code](*(values[o] for o in operands))
                values[result] = _signed(value & 0xFFFFFFFF)
        return values

    def _scan(self) -> None:
        """Constants are walked instruction by instruction, functions searched for their patterns.

        Below `_SELECTION_MERGE_WORD`, no id can be mistaken for the words that are searched for.
        """
        first = np.flatnonzero(self.code == _FUNCTION_WORD)
        if self.code[words.BOUND] >= _SELECTION_MERGE_WORD or len(first) == 0:
            return
        self._scan_constants(self.code[: first[0]].tolist())
        body = self.code[first[0] :]
        labels = np.flatnonzero(body[:-2] == _LABEL_WORD)
        phis = set(body[labels + 1][body[labels + 2] & 0xFFFF == words.PHI].tolist())
        for at in np.flatnonzero(body[:-5] == _SELECTION_MERGE_WORD).tolist():
            size = _MERGE_SIZE + (int(body[at + _MERGE_SIZE]) >> 16)
            found = body[at : at + size].tolist()
            selection = _selection(found, at + int(first[0]))
            if selection is not None and found[1] not in phis:
                self._selections.append(selection)

    def _scan_constants(self, declarations: list[int]) -> None:
        integers: set[int] = set()
        for opcode, operands in words.instructions(declarations, _CONSTANTS):
            self._constant(opcode, operands, integers)

    def _constant(self, opcode: int, operands: Sequence[int], integers: set[int]) -> None:
        if opcode == words.DECORATE:
            if operands[1] == words.SPEC_ID:
                self._by_spec_id[operands[2]] = operands[0]
        elif opcode == words.TYPE_INT:
            if operands[1] == 32:
                integers.add(operands[0])
        elif opcode in (words.CONSTANT, words.SPEC_CONSTANT):
            if operands[0] in integers:
                self._values[operands[1]] = _signed(operands[2])
        elif opcode == words.SPEC_CONSTANT_OP:
            if operands[2] in OPERATORS:
                self._operations.append((operands[1], operands[2], tuple(operands[3:])))
        else:
            true = opcode in (words.CONSTANT_TRUE, words.SPEC_CONSTANT_TRUE)
            self._values[operands[1]] = int(true)


@functools.lru_cache(maxsize=256)
def _parsed(spirv: bytes) -> Module:
    return Module.parse(spirv)


def _selection(found: list[int], start: int) -> _Selection | None:
    """The selection of the words ``found`` (OpSelectionMerge and the branch), from ``start`` on."""
    merge, branch = found[:_MERGE_SIZE], found[_MERGE_SIZE:]
    assert merge[0] == _SELECTION_MERGE_WORD
    opcode = branch[0] & 0xFFFF
    if opcode == words.BRANCH_CONDITIONAL:
        targets = {0: branch[3]}
    elif opcode == words.SWITCH:
        targets = {_signed(a): b for a, b in zip(branch[3::2], branch[4::2], strict=True)}
    else:
        return None
    return _Selection(start, len(found), branch[1], branch[2], targets)


def _jump(code: np.ndarray, selection: _Selection, target: int) -> None:
    """Writes OpNop over a selection, and OpBranch as its last instruction."""
    end = selection.start + selection.words
    code[selection.start : end] = _NOP_WORD
    code[end - 2] = words.first_word(words.BRANCH, 1)
    code[end - 1] = target


def _signed(word: int) -> int:
    return word - (1 << 32) if word & 0x80000000 else word
