"""Encoder of inputs: a session's arrays as its model's graph takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vknn.errors import InputError
from vknn.formats import Model

#: An input's name, the dtype and shape of the user's array, and the shape in the graph.
Plain = tuple[str, np.dtype, tuple[int, ...], tuple[int, ...]]


def host_arrays(feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """``feeds`` with NumPy's view of what other libraries hold (DLPack), without a copy.

    Raises InputError for what does not lie in the host's memory or has no dtype of NumPy's.
    """
    foreign = [
        name
        for name, value in feeds.items()
        if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__")
    ]
    return {**feeds, **{name: _viewed(name, feeds[name]) for name in foreign}} if foreign else feeds


def _viewed(name: str, value: Any) -> np.ndarray:
    try:
        return np.from_dlpack(value)
    except Exception as error:  # each library has its own
        raise InputError(
            f"input {name!r}: NumPy cannot read this {type(value).__name__} ({error}); make it an "
            "array in the host's memory first"
        ) from error


def _array(name: str, value: Any) -> np.ndarray:
    try:
        return np.asarray(value)
    except ValueError as error:  # lists of different lengths
        raise InputError(f"input {name!r}: this is no array: {error}") from error


class InputEncoder:
    """Encoder of a model's inputs; knows arrays like the last ones again and only reshapes them.

    A run on the device with small inputs takes less time than looking at each of them anew.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._plain: list[Plain] | None = None

    def encode(self, feeds: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The arrays as the graph takes them, by name. Raises InputError."""
        model = self._model
        model.check_names(feeds)
        return {s.name: model.encode(s.name, _array(s.name, feeds[s.name])) for s in model.inputs}

    def remember(self, feeds: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Note of what :meth:`encode` made of these, where that depends on their types alone."""
        self._plain = None
        if self._model.value_inputs or not all(self._is_plain(n, feeds[n], arrays) for n in arrays):
            return
        self._plain = [(n, a.dtype, feeds[n].shape, a.shape) for n, a in arrays.items()]

    def recall(self, feeds: Mapping[str, Any]) -> dict[str, np.ndarray] | None:
        """The result of :meth:`encode` for arrays of the very types that were noted; else None."""
        plain = self._plain
        if plain is None or len(feeds) != len(plain):
            return None
        arrays = {}
        for name, dtype, given, taken in plain:
            array = feeds.get(name)
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

    def _is_plain(self, name: str, given: Any, arrays: Mapping[str, np.ndarray]) -> bool:
        """Whether an array came out as it was, but for its shape."""
        made = arrays[name]
        return (
            type(given) is np.ndarray
            and given.size == made.size
            and given.flags.c_contiguous
            and made.flags.c_contiguous
            and np.may_share_memory(given, made)
            and name not in self._model.range_checked
        )
