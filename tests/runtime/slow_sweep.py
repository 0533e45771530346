"""Sweep of SPIR-V modules, once more: slow, by instructions in lists, to compare the other with."""

from __future__ import annotations

from collections.abc import Iterator

from vknn.runtime.spirv import words

_ENTRY, _EXECUTION_MODE, _EXECUTION_MODE_ID, _CAPABILITY = 15, 16, 331, 17
_EXTENSION, _IMPORT, _MEMORY_MODEL = 10, 11, 14
_DECORATE_ID, _CALL, _LOOP_MERGE, _UNREACHABLE = 332, 57, 246, 255
_ALWAYS = (_CAPABILITY, _EXTENSION, _MEMORY_MODEL, _EXECUTION_MODE, _EXECUTION_MODE_ID)
_DEBUG = (2, 3, 4, 5, 6, 7, 8, 317, 330)
#: Opcode -> numbers of the operands that are literals, up to the last where it is None.
_LITERALS: dict[int, tuple[int, int | None]] = {
    12: (3, 4),  # OpExtInst
    words.VARIABLE: (2, 3),
    words.FUNCTION: (2, 3),
    79: (4, None),  # OpVectorShuffle
    81: (3, None),  # OpCompositeExtract
    82: (4, None),  # OpCompositeInsert
    _LOOP_MERGE: (2, None),
    words.SELECTION_MERGE: (1, None),
}
#: The same of declarations.
_DECLARED: dict[int, tuple[int, int | None]] = {
    words.TYPE_INT: (1, None),
    words.TYPE_FLOAT: (1, None),
    23: (2, None),  # OpTypeVector
    24: (2, None),  # OpTypeMatrix
    25: (2, None),  # OpTypeImage
    words.TYPE_POINTER: (1, 2),
    words.CONSTANT: (2, None),
    words.SPEC_CONSTANT: (2, None),
    words.SPEC_CONSTANT_OP: (2, 3),
    words.VARIABLE: (2, 3),
}

Part = tuple[int, list[int]]
Block = list[Part]


def slowly_swept(spirv: bytes) -> bytes:
    """The sweep of a module that is whole, with one entry point, and nothing out of the common."""
    code = words.unpacked(spirv)
    parts = [(opcode, list(operands)) for opcode, operands in words.instructions(code)]
    first = next(n for n, (opcode, _) in enumerate(parts) if opcode == words.FUNCTION)
    functions: dict[int, list[Part]] = {}
    for opcode, operands in parts[first:]:
        if opcode == words.FUNCTION:
            current = functions.setdefault(operands[1], [])
        current.append((opcode, operands))
    [entry] = [operands[1] for opcode, operands in parts[:first] if opcode == _ENTRY]
    bodies: dict[int, list[Part]] = {}
    waiting = [entry]
    while waiting:
        number = waiting.pop()
        if number not in bodies:
            bodies[number] = _live(functions[number])
            waiting += [o[2] for opcode, o in bodies[number] if opcode == _CALL]
    left = [part for number in functions if number in bodies for part in bodies[number]]
    used = {word for part in left for word in _ids(part, _LITERALS)}
    declared = _declared([part for part in parts[:first] if part[0] not in _DEBUG], used)
    header = list(code[: words.HEADER_WORDS])
    return words.packed([*header, *words.flat([*declared, *left])])


def _ids(part: Part, literals: dict[int, tuple[int, int | None]]) -> list[int]:
    opcode, operands = part
    if opcode not in literals:
        return operands
    begin, end = literals[opcode]
    return operands[:begin] + (operands[end:] if end is not None else [])


def _result(part: Part) -> int | None:
    """The id that a declaration makes."""
    opcode, operands = part
    if opcode in (_ENTRY, _DECORATE_ID, words.DECORATE, words.MEMBER_DECORATE, *_ALWAYS):
        return None
    is_type = 19 <= opcode < 40 or opcode in (words.TYPE_COOPERATIVE_MATRIX, _IMPORT)
    return operands[0 if is_type else 1]


def _declared(parts: list[Part], used: set[int]) -> Iterator[Part]:
    """What is named, by as many rounds as it takes."""
    variables = {o[1] for opcode, o in parts if opcode == words.VARIABLE}
    for opcode, operands in parts:
        if opcode == words.DECORATE and operands[1] == 11 and operands[0] not in variables:
            used.add(operands[0])
        elif opcode in (_EXECUTION_MODE_ID, _DECORATE_ID):
            used.update(operands[2:])
    before = -1
    while before != len(used):
        before = len(used)
        for part in parts:
            if _result(part) in used:
                used.update(_ids(part, _DECLARED))
    for opcode, operands in parts:
        if opcode == _ENTRY:
            text = words.packed(operands[2:])
            behind = 3 + text.index(0) // 4
            yield opcode, operands[:behind] + [o for o in operands[behind:] if o in used]
        else:
            named = _result((opcode, operands)) or operands[0]
            if opcode in _ALWAYS or named in used:
                yield opcode, operands


def _live(function: list[Part]) -> list[Part]:
    """The instructions of a function that stay."""
    head: list[Part] = []
    blocks: dict[int, Block] = {}
    for opcode, operands in function[:-1]:
        if opcode == words.LABEL:
            block = blocks.setdefault(operands[0], [])
        (block if blocks else head).append((opcode, operands))
    edges: dict[int, list[int]] = {}
    waiting = [next(iter(blocks))]
    while waiting:
        label = waiting.pop()
        if label not in edges:
            edges[label] = _targets(blocks[label][-1])
            waiting += edges[label]
    merges, backs = set(), {}
    for label in edges:
        opcode, operands = blocks[label][-2]
        if opcode in (words.SELECTION_MERGE, _LOOP_MERGE):
            merges.add(operands[0])
        if opcode == _LOOP_MERGE and operands[1] not in edges:
            backs[operands[1]] = label
    left = list(head)
    for label, block in blocks.items():
        if label in edges:
            came = {a for a, targets in edges.items() if label in targets}
            came |= {a for a, target in backs.items() if label == target}
            left += [_cut(p, came) for p in block if p[0] not in (8, 317, words.NOP)]
        elif label in backs:
            left += [block[0], (words.BRANCH, [backs[label]])]
        elif label in merges:
            left += [block[0], (_UNREACHABLE, [])]
    return [*left, function[-1]]


def _targets(last: Part) -> list[int]:
    opcode, operands = last
    if opcode == words.BRANCH:
        return operands
    if opcode == words.BRANCH_CONDITIONAL:
        return operands[1:3]
    return [operands[1], *operands[3::2]] if opcode == words.SWITCH else []


def _cut(part: Part, came: set[int]) -> Part:
    """A phi with the parents that are left; others as they are."""
    opcode, operands = part
    if opcode != words.PHI:
        return part
    pairs = zip(operands[2::2], operands[3::2], strict=True)
    kept = [word for value, parent in pairs if parent in came for word in (value, parent)]
    return opcode, operands[:2] + kept
