"""Columns of answers: Arrow types for the outputs of a model, and arrays of these types."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from vknn.errors import UnsupportedLayerError, VknnError
from vknn.scale.optional import arrow
from vknn.scale.options import RESERVED


@dataclass(frozen=True)
class OutputColumn:
    """A column for an output; can be pickled.

    Attributes:
        name: The column.
        output: The output.
        dtype: Of its elements as they are written; "text" and "bytes" are such, too.
        shape: Sizes of its axes, None where they differ from row to row; None as a whole for a
            dictionary of scores by label.
    """

    name: str
    output: str
    dtype: str
    shape: tuple[int | None, ...] | None

    @property
    def is_fixed(self) -> bool:
        """Whether all rows have one shape, which Arrow's tensors can have."""
        return (
            self.shape is not None
            and None not in self.shape
            and 0 not in self.shape
            and self.dtype not in ("text", "bytes", "bool")
        )

    def type(self) -> Any:
        """The Arrow type: a number, a tensor of fixed shape, or (nested) lists."""
        pa = arrow()
        if self.shape is None:
            return pa.map_(pa.string(), pa.float64())
        element = _element(self.dtype)
        if not self.shape:
            return element
        if self.is_fixed:
            return _tensor_type(self.dtype, self.shape)
        for _ in self.shape:
            element = pa.list_(element)
        return element

    def problem(self, value: Any) -> str | None:
        """Reason why a value does not fit into the column; None where it does."""
        if self.shape is None:
            return None if isinstance(value, Mapping) else "it is no dictionary"
        shape = _plain(value).shape
        known = len(shape) == len(self.shape) and all(
            size in (None, own) for own, size in zip(shape, self.shape, strict=True)
        )
        return None if known else f"its shape is {list(shape)}, that of other rows {self.shape}"

    def array(self, values: Sequence[Any], fills: bool = False) -> Any:
        """The values as an Arrow array; None for null, or with ``fills`` for NaN in tensors."""
        pa = arrow()
        if self.shape is None:
            pairs = [
                None if v is None else [(str(k), float(p)) for k, p in v.items()] for v in values
            ]
            return pa.array(pairs, self.type())
        arrays = [None if v is None else _plain(v) for v in values]
        if not self.shape:
            return pa.array([None if a is None else a.item() for a in arrays], self.type())
        if self.is_fixed:
            return self._tensors(pa, arrays, fills)
        return _nested(pa, arrays, self.type(), len(self.shape))

    def _tensors(self, pa: Any, arrays: Sequence[np.ndarray | None], fills: bool) -> Any:
        assert self.shape is not None
        known = tuple(size or 0 for size in self.shape)
        whole = np.zeros((len(arrays), *known), self.dtype)
        for row, array in zip(whole, arrays, strict=True):
            if array is not None:
                row[...] = array
            elif fills and whole.dtype.kind == "f":
                row[...] = np.nan
        flat, mask = pa.array(whole.reshape(-1)), None
        if not fills and any(a is None for a in arrays):
            mask = pa.array(np.array([a is None for a in arrays], bool))
        storage = pa.FixedSizeListArray.from_arrays(flat, math.prod(known), mask=mask)
        return pa.ExtensionArray.from_storage(_tensor_type(self.dtype, known), storage)


def output_columns(
    values: Mapping[str, Any],
    shapes: Mapping[str, tuple[int | None, ...] | None],
    wanted: Sequence[str] | None,
    taken: Sequence[str],
) -> tuple[OutputColumn, ...]:
    """A column for each output.

    Args:
        values: A row's outputs by name.
        shapes: Their shapes as far as they are the same in all rows; None: nothing is known.
        wanted: Names of the outputs that are to be written; None: all.
        taken: Columns that answers have besides.

    Raises VknnError for unknown names, and UnsupportedLayerError for outputs that are no arrays.
    """
    names = list(values) if wanted is None else list(wanted)
    if unknown := [name for name in names if name not in values]:
        raise VknnError(f"there is no output {unknown[0]!r}; there are {', '.join(values)}")
    found: list[OutputColumn] = []
    for name in names:
        column = name
        while column in (*taken, *RESERVED, *(c.name for c in found)) or (
            column != name and column in names
        ):
            column += "_output"
        found.append(_column(column, name, values[name], shapes.get(name)))
    return tuple(found)


def _column(
    column: str, name: str, value: Any, shape: tuple[int | None, ...] | None
) -> OutputColumn:
    if isinstance(value, Mapping):
        return OutputColumn(column, name, "float64", None)
    if isinstance(value, list | tuple) or value is None:
        raise UnsupportedLayerError([f"output {name!r} is a sequence, which has no column"])
    array = _plain(value)
    free: tuple[int | None, ...] = (None,) * array.ndim
    known = free if shape is None or len(shape) != array.ndim else tuple(shape)
    return OutputColumn(column, name, _dtype(array), known)


def _plain(value: Any) -> np.ndarray:
    """An output as an array whose elements Arrow has: complex ones are pairs, narrow floats 32."""
    array = np.asarray(value)
    if array.dtype.kind == "c":
        parts = np.float32 if array.dtype.itemsize == 8 else np.float64
        return np.ascontiguousarray(array)[..., None].view(parts)
    if array.dtype.kind in "fiubOUS":
        return array
    return array.astype(np.float32)  # bfloat16, float8 and integers of 4 bits


def _dtype(array: np.ndarray) -> str:
    if array.dtype.kind not in "OUS":
        return array.dtype.name
    first = array.reshape(-1)[0] if array.size else ""
    return "bytes" if isinstance(first, bytes) else "text"


def _element(dtype: str) -> Any:
    pa = arrow()
    if dtype == "text":
        return pa.string()
    return pa.binary() if dtype == "bytes" else pa.from_numpy_dtype(np.dtype(dtype))


@cache  # it is asked for at each batch
def _tensor_type(dtype: str, shape: tuple[int, ...]) -> Any:
    return arrow().fixed_shape_tensor(_element(dtype), shape)


def _nested(pa: Any, arrays: Sequence[np.ndarray | None], type_: Any, rank: int) -> Any:
    """Arrays of different shapes as nested lists, level by level from the innermost."""
    there = [a for a in arrays if a is not None]
    element = type_
    for _ in range(rank):
        element = element.value_type
    if there and there[0].dtype.kind not in "OUS":
        flat = pa.array(np.concatenate([a.reshape(-1) for a in there]), element)
    else:
        flat = pa.array([v for a in there for v in a.reshape(-1).tolist()], element)
    for axis in range(rank - 1, 0, -1):
        lengths = [np.full(int(np.prod(a.shape[:axis])), a.shape[axis]) for a in there]
        counts = np.concatenate(lengths) if lengths else np.zeros(0, np.int64)
        flat = pa.ListArray.from_arrays(pa.array(_offsets(counts), pa.int32()), flat)
    sizes = np.array([0 if a is None else a.shape[0] for a in arrays], np.int64)
    nulls = np.array([*(a is None for a in arrays), False])
    return pa.ListArray.from_arrays(pa.array(_offsets(sizes), pa.int32(), mask=nulls), flat)


def _offsets(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
