"""Element types that TensorFlow Lite's kernels take, operator by operator.

An operator with tensors of other types is refused: TensorFlow Lite stops at it too, so that there
is no result to reproduce.
"""

from __future__ import annotations

from vknn.formats.tflite.context import Context
from vknn.graph import DType

_FLOATS = "float32 float16"
_SMALL = "int8 uint8 int16"
_NUMBERS = f"{_FLOATS} {_SMALL} int32 int64"
_FIXED_SIZE = f"{_NUMBERS} uint16 uint32 uint64 float64 bool complex64 complex128 bfloat16"
#: Operators -> types of the first input, quantized or not. Operators that are not listed check
#: their types themselves or take any.
_FIRST_INPUT = {
    "RELU RELU6 LEAKY_RELU PRELU GELU": f"float32 {_SMALL}",
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
    "BATCH_TO_SPACE_ND": f"{_NUMBERS} bool float64 complex64",
    "BROADCAST_TO DILATE DYNAMIC_UPDATE_SLICE BITCAST": _FIXED_SIZE,
    "GATHER GATHER_ND": f"{_NUMBERS} bool string",
    "ARG_MAX ARG_MIN": "float32 int8 uint8 int16 int32 bool",
    "CUMSUM": "float32 int32 int64",
    "RELU_0_TO_1": "float32 int8 uint8",
    "SIGN": "float32 float64 int32",
    "ATAN2": f"{_FLOATS} float64",
    "BITWISE_XOR RIGHT_SHIFT": f"{_SMALL} uint16 int32 uint32",
    "UNSORTED_SEGMENT_SUM UNSORTED_SEGMENT_PROD": "float32 int32",
    "UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN": "float32 int32",
    "REDUCE_ALL": "bool",
    "REDUCE_WINDOW": f"float32 float64 {_SMALL} int32 int64 bool",
}
_TAKEN = {
    name: frozenset(DType(t) for t in types.split())
    for names, types in _FIRST_INPUT.items()
    for name in names.split()
}

_ALL_SUB_BYTE = ("int4", "int2", "uint4")
#: Operator -> sub-byte types of its weights (the second input), and the types of the first input
#: that go with them.
_SUB_BYTE_WEIGHTS = {
    "FULLY_CONNECTED": (("int4", "int2"), (DType.FLOAT32, DType.INT8, DType.INT16)),
    "CONV_2D": (("int4", "int2"), (DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16)),
    "DEPTHWISE_CONV_2D": (("int4", "int2"), (DType.FLOAT32, DType.INT8, DType.INT16)),
}
#: Operators whose second input may be quantized block by block.
_BLOCKWISE = ("EMBEDDING_LOOKUP", "FULLY_CONNECTED")
#: Operator -> sub-byte types of any of its inputs and outputs.
_SUB_BYTE = {
    "CAST": _ALL_SUB_BYTE,
    "QUANTIZE": ("int4", "uint4"),
    "DEQUANTIZE": _ALL_SUB_BYTE,
    "EMBEDDING_LOOKUP": ("int4", "int2"),
    "GATHER": ("int4",),
    "SLICE": ("int4",),
    "CONCATENATION": ("int4",),
    "DYNAMIC_UPDATE_SLICE": ("int4",),
    "RESHAPE": _ALL_SUB_BYTE,
    "EXPAND_DIMS": _ALL_SUB_BYTE,
    "SQUEEZE": _ALL_SUB_BYTE,
    "SHAPE": _ALL_SUB_BYTE,
    "RANK": _ALL_SUB_BYTE,
}


def check_element_types(c: Context) -> None:
    """Check: Unsupported or Malformed for tensors of types that the operator's kernels lack."""
    _check_sub_byte(c)
    taken = _TAKEN.get(c.operator.code)
    if taken is not None and c.x.type.dtype not in taken:
        kinds = ", ".join(sorted(dtype.value for dtype in taken))
        c.fail(f"takes {kinds}, not {c.x.type.dtype.value}")


def _check_sub_byte(c: Context) -> None:
    """Refuses sub-byte types and blockwise quantization where the kernels do not take them."""
    tensors, code = c.graph.tensors, c.operator.code
    for place, index in enumerate((*c.operator.inputs, *c.operator.outputs)):
        if index != -1 and tensors[index].blocks is not None and code not in _BLOCKWISE:
            c.refuse("tensors that are quantized block by block")
        if index == -1 or tensors[index].sub_byte is None:
            continue
        name = tensors[index].type_name
        names, data = _SUB_BYTE_WEIGHTS.get(code, ((), ()))
        weights = place == 1 and name in names and c.x.type.dtype in data
        if not weights and name not in _SUB_BYTE.get(code, ()):
            c.refuse(f"tensors of {name} (input 0: {c.x.type.dtype.value})")
