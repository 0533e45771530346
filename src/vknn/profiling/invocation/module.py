"""A SPIR-V module read for one pipeline: constants specialized, functions as blocks."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, nan
from typing import Any

from vknn.errors import ShaderError
from vknn.profiling.invocation import arithmetic, expressions
from vknn.profiling.invocation import opcodes as op
from vknn.profiling.invocation.types import Types
from vknn.runtime.spirv import words as spv

#: What expressions of generated code and of constants call.
NAMESPACE: dict[str, Any] = {
    **{name: getattr(arithmetic, name) for name in ("at", "put", "quotient", "divided", "whole")},
    "bits": arithmetic.bits,
    "extended": arithmetic.EXTENDED,
    "multiply": operator.mul,
    "inf": inf,
    "nan": nan,
}


@dataclass(frozen=True)
class Instruction:
    """An instruction of a function. ``type`` and ``result`` are 0 where it has none."""

    opcode: int
    type: int
    result: int
    operands: tuple[int, ...]


@dataclass
class Block:
    """A basic block.

    ``loop``: of a loop's header the block behind the loop and whether the shader asks to unroll it.
    """

    label: int
    code: list[Instruction] = field(default_factory=list)
    loop: tuple[int, bool] | None = None

    @property
    def end(self) -> Instruction:
        return self.code[-1]


@dataclass
class KernelFunction:
    """A function: its parameters, its blocks by label, the first one's label first."""

    id: int
    parameters: list[int] = field(default_factory=list)
    blocks: dict[int, Block] = field(default_factory=dict)


@dataclass
class KernelModule:
    """A module with the values of a pipeline's specialization constants put in.

    Attributes:
        types: Its types, and the type and value of each constant.
        functions: Its functions by id.
        entry: Id of the entry point.
        variables: Variables outside of functions: id -> id of the initial value or None.
        decorations: Id and decoration -> its number.
        local: Lanes of a workgroup along x, y and z.
    """

    types: Types = field(default_factory=Types)
    functions: dict[int, KernelFunction] = field(default_factory=dict)
    entry: int = 0
    variables: dict[int, int | None] = field(default_factory=dict)
    decorations: dict[tuple[int, int], int] = field(default_factory=dict)
    local: tuple[int, ...] = (1, 1, 1)

    @classmethod
    def parse(cls, spirv: bytes, constants: Mapping[int, int | float]) -> KernelModule:
        """Reading of a module for a pipeline with these specialization constants by id.

        Raises ShaderError for what is no SPIR-V, and for an opcode that is not known.
        """
        code = spv.unpacked(spirv)
        if len(code) < spv.HEADER_WORDS or code[0] != spv.MAGIC:
            raise ShaderError("a module is not SPIR-V")
        module = cls()
        _Reader(module, dict(constants)).read(spv.instructions(code))
        if module.entry not in module.functions:
            raise ShaderError("a SPIR-V module without an entry point")
        return module

    def text(self, value: int) -> str:
        """Python text of a value: a constant written out, a name for what is computed."""
        known = self.types.values
        return f"({known[value]!r})" if value in known else f"v{value}"


