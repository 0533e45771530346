"""Which operators take integers of fewer than 8 bits: those of TensorFlow Lite that do."""

from __future__ import annotations

from vknn.formats.tflite.context import Context
from vknn.graph import DType

_ANY = ("int4", "int2", "uint4")
#: What the weights of an operator may be, which are its second input, beside which first input.
_WEIGHTS = {
    "FULLY_CONNECTED": (("int4", "int2"), (DType.FLOAT32, DType.INT8, DType.INT16)),
    "CONV_2D": (("int4",), (DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16)),
    "DEPTHWISE_CONV_2D": (("int4",), (DType.INT8,)),
}
#: What the inputs and outputs of an operator may be.
_ENDS = {
    "CAST": _ANY,
    "QUANTIZE": ("int4", "uint4"),
    "DEQUANTIZE": _ANY,
    "EMBEDDING_LOOKUP": ("int4", "int2"),
    "GATHER": ("int4",),
    "SLICE": ("int4",),
    "CONCATENATION": ("int4",),
    "RESHAPE": _ANY,
    "EXPAND_DIMS": _ANY,
    "SQUEEZE": _ANY,
    "SHAPE": _ANY,
    "RANK": _ANY,
}


def check(c: Context) -> None:
    """Refuses an operator that has a tensor of a type that its kernel does not take."""
    tensors, code = c.graph.tensors, c.operator.code
    for place, index in enumerate((*c.operator.inputs, *c.operator.outputs)):
        if index != -1 and tensors[index].blocks is not None and code != "EMBEDDING_LOOKUP":
            c.refuse("tensors that are quantized block by block")
        if index == -1 or tensors[index].narrow is None:
            continue
        name = tensors[index].type_name
        names, data = _WEIGHTS.get(code, ((), ()))
        weights = place == 1 and name in names and c.x.type.dtype in data
        if not weights and name not in _ENDS.get(code, ()):
            c.refuse(f"tensors of {name} (input 0: {c.x.type.dtype.value})")
