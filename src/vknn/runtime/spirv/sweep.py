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

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from vknn.runtime.spirv import words
from vknn.runtime.spirv.words import Instruction

# Opcodes that only this module needs.
_SOURCE_CONTINUED, _SOURCE, _SOURCE_EXTENSION, _STRING, _LINE = 2, 3, 4, 7, 8
_EXT_INST_IMPORT, _EXT_INST, _ENTRY_POINT = 11, 12, 15
_EXECUTION_MODE, _CAPABILITY = 16, 17
_TYPE_VOID, _TYPE_VECTOR, _TYPE_MATRIX, _TYPE_IMAGE = 19, 23, 24, 25
_PARAMETER, _FUNCTION_END, _CALL = 55, 56, 57
_LOAD, _STORE = 61, 62
_GROUP_DECORATE, _DECORATION_GROUP = 74, 73
_VECTOR_SHUFFLE, _COMPOSITE_EXTRACT, _COMPOSITE_INSERT = 79, 81, 82
_LOOP_MERGE, _UNREACHABLE = 246, 255
_NO_LINE, _MODULE_PROCESSED, _EXECUTION_MODE_ID, _DECORATE_ID = 317, 330, 331, 332

_DEBUG = frozenset(
    (
        _SOURCE_CONTINUED,
        _SOURCE,
        _SOURCE_EXTENSION,
        words.NAME,
        words.MEMBER_NAME,
        _LINE,
        _NO_LINE,
        _MODULE_PROCESSED,
    )
)
_ANNOTATIONS = frozenset((words.DECORATE, words.MEMBER_DECORATE, _DECORATE_ID))
#: Module-level instructions whose result is the first operand; of all others it is the second.
_TYPES = frozenset((*range(_TYPE_VOID, 40), words.TYPE_COOPERATIVE_MATRIX, 5341, 4472))
#: Instructions of functions without a result.
_NO_RESULT = frozenset(
    (0, _LINE, _NO_LINE, _STORE, 63, 64, 99, 218, 219, 220, 221, 222, 223, 224, 225, 228, 246, 247,
     249, 250, 251, 252, 253, 254, 255, _FUNCTION_END, 4458)
)  # fmt: skip
#: Opcode -> operands that are literals, as a slice; all other operands may be ids.
_LITERALS: dict[int, slice] = {
    words.TYPE_INT: slice(1, None),
    words.TYPE_FLOAT: slice(1, None),
    _TYPE_VECTOR: slice(2, None),
    _TYPE_MATRIX: slice(2, None),
    _TYPE_IMAGE: slice(2, None),
    words.TYPE_POINTER: slice(1, 2),
    words.CONSTANT: slice(2, None),
    words.SPEC_CONSTANT: slice(2, None),
    words.SPEC_CONSTANT_OP: slice(2, 3),
    words.VARIABLE: slice(2, 3),
    words.FUNCTION: slice(2, 3),
    _EXT_INST: slice(3, 4),
    _LOAD: slice(3, None),
    _STORE: slice(2, None),
    _VECTOR_SHUFFLE: slice(4, None),
    _COMPOSITE_EXTRACT: slice(3, None),
    _COMPOSITE_INSERT: slice(4, None),
    _LOOP_MERGE: slice(2, None),
    words.SELECTION_MERGE: slice(1, None),
}
#: Memory operands of a load or store that are followed by ids: volatile, aligned and nontemporal
#: ones are not.
_PLAIN_ACCESS = 0x7


@dataclass
class _Block:
    """A block of a function: its label, its instructions without the label."""

    label: int
    body: list[Instruction] = field(default_factory=list)

    def targets(self) -> Sequence[int]:
        """Labels of the blocks that come next."""
        if not self.body:
            return ()
        opcode, operands = self.body[-1]
        if opcode == words.BRANCH:
            return operands
        if opcode == words.BRANCH_CONDITIONAL:
            return operands[1:3]
        if opcode == words.SWITCH:
            return [operands[1], *operands[3::2]]
        return ()

    def merges(self) -> Sequence[int]:
        """Merge block, and continue target, of a header."""
        for opcode, operands in self.body[-2:]:
            if opcode == words.SELECTION_MERGE:
                return operands[:1]
            if opcode == _LOOP_MERGE:
                return operands[:2]
        return ()


