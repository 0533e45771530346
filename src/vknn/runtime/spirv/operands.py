"""Operands of SPIR-V instructions by opcode: which are results, which are literals.

SPIR-V specification, section 3 "Binary Form". Tables of NumPy, for all instructions of a module at
once; only what the sweep has to tell apart is in them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vknn.runtime.spirv import words

_SOURCE_CONTINUED, _SOURCE, _SOURCE_EXTENSION, _STRING, _LINE = 2, 3, 4, 7, 8
_EXT_INST_IMPORT, _EXT_INST, _UNDEF = 11, 12, 1
_TYPE_VOID, _TYPE_VECTOR, _TYPE_MATRIX, _TYPE_IMAGE = 19, 23, 24, 25
_TYPE_FORWARD_POINTER = 39
_VECTOR_SHUFFLE, _COMPOSITE_EXTRACT, _COMPOSITE_INSERT = 79, 81, 82
_LOOP_MERGE, _NO_LINE, _MODULE_PROCESSED, _DECORATE_ID = 246, 317, 330, 332
_DEBUG = (
    _SOURCE_CONTINUED, _SOURCE, _SOURCE_EXTENSION, words.NAME, words.MEMBER_NAME, _STRING, _LINE,
    _NO_LINE, _MODULE_PROCESSED,
)  # fmt: skip
_ANNOTATIONS = (words.DECORATE, words.MEMBER_DECORATE, _DECORATE_ID)
#: Module-level instructions whose result is the first operand, and those where it is the second.
_TYPES = (
    *range(_TYPE_VOID, _TYPE_FORWARD_POINTER + 1),
    words.TYPE_COOPERATIVE_MATRIX,
    5341,
    4472,
    _EXT_INST_IMPORT,
)
_VALUES = (_UNDEF, *range(words.CONSTANT_TRUE, words.SPEC_CONSTANT_OP + 1), words.VARIABLE)
#: Opcode -> first operand that is a literal, and the one behind the last; all others may be ids.
_END = 1 << 16
_LITERALS = {
    words.TYPE_INT: (1, _END),
    words.TYPE_FLOAT: (1, _END),
    _TYPE_VECTOR: (2, _END),
    _TYPE_MATRIX: (2, _END),
    _TYPE_IMAGE: (2, _END),
    words.TYPE_POINTER: (1, 2),
    words.CONSTANT: (2, _END),
    words.SPEC_CONSTANT: (2, _END),
    words.SPEC_CONSTANT_OP: (2, 3),
    words.VARIABLE: (2, 3),
    _EXT_INST: (3, 4),
    words.FUNCTION: (2, 3),
    _VECTOR_SHUFFLE: (4, _END),
    _COMPOSITE_EXTRACT: (3, _END),
    _COMPOSITE_INSERT: (4, _END),
    _LOOP_MERGE: (2, _END),
    words.SELECTION_MERGE: (1, _END),
}


def _table(values: Mapping[int, int]) -> np.ndarray:
    """A number by opcode; 0 for those that are not named."""
    table = np.zeros(1 << 16, np.int32)
    table[list(values)] = list(values.values())
    return table


#: Which word of a declaration is the id that it goes with; 0: it stays.
KEY = _table(dict.fromkeys((*_TYPES, *_ANNOTATIONS), 1) | dict.fromkeys(_VALUES, 2))
IS_DEBUG = _table(dict.fromkeys(_DEBUG, 1)).astype(bool)
IS_RESULT = _table(dict.fromkeys((*_TYPES, *_VALUES), 1)).astype(bool)
#: The word of an instruction from which on there are literals, and the one behind the last.
LITERAL_FROM = _table({opcode: first + 1 for opcode, (first, _) in _LITERALS.items()})
LITERAL_TO = _table({opcode: behind + 1 for opcode, (_, behind) in _LITERALS.items()})