class _Reader:
    """The instructions of a module in order."""

    def __init__(self, module: KernelModule, constants: Mapping[int, int | float]) -> None:
        self.module, self.types, self.given = module, module.types, constants
        self.function: KernelFunction | None = None
        self.block: Block | None = None
        self.local_ids: tuple[int, ...] = ()

    def read(self, instructions: Iterator[spv.Instruction]) -> None:
        for opcode, operands in instructions:
            given = tuple(operands)
            if opcode in op.IGNORED:
                continue
            if self.function is None:
                self._declare(opcode, given)
            else:
                self._body(opcode, given)
        self._sizes()

    def _declare(self, opcode: int, given: tuple[int, ...]) -> None:
        """An instruction outside of functions."""
        if opcode in op.TYPES:
            self.types.kinds[given[0]] = opcode, given[1:]
        elif opcode in op.CONSTANTS:
            self.types.of[given[1]] = given[0]
            self.types.values[given[1]] = self._constant(opcode, given)
        elif opcode == op.VARIABLE:
            self.types.of[given[1]] = given[0]
            self.module.variables[given[1]] = given[3] if len(given) > 3 else None
        elif opcode == op.FUNCTION:
            self.types.of[given[1]] = given[0]
            self.function = self.module.functions[given[1]] = KernelFunction(given[1])
        else:
            self._describe(opcode, given)

    def _describe(self, opcode: int, given: tuple[int, ...]) -> None:
        if opcode == op.ENTRY_POINT:
            self.module.entry = self.module.entry or given[1]
        elif opcode == op.DECORATE:
            number = given[2] if len(given) > 2 else 1
            self.module.decorations[given[0], given[1]] = number
            if given[1] == op.ARRAY_STRIDE:
                self.types.strides[given[0]] = number
        elif opcode == op.MEMBER_DECORATE:
            if given[2] == op.OFFSET:
                self.types.offsets[given[0], given[1]] = given[3]
        elif opcode == op.EXECUTION_MODE:
            if given[1] == 17:  # LocalSize
                self.module.local = given[2:5]
        elif opcode == op.EXECUTION_MODE_ID:
            if given[1] == 38:  # LocalSizeId
                self.local_ids = given[2:5]
        elif opcode != op.EXTENDED_IMPORT:
            raise ShaderError(f"SPIR-V opcode {opcode} is not known")

    def _constant(self, opcode: int, given: tuple[int, ...]) -> Any:
        kind, result = given[:2]
        key = self.module.decorations.get((result, op.SPEC_ID))
        own = None if key is None else self.given.get(key)
        if opcode in (op.TRUE, op.FALSE, op.SPEC_TRUE, op.SPEC_FALSE):
            return bool(own) if own is not None else opcode in (op.TRUE, op.SPEC_TRUE)
        if opcode in (op.CONSTANT, op.SPEC_CONSTANT):
            return self.types.number(kind, given[2:]) if own is None else self._given(kind, own)
        if opcode in (op.COMPOSITE, op.SPEC_COMPOSITE):
            return tuple(self.types.values[part] for part in given[2:])
        if opcode == op.SPEC_OP:
            return self._computed(kind, given[2], given[3:])
        return self.types.zero(kind)

    def _given(self, kind: int, value: int | float) -> int | float:
        """A specialization constant as the host gave it, in the type that the module says."""
        if not self.types.is_integer(kind):
            return float(value)
        return self.types.number(kind, (int(value) & 0xFFFFFFFF,))

    def _computed(self, kind: int, opcode: int, operands: Sequence[int]) -> Any:
        text = expressions.expression(self.types, opcode, kind, operands, self.module.text)
        return eval(text, dict(NAMESPACE))

    def _body(self, opcode: int, given: tuple[int, ...]) -> None:
        """An instruction of a function."""
        function = self.function
        assert function is not None
        if opcode == op.FUNCTION_END:
            self.function = None
        elif opcode == op.PARAMETER:
            self.types.of[given[1]] = given[0]
            function.parameters.append(given[1])
        elif opcode == op.LABEL:
            self.block = function.blocks[given[0]] = Block(given[0])
        else:
            assert self.block is not None
            self._step(self.block, opcode, given)

    def _step(self, block: Block, opcode: int, given: tuple[int, ...]) -> None:
        if opcode == op.LOOP_MERGE:
            block.loop = given[0], bool(given[2] & 1)
        elif opcode in op.WITHOUT_RESULT:
            if opcode != op.SELECTION_MERGE:
                block.code.append(Instruction(opcode, 0, 0, given))
        elif opcode in op.WITH_RESULT or opcode in expressions.COMPUTED:
            self.types.of[given[1]] = given[0]
            block.code.append(Instruction(opcode, given[0], given[1], given[2:]))
        else:
            raise ShaderError(f"SPIR-V opcode {opcode} is not known")

    def _sizes(self) -> None:
        """The size of a workgroup, by the newest of the ways to say it that the module uses."""
        if self.local_ids:
            self.module.local = tuple(self.types.values[i] for i in self.local_ids)
        for (target, decoration), number in self.module.decorations.items():
            if decoration == op.BUILT_IN and number == op.GROUP_SIZE:
                self.module.local = self.types.values.get(target, self.module.local)
