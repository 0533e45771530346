"""Arrays that users give, held against what a model's inputs take; strings on their way."""

from __future__ import annotations

import numpy as np

from vknn.errors import InputError
from vknn.formats.onnx.records import TypeRecord
from vknn.graph import DType


def checked_array(name: str, type_: TypeRecord, array: np.ndarray) -> np.ndarray:
    """``array`` as graphs hold it. Raises InputError, naming the input, where it does not fit."""
    array = np.asarray(array)
    _check_shape(name, type_, array.shape)
    found = DType.find(array) if array.dtype != object else DType.STRING
    wanted = type_.dtype
    if found is None or (wanted is not None and found is not wanted):
        what = "a dtype that vknn lacks" if wanted is None else _named(wanted)
        raise InputError(
            f"input {name!r} takes {what}, not {array.dtype}; dtypes are never cast: use "
            f"astype on the array"
        )
    if found is DType.STRING:
        return _bytes_of(name, array)
    native = array.astype(found.numpy, copy=False)  # of another byte order
    return np.ascontiguousarray(native).reshape(array.shape)


def strings_of(array: np.ndarray) -> np.ndarray:
    """An object array of bytes as one of str."""
    result = np.empty(array.shape, object)
    for place, item in np.ndenumerate(array):
        result[place] = item.decode("utf-8", "replace") if isinstance(item, bytes) else item
    return result


def _named(dtype: DType) -> str:
    return "str (an object array)" if dtype is DType.STRING else dtype.value


def _check_shape(name: str, type_: TypeRecord, shape: tuple[int, ...]) -> None:
    declared = type_.shape
    if declared is None:
        return
    fits = len(shape) == len(declared) and all(
        not isinstance(d, int) or d == s for s, d in zip(shape, declared, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if d is None else str(d) for d in declared)
        raise InputError(f"input {name!r} has the shape {list(shape)}, the model says [{wanted}]")


def _bytes_of(name: str, array: np.ndarray) -> np.ndarray:
    """Text as an object array of bytes in UTF-8."""
    result = np.empty(array.shape, object)
    for place, item in np.ndenumerate(array):
        if not isinstance(item, bytes | str):
            raise InputError(f"input {name!r} takes str, not {type(item).__name__}")
        try:
            encoded = item.encode() if isinstance(item, str) else bytes(item)
            encoded.decode()
        except UnicodeError:
            kind = type(item).__name__
            raise InputError(f"input {name!r} has a {kind} that is no UTF-8: {item!r}") from None
        result[place] = encoded
    return result
