"""Words of a SPIR-V module: its header, and its instructions as opcodes and operands.

SPIR-V specification, sections 2.3 "Physical Layout of a SPIR-V Module and Instruction" (a header of
five words; the first word of an instruction holds its size in words and its opcode) and 3
"Binary Form" (the numbers below). Runs while the package is built, too: imports nothing that may
not be there.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterable, Iterator, Sequence

MAGIC = 0x07230203
HEADER_WORDS = 5
#: Index in the header of the number that is above every id.
BOUND = 3

# Opcodes.
NAME, MEMBER_NAME = 5, 6
TYPE_BOOL, TYPE_INT, TYPE_FLOAT = 20, 21, 22
TYPE_ARRAY, TYPE_STRUCT, TYPE_POINTER = 28, 30, 32
CONSTANT_TRUE, CONSTANT_FALSE, CONSTANT = 41, 42, 43
SPEC_CONSTANT_TRUE, SPEC_CONSTANT_FALSE, SPEC_CONSTANT, SPEC_CONSTANT_OP = 48, 49, 50, 52
FUNCTION, VARIABLE = 54, 59
DECORATE, MEMBER_DECORATE = 71, 72
PHI, SELECTION_MERGE, LABEL = 245, 247, 248
BRANCH, BRANCH_CONDITIONAL, SWITCH = 249, 250, 251
NOP = 0
TYPE_COOPERATIVE_MATRIX = 4456
# Decorations.
SPEC_ID, OFFSET = 1, 35

#: An instruction: opcode and operands.
Instruction = tuple[int, Sequence[int]]


def unpacked(spirv: bytes) -> tuple[int, ...]:
    """The words of a module; bytes behind the last whole word are left out."""
    count = len(spirv) // 4
    return struct.unpack(f"<{count}I", spirv[: 4 * count])


def packed(words: Sequence[int]) -> bytes:
    """The bytes of words."""
    return struct.pack(f"<{len(words)}I", *words)


def instructions(
    words: Sequence[int], opcodes: Container[int] | None = None
) -> Iterator[Instruction]:
    """The instructions of a module in order: opcode and operands (a slice of ``words``).

    ``opcodes``: only those with one of these. Ends before an instruction that is not whole.
    """
    at, end = HEADER_WORDS, len(words)
    while at < end:
        first = words[at]
        behind = at + (first >> 16)
        if behind == at or behind > end:
            return
        if opcodes is None or first & 0xFFFF in opcodes:
            yield first & 0xFFFF, words[at + 1 : behind]
        at = behind


def first_word(opcode: int, operands: int) -> int:
    """The first word of an instruction with so many words of operands."""
    return operands + 1 << 16 | opcode


def flat(parts: Iterable[Instruction]) -> Iterator[int]:
    """The words of instructions."""
    for opcode, operands in parts:
        yield first_word(opcode, len(operands))
        yield from operands