@dataclass
class _Function:
    """A function: what stands before its first block, and its blocks in their order."""

    head: list[Instruction]
    blocks: dict[int, _Block] = field(default_factory=dict)

    @property
    def result(self) -> int:
        return self.head[0][1][1]

    def swept(self) -> list[Instruction]:
        """The function with the blocks alone that a path reaches, or a header that stays needs."""
        first = next(iter(self.blocks), None)
        if first is None:
            return [*self.head, (_FUNCTION_END, ())]
        reached = self._reached(first)
        stubs = self._stubs(reached)
        parents: dict[int, set[int]] = {}
        for label in reached:
            for target in self.blocks[label].targets():
                parents.setdefault(target, set()).add(label)
        for stub, back in stubs.items():
            if back is not None:
                parents.setdefault(back, set()).add(stub)
        found = list(self.head)
        for label, block in self.blocks.items():
            if label in reached:
                found.append((words.LABEL, (label,)))
                found += _with_phis(block.body, parents.get(label, set()))
            elif label in stubs:
                back = stubs[label]
                found.append((words.LABEL, (label,)))
                found.append((_UNREACHABLE, ()) if back is None else (words.BRANCH, (back,)))
        return [*found, (_FUNCTION_END, ())]

    def _reached(self, first: int) -> set[int]:
        reached, waiting = {first}, [first]
        while waiting:
            for target in self.blocks[waiting.pop()].targets():
                if target not in reached:
                    reached.add(target)
                    waiting.append(target)
        return reached

    def _stubs(self, reached: set[int]) -> dict[int, int | None]:
        """Blocks that no path reaches and headers name: continue targets -> loop, others None."""
        stubs: dict[int, int | None] = {}
        for label in self.blocks:
            if label not in reached:
                continue
            for place, target in enumerate(self.blocks[label].merges()):
                if target not in reached:
                    stubs[target] = label if place else None
        return stubs


def _with_phis(body: Sequence[Instruction], parents: set[int]) -> Iterator[Instruction]:
    """A block's instructions, of whose OpPhi only the pairs of these parents are left."""
    for opcode, operands in body:
        if opcode == words.NOP or opcode in (_LINE, _NO_LINE):
            continue
        if opcode == words.PHI:
            pairs = zip(operands[2::2], operands[3::2], strict=True)
            kept = [word for pair in pairs if pair[1] in parents for word in pair]
            yield opcode, (*operands[:2], *kept)
        else:
            yield opcode, operands


def swept(spirv: bytes) -> bytes:
    """``spirv`` without what nothing reaches; as it is where it is no whole SPIR-V module.

    A phi whose parent's edge was cut keeps the values of those that are left.
    """
    code = words.unpacked(spirv)
    if len(spirv) % 4 or len(code) <= words.HEADER_WORDS or code[0] != words.MAGIC:
        return spirv
    parts = list(words.instructions(code))
    if sum(1 + len(operands) for _, operands in parts) + words.HEADER_WORDS != len(code):
        return spirv
    start = next((n for n, (opcode, _) in enumerate(parts) if opcode == words.FUNCTION), len(parts))
    functions = _functions(parts[start:])
    if functions is None or any(
        opcode in (_GROUP_DECORATE, _DECORATION_GROUP) for opcode, _ in parts
    ):
        return spirv
    declarations = parts[:start]
    kept = _called(declarations, functions)
    bodies = [part for result in kept for part in kept[result]]
    found = [*_declared(declarations, bodies), *bodies]
    return words.packed([*code[: words.HEADER_WORDS], *words.flat(found)])


