"""Expressions of Python for the instructions of SPIR-V that compute one value from others.

Numbers of opcodes: SPIR-V specification, 3.49 (conversion, arithmetic, bits, relations).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from vknn.errors import ShaderError
from vknn.profiling.invocation import opcodes as op
from vknn.profiling.invocation.arithmetic import EXTENDED, PACK_HALVES, UNPACK_HALVES
from vknn.profiling.invocation.types import Types

#: Opcode -> expression of integers whose result has to be wrapped to its width.
_WRAPPED: Final = {
    126: "-{0}",
    128: "{0} + {1}",
    130: "{0} - {1}",
    132: "{0} * {1}",
    134: "quotient({0}, {1})",
    135: "quotient({0}, {1})",
    137: "({0} - {1} * quotient({0}, {1}))",
    138: "({0} - {1} * quotient({0}, {1}))",
    139: "({0} % {1} if {1} else 0)",
    194: "({0} >> ({1} & 31))",
    195: "({0} >> ({1} & 31))",
    196: "({0} << ({1} & 31))",
    197: "({0} | {1})",
    198: "({0} ^ {1})",
    199: "({0} & {1})",
    200: "~{0}",
    202: "(({0} >> {1} & (1 << {2}) - 1 ^ (1 << {2} >> 1)) - (1 << {2} >> 1))",
    203: "({0} >> {1} & (1 << {2}) - 1)",
    109: "whole({0})",
    110: "whole({0})",
    113: "{0}",
    114: "{0}",
}
#: Those that take their operands without a sign.
_UNSIGNED: Final = frozenset((112, 113, 134, 137, 172, 174, 176, 178, 194, 203))
#: Opcode -> expression of floats, bools and comparisons.
_PLAIN: Final = {
    111: "float({0})",
    112: "float({0})",
    115: "{0}",
    127: "-{0}",
    129: "{0} + {1}",
    131: "{0} - {1}",
    133: "{0} * {1}",
    136: "divided({0}, {1})",
    141: "divided({0}, {1}) % 1.0 * {1}",
    142: "{0} * {1}",
    156: "{0} != {0}",
    157: "abs({0}) == inf",
    164: "{0} == {1}",
    165: "{0} != {1}",
    166: "({0} or {1})",
    167: "({0} and {1})",
    168: "not {0}",
    169: "({1} if {0} else {2})",
    170: "{0} == {1}",
    171: "{0} != {1}",
    172: "{0} > {1}",
    173: "{0} > {1}",
    174: "{0} >= {1}",
    175: "{0} >= {1}",
    176: "{0} < {1}",
    177: "{0} < {1}",
    178: "{0} <= {1}",
    179: "{0} <= {1}",
    180: "{0} == {1}",
    181: "{0} == {1}",
    182: "{0} != {1} and {0} == {0} and {1} == {1}",
    183: "{0} != {1}",
    184: "{0} < {1}",
    185: "not {0} >= {1}",
    186: "{0} > {1}",
    187: "not {0} <= {1}",
    188: "{0} <= {1}",
    189: "not {0} > {1}",
    190: "{0} >= {1}",
    191: "not {0} < {1}",
}
#: Opcode -> expression of whole vectors; a matrix is a tuple of its columns.
_WHOLE: Final = {
    op.MATRIX_TIMES_SCALAR: "tuple([tuple([v * {1} for v in column]) for column in {0}])",
    op.VECTOR_TIMES_MATRIX: "tuple([sum(map(multiply, {0}, column)) for column in {1}])",
    op.MATRIX_TIMES_VECTOR: "tuple([sum(map(multiply, row, {1})) for row in zip(*{0})])",
    148: "sum(map(multiply, {0}, {1}))",
    154: "any({0})",
    155: "all({0})",
    op.SUBGROUP_SHUFFLE: "{1}",
    **dict.fromkeys(op.DOTS, "0"),
}
#: Pairs of the low and the high word: with carry, with borrow, products.
_PAIRS: Final = {149: "{0} + {1}", 150: "{0} - {1}", 151: "{0} * {1}", 152: "{0} * {1}"}
_SHAPED: Final = frozenset((op.EXTRACT_DYNAMIC, op.SHUFFLE, op.CONSTRUCT, op.EXTRACT, op.BITCAST))

COMPUTED: Final = frozenset((*_WRAPPED, *_PLAIN, *_WHOLE, *_PAIRS, *_SHAPED))
#: Operands from here on are numbers, not ids.
LITERALS_FROM: Final = {op.EXTRACT: 1, op.SHUFFLE: 2}

Text = Callable[[int], str]


def expression(types: Types, opcode: int, result: int, operands: Sequence[int], text: Text) -> str:
    """The Python text of an instruction of `COMPUTED`.

    ``result``: its type. ``text``: of an operand's id. Raises ShaderError for other opcodes.
    """
    if opcode in _SHAPED:
        return _shaped(types, opcode, result, operands, text)
    texts = [text(operand) for operand in operands]
    if opcode in _WHOLE:
        return _WHOLE[opcode].format(*texts)
    if opcode in _PAIRS:
        return _pair(types, opcode, result, operands, texts)
    form = _WRAPPED.get(opcode) or _PLAIN.get(opcode)
    if form is None:
        raise ShaderError(f"SPIR-V opcode {opcode} is not known")
    parts = []
    for place in range(types.components(result)):
        scalars = _scalars(types, operands, texts, place, opcode in _UNSIGNED)
        done = form.format(*scalars)
        parts.append(types.wrapped(result, done) if opcode in _WRAPPED else done)
    return f"({', '.join(parts)},)" if types.is_vector(result) else f"({parts[0]})"


def extended(types: Types, number: int, result: int, operands: Sequence[int], text: Text) -> str:
    """The Python text of an instruction of GLSL.std.450. Raises ShaderError for unknown ones."""
    if number not in EXTENDED:
        raise ShaderError(f"GLSL.std.450 instruction {number} is not known")
    texts = [text(operand) for operand in operands]
    unsigned = number in (38, 41, 44)
    parts = []
    for place in range(types.components(result)):
        if number == PACK_HALVES:
            scalars = [f"{texts[0]}[0]", f"{texts[0]}[1]"]
        elif number == UNPACK_HALVES:
            scalars = [types.unsigned(types.of[operands[0]], texts[0]), str(place)]
        else:
            scalars = _scalars(types, operands, texts, place, unsigned)
        done = f"extended[{number}]({', '.join(scalars)})"
        parts.append(types.wrapped(result, done) if types.is_integer(result) else done)
    return f"({', '.join(parts)},)" if types.is_vector(result) else parts[0]


def _scalars(
    types: Types, operands: Sequence[int], texts: Sequence[str], place: int, unsigned: bool
) -> list[str]:
    """Texts of the operands' components at ``place``; scalars stand for all of theirs."""
    found = []
    for operand, given in zip(operands, texts, strict=True):
        kind = types.of[operand]
        scalar = f"{given}[{place}]" if types.is_vector(kind) else given
        found.append(types.unsigned(kind, scalar) if unsigned else scalar)
    return found


