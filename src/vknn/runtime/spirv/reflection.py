"""Reflection of SPIR-V: a kernel's push-constant block and specialization constants by name.

Read from modules that no optimizer has touched: those keep the names of variables and members
(SPIR-V specification, 3.42: OpName, OpMemberName; offsets and ids from OpMemberDecorate Offset and
OpDecorate SpecId).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vknn.errors import ShaderError
from vknn.runtime.spirv import words as spv

_PUSH_CONSTANT = 9  # storage class


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
class SpecConstant:
    """A specialization constant: its id and its type ("int", "uint", "float" or "bool")."""

    id: int
    type: str


@dataclass(frozen=True)
class Interface:
    """Parameters that a host passes to a kernel besides buffers.

    Constants without a name (the size of the workgroup) are left out.
    """

    push: tuple[Member, ...]
    constants: dict[str, SpecConstant]


def interface(spirv: bytes) -> Interface:
    """The push-constant block and specialization constants of a module.

    Raises :class:`ShaderError` for what is no SPIR-V, and for members that are no 32-bit
    scalars or arrays of them.
    """
    module, words = _Declarations(), spv.unpacked(spirv)
    if len(words) < spv.HEADER_WORDS or words[0] != spv.MAGIC:
        raise ShaderError("a module is not SPIR-V")
    for opcode, operands in spv.instructions(words):
        if opcode == spv.FUNCTION:
            break
        module.note(opcode, operands)
    else:
        raise ShaderError("a SPIR-V module is cut off")
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

    def note(self, opcode: int, operands: Sequence[int]) -> None:
        match opcode:
            case spv.NAME:
                self.names[operands[0]] = _text(operands[1:])
            case spv.MEMBER_NAME:
                self.members[operands[0], operands[1]] = _text(operands[2:])
            case spv.DECORATE if operands[1] == spv.SPEC_ID:
                self.spec_ids[operands[0]] = operands[2]
            case spv.MEMBER_DECORATE if operands[2] == spv.OFFSET:
                self.offsets[operands[0], operands[1]] = operands[3]
            case spv.TYPE_BOOL:
                self.types[operands[0]] = "bool"
            case spv.TYPE_INT if operands[1] == 32:
                self.types[operands[0]] = "int" if operands[2] else "uint"
            case spv.TYPE_FLOAT if operands[1] == 32:
                self.types[operands[0]] = "float"
            case spv.CONSTANT:
                self.lengths[operands[1]] = operands[2]
            case spv.TYPE_ARRAY:
                self.arrays[operands[0]] = operands[1], self.lengths.get(operands[2], 0)
            case spv.TYPE_STRUCT:
                self.structs[operands[0]] = tuple(operands[1:])
            case spv.TYPE_POINTER if operands[1] == _PUSH_CONSTANT and operands[2] in self.structs:
                self.block = operands[2]
            case spv.SPEC_CONSTANT_TRUE | spv.SPEC_CONSTANT_FALSE | spv.SPEC_CONSTANT:
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

    def constants(self) -> dict[str, SpecConstant]:
        return {
            self.names[result]: SpecConstant(spec_id, self.types[self.typed[result]])
            for result, spec_id in self.spec_ids.items()
            if self.names.get(result)
        }


def _text(words: Sequence[int]) -> str:
    return spv.packed(words).partition(b"\0")[0].decode()