def _functions(parts: Sequence[Instruction]) -> list[_Function] | None:
    """The functions of a module; None where they are not made of whole blocks."""
    functions: list[_Function] = []
    block: _Block | None = None
    for opcode, operands in parts:
        if opcode == words.FUNCTION:
            functions.append(_Function([(opcode, operands)]))
            block = None
        elif not functions:
            return None
        elif opcode == words.LABEL:
            block = _Block(operands[0])
            functions[-1].blocks[block.label] = block
        elif opcode == _FUNCTION_END:
            block = None
        elif block is None:
            if opcode != _PARAMETER:
                return None
            functions[-1].head.append((opcode, operands))
        else:
            block.body.append((opcode, operands))
    labels = {label for f in functions for label in f.blocks}
    named = (t for f in functions for b in f.blocks.values() for t in (*b.targets(), *b.merges()))
    return functions if labels.issuperset(named) else None


def _called(
    declarations: Sequence[Instruction], functions: Sequence[_Function]
) -> dict[int, list[Instruction]]:
    """The functions that entry points reach, swept, in their order."""
    by_result = {f.result: f for f in functions}
    waiting = [operands[1] for opcode, operands in declarations if opcode == _ENTRY_POINT]
    found: dict[int, list[Instruction]] = {}
    while waiting:
        result = waiting.pop()
        if result in by_result and result not in found:
            found[result] = by_result[result].swept()
            waiting += [operands[2] for opcode, operands in found[result] if opcode == _CALL]
    return {f.result: found[f.result] for f in functions if f.result in found}


def _declared(
    declarations: Sequence[Instruction], bodies: Sequence[Instruction]
) -> list[Instruction]:
    """What stands before the functions, without what nothing names any more."""
    used = {word for part in bodies for word in _named(*part)}
    built_in = {o[0] for opcode, o in declarations if opcode == words.DECORATE and o[1] == 11}
    variables = {o[1] for opcode, o in declarations if opcode == words.VARIABLE}
    # The workgroup size is named by its decoration alone.
    used |= built_in - variables
    found: list[Instruction] = []
    for opcode, operands in reversed(declarations):
        if opcode in _DEBUG or opcode == _STRING:
            continue
        if opcode in _ANNOTATIONS:
            if operands[0] in used:
                found.append((opcode, operands))
                if opcode == _DECORATE_ID:
                    used.update(operands[2:])
        elif opcode == _ENTRY_POINT:
            found.append((opcode, _entry(operands, used)))
        elif opcode in (_EXECUTION_MODE, _EXECUTION_MODE_ID) or not _has_result(opcode):
            used.update(operands[2:] if opcode == _EXECUTION_MODE_ID else ())
            found.append((opcode, operands))
        elif operands[0 if opcode in _TYPES or opcode == _EXT_INST_IMPORT else 1] in used:
            used.update(_named(opcode, operands))
            found.append((opcode, operands))
    return found[::-1]


def _entry(operands: Sequence[int], used: set[int]) -> Sequence[int]:
    """An entry point's operands with those of its variables that are used."""
    # The name is words up to the first that holds a zero byte.
    behind = next(n for n in range(2, len(operands)) if _holds_end(operands[n])) + 1
    return (*operands[:behind], *(v for v in operands[behind:] if v in used))


def _holds_end(word: int) -> bool:
    return any(not word >> shift & 0xFF for shift in (0, 8, 16, 24))


def _has_result(opcode: int) -> bool:
    """Whether a module-level instruction defines an id."""
    return opcode in _TYPES or opcode == _EXT_INST_IMPORT or 41 <= opcode <= 52 or opcode in (1, 59)


def _named(opcode: int, operands: Sequence[int]) -> Iterable[int]:
    """Words of an instruction that may be ids: too many, if any, but all that are."""
    literal = _LITERALS.get(opcode)
    if opcode in (_LOAD, _STORE) and literal is not None:
        masks = operands[literal.start : literal.start + 1]
        if masks and masks[0] & ~_PLAIN_ACCESS:
            return operands
    if literal is None:
        return operands
    first, behind, _ = literal.indices(len(operands))
    return (*operands[:first], *operands[behind:])