def _pair(
    types: Types, opcode: int, result: int, operands: Sequence[int], texts: Sequence[str]
) -> str:
    member = types.members(result)[0]
    lows, highs = [], []
    for place in range(types.components(member)):
        scalars = _scalars(types, operands, texts, place, opcode != 152)
        done = _PAIRS[opcode].format(*scalars)
        lows.append(types.wrapped(member, f"({done})"))
        high = f"int(({done}) < 0)" if opcode == 150 else f"(({done}) >> 32)"
        highs.append(types.wrapped(member, high))
    if not types.is_vector(member):
        return f"({lows[0]}, {highs[0]})"
    return f"(({', '.join(lows)},), ({', '.join(highs)},))"


def _shaped(types: Types, opcode: int, result: int, operands: Sequence[int], text: Text) -> str:
    first = text(operands[0]) if operands else ""
    if opcode == op.EXTRACT:
        return first + "".join(f"[{index}]" for index in operands[1:])
    if opcode == op.EXTRACT_DYNAMIC:
        return f"at({first}, {text(operands[1])})"
    if opcode == op.BITCAST:
        source, target = types.format(types.of[operands[0]]), types.format(result)
        return f"bits({first}, {source!r}, {target!r})"
    if opcode == op.SHUFFLE:
        count = types.components(types.of[operands[0]])
        second = text(operands[1])
        picked = [f"{first}[{k}]" if k < count else f"{second}[{k - count}]" for k in operands[2:]]
        return f"({', '.join(picked)},)"
    whole = types.is_vector(result)  # a vector's parts may be vectors
    parts = [f"*{text(o)}" if whole and types.is_vector(types.of[o]) else text(o) for o in operands]
    return f"({', '.join(parts)},)"
