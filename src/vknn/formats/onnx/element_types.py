"""Element types of ONNX's tensors: their numbers in files, and how their data are stored."""

from __future__ import annotations

from dataclasses import dataclass

from vknn.graph import DType


@dataclass(frozen=True)
class ElementType:
    """An element type.

    ``name``: as ONNX's documents write it. ``field``: the typed field of a tensor that holds the
    elements where ``raw_data`` does not. ``bits``: of an element in ``raw_data``; less than 8 where
    elements are packed, the first in the lowest bits. ``pattern``: whether the typed field holds
    bits of the elements, not their values.
    """

    number: int
    name: str
    dtype: DType
    field: str
    bits: int
    pattern: bool = False


def _types() -> dict[int, ElementType]:
    rows = (
        (1, "float", DType.FLOAT32, "float_data", 32),
        (2, "uint8", DType.UINT8, "int32_data", 8),
        (3, "int8", DType.INT8, "int32_data", 8),
        (4, "uint16", DType.UINT16, "int32_data", 16),
        (5, "int16", DType.INT16, "int32_data", 16),
        (6, "int32", DType.INT32, "int32_data", 32),
        (7, "int64", DType.INT64, "int64_data", 64),
        (8, "string", DType.STRING, "string_data", 0),
        (9, "bool", DType.BOOL, "int32_data", 8),
        (10, "float16", DType.FLOAT16, "int32_data", 16, True),
        (11, "double", DType.FLOAT64, "double_data", 64),
        (12, "uint32", DType.UINT32, "uint64_data", 32),
        (13, "uint64", DType.UINT64, "uint64_data", 64),
        (14, "complex64", DType.COMPLEX64, "float_data", 64),
        (15, "complex128", DType.COMPLEX128, "double_data", 128),
        (16, "bfloat16", DType.BFLOAT16, "int32_data", 16, True),
        (17, "float8e4m3fn", DType.FLOAT8E4M3FN, "int32_data", 8, True),
        (18, "float8e4m3fnuz", DType.FLOAT8E4M3FNUZ, "int32_data", 8, True),
        (19, "float8e5m2", DType.FLOAT8E5M2, "int32_data", 8, True),
        (20, "float8e5m2fnuz", DType.FLOAT8E5M2FNUZ, "int32_data", 8, True),
        (21, "uint4", DType.UINT4, "int32_data", 4),
        (22, "int4", DType.INT4, "int32_data", 4),
        (23, "float4e2m1", DType.FLOAT4E2M1, "int32_data", 4, True),
        (24, "float8e8m0", DType.FLOAT8E8M0, "int32_data", 8, True),
        (25, "uint2", DType.UINT2, "int32_data", 2),
        (26, "int2", DType.INT2, "int32_data", 2),
        (27, "float6e2m3", DType.FLOAT6E2M3, "int32_data", 6, True),
        (28, "float6e3m2", DType.FLOAT6E3M2, "int32_data", 6, True),
    )
    return {row[0]: ElementType(*row) for row in rows}


#: Element types by their numbers in files.
ELEMENT_TYPES = _types()
#: Element types by dtype.
BY_DTYPE = {found.dtype: found for found in ELEMENT_TYPES.values()}
