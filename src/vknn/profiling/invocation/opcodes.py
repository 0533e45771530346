"""Opcodes of SPIR-V that an invocation may be counted of (SPIR-V specification, section 3).

What is not listed here is refused by :mod:`vknn.profiling.invocation.module`, so that nothing is
counted as 0 for want of knowing it.
"""

from __future__ import annotations

from typing import Final

NOP, UNDEF, LINE, NO_LINE = 0, 1, 8, 317
EXTENDED_IMPORT, EXTENDED = 11, 12
ENTRY_POINT, EXECUTION_MODE, EXECUTION_MODE_ID = 15, 16, 331
TYPE_VOID, TYPE_BOOL, TYPE_INT, TYPE_FLOAT, TYPE_VECTOR, TYPE_MATRIX = 19, 20, 21, 22, 23, 24
TYPE_IMAGE, TYPE_SAMPLED_IMAGE = 25, 27
TYPE_ARRAY, TYPE_RUNTIME_ARRAY, TYPE_STRUCT, TYPE_POINTER, TYPE_FUNCTION = 28, 29, 30, 32, 33
TYPE_COOPERATIVE = 4456
TRUE, FALSE, CONSTANT, COMPOSITE, NULL = 41, 42, 43, 44, 46
SPEC_TRUE, SPEC_FALSE, SPEC_CONSTANT, SPEC_COMPOSITE, SPEC_OP = 48, 49, 50, 51, 52
FUNCTION, PARAMETER, FUNCTION_END, CALL = 54, 55, 56, 57
VARIABLE, LOAD, STORE, ACCESS_CHAIN = 59, 61, 62, 65
DECORATE, MEMBER_DECORATE = 71, 72
EXTRACT_DYNAMIC, SHUFFLE, CONSTRUCT, EXTRACT = 77, 79, 80, 81
IMAGE_FETCH, IMAGE_READ, IMAGE_WRITE, IMAGE = 95, 98, 99, 100
BITCAST = 124
F_MULTIPLY, VECTOR_TIMES_SCALAR, DOT = 133, 142, 148
MATRIX_TIMES_SCALAR, VECTOR_TIMES_MATRIX, MATRIX_TIMES_VECTOR = 143, 144, 145
CONTROL_BARRIER, MEMORY_BARRIER = 224, 225
PHI, LOOP_MERGE, SELECTION_MERGE, LABEL = 245, 246, 247, 248
BRANCH, BRANCH_CONDITIONAL, SWITCH, RETURN, RETURN_VALUE, UNREACHABLE = 249, 250, 251, 253, 254, 255
SUBGROUP_SHUFFLE = 345
COOPERATIVE_LOAD, COOPERATIVE_STORE, COOPERATIVE_MULTIPLY_ADD = 4457, 4458, 4459

#: Operations on an address that give what was there: exchange, add, least, most, and, or, ...
ATOMICS: Final = frozenset((229, *range(234, 243)))
#: Sums, products, least, most and the like over a subgroup, and shuffles by distance. What they
#: give is taken for zeros, as what buffers hold: kernels reduce nothing else.
SUBGROUP_RESULTS: Final = frozenset(range(346, 365))
#: Signed, unsigned and mixed dot products of integers, and those that add a sum.
INTEGER_DOTS: Final = frozenset(range(4450, 4456))
#: The dot product of two pairs of float16, added to a float32 (SPV_VALVE_mixed_float_dot_product).
FLOAT_DOT: Final = 6916
#: Dot products, whose results kernels do not reckon addresses or rounds from: taken for zeros.
DOTS: Final = INTEGER_DOTS | {FLOAT_DOT}
#: Instruction of the extended set GLSL.std.450.
FMA: Final = 50

#: Decorations.
SPEC_ID, BUILT_IN, BINDING, OFFSET, ARRAY_STRIDE = 1, 11, 33, 35, 6
#: Storage classes.
INPUT, UNIFORM, WORKGROUP, PRIVATE, FUNCTION_STORAGE, PUSH, STORAGE = 1, 2, 4, 6, 7, 9, 12
UNIFORM_CONSTANT: Final = 0  # images
#: Built-in variables.
NUM_GROUPS, GROUP_SIZE, GROUP, LOCAL, GLOBAL, LOCAL_INDEX = 24, 25, 26, 27, 28, 29
SUBGROUP_SIZE, NUM_SUBGROUPS, SUBGROUP, SUBGROUP_INVOCATION = 36, 38, 40, 41

TYPES: Final = frozenset(
    (*range(TYPE_VOID, TYPE_FLOAT + 1), TYPE_VECTOR, TYPE_MATRIX, TYPE_IMAGE, TYPE_SAMPLED_IMAGE)
) | {TYPE_ARRAY, TYPE_RUNTIME_ARRAY, TYPE_STRUCT, TYPE_POINTER, TYPE_FUNCTION, TYPE_COOPERATIVE}
CONSTANTS: Final = frozenset((UNDEF, TRUE, FALSE, CONSTANT, COMPOSITE, NULL)) | {
    SPEC_TRUE,
    SPEC_FALSE,
    SPEC_CONSTANT,
    SPEC_COMPOSITE,
    SPEC_OP,
}
#: Capabilities, extensions, names, sources, lines: nothing that an invocation does.
IGNORED: Final = frozenset(
    (NOP, 3, 4, 5, 6, 7, LINE, 10, 14, 17, 74, NO_LINE, 330, 332, 5632, 5633)
)
#: Instructions of a function without a result.
WITHOUT_RESULT: Final = frozenset(
    (STORE, IMAGE_WRITE, CONTROL_BARRIER, MEMORY_BARRIER, LOOP_MERGE, SELECTION_MERGE)
) | {BRANCH, BRANCH_CONDITIONAL, SWITCH, RETURN, RETURN_VALUE, UNREACHABLE, COOPERATIVE_STORE}
#: Those with a result that :mod:`vknn.profiling.invocation.expressions` does not compute by itself.
WITH_RESULT: Final = frozenset(
    (UNDEF, EXTENDED, VARIABLE, LOAD, ACCESS_CHAIN, CALL, PHI, IMAGE, IMAGE_FETCH, IMAGE_READ)
) | {COOPERATIVE_LOAD, COOPERATIVE_MULTIPLY_ADD, *ATOMICS, *DOTS, *SUBGROUP_RESULTS}
