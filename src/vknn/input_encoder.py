"""Encoder of inputs: a session's arrays as its model's graph takes them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vknn.errors import InputError
from vknn.formats import Model
from vknn.runtime import DeviceArray, DeviceTensor, on_host

#: An input's name, the dtype and shape of the user's array, and the shape in the graph.
Plain = tuple[str, np.dtype, tuple[int, ...], tuple[int, ...]]


def host_arrays(feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """``feeds`` with NumPy's view of what other libraries hold (DLPack), without a copy.

    Device tensors that the host holds become arrays, others stay what they are. Raises InputError
    for what does not lie in the host's memory or has no dtype of NumPy's.
    """
    foreign = [
        name
        for name, value in feeds.items()
        if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__")
    ]
    return {**feeds, **{name: _viewed(name, feeds[name]) for name in foreign}} if foreign else feeds


def plain_shape(convert: Callable[[np.ndarray], Any], array: DeviceArray) -> tuple[int, ...] | None:
    """Shape that a model's conversion gives an array, where that is all that it changes; else None.

    It is tried with zeros in its place. Raises what the conversion raises.
    """
    zeros = np.zeros(array.shape, array.dtype)
    made = convert(zeros)
    if isinstance(made, np.generic) and made.dtype == zeros.dtype and zeros.size == 1:
        return ()
    same = isinstance(made, np.ndarray) and made.dtype == zeros.dtype and made.size == zeros.size
    plain = same and made.flags.c_contiguous
    return made.shape if plain and (not made.size or np.may_share_memory(made, zeros)) else None


def _viewed(name: str, value: Any) -> np.ndarray | DeviceArray:
    if isinstance(value, DeviceTensor):
        return value.stored()
    try:
        return np.from_dlpack(value)
    except Exception as error:  # each library has its own
        raise InputError(
            f"input {name!r}: NumPy cannot read this {type(value).__name__} ({error}); make it an "
            "array in the host's memory first"
        ) from error


def _array(name: str, value: Any, dtype: np.dtype | None) -> np.ndarray:
    """A value as an array; numbers of Python's, which have no dtype, in ``dtype`` where it fits."""
    try:
        array = np.asarray(value)
        if dtype is None or array.dtype == dtype or not _is_of_numbers(value):
            return array
        fits = dtype.kind == "f" or (array.dtype.kind == "i" and dtype.kind in "iu")
        if array.dtype.kind not in "if" or not fits:
            return array
        given = array.astype(dtype)
        return given if dtype.kind == "f" or np.array_equal(given, array) else array
    except ValueError as error:  # lists of different lengths
        raise InputError(f"input {name!r}: this is no array: {error}") from error


def _is_of_numbers(value: Any) -> bool:
    """Whether it is a number of Python's, or lists of them."""
    while isinstance(value, list | tuple) and value:
        value = value[0]
    return type(value) in (int, float)


class InputEncoder:
    """Encoder of a model's inputs; knows arrays like the last ones again and only reshapes them.

    A run on the device with small inputs takes less time than looking at each of them anew.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._dtypes = {spec.name: spec.dtype for spec in model.inputs}
        self._plain: list[Plain] | None = None

    def encode(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays as the graph takes them, by name. Raises InputError.

        Arrays on a device stay there where the graph takes them as they are but for the shape.
        """
        self._model.check_names(feeds)
        names = [s.name for s in self._model.inputs if s.name in feeds]
        if len(names) < len(feeds):  # those that may be left out, and parts of sequences
            names += sorted(feeds.keys() - set(names))
        return {name: self._encoded(name, feeds[name]) for name in names}

    def remember(self, feeds: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Note of what :meth:`encode` made of these, where that depends on their types alone."""
        self._plain = None
        if self._model.value_inputs or not all(self._is_plain(n, feeds[n], arrays) for n in arrays):
            return
        self._plain = [(n, a.dtype, feeds[n].shape, a.shape) for n, a in arrays.items()]

    def recall(self, feeds: Mapping[str, Any]) -> dict[str, Any] | None:
        """The result of :meth:`encode` for arrays of the very types that were noted; else None."""
        plain = self._plain
        if plain is None or len(feeds) != len(plain):
            return None
        arrays: dict[str, Any] = {}
        for name, dtype, given, taken in plain:
            array = feeds.get(name)
            if type(array) is DeviceTensor:
                array = array.stored()
            if type(array) is DeviceArray and array.dtype == dtype and array.shape == given:
                arrays[name] = array.reshaped(taken)
                continue
            if (
                type(array) is not np.ndarray
                or array.dtype != dtype
                or array.shape != given
                or not array.flags.c_contiguous
            ):
                return None
            arrays[name] = array.reshape(taken)
        return arrays

    def forget(self) -> None:
        """Removal of what was noted."""
        self._plain = None

    def _encoded(self, name: str, value: Any) -> Any:
        """An input as the graph takes it; of one on a device, without a look at it if possible."""
        if isinstance(value, DeviceArray):
            if name not in self._model.range_checked and name not in self._model.value_inputs:
                shape = plain_shape(functools.partial(self._model.encode, name), value)
                if shape is not None:
                    return value.reshaped(shape)
            value = on_host(name, value, "the host converts or checks it")
        return self._model.encode(name, _array(name, value, self._dtypes.get(name)))

    def _is_plain(self, name: str, given: Any, arrays: Mapping[str, Any]) -> bool:
        """Whether an array came out as it was, but for its shape."""
        made = arrays[name]
        if isinstance(made, DeviceArray):
            return True
        return (
            type(given) is np.ndarray
            and given.size == made.size
            and given.flags.c_contiguous
            and made.flags.c_contiguous
            and np.may_share_memory(given, made)
            and name not in self._model.range_checked
        )
