"""The element types that the kernels of an operator take, quantized or not.

Where TensorFlow Lite's own kernels stop at a type, a model with it has no meaning to go by.
"""

from __future__ import annotations

from vknn.formats.tflite.context import Context
from vknn.graph import DType

_FLOATS = "float32 float16"
_SMALL = "int8 uint8 int16"
_NUMBERS = f"{_FLOATS} {_SMALL} int32 int64"
#: Of the first input; operators that are not here see to it themselves or take anything.
_TYPES = {
    "RELU RELU6 LEAKY_RELU PRELU": f"float32 {_SMALL}",
    "RELU_N1_TO_1 HARD_SWISH L2_NORMALIZATION": "float32 int8 uint8",
    "LOGISTIC TANH": f"{_FLOATS} {_SMALL}",
    "ELU": "float32 int8",
    "ABS": "float32 int8 int16 int32",
    "NEG": f"{_FLOATS} int8 int16 int32 int64",
    "SIN COS FLOOR ROUND": _FLOATS,
    "EXP LOG SQRT RSQRT": "float32 int8 int16",
    "SQUARE CEIL": "float32",
    "LOGICAL_NOT LOGICAL_AND LOGICAL_OR": "bool",
    "ADD": _NUMBERS,
    "SUB": f"float32 {_SMALL} int32 int64",
    "DIV": f"float32 {_SMALL} int32",
    "FLOOR_DIV": "float32 int8 int16 int32",
    "FLOOR_MOD": "float32 int8 int16 int32 int64",
    "EQUAL NOT_EQUAL": f"{_NUMBERS} bool string",
    "LESS LESS_EQUAL GREATER GREATER_EQUAL": _NUMBERS,
    "ADD_N": "float32 int32",
    "CONCATENATION": f"{_NUMBERS} bool",
    "DEPTH_TO_SPACE SPACE_TO_DEPTH": "float32 int8 uint8 int32 int64",
    "BATCH_TO_SPACE_ND BROADCAST_TO": f"{_NUMBERS} bool float64 complex64",
    "GATHER GATHER_ND": f"{_NUMBERS} bool string",
    "ARG_MAX ARG_MIN": "float32 int8 uint8 int16 int32 bool",
    "CUMSUM": "float32 int32 int64",
    "RELU_0_TO_1": "float32 int8 uint8",
    "SIGN": "float32 float64 int32",
    "ATAN2": f"{_FLOATS} float64",
}
TAKEN = {
    name: frozenset(DType(t) for t in types.split())
    for names, types in _TYPES.items()
    for name in names.split()
}


def check(c: Context) -> None:
    """Refuses an operator whose first input has a type that its kernels do not take."""
    taken = TAKEN.get(c.operator.code)
    if taken is not None and c.x.type.dtype not in taken:
        kinds = ", ".join(sorted(dtype.value for dtype in taken))
        c.fail(f"takes {kinds}, not {c.x.type.dtype.value}")
