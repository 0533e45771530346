"""Reflection of SPIR-V: a kernel's push-constant block and specialization constants by name.

Read from modules that no optimizer has touched: those keep the names of variables and members
(SPIR-V specification, 3.42: OpName, OpMemberName; offsets and ids from OpMemberDecorate Offset and
OpDecorate SpecId).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from vknn.errors import ShaderError

_MAGIC, _HEADER_WORDS = 0x07230203, 5
_SPEC_ID, _OFFSET = 1, 35  # decorations
_PUSH_CONSTANT = 9  # storage class


class Opcode:
    """Opcodes of the SPIR-V specification, 3.42."""

    NAME, MEMBER_NAME, FUNCTION = 5, 6, 54
    TYPE_BOOL, TYPE_INT, TYPE_FLOAT, TYPE_ARRAY, TYPE_STRUCT, TYPE_POINTER = 20, 21, 22, 28, 30, 32
    CONSTANT = 43
    SPEC_CONSTANT_TRUE, SPEC_CONSTANT_FALSE, SPEC_CONSTANT = 48, 49, 50
    DECORATE, MEMBER_DECORATE = 71, 72


@dataclass(frozen=True)
class Member:
    """A member of a push-constant block: ``type`` is "int", "uint" or "float", of 32 bits.

    ``count``: elements of an array, None for a scalar.
    """

    name: str
    type: str
    offset: int
    count: int | None = None


@dataclass(frozen=True)
class Constant:
    """A specialization constant: its id and its type ("int", "uint", "float" or "bool")."""

    id: int
    type: str


@dataclass(frozen=True)
class Interface:
    """What a host passes to a kernel besides buffers. Constants without a name (the size of the
    workgroup) are left out."""

    push: tuple[Member, ...]
    constants: dict[str, Constant]


def interface(spirv: bytes) -> Interface:
    """The push-constant block and specialization constants of a module.

    Raises :class:`ShaderError` for what is no SPIR-V, and for members that are no 32-bit
    scalars or arrays of them.
    """
    module = _Declarations()
    for opcode, operands in _instructions(spirv):
        if opcode == Opcode.FUNCTION:
            break
        module.note(opcode, operands)
    return Interface(module.push(), module.constants())


@dataclass
class _Declarations:
    """Names, types and decorations by result id."""

    names: dict[int, str] = field(default_factory=dict)
    members: dict[tuple[int, int], str] = field(default_factory=dict)
    offsets: dict[tuple[int, int], int] = field(default_factory=dict)
    spec_ids: dict[int, int] = field(default_factory=dict)
    types: dict[int, str] = field(default_factory=dict)
    lengths: dict[int, int] = field(default_factory=dict)
    arrays: dict[int, tuple[int, int]] = field(default_factory=dict)
    structs: dict[int, tuple[int, ...]] = field(default_factory=dict)
    typed: dict[int, int] = field(default_factory=dict)
    block: int | None = None

    def note(self, opcode: int, operands: tuple[int, ...]) -> None:
        match opcode:
            case Opcode.NAME:
                self.names[operands[0]] = _text(operands[1:])
            case Opcode.MEMBER_NAME:
                self.members[operands[0], operands[1]] = _text(operands[2:])
            case Opcode.DECORATE if operands[1] == _SPEC_ID:
                self.spec_ids[operands[0]] = operands[2]
            case Opcode.MEMBER_DECORATE if operands[2] == _OFFSET:
                self.offsets[operands[0], operands[1]] = operands[3]
            case Opcode.TYPE_BOOL:
                self.types[operands[0]] = "bool"
            case Opcode.TYPE_INT if operands[1] == 32:
                self.types[operands[0]] = "int" if operands[2] else "uint"
            case Opcode.TYPE_FLOAT if operands[1] == 32:
                self.types[operands[0]] = "float"
            case Opcode.CONSTANT:
                self.lengths[operands[1]] = operands[2]
            case Opcode.TYPE_ARRAY:
                self.arrays[operands[0]] = operands[1], self.lengths.get(operands[2], 0)
            case Opcode.TYPE_STRUCT:
                self.structs[operands[0]] = operands[1:]
            case Opcode.TYPE_POINTER if (
                operands[1] == _PUSH_CONSTANT and operands[2] in self.structs
            ):
                self.block = operands[2]
            case Opcode.SPEC_CONSTANT_TRUE | Opcode.SPEC_CONSTANT_FALSE | Opcode.SPEC_CONSTANT:
                self.typed[operands[1]] = operands[0]

    def push(self) -> tuple[Member, ...]:
        if self.block is None:
            return ()
        block = self.block
        found = []
        for number, type_ in enumerate(self.structs[block]):
            name = self.members.get((block, number), "")
            scalar, count = self.arrays.get(type_, (type_, None))
            if scalar not in self.types or not name or count == 0:
                raise ShaderError(f"push constant {name or number!r} is no 32-bit scalar or array")
            found.append(Member(name, self.types[scalar], self.offsets[block, number], count))
        return tuple(found)

    def constants(self) -> dict[str, Constant]:
        return {
            self.names[result]: Constant(spec_id, self.types[self.typed[result]])
            for result, spec_id in self.spec_ids.items()
            if self.names.get(result)
        }


def _instructions(spirv: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    words = struct.unpack(f"<{len(spirv) // 4}I", spirv[: len(spirv) // 4 * 4])
    if len(words) < _HEADER_WORDS or words[0] != _MAGIC:
        raise ShaderError("a module is not SPIR-V")
    at = _HEADER_WORDS
    while at < len(words):
        size = words[at] >> 16
        if size == 0 or at + size > len(words):
            raise ShaderError("a SPIR-V module is cut off")
        yield words[at] & 0xFFFF, words[at + 1 : at + size]
        at += size


def _text(words: tuple[int, ...]) -> str:
    return struct.pack(f"<{len(words)}I", *words).partition(b"\0")[0].decode()
