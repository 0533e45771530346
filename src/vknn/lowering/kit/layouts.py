"""Layouts of tensors in device buffers: LINEAR, C4 and C4B."""

from __future__ import annotations

import functools
import math

import numpy as np

from vknn import bfloat16
from vknn.graph.types import DType, TensorType, Term


class Layout(Term):
    """``LINEAR``: row-major. ``C4``: [N, ceil(C/4), spatial..., 4], the lanes behind C zero.

    In both an element takes 32 bits: float32 for floats, int32 for integers and bool; with ``half``
    (precision "fp16", "bf16") floats take 16, as float16 or bfloat16. ``C4B``: C4 with a byte for
    each element, of int8 and uint8 only; kernels that multiply quantized integers take it, and what
    stands between them, and read a word for four channels. A buffer's size is rounded up to 16
    bytes, so that it can be read as vec4s to its end.
    """

    LINEAR = "linear"
    C4 = "c4"
    C4B = "c4b"


def ceil_div(a: int, b: int) -> int:
    """Quotient a / b of integers, rounded up."""
    return -(-a // b)


#: The layouts that kernels of any kind may take.
PLAIN = (Layout.LINEAR, Layout.C4)


def on_device(type_: TensorType) -> bool:
    """True where a device buffer can hold tensors of this type."""
    return type_.dtype.on_device


#: Floats that a buffer has in the same way, wider and narrower; float64 on the host alone.
_WIDER_FLOATS = frozenset(
    (wide, narrow)
    for narrow in (DType.FLOAT16, DType.FLOAT32)
    for wide in (DType.FLOAT32, DType.FLOAT64)
    if wide is not narrow
)


def holds(wide: DType, narrow: DType) -> bool:
    """True where every value of ``narrow`` lies in a device buffer as it would in ``wide``, which
    may be a type of the host's that ports widen elements to, such as int64."""
    if wide is narrow or (wide, narrow) in _WIDER_FLOATS:
        return True
    if narrow.is_float or not wide.is_integer:
        return False
    if narrow is DType.BOOL:
        return True
    outer, inner = np.iinfo(wide.numpy), np.iinfo(narrow.numpy)
    return bool(outer.min <= inner.min and outer.max >= inner.max)


def allows(type_: TensorType, layout: Layout) -> bool:
    """C4 needs a channel axis, C4B integers of 8 bits as well."""
    if layout is Layout.C4B and type_.dtype not in (DType.INT8, DType.UINT8):
        return False
    return layout is Layout.LINEAR or type_.rank >= 2


def packed_shape(type_: TensorType, layout: Layout) -> tuple[int, ...]:
    """Shape of the array in the buffer."""
    if layout is Layout.LINEAR:
        return type_.dims
    n, c, *spatial = type_.dims
    return (n, ceil_div(c, 4), *spatial, 4)


@functools.lru_cache(maxsize=4096)
def storage_bytes(type_: TensorType, layout: Layout, half: bool = False) -> int:
    """Size of the buffer, at least 16 bytes, a multiple of 16."""
    count = math.prod(packed_shape(type_, layout))
    return buffer_bytes(count, element_bytes(type_.dtype, half, layout))


def element_bytes(dtype: DType, half: bool = False, layout: Layout = Layout.LINEAR) -> int:
    """Bytes of an element in a device buffer."""
    if layout is Layout.C4B:
        return 1
    return 2 if half and dtype.is_float else 4


def buffer_bytes(count: int, width: int = 4) -> int:
    """Size of a buffer of ``count`` elements: at least 16 bytes, a multiple of 16."""
    return max(16, ceil_div(width * count, 16) * 16)


def vector_count(type_: TensorType, layout: Layout) -> int:
    """vec4s of elements in the buffer, the last one perhaps in part behind the tensor's end."""
    return max(1, ceil_div(math.prod(packed_shape(type_, layout)), 4))


def same_bytes(type_: TensorType, a: Layout, b: Layout) -> bool:
    """True where two layouts are the same bytes, so that no repack is needed."""
    if a is b or Layout.C4B in (a, b):
        return a is b
    return type_.rank >= 2 and type_.dims[1] % 4 == 0 and math.prod(type_.dims[2:]) == 1


def pack(array: np.ndarray, layout: Layout) -> np.ndarray:
    """Packing of ``array`` into a layout (contiguous, in elements of 32 bits)."""
    array = np.ascontiguousarray(array, np.float32 if DType.of(array).is_float else np.int32)
    if layout is Layout.LINEAR:
        return array
    n, c, *spatial = array.shape
    padded = np.zeros((n, ceil_div(c, 4) * 4, *spatial), array.dtype)
    padded[:, :c] = array
    split = padded.reshape(n, -1, 4, *spatial)
    return np.ascontiguousarray(np.moveaxis(split, 2, -1))


def narrowed(packed: np.ndarray, precision: str) -> np.ndarray:
    """Floats as a precision stores them, to nearest even: float16, or the bits of bfloat16.

    Values beyond the range become infinite. Integers stay as they are.
    """
    if packed.dtype.kind != "f" or precision == "fp32":
        return packed
    if precision == "bf16":
        return bfloat16.bits_of(packed)
    with np.errstate(all="ignore"):
        return packed.astype(np.float16)


def unpack(packed: np.ndarray, type_: TensorType, layout: Layout) -> np.ndarray:
    """The inverse of :func:`pack`, in the host's dtype."""
    array = packed.reshape(packed_shape(type_, layout))
    if layout is Layout.C4:
        n, c, *spatial = type_.dims
        array = np.moveaxis(array, -1, 2).reshape(n, -1, *spatial)[:, :c]
    return np.ascontiguousarray(array).astype(type_.dtype.numpy)
