"""Element types and tensor types."""

from __future__ import annotations

import enum
import functools
import math
from dataclasses import dataclass

import numpy as np

from vknn.errors import ShapeError


class Term(enum.Enum):
    """Base of enumerations that are keys of many tables: members are hashed by identity."""

    __hash__ = object.__hash__  # Enum's own is a Python function


class DType(Term):
    """Element type of a tensor.

    Their values are NumPy's names of them, or those of ml_dtypes for what NumPy lacks. A device
    holds FLOAT32, FLOAT16, INT8, UINT8, INT16, INT32 and BOOL; all others live on the host only.
    """

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    INT8 = "int8"
    UINT8 = "uint8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    BOOL = "bool"
    FLOAT64 = "float64"
    STRING = "string"
    COMPLEX64 = "complex64"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    COMPLEX128 = "complex128"
    BFLOAT16 = "bfloat16"
    FLOAT8E4M3FN = "float8_e4m3fn"
    FLOAT8E4M3FNUZ = "float8_e4m3fnuz"
    FLOAT8E5M2 = "float8_e5m2"
    FLOAT8E5M2FNUZ = "float8_e5m2fnuz"
    FLOAT8E8M0 = "float8_e8m0fnu"
    FLOAT4E2M1 = "float4_e2m1fn"
    FLOAT6E2M3 = "float6_e2m3fn"
    FLOAT6E3M2 = "float6_e3m2fn"
    INT4 = "int4"
    UINT4 = "uint4"
    INT2 = "int2"
    UINT2 = "uint2"

    @property
    def numpy(self) -> np.dtype:
        """The NumPy dtype; strings are object arrays of bytes."""
        if self in _SMALL:
            return _small_dtype(self.value)
        return np.dtype(object) if self is DType.STRING else np.dtype(self.value)

    @property
    def dtype(self) -> np.dtype:
        """The same as :attr:`numpy`; NumPy looks for it where it takes a dtype."""
        return self.numpy

    @property
    def itemsize(self) -> int:
        """Bytes of an element on the host."""
        return self.numpy.itemsize

    @property
    def on_device(self) -> bool:
        """True where device buffers can hold it (int64 has no 32-bit form that keeps its range)."""
        return self in _ON_DEVICE

    @property
    def is_float(self) -> bool:
        """True for float32, float16 and float64."""
        return self in (DType.FLOAT32, DType.FLOAT16, DType.FLOAT64)

    @property
    def is_complex(self) -> bool:
        """True for complex64 and complex128."""
        return self in (DType.COMPLEX64, DType.COMPLEX128)

    @property
    def is_integer(self) -> bool:
        """True for integers of whole bytes, signed or not; not for bool."""
        return self in _INTEGERS

    @property
    def is_small_float(self) -> bool:
        """True for bfloat16 and floats of at most a byte, in which nothing is computed."""
        return self in _SMALL and self.value.startswith(("bfloat", "float"))

    @property
    def is_small_integer(self) -> bool:
        """True for integers of less than a byte, in which nothing is computed."""
        return self in _SMALL and not self.is_small_float

    @classmethod
    def find(cls, array: np.ndarray) -> DType | None:
        """The element type of ``array``; None for a dtype that vknn does not know."""
        found = _BY_NUMPY.get(array.dtype)  # an enum look-up by name takes ten times as long
        if found is not None:
            return found
        if array.dtype.kind in "SU":
            return cls.STRING
        if array.dtype.kind in "Vf" and array.dtype.name in _SMALL_NAMES:
            return _SMALL_NAMES[array.dtype.name]
        return _BY_NUMPY.get(array.dtype.newbyteorder("="))

    @classmethod
    def of(cls, array: np.ndarray) -> DType:
        """The element type of ``array``.

        Raises:
            vknn.ShapeError: vknn does not know this dtype.
        """
        found = cls.find(array)
        if found is None:
            raise ShapeError(f"arrays of dtype {array.dtype} are not supported")
        return found


_ON_DEVICE = frozenset(
    (DType.FLOAT32, DType.FLOAT16, DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.BOOL)
)
_INTEGERS = frozenset(
    (
        DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32, DType.UINT32, DType.INT64,
        DType.UINT64,
    )
)  # fmt: skip
#: Those that NumPy lacks.
_SMALL = frozenset(
    (
        DType.BFLOAT16, DType.FLOAT8E4M3FN, DType.FLOAT8E4M3FNUZ, DType.FLOAT8E5M2,
        DType.FLOAT8E5M2FNUZ, DType.FLOAT8E8M0, DType.FLOAT4E2M1, DType.INT4, DType.UINT4,
        DType.INT2, DType.UINT2, DType.FLOAT6E2M3, DType.FLOAT6E3M2,
    )
)  # fmt: skip
_BY_NUMPY = {dtype.numpy: dtype for dtype in DType if dtype not in _SMALL}
_SMALL_NAMES = {dtype.value: dtype for dtype in _SMALL}


@functools.cache
def _small_dtype(name: str) -> np.dtype:
    """A dtype of ml_dtypes, which takes a while to import and few models need."""
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name))


Shape = tuple[int | None, ...]


@dataclass(frozen=True)
class TensorType:
    """Shape and element type. A dimension is None while it depends on data."""

    shape: Shape
    dtype: DType = DType.FLOAT32

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(None if d is None else int(d) for d in self.shape))
        if any(d is not None and d < 0 for d in self.shape):
            raise ShapeError(f"negative dimension in shape {self.shape}")

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        """True when every dimension is known."""
        return None not in self.shape

    @property
    def dims(self) -> tuple[int, ...]:
        """The shape, all dimensions known; raises ShapeError otherwise."""
        if None in self.shape:
            raise ShapeError(f"shape {self} depends on data")
        return self.shape  # type: ignore[return-value]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.dims)

    def with_shape(self, shape: Shape) -> TensorType:
        return TensorType(shape, self.dtype)

    def with_dtype(self, dtype: DType) -> TensorType:
        return TensorType(self.shape, dtype)

    @classmethod
    def of(cls, array: np.ndarray) -> TensorType:
        return cls(array.shape, DType.of(array))

    def __str__(self) -> str:
        dims = ", ".join("?" if d is None else str(d) for d in self.shape)
        return f"{self.dtype.value}[{dims}]"
