"""Tensors of the file -> records: sizes checked against the data before anything is allocated."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vknn.formats.layer_context import MAX_ELEMENTS
from vknn.formats.onnx.element_types import ELEMENT_TYPES, ElementType
from vknn.formats.onnx.external import ExternalData
from vknn.formats.onnx.records import TensorProtoRecord
from vknn.graph import DType
from vknn.ops.quantized.blocks import unpacked_bits
from vknn.run_limits import make_room

MAX_RANK = 64
_MAX_ELEMENTS = 1 << 40
_DEFAULT, _EXTERNAL = 0, 1
_FIELDS = (
    "float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data",
)  # fmt: skip


class BadTensor(ValueError):
    """A tensor contradicts itself; the text says which."""


def read_tensor(message: Any, external: ExternalData, what: str = "") -> TensorProtoRecord:
    """The record of a tensor message. Raises BadTensor and ModelFormatError."""
    what = what or f"tensor {message.name!r}"
    type_ = ELEMENT_TYPES.get(message.data_type)
    if type_ is None:
        raise BadTensor(f"{what} has the element type number {message.data_type}, which vknn lacks")
    dims = checked_dims(message.dims, what)
    if message.HasField("segment"):
        raise BadTensor(f"{what} is a segment of a tensor, which no runtime reads")
    count = math.prod(dims)
    if message.data_location == _EXTERNAL:
        return _external(message, external, type_, dims, what)
    if message.data_location != _DEFAULT:
        raise BadTensor(f"{what} has its data at the unknown location {message.data_location}")
    filled = [name for name in _FIELDS if len(getattr(message, name))]
    if message.raw_data and filled:
        raise BadTensor(f"{what} has raw_data and {filled[0]}")
    if message.raw_data or (not filled and count):
        data = message.raw_data
        _check_bytes(type_, count, len(data), what)
        return _record(message.name, dims, type_, functools.partial(_of_bytes, data, type_, dims))
    if any(name != type_.field for name in filled):
        raise BadTensor(f"{what} is of {type_.name} and has its data in {filled[0]}")
    entries = getattr(message, type_.field)
    wanted = _entries(type_, count)
    if len(entries) != wanted:
        raise BadTensor(f"{what} needs {wanted} entries of {type_.field}, it has {len(entries)}")
    array = _of_entries(entries, type_, dims, what)
    return _record(message.name, dims, type_, lambda: array)


def read_sparse(message: Any, external: ExternalData) -> TensorProtoRecord:
    """The record of a sparse tensor, as a dense one. Raises BadTensor and ModelFormatError."""
    what = f"sparse tensor {message.values.name!r}"
    values = read_tensor(message.values, external, what)
    indices = read_tensor(message.indices, external, f"{what}: indices")
    dims = checked_dims(message.dims, what)
    if math.prod(dims) >= MAX_ELEMENTS:  # a sparse one becomes dense
        raise BadTensor(f"{what} has the impossible shape {list(dims)}")
    count, rank = math.prod(values.dims), len(dims)
    if len(values.dims) != 1 or indices.dtype is not DType.INT64:
        raise BadTensor(f"{what} has values {list(values.dims)}, indices {indices.dtype.value}")
    if indices.dims not in ((count,), (count, rank)):
        raise BadTensor(f"{what} has {count} values and indices {list(indices.dims)}")
    places = indices.array
    if places.ndim == 2:
        sizes = np.asarray(dims, np.int64)
        if not ((places >= 0) & (places < sizes)).all():
            raise BadTensor(f"{what} has indices outside of {list(dims)}")
        places = np.ravel_multi_index(tuple(places.T), dims) if count else places[:, 0]
    if count and not (places.min() >= 0 and places.max() < math.prod(dims)):
        raise BadTensor(f"{what} has indices outside of {list(dims)}")
    if len(np.unique(places)) < count:
        raise BadTensor(f"{what} has one index twice")
    nbytes = math.prod(dims) * values.dtype.itemsize
    make_room(nbytes, f"{what} of the shape {list(dims)}, which becomes dense")
    dense = np.zeros(math.prod(dims), values.dtype.numpy)
    dense[places] = values.array
    return TensorProtoRecord(values.name, dims, values.dtype, lambda: dense.reshape(dims))


def checked_dims(dims: Sequence[int], what: str) -> tuple[int, ...]:
    """Sizes of axes that a tensor can have. Raises BadTensor."""
    found = tuple(dims)
    if len(found) > MAX_RANK:
        raise BadTensor(f"{what} has {len(found)} axes")
    if any(d < 0 for d in found) or math.prod(d for d in found if d) > _MAX_ELEMENTS:
        raise BadTensor(f"{what} has the impossible shape {list(found)}")
    return found


def is_text(data: bytes) -> bool:
    """Whether bytes are UTF-8, as all strings of ONNX are."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def entries_of(messages: Sequence[Any]) -> Mapping[str, str]:
    """Pairs of texts by key; bytes that are no UTF-8 are those of file names in other encodings."""
    return {
        m.key.decode("utf-8", "replace"): m.value.decode("utf-8", "surrogateescape")
        for m in messages
    }


