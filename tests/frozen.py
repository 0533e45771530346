"""SPIR-V with constants in the place of specialization constants.

The validation layer specializes each module anew, by an optimizer of SPIR-V, before it looks at a
pipeline: three quarters of the time that pipelines take, with which a network is made in each
precision. A module without specialization constants is spared that, and checked as thoroughly.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from vknn.runtime import pipelines
from vknn.runtime.spirv import words
from vknn.runtime.spirv.specialize import OPERATORS, specialized

CONSTANT_COMPOSITE, SPEC_CONSTANT_COMPOSITE, EXTRACT, SELECT = 44, 51, 81, 169
_WORD = 0xFFFFFFFF
#: Operators of OpSpecConstantOp that cutting branches has no need of: the negative; quotients and
#: remainders, unsigned and signed; comparisons of unsigned; shifts, and the complement.
MORE: dict[int, Callable[..., int]] = {
    126: lambda a: -a,
    134: lambda a, b: (a & _WORD) // (b & _WORD),
    135: lambda a, b: abs(a) // abs(b) * (1 if a * b >= 0 else -1),
    137: lambda a, b: (a & _WORD) % (b & _WORD),
    138: lambda a, b: abs(a) % abs(b) * (1 if a >= 0 else -1),
    139: lambda a, b: a % b,
    172: lambda a, b: int(a & _WORD > b & _WORD),
    174: lambda a, b: int(a & _WORD >= b & _WORD),
    176: lambda a, b: int(a & _WORD < b & _WORD),
    178: lambda a, b: int(a & _WORD <= b & _WORD),
    194: lambda a, b: (a & _WORD) >> b,
    195: lambda a, b: a >> b,
    196: lambda a, b: a << b,
    200: lambda a: ~a,
}


@contextmanager
def instead() -> Iterator[None]:
    """Pipelines made of frozen modules. The map of specialization constants is given as ever."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipelines, "specialized", frozen)
        yield


def frozen(spirv: bytes, constants: Iterable[tuple[int, int | float]]) -> bytes:
    """``spirv`` with its branches cut, too; only these where something of it is not known here."""
    given = tuple(constants)
    try:
        return _frozen(spirv, given)
    except KeyError:
        return specialized(spirv, given)


@functools.lru_cache(256)  # a model's pipelines have their keys made by each way to memory
def _frozen(spirv: bytes, constants: tuple[tuple[int, int | float], ...]) -> bytes:
    code = np.frombuffer(specialized(spirv, constants), np.uint32)
    first = int(np.flatnonzero(code == words.first_word(words.FUNCTION, 4))[0])
    declarations = code[:first].tolist()
    made = _Frozen({n: int.from_bytes(pipelines._word(v), "little") for n, v in constants})
    found = declarations[: words.HEADER_WORDS]
    for opcode, operands in words.instructions(declarations):
        for new, parts in made.of(opcode, list(operands)):
            found += [words.first_word(new, len(parts)), *parts]
    return np.array(found, np.uint32).tobytes() + code[first:].tobytes()


class _Frozen:
    """The declarations of a module as they come, frozen, by the bits given for constants' ids."""

    def __init__(self, given: dict[int, int]) -> None:
        self._given = given
        self._numbers: dict[int, int] = {}  # result -> id of the specialization constant
        self._bools: set[int] = set()
        self._values: dict[int, int] = {}
        self._parts: dict[int, list[int]] = {}

    def of(self, opcode: int, operands: list[int]) -> Iterator[tuple[int, list[int]]]:
        """The instructions that stand for one."""
        if opcode == words.DECORATE and operands[1] == words.SPEC_ID:
            self._numbers[operands[0]] = operands[2]
            return
        if opcode == words.TYPE_BOOL:
            self._bools.add(operands[0])
        elif opcode in (CONSTANT_COMPOSITE, SPEC_CONSTANT_COMPOSITE):
            opcode, self._parts[operands[1]] = CONSTANT_COMPOSITE, operands[2:]
        elif opcode in (words.CONSTANT_TRUE, words.CONSTANT_FALSE):
            self._values[operands[1]] = int(opcode == words.CONSTANT_TRUE)
        elif opcode == words.CONSTANT and len(operands) == 3:
            self._values[operands[1]] = operands[2]
        elif opcode in (words.SPEC_CONSTANT_TRUE, words.SPEC_CONSTANT_FALSE):
            default = int(opcode == words.SPEC_CONSTANT_TRUE)
            opcode, operands = self._constant(operands, self._bits(operands[1], default))
        elif opcode == words.SPEC_CONSTANT:
            if len(operands) != 3:
                raise KeyError("a constant of more than a word")
            opcode, operands = self._constant(operands, self._bits(operands[1], operands[2]))
        elif (
            opcode == words.SPEC_CONSTANT_OP
            and operands[2] == SELECT
            and operands[3] in self._parts
        ):
            chosen = zip(*(self._parts[o] for o in operands[3:]), strict=True)
            parts = [a if self._values[c] else b for c, a, b in chosen]
            opcode, operands = CONSTANT_COMPOSITE, [*operands[:2], *parts]
            self._parts[operands[1]] = parts
        elif opcode == words.SPEC_CONSTANT_OP:
            opcode, operands = self._constant(operands, self._computed(operands[2], operands[3:]))
        yield opcode, operands

    def _bits(self, result: int, default: int) -> int:
        return self._given.get(self._numbers.get(result, -1), default)

    def _computed(self, operator: int, operands: list[int]) -> int:
        if operator == EXTRACT:
            return self._values[self._parts[operands[0]][operands[1]]]
        compute = MORE.get(operator) or OPERATORS[operator]
        return compute(*(_signed(self._values[o]) for o in operands)) & 0xFFFFFFFF

    def _constant(self, operands: list[int], bits: int) -> tuple[int, list[int]]:
        type_, result = operands[:2]
        self._values[result] = bits
        if type_ in self._bools:
            return (words.CONSTANT_TRUE if bits else words.CONSTANT_FALSE), [type_, result]
        return words.CONSTANT, [type_, result, bits]


def _signed(bits: int) -> int:
    return bits - (1 << 32) if bits & 0x80000000 else bits
