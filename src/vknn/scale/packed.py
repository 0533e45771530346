"""Packed records: inputs as columns of a table, between the stage that decodes and the GPUs'."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from vknn.errors import VknnError
from vknn.pictures import Placement
from vknn.scale.optional import arrow
from vknn.scale.options import PACKED
from vknn.scale.outcome import error_row, error_type
from vknn.scale.records import Record

#: Begin of the names of packed inputs' columns.
_INPUT = f"{PACKED}input_"
#: Why a record's file could not be read, a text; only sources of pictures have it.
READ_ERROR = f"{PACKED}read"
_PLACEMENT, _ERROR = f"{PACKED}placement", f"{PACKED}error"


class DecodeError(VknnError):
    """An error that another process had when it decoded a record.

    Attributes:
        kind: Its type.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind

    def __reduce__(self) -> tuple[Any, ...]:
        return DecodeError, (self.kind, str(self))


def packed(table: Any, inputs: Sequence[str], records: Sequence[Record]) -> Any:
    """A table with what records are in place of what they were made of."""
    pa = arrow()
    for name in inputs:
        cells = [_cell(record.feeds.get(name)) for record in records]
        table = table.append_column(f"{_INPUT}{name}", pa.array(cells, _cell_type(pa)))
    places = [None if r.placement is None else _flat(r.placement) for r in records]
    table = table.append_column(_PLACEMENT, pa.array(places, pa.list_(pa.float64())))
    errors = [None if r.error is None else error_row(r.error, r.attempts + 1) for r in records]
    return table.append_column(_ERROR, pa.array(errors, error_type()))


def is_packed(table: Any) -> bool:
    """Whether a table holds packed records."""
    return _ERROR in table.column_names


def unpacked(table: Any, inputs: Sequence[str]) -> Iterator[Record]:
    """The records of a table; arrays lie in its memory."""
    columns = [table.column(f"{_INPUT}{name}") for name in inputs]
    places, errors = table.column(_PLACEMENT).to_pylist(), table.column(_ERROR).to_pylist()
    for number, (place, error) in enumerate(zip(places, errors, strict=True)):
        if error is not None:
            told = DecodeError(error["type"], error["message"])
            yield Record(error=told, attempts=error["attempts"] - 1)
            continue
        feeds = {name: _array(column[number]) for name, column in zip(inputs, columns, strict=True)}
        yield Record(feeds, None if place is None else _placement(place))


def _cell_type(pa: Any) -> Any:
    return pa.struct(
        [("data", pa.large_binary()), ("shape", pa.list_(pa.int64())), ("dtype", pa.string())]
    )


def _cell(array: np.ndarray | None) -> dict[str, Any] | None:
    if array is None:
        return None
    if array.dtype.kind == "O":
        flat = [v if isinstance(v, bytes) else str(v).encode() for v in array.reshape(-1)]
        array = np.array(flat, np.bytes_).reshape(array.shape)
    return {
        "data": np.ascontiguousarray(array).tobytes(),
        "shape": list(array.shape),
        "dtype": array.dtype.str if array.dtype.kind in "fiubSU" else array.dtype.name,
    }


def _array(cell: Any) -> np.ndarray:
    data = cell["data"].as_buffer()
    shape = cell["shape"].as_py()
    name = cell["dtype"].as_py()
    dtype = _dtype(name)
    array = np.frombuffer(data, dtype).reshape(shape) if dtype.itemsize else np.zeros(shape, dtype)
    return np.char.decode(array, "utf-8").astype(object) if dtype.kind == "S" else array


def _dtype(name: str) -> np.dtype:
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))


def _flat(placement: Placement) -> list[float]:
    return [float(number) for pair in asdict(placement).values() for number in pair]


def _placement(numbers: Sequence[float]) -> Placement:
    w, h, across, down, sx, sy, x, y = numbers
    return Placement((int(w), int(h)), (int(across), int(down)), (sx, sy), (x, y))