def _record(name: str, dims: tuple[int, ...], type_: ElementType, read: Any) -> TensorProtoRecord:
    return TensorProtoRecord(name, dims, type_.dtype, read)


def _external(
    message: Any, external: ExternalData, type_: ElementType, dims: tuple[int, ...], what: str
) -> TensorProtoRecord:
    if message.raw_data or any(len(getattr(message, name)) for name in _FIELDS):
        raise BadTensor(f"{what} has external data and others")
    if type_.dtype is DType.STRING:
        raise BadTensor(f"{what} has strings as external data")
    size = -(-math.prod(dims) * type_.bits // 8)
    data = external.part(entries_of(message.external_data), size, what)
    return _record(message.name, dims, type_, functools.partial(_of_bytes, data, type_, dims))


def _check_bytes(type_: ElementType, count: int, found: int, what: str) -> None:
    if type_.dtype is DType.STRING:
        raise BadTensor(f"{what} of strings needs {count} entries of string_data, it has 0")
    wanted = -(-count * type_.bits // 8)
    if found != wanted:
        raise BadTensor(f"{what} needs {wanted} bytes of raw_data, it has {found}")


def _entries(type_: ElementType, count: int) -> int:
    """Entries of the typed field for so many elements."""
    if type_.dtype in (DType.COMPLEX64, DType.COMPLEX128):
        return 2 * count
    packed = 0 < type_.bits < 8 and 8 % type_.bits == 0
    return -(-count * type_.bits // 8) if packed else count


def _of_bytes(data: Any, type_: ElementType, dims: tuple[int, ...]) -> np.ndarray:
    count = math.prod(dims)
    if type_.bits < 8:
        return _unpacked(np.frombuffer(data, np.uint8), type_, count).reshape(dims)
    if type_.dtype is DType.BOOL:
        return (np.frombuffer(data, np.uint8) != 0).reshape(dims)
    dtype = type_.dtype.numpy
    stored = dtype.newbyteorder("<") if dtype.kind in "iufc" and dtype.itemsize > 1 else dtype
    found = np.frombuffer(data, stored, count).astype(dtype, copy=False)
    return (found if found.flags.aligned else found.copy()).reshape(dims)


def _unpacked(data: np.ndarray, type_: ElementType, count: int) -> np.ndarray:
    """Elements of less than a byte, the first in the lowest bits."""
    bits = unpacked_bits(data, type_.bits, count)
    if type_.pattern:
        return bits.astype(np.uint8).view(type_.dtype.numpy)
    if type_.name.startswith("int"):
        bits = np.where(bits >> (type_.bits - 1), bits.astype(np.int8) - (1 << type_.bits), bits)
    return bits.astype(np.int8).astype(type_.dtype.numpy)


def _of_entries(entries: Any, type_: ElementType, dims: tuple[int, ...], what: str) -> np.ndarray:
    """The array of a typed field."""
    dtype = type_.dtype.numpy
    if type_.dtype is DType.STRING:
        if not all(map(is_text, entries)):
            raise BadTensor(f"{what} has a string that is no UTF-8")
        made = np.empty(len(entries), object)
        made[:] = list(entries)
        return made.reshape(dims)
    if type_.field in ("float_data", "double_data"):
        single = np.float32 if type_.field == "float_data" else np.float64
        return np.fromiter(entries, single, len(entries)).view(dtype).reshape(dims)
    wide = np.uint64 if type_.field == "uint64_data" else np.int64
    numbers = np.fromiter(entries, wide, len(entries))
    if type_.dtype is DType.BOOL:
        return (numbers != 0).reshape(dims)
    low, high = _limits(type_)
    if numbers.size and (numbers.min() < low or numbers.max() > high):
        raise BadTensor(f"{what} of {type_.name} has entries outside of {low}..{high}")
    if type_.bits < 8 and 8 % type_.bits:
        return (numbers & ((1 << type_.bits) - 1)).astype(np.uint8).view(dtype).reshape(dims)
    if type_.bits < 8:
        packed = (numbers & 255).astype(np.uint8)
        return _unpacked(packed, type_, math.prod(dims)).reshape(dims)
    if type_.pattern:
        unsigned = np.uint16 if type_.bits == 16 else np.uint8
        return numbers.astype(unsigned).view(dtype).reshape(dims)
    return numbers.astype(dtype).reshape(dims)


def _limits(type_: ElementType) -> tuple[int, int]:
    """The range of entries of an integer field; int32_data may have the bits with another sign."""
    bits = max(type_.bits, 8)
    if type_.pattern and type_.bits >= 8:
        return 0, (1 << bits) - 1
    if type_.field == "int32_data" and bits < 32:
        return -(1 << bits - 1), (1 << bits) - 1
    info = np.iinfo(type_.dtype.numpy)
    return int(info.min), int(info.max)
