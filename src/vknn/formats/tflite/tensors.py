"""Tensor tables -> TensorRecords: element types, shapes, quantization and constant data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from vknn.formats.tflite.external import ExternalBuffers
from vknn.formats.tflite.generated import accessors
from vknn.formats.tflite.records import BlockQuant, Quant, TensorRecord
from vknn.formats.tflite.sparsity import densify
from vknn.formats.tflite.string_tensors import unpack_strings
from vknn.formats.tflite.sub_byte import PackedIntegers, SubByte
from vknn.formats.tflite.verifier import Damaged
from vknn.graph import DType

#: DType by the number of the schema's TensorType; other types are not supported.
DTYPES = {
    0: DType.FLOAT32, 1: DType.FLOAT16, 2: DType.INT32, 3: DType.UINT8, 4: DType.INT64,
    5: DType.STRING, 6: DType.BOOL, 7: DType.INT16, 8: DType.COMPLEX64, 9: DType.INT8,
    10: DType.FLOAT64, 11: DType.COMPLEX128, 12: DType.UINT64, 15: DType.UINT32, 16: DType.UINT16,
    18: DType.BFLOAT16, 21: DType.FLOAT8E4M3FN, 22: DType.FLOAT8E5M2,
}  # fmt: skip
#: The schema's number of handles of variables and tables.
RESOURCE = 13
#: Sub-byte types by the same number. Files pack them into bytes, the first in the lowest bits.
SUB_BYTE_TYPES = {
    17: SubByte("int4", DType.INT8, 4),
    19: SubByte("int2", DType.INT8, 2),
    20: SubByte("uint4", DType.UINT8, 4),
}
_BLOCKWISE = accessors.QuantizationDetails.BlockwiseQuantization
_MAX_ELEMENTS = 1 << 31
_MAX_RANK = 8


class UnknownType(ValueError):
    """A tensor has an element type that vknn does not know."""


def read_tensor(
    tensor: Any, index: int, buffers: Sequence[memoryview], external: ExternalBuffers
) -> TensorRecord:
    """TensorRecord of a verified Tensor table. Raises Damaged and UnknownType."""
    name = text(tensor.Name())
    what = f"tensor {index} ({name!r})"
    if tensor.Type() == RESOURCE:  # whatever shape and data it states
        return TensorRecord(index, name, (), DType.INT64, resource=True)
    sub_byte = SUB_BYTE_TYPES.get(tensor.Type())
    dtype = DTYPES.get(tensor.Type()) if sub_byte is None else sub_byte.dtype
    if dtype is None:
        raise UnknownType(f"{what} has the element type number {tensor.Type()}")
    shape = ints(tensor.ShapeAsNumpy())
    if len(shape) > _MAX_RANK:
        raise Damaged(f"{what} has {len(shape)} axes", tensor._tab.Pos)
    if any(d < 0 for d in shape) or math.prod(shape) >= _MAX_ELEMENTS:
        raise Damaged(f"{what} has the impossible shape {list(shape)}", tensor._tab.Pos)
    if not tensor.Buffer() < len(buffers):
        raise Damaged(f"{what} names buffer {tensor.Buffer()} of {len(buffers)}", tensor._tab.Pos)
    raw = buffers[tensor.Buffer()]
    if outside := tensor.ExternalBuffer():
        if len(raw) or tensor.IsVariable():
            problem = "is a variable" if tensor.IsVariable() else f"has buffer {tensor.Buffer()}"
            raise Damaged(f"{what} {problem} and an external buffer", tensor._tab.Pos)
        raw = external.part(outside, what, tensor._tab.Pos)
    data: np.ndarray | PackedIntegers | None
    if sub_byte is None:
        data = _constant(tensor, shape, dtype, raw, what)
    else:
        data = _sub_byte_constant(tensor, shape, sub_byte, raw, what)
    if outside and data is None and math.prod(shape):
        raise Damaged(f"{what} has an external buffer without bytes", tensor._tab.Pos)
    signature = ints(tensor.ShapeSignatureAsNumpy())
    open_shape: tuple[int | None, ...] = shape
    if len(signature) == len(shape) and data is None and not tensor.IsVariable():
        open_shape = tuple(None if s == -1 else d for s, d in zip(signature, shape, strict=True))
    quant = _quantization(tensor.Quantization(), shape, what)
    variable = tensor.IsVariable()
    unranked = not open_shape and not tensor.HasRank()
    sparse = tensor.Sparsity() is not None
    kind = (sub_byte, unranked, sparse, _blocks(tensor.Quantization(), what))
    return TensorRecord(index, name, open_shape, dtype, data, quant, variable, *kind, stated=shape)


def _constant(
    tensor: Any, shape: tuple[int, ...], dtype: DType, raw: memoryview, what: str
) -> np.ndarray | None:
    sparse = tensor.Sparsity() is not None
    if (len(raw) == 0 and not sparse) or tensor.IsVariable():
        return None
    position = tensor._tab.Pos
    if dtype is DType.STRING:
        return unpack_strings(raw, shape, what, position)
    if sparse:
        return densify(tensor.Sparsity(), shape, dtype, raw, what)
    wanted = math.prod(shape) * dtype.itemsize
    if len(raw) != wanted:
        raise Damaged(f"{what} needs {wanted} bytes, its buffer has {len(raw)}", position)
    found = np.frombuffer(raw, dtype.numpy.newbyteorder("<")).astype(dtype.numpy, copy=False)
    return np.require(found, requirements="A").reshape(shape)  # a view of the file, where it can be


def _sub_byte_constant(
    tensor: Any, shape: tuple[int, ...], sub_byte: SubByte, raw: memoryview, what: str
) -> PackedIntegers | None:
    if len(raw) == 0 or tensor.IsVariable():
        return None
    if tensor.Sparsity() is not None:
        raise UnknownType(f"{what} is sparse and has the element type {sub_byte.name}")
    wanted = -(-math.prod(shape) * sub_byte.bits // 8)
    if len(raw) != wanted:
        message = f"{what} needs {wanted} bytes, its buffer has {len(raw)}"
        raise Damaged(message, tensor._tab.Pos)
    return PackedIntegers(np.frombuffer(raw, np.uint8), shape, sub_byte)


def _blocks(table: Any, what: str) -> BlockQuant | None:
    """Blockwise quantization as the file states it, or None."""
    if table is None or table.DetailsType() != _BLOCKWISE or table.Details() is None:
        return None
    details, given = accessors.BlockwiseQuantization(), table.Details()
    details.Init(given.Bytes, given.Pos)
    zero_points, size = details.ZeroPoints(), details.BlockSize()
    shape = ints(details.BlockShapeAsNumpy())
    if shape and (any(d != 1 for d in shape[:-1]) or shape[-1] != (size or shape[-1])):
        raise UnknownType(f"{what} has blocks of the shape {list(shape)} and the size {size}")
    size = shape[-1] if shape else size
    return BlockQuant(details.Scales(), None if zero_points == -1 else zero_points, size)


def _quantization(table: Any, shape: tuple[int, ...], what: str) -> Quant | None:
    if table is None or table.ScaleLength() == 0:
        if table is not None and table.DetailsType() not in (0, _BLOCKWISE):
            raise UnknownType(f"{what} has a custom quantization")
        return None
    scale = np.array(table.ScaleAsNumpy(), np.float32)
    zero_point = np.zeros(scale.size, np.int64)
    if table.ZeroPointLength():
        zero_point = np.array(table.ZeroPointAsNumpy(), np.int64)
    position, axis = table._tab.Pos, table.QuantizedDimension()
    if not np.isfinite(scale).all() or (scale < 0).any():
        raise Damaged(f"{what} has scales that are negative or not finite", position)
    if zero_point.size not in (1, scale.size):
        raise Damaged(f"{what} has {scale.size} scales and {zero_point.size} zero points", position)
    if (zero_point != zero_point.astype(np.int32)).any():
        raise Damaged(f"{what} has a zero point beyond 32 bits", position)
    if scale.size > 1 and not (0 <= axis < len(shape) and shape[axis] == scale.size):
        # Biases in real files name the axis of their weights; accept the only axis that fits.
        if shape.count(scale.size) != 1:
            raise Damaged(
                f"{what}, {list(shape)}, has {scale.size} scales for axis {axis}", position
            )
        axis = shape.index(scale.size)
    return Quant(scale, np.broadcast_to(zero_point, scale.shape), axis if scale.size > 1 else 0)


def ints(array: Any) -> tuple[int, ...]:
    """A vector of integers as a tuple; empty for an absent one, which accessors give as 0."""
    return tuple(int(v) for v in array) if isinstance(array, np.ndarray) else ()


def text(raw: bytes | None) -> str:
    """A string of the file decoded as UTF-8; other bytes are escaped."""
    return (raw or b"").decode("utf-8", "backslashreplace")
