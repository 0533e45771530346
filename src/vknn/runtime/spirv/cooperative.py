"""Cooperative matrices (SPV_KHR_cooperative_matrix): modules that use them, completed.

Compilers of before 2023 know no such type; GL_EXT_spirv_intrinsics gives them the instructions,
but the type's operands (a type, constants) are beyond it. So shaders/matmul/cooperative.glsl
declares each type with one number that says what it is, and here the instruction is written out:

    T U WW RR CC    T: 1 floats, 2 signed integers; U: use (0 and 1 factors, 2 sum);
                    WW: bits of a component, 8, 16 or 32;
                    RR, CC: ids of the specialization constants that rows and columns are

What it refers to has to be declared before it, so types of numbers and specialization constants
move to where declarations begin. Modules without such a type stay as they are. As its neighbours,
this module also runs while the package is built: it imports nothing that may not be there.
"""

from __future__ import annotations

from vknn.errors import ShaderError
from vknn.runtime.spirv import words
from vknn.runtime.spirv.words import Instruction

#: Part of what compiled modules are known by: counts changes made here.
VERSION = "2"
#: What shaders that need it are compiled with.
DEFINE = "COOPERATIVE"

_EXTENSION = b"SPV_KHR_cooperative_matrix"
_COOPERATIVE = words.TYPE_COOPERATIVE_MATRIX
_FIRST_TAG, _INTEGER_TAG = 10_000_000, 20_000_000
#: Opcodes of types, constants and variables; those of names, decorations and modes stand in front.
_DECLARATIONS = frozenset((*range(19, 53), words.VARIABLE, _COOPERATIVE))
_SUBGROUP = 3  # Scope


def has_matrices(spirv: bytes) -> bool:
    """True for a module that works with cooperative matrices."""
    return _EXTENSION in spirv


def completed(spirv: bytes) -> bytes:
    """The module with its cooperative types written out.

    Raises :class:`ShaderError` where one names a specialization constant or component that the
    module lacks.
    """
    if not has_matrices(spirv) or len(spirv) % 4 or len(spirv) < 4 * words.HEADER_WORDS:
        return spirv
    code = words.unpacked(spirv)
    instructions = list(words.instructions(code))
    header = list(code[: words.HEADER_WORDS])
    whole = len(header) + sum(1 + len(operands) for _, operands in instructions) == len(code)
    if not whole or not any(opcode == _COOPERATIVE for opcode, _ in instructions):
        return spirv
    body = _Completion(header[words.BOUND], instructions)
    rewritten = body.rewrite()
    header[words.BOUND] = body.bound
    return words.packed([*header, *words.flat(rewritten)])


class _Completion:
    """One module; ``bound`` is above every id."""

    def __init__(self, bound: int, instructions: list[Instruction]) -> None:
        self.bound = bound
        self._all = instructions
        self._floats: dict[int, int] = {}
        self._values: dict[int, int] = {}
        self._spec_ids: dict[int, int] = {}
        self._integers: dict[int, int] = {}
        self._uint = 0
        for instruction in instructions:
            self._note(instruction)
        self._made: dict[int, int] = {}
        self._byte = 0  # the id of an int8 type of our own

    def rewrite(self) -> list[Instruction]:
        """All instructions, those that the types need moved in front of them."""
        first = next(i for i, (opcode, _) in enumerate(self._all) if opcode in _DECLARATIONS)
        front, declared = self._all[:first], self._all[first:]
        numbers = [i for i in declared if i[0] in (words.TYPE_INT, words.TYPE_FLOAT)]
        constants = [i for i in declared if i[0] == words.SPEC_CONSTANT]
        moved = {id(i) for i in (*numbers, *constants)}
        written = [self._complete(i) for i in declared if id(i) not in moved]
        if self._byte:
            numbers.append((words.TYPE_INT, (self._byte, 8, 1)))
        own = [(words.CONSTANT, (self._uint, at, value)) for value, at in self._made.items()]
        return [*front, *numbers, *constants, *own, *written]

    def _note(self, instruction: Instruction) -> None:
        opcode, operands = instruction
        if opcode == words.TYPE_FLOAT:
            self._floats[operands[1]] = operands[0]
        elif opcode == words.TYPE_INT and tuple(operands[1:]) == (32, 0):
            self._uint = operands[0]
        elif opcode == words.TYPE_INT and operands[2] == 1:
            self._integers[operands[1]] = operands[0]
        elif opcode == words.CONSTANT and len(operands) == 3:
            self._values[operands[1]] = operands[2]
        elif opcode == words.DECORATE and operands[1] == words.SPEC_ID:
            self._spec_ids[operands[2]] = operands[0]

    def _complete(self, instruction: Instruction) -> Instruction:
        opcode, operands = instruction
        if opcode != _COOPERATIVE or len(operands) != 2:
            return instruction
        result, given = operands
        # Some compilers write the number itself, others the id of a constant.
        tag = given if given >= _FIRST_TAG else self._values.get(given, 0)
        use, width = tag // 1_000_000 % 10, tag // 10_000 % 100
        rows, columns = tag // 100 % 100, tag % 100
        try:
            component = self._floats[width] if tag < _INTEGER_TAG else self._integer(width)
            row_id, column_id = self._spec_ids[rows], self._spec_ids[columns]
        except KeyError as error:
            raise ShaderError(f"cooperative matrix {tag}: {error} is not in the module") from None
        if not self._uint:
            raise ShaderError(f"cooperative matrix {tag}: the module has no unsigned integers")
        scope, role = self._constant(_SUBGROUP), self._constant(use)
        return _COOPERATIVE, (result, component, scope, row_id, column_id, role)

    def _integer(self, width: int) -> int:
        """The id of a type of signed integers; that of int8, which no variable has, is made."""
        if width == 8 and width not in self._integers:
            self._byte = self._integers[8] = self.bound
            self.bound += 1
        return self._integers[width]

    def _constant(self, value: int) -> int:
        """The id of an unsigned constant of our own."""
        if value not in self._made:
            self._made[value] = self.bound
            self.bound += 1
        return self._made[value]
