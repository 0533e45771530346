"""Types of a SPIR-V module: sizes, components, and how values of theirs look in Python."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from vknn.errors import ShaderError
from vknn.profiling.invocation import opcodes as op

_FLOATS = {16: "e", 32: "f", 64: "d"}
_INTEGERS = {8: "b", 16: "h", 32: "i", 64: "q"}


@dataclass
class Types:
    """Types by id, and the type of every id that has one.

    Attributes:
        kinds: Id of a type -> opcode and operands.
        of: Id of a value -> id of its type.
        values: Id of a constant -> its value.
        offsets: Struct and member -> byte offset.
        strides: Array -> bytes from element to element.
    """

    kinds: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    of: dict[int, int] = field(default_factory=dict)
    values: dict[int, Any] = field(default_factory=dict)
    offsets: dict[tuple[int, int], int] = field(default_factory=dict)
    strides: dict[int, int] = field(default_factory=dict)

    def is_vector(self, kind: int) -> bool:
        return self.kinds[kind][0] == op.TYPE_VECTOR

    def is_integer(self, kind: int) -> bool:
        return self.kinds[self.scalar(kind)][0] == op.TYPE_INT

    def components(self, kind: int) -> int:
        """Components of a vector; 1 for what is none."""
        return self.kinds[kind][1][1] if self.is_vector(kind) else 1

    def scalar(self, kind: int) -> int:
        """The type of a vector's components; of what is none itself."""
        return self.kinds[kind][1][0] if self.is_vector(kind) else kind

    def width(self, kind: int) -> int:
        """Bits of a number, or of a component of a vector or cooperative matrix."""
        opcode, operands = self.kinds[kind]
        if opcode in (op.TYPE_VECTOR, op.TYPE_COOPERATIVE):
            return self.width(operands[0])
        return operands[0] if opcode in (op.TYPE_INT, op.TYPE_FLOAT) else 32

    def members(self, kind: int) -> tuple[int, ...]:
        return self.kinds[kind][1]

    def pointed(self, pointer: int) -> tuple[int, int]:
        """Storage class and type that a pointer (by its id) points to."""
        storage, kind = self.kinds[self.of[pointer]][1]
        return storage, kind

    def nbytes(self, kind: int) -> int:
        """Bytes of a value, without padding. Raises ShaderError where it has no size."""
        opcode, operands = self.kinds[kind]
        if opcode in (op.TYPE_INT, op.TYPE_FLOAT):
            return operands[0] // 8
        if opcode == op.TYPE_BOOL:
            return 4
        if opcode in (op.TYPE_VECTOR, op.TYPE_MATRIX):
            return operands[1] * self.nbytes(operands[0])
        if opcode == op.TYPE_ARRAY:
            return int(self.values[operands[1]]) * self.nbytes(operands[0])
        if opcode == op.TYPE_STRUCT:
            return sum(self.nbytes(member) for member in operands)
        raise ShaderError(f"a value of SPIR-V type {opcode} has no size")

    def shape(self, kind: int) -> tuple[int, int]:
        """Rows and columns of a cooperative matrix."""
        _, (_, _, rows, columns, _) = self.kinds[kind]
        return int(self.values[rows]), int(self.values[columns])

    def zero(self, kind: int) -> Any:
        """The value of a type whose bytes are 0."""
        opcode, operands = self.kinds[kind]
        if opcode == op.TYPE_FLOAT:
            return 0.0
        if opcode == op.TYPE_BOOL:
            return False
        if opcode in (op.TYPE_VECTOR, op.TYPE_MATRIX):
            return (self.zero(operands[0]),) * operands[1]
        if opcode == op.TYPE_ARRAY:
            return (self.zero(operands[0]),) * int(self.values[operands[1]])
        if opcode == op.TYPE_STRUCT:
            return tuple(self.zero(member) for member in operands)
        return 0

    def number(self, kind: int, words: Sequence[int]) -> int | float:
        """A constant's value from its words."""
        opcode, operands = self.kinds[kind]
        value = words[0] | (words[1] << 32 if len(words) > 1 else 0)
        if opcode == op.TYPE_FLOAT:
            data = value.to_bytes(8, "little")[: operands[0] // 8]
            return float(struct.unpack(f"<{_FLOATS[operands[0]]}", data)[0])
        width, signed = operands
        value &= (1 << width) - 1
        return value - (1 << width) if signed and value >> width - 1 else value

    def read(self, kind: int, data: bytes, at: int) -> Any:
        """The value of a type that lies in ``data`` from byte ``at`` on."""
        opcode, operands = self.kinds[kind]
        if opcode in (op.TYPE_INT, op.TYPE_FLOAT):
            size = operands[0] // 8
            if at + size > len(data):
                return self.zero(kind)
            return struct.unpack_from(f"<{self.format(kind)}", data, at)[0]
        if opcode == op.TYPE_VECTOR:
            size = self.nbytes(operands[0])
            return tuple(self.read(operands[0], data, at + k * size) for k in range(operands[1]))
        if opcode == op.TYPE_ARRAY:
            count, stride = int(self.values[operands[1]]), self.strides[kind]
            return tuple(self.read(operands[0], data, at + k * stride) for k in range(count))
        if opcode == op.TYPE_STRUCT:
            places = [at + self.offsets[kind, k] for k in range(len(operands))]
            return tuple(self.read(m, data, p) for m, p in zip(operands, places, strict=True))
        raise ShaderError(f"a push constant of SPIR-V type {opcode}")

    def format(self, kind: int) -> str:
        """The letter of ``struct`` for a number, or for a vector's components."""
        opcode, operands = self.kinds[self.scalar(kind)]
        if opcode == op.TYPE_FLOAT:
            return _FLOATS[operands[0]]
        if opcode != op.TYPE_INT:
            raise ShaderError(f"bits of SPIR-V type {opcode}")
        letter = _INTEGERS[operands[0]]
        return letter if operands[1] else letter.upper()

    def wrapped(self, kind: int, text: str) -> str:
        """Python text of an integer kept within the width of a type or of its components."""
        opcode, operands = self.kinds[self.scalar(kind)]
        if opcode != op.TYPE_INT:
            return text
        width, signed = operands
        mask, half = (1 << width) - 1, 1 << width - 1
        return f"(({text} + {half} & {mask}) - {half})" if signed else f"({text} & {mask})"

    def unsigned(self, kind: int, text: str) -> str:
        """Python text of an integer read without a sign."""
        opcode, operands = self.kinds[self.scalar(kind)]
        if opcode != op.TYPE_INT or not operands[1]:
            return text
        return f"({text} & {(1 << operands[0]) - 1})"
