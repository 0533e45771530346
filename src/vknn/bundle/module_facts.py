"""Facts of a SPIR-V module with the constants of a pipeline: what a device must have to run it.

Read from its declarations: capabilities, version, bytes of shared memory (with the layout that
"Standard Buffer Layout" of the Vulkan specification gives storage buffers) and of push constants,
and the products of cooperative matrices.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from vknn.errors import ShaderError
from vknn.runtime.spirv import words
from vknn.runtime.spirv.specialize import OPERATORS

_CAPABILITY, _TYPE_VECTOR, _TYPE_MATRIX, _MUL_ADD = 17, 23, 24, 4459
_WORKGROUP, _PUSH_CONSTANT = 4, 9  # storage classes
_ARRAY_STRIDE, _BUILT_IN = 6, 11  # decorations
_WORKGROUP_SIZE = 25  # what is built in
_EXECUTION_MODE, _LOCAL_SIZE = 16, 17
_COMPOSITES = (44, 51)  # constants
_CONSTANTS = (words.CONSTANT, words.SPEC_CONSTANT)
_TRUE = (words.CONSTANT_TRUE, words.SPEC_CONSTANT_TRUE)
_FALSE = (words.CONSTANT_FALSE, words.SPEC_CONSTANT_FALSE)


def _quotient(a: int, b: int) -> int:
    """Division towards zero; by zero it is undefined, here 0."""
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


#: Opcodes of OpSpecConstantOp on 32-bit integers and bools.
_OPERATORS: dict[int, Callable[..., int]] = {
    **OPERATORS,
    124: lambda a: a,  # OpBitcast
    126: lambda a: -a,
    134: lambda a, b: _quotient(a & 0xFFFFFFFF, b & 0xFFFFFFFF),
    135: _quotient,
    137: lambda a, b: (a & 0xFFFFFFFF) % (b & 0xFFFFFFFF) if b else 0,
    138: lambda a, b: a - b * _quotient(a, b),
    139: lambda a, b: a % b if b else 0,
    172: lambda a, b: int(a & 0xFFFFFFFF > b & 0xFFFFFFFF),
    174: lambda a, b: int(a & 0xFFFFFFFF >= b & 0xFFFFFFFF),
    176: lambda a, b: int(a & 0xFFFFFFFF < b & 0xFFFFFFFF),
    178: lambda a, b: int(a & 0xFFFFFFFF <= b & 0xFFFFFFFF),
    194: lambda a, b: (a & 0xFFFFFFFF) >> (b & 31),
    195: lambda a, b: a >> (b & 31),
    196: lambda a, b: a << (b & 31),
    200: lambda a: ~a,
}


@dataclass(frozen=True, order=True)
class MatrixProduct:
    """A product of cooperative matrices; ``factors`` and ``sums``: VkComponentTypeKHR."""

    m: int
    n: int
    k: int
    factors: int
    sums: int


@dataclass(frozen=True)
class ModuleFacts:
    """Facts of a module.

    ``capabilities``: their numbers; ``version``: major, minor; ``shared_memory``: bytes, of a
    workgroup; ``matrices``: products of cooperative ones; ``push_bytes``: of its push constants,
    None where they are others than numbers, vectors and arrays; ``group_size``: of its workgroups.
    """

    capabilities: frozenset[int]
    version: tuple[int, int]
    shared_memory: int
    matrices: tuple[MatrixProduct, ...] = ()
    push_bytes: int | None = 0
    group_size: tuple[int, int, int] = (1, 1, 1)


def module_facts(spirv: bytes, constants: Mapping[int, int]) -> ModuleFacts:
    """The facts of a module; ``constants``: 32-bit words by specialization id.

    Raises ShaderError for a module whose shared memory or matrices are of an unknown kind.
    """
    declared = _parsed(spirv)
    values = declared.evaluated(constants)
    used: set[MatrixProduct] = set()
    for a, total in declared.products:
        used.add(declared.product(a, total, values))
    return ModuleFacts(
        frozenset(declared.capabilities),
        declared.version,
        declared.shared_memory(values),
        tuple(sorted(used)),
        declared.push_bytes(),
        declared.group_size(values),
    )


@dataclass
class _Declarations:
    """What stands before a module's functions, as far as it counts here."""

    version: tuple[int, int] = (1, 0)
    capabilities: list[int] = field(default_factory=list)
    types: dict[int, tuple[int, Sequence[int]]] = field(default_factory=dict)
    shared: list[int] = field(default_factory=list)  # types of pointers
    pushed: list[int] = field(default_factory=list)  # likewise
    #: Types of the first factor and of the sums of products of matrices.
    products: set[tuple[int, int]] = field(default_factory=set)
    _spec_ids: dict[int, int] = field(default_factory=dict)
    _values: dict[int, int] = field(default_factory=dict)
    _lengths: dict[int, int] = field(default_factory=dict)  # constants that nothing specializes
    _sizes: list[int] = field(default_factory=list)  # of workgroups, as its execution mode says
    _size_id: int | None = None  # of the constant that says them in its place
    _composites: dict[int, Sequence[int]] = field(default_factory=dict)
    _strides: dict[int, int] = field(default_factory=dict)
    _offsets: dict[tuple[int, int], int] = field(default_factory=dict)  # by struct and member
    _operations: list[tuple[int, int, Sequence[int]]] = field(default_factory=list)

    def note(self, opcode: int, operands: Sequence[int]) -> None:
        if opcode == _CAPABILITY:
            self.capabilities.append(operands[0])
        elif opcode == words.DECORATE and operands[1] == words.SPEC_ID:
            self._spec_ids[operands[0]] = operands[2]
        elif opcode == words.DECORATE and operands[1] == _ARRAY_STRIDE:
            self._strides[operands[0]] = operands[2]
        elif opcode == words.DECORATE and list(operands[1:3]) == [_BUILT_IN, _WORKGROUP_SIZE]:
            self._size_id = operands[0]
        elif opcode == _EXECUTION_MODE and operands[1] == _LOCAL_SIZE:
            self._sizes = list(operands[2:5])
        elif opcode in _COMPOSITES:
            self._composites[operands[1]] = operands[2:]
        elif opcode == words.MEMBER_DECORATE and operands[2] == words.OFFSET:
            self._offsets[operands[0], operands[1]] = operands[3]
        elif words.TYPE_BOOL <= opcode <= words.TYPE_POINTER or (
            opcode == words.TYPE_COOPERATIVE_MATRIX
        ):
            self.types[operands[0]] = opcode, operands[1:]
        elif opcode in _CONSTANTS:
            self._values[operands[1]] = _signed(operands[2])
            if opcode == words.CONSTANT and len(operands) == 3:
                self._lengths[operands[1]] = operands[2]
        elif opcode in _TRUE or opcode in _FALSE:
            self._values[operands[1]] = int(opcode in _TRUE)
        elif opcode == words.SPEC_CONSTANT_OP and operands[2] in _OPERATORS:
            self._operations.append((operands[1], operands[2], operands[3:]))
        elif opcode == words.VARIABLE and operands[2] == _WORKGROUP:
            self.shared.append(operands[0])
        elif opcode == words.VARIABLE and operands[2] == _PUSH_CONSTANT:
            self.pushed.append(operands[0])

    def evaluated(self, constants: Mapping[int, int]) -> dict[int, int]:
        """The integers and bools among the constants, by id."""
        values = dict(self._values)
        for result, spec_id in self._spec_ids.items():
            if spec_id in constants:
                values[result] = _signed(constants[spec_id])
        for result, code, operands in self._operations:
            if all(o in values for o in operands):
                value = _OPERATORS[code](*(values[o] for o in operands))
                values[result] = _signed(value & 0xFFFFFFFF)
        return values

    def shared_memory(self, values: Mapping[int, int]) -> int:
        """Bytes of all variables of workgroups, one behind the other."""
        at = 0
        for pointer in self.shared:
            size, alignment = self._layout(self.types[pointer][1][1], values)
            at = _aligned(at, alignment) + size
        return at

    def group_size(self, values: Mapping[int, int]) -> tuple[int, int, int]:
        """Size of its workgroups; 0 where it is not known."""
        sizes = self._sizes
        if self._size_id is not None:
            sizes = [values.get(part, 0) for part in self._composites.get(self._size_id, ())]
        x, y, z = sizes if len(sizes) == 3 else (0, 0, 0)
        return x, y, z

    def push_bytes(self) -> int | None:
        """End of the push constants; None where they are others than ``ModuleFacts`` says."""
        end = 0
        for pointer in self.pushed:
            block = self.types[pointer][1][1]
            opcode, members = self.types.get(block, (0, ()))
            if opcode != words.TYPE_STRUCT:
                return None
            for number, member in enumerate(members):
                size, offset = self._pushed_bytes(member), self._offsets.get((block, number))
                if size is None or offset is None:
                    return None
                end = max(end, offset + size)
        return end

    def _pushed_bytes(self, type_: int) -> int | None:
        """Size of a member of the push constants."""
        opcode, operands = self.types.get(type_, (0, ()))
        if opcode == words.TYPE_ARRAY:
            stride, length = self._strides.get(type_), self._lengths.get(operands[1])
            return None if stride is None or length is None else stride * length
        count = 1
        if opcode == _TYPE_VECTOR:
            count = operands[1]
            opcode, operands = self.types.get(operands[0], (0, ()))
        plain = opcode in (words.TYPE_INT, words.TYPE_FLOAT) and operands[0] <= 64
        return count * (operands[0] // 8) if plain else None

    def product(self, a: int, total: int, values: Mapping[int, int]) -> MatrixProduct:
        """The product of matrices of these types."""
        (factor, _, _, columns, _), (kind, _, m, n, _) = self.types[a][1], self.types[total][1]
        try:
            sizes = values[m], values[n], values[columns]
        except KeyError as error:
            raise ShaderError(f"a matrix's size, {error}, is no constant that is known") from None
        return MatrixProduct(*sizes, self._component(factor), self._component(kind))

    def _component(self, type_: int) -> int:
        """VkComponentTypeKHR of a number's type."""
        opcode, operands = self.types[type_]
        if opcode == words.TYPE_FLOAT:
            return {16: 0, 32: 1, 64: 2}[operands[0]]
        return {8: 3, 16: 4, 32: 5, 64: 6}[operands[0]] + (0 if operands[1] else 4)

    def _layout(self, type_: int, values: Mapping[int, int]) -> tuple[int, int]:
        """Size and alignment of a type."""
        opcode, operands = self.types.get(type_, (0, ()))
        if opcode == words.TYPE_BOOL:
            return 4, 4
        if opcode in (words.TYPE_INT, words.TYPE_FLOAT):
            return operands[0] // 8, operands[0] // 8
        if opcode in (_TYPE_VECTOR, _TYPE_MATRIX):
            size, alignment = self._layout(operands[0], values)
            if opcode == _TYPE_MATRIX:
                return _aligned(size, alignment) * operands[1], alignment
            return size * operands[1], size * (2 if operands[1] == 2 else 4)
        if opcode == words.TYPE_ARRAY and operands[1] in values:
            size, alignment = self._layout(operands[0], values)
            return _aligned(size, alignment) * max(0, values[operands[1]]), alignment
        if opcode == words.TYPE_STRUCT:
            at, widest = 0, 1
            for member in operands:
                size, alignment = self._layout(member, values)
                at, widest = _aligned(at, alignment) + size, max(widest, alignment)
            return _aligned(at, widest), widest
        raise ShaderError(f"shared memory of a type (opcode {opcode}) whose size is not known")


@functools.lru_cache(maxsize=64)
def _parsed(spirv: bytes) -> _Declarations:
    code, found = words.unpacked(spirv), _Declarations()
    found.version = code[1] >> 16 & 0xFF, code[1] >> 8 & 0xFF
    matrices: dict[int, int] = {}
    for opcode, operands in words.instructions(code):
        if opcode == words.FUNCTION and not _has_matrices(found):
            break
        found.note(opcode, operands)
        if len(operands) > 1 and found.types.get(operands[0], (0,))[0] == (
            words.TYPE_COOPERATIVE_MATRIX
        ):
            matrices[operands[1]] = operands[0]
            if opcode == _MUL_ADD:
                found.products.add((matrices[operands[2]], operands[0]))
    return found


def _has_matrices(found: _Declarations) -> bool:
    return any(opcode == words.TYPE_COOPERATIVE_MATRIX for opcode, _ in found.types.values())


def _aligned(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def _signed(word: int) -> int:
    return word - (1 << 32) if word & 0x80000000 else word
