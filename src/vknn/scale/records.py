"""Records: rows of a source made inputs of a model, or errors that say why they cannot be."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from vknn.answers import Recipe
from vknn.answers.looking import PictureInput, in_batch
from vknn.errors import InputError, VknnError
from vknn.formats import TensorSpec
from vknn.npy_header import read_header
from vknn.pictures import ImageOptions, Placement, open_picture
from vknn.scale.optional import arrow
from vknn.scale.outcome import without_frames

#: Elements that one cell may have.
MOST_ELEMENTS = 1 << 28
#: Begin of the names of Ray's types of tensors of one shape.
_RAY_TENSOR = "ray.data.arrow_tensor"
#: Begin of a .npy.
_NPY = b"\x93NUMPY"
#: Where numbers that are no picture lie in an input: classes have no place.
_NOWHERE = Placement((0, 0), (0, 0), (1.0, 1.0), (0.0, 0.0))


@dataclass
class Record:
    """A row as the model takes it.

    Attributes:
        feeds: Its arrays by input; empty where there is an ``error``.
        placement: Where its picture lies in the input; None where it is no picture.
        error: Why it cannot be computed.
        attempts: How often it was tried to compute it before.
    """

    feeds: dict[str, np.ndarray] = field(default_factory=dict)
    placement: Placement | None = None
    error: Exception | None = None
    attempts: int = 0

    def place_for(self, recipe: Recipe | None) -> Placement | None:
        """Place in the input that an answer is about; None where that has to be a picture's."""
        if self.placement is None and recipe is not None:
            return _NOWHERE if recipe.decoder.task == "classification" else None
        return self.placement


@dataclass(frozen=True)
class InputColumn:
    """A column that an input of the model is read from; can be pickled.

    Attributes:
        column: Its name.
        form: The input.
        options: How pictures become arrays.
        asked: Whether this input is the one that an answer is about.
        may_be_picture: Whether its cells may be encoded pictures: they are bytes, or nobody knows.
    """

    column: str
    form: PictureInput
    options: ImageOptions
    asked: bool = True
    may_be_picture: bool = True

    def read(self, value: Any) -> tuple[np.ndarray, Placement | None]:
        """The array of a cell: encoded bytes are a picture, lists and tensors arrays.

        Raises VknnError.
        """
        if isinstance(value, Mapping) and "bytes" in value:  # as Hugging Face's tables hold files
            value = value["bytes"]
        if isinstance(value, Exception):
            raise InputError(f"column {self.column!r}: {value}")
        if value is None:
            raise InputError(f"column {self.column!r} is null")
        if isinstance(value, bytes) and value.startswith(_NPY):  # as archives hold arrays
            value = _array_in(value, self.column)
        if isinstance(value, bytes) and self.form.spec.dtype != object:
            if not value:
                raise InputError(f"column {self.column!r} has 0 bytes, which are no picture")
            picture = open_picture(Path(f"column {self.column!r}"), value)
            return self.form.array(picture, self.options)
        return fitted(np.asarray(value), self.form.spec, self.column), None


def _array_in(contents: bytes, column: str) -> np.ndarray:
    """The array of a .npy's bytes. Raises InputError."""
    try:
        file = io.BytesIO(contents)
        shape, _, dtype = read_header(file)
        size = len(contents) - file.tell()
        if math.prod(shape) * dtype.itemsize > size:  # before memory is taken for it
            raise ValueError(f"it is cut off: {size} bytes for {dtype}{list(shape)}")
        file.seek(0)
        found: np.ndarray = np.load(file, allow_pickle=False)
    except Exception as error:  # NumPy's readers of damaged files raise errors of many kinds
        raise InputError(
            f"column {column!r} holds no NumPy array that can be read: {error}"
        ) from None
    return found


def record_of(columns: Sequence[InputColumn], row: Iterable[Any]) -> Record:
    """The record of a row's cells, one for each of the columns."""
    record = Record()
    try:
        for column, value in zip(columns, row, strict=True):
            record.feeds[column.form.spec.name], placement = column.read(value)
            if placement is not None and (column.asked or record.placement is None):
                record.placement = placement
    except (VknnError, MemoryError) as error:
        return Record(error=without_frames(error))
    return record


def cells_of(column: Any) -> Iterator[Any]:
    """Values of an Arrow column: bytes, text, arrays; None for null; errors in their places."""
    pa = arrow()
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        if isinstance(chunk.type, pa.FixedShapeTensorType):
            yield from _tensors(chunk)
        elif _is_tensor_of_ray(chunk.type) and not chunk.null_count:
            yield from _tensors_of_ray(chunk)
        elif is_list(chunk.type):
            yield from map(_array_of, chunk)
        else:
            yield from (value.as_py() for value in chunk)


def _tensors(chunk: Any) -> Iterator[Any]:
    """The arrays of a column of tensors of one shape."""
    shape = tuple(chunk.type.shape)
    order = chunk.type.permutation
    width = int(np.prod(shape, dtype=np.int64))
    values = chunk.storage.values.to_numpy(zero_copy_only=False)
    start = chunk.storage.offset
    valid = chunk.is_valid().to_numpy(zero_copy_only=False)
    for number, is_valid in enumerate(valid):
        if not is_valid:
            yield None
            continue
        begin = (start + number) * width
        array = values[begin : begin + width].reshape(shape)
        yield array.transpose(order) if order else array


def _tensors_of_ray(chunk: Any) -> Iterator[np.ndarray]:
    """The arrays of a column of Ray's tensors of one shape, none of them null."""
    if len(chunk):
        shape, lists = (len(chunk), *chunk.type.shape), chunk.storage
        flat = lists.values.slice(lists.offsets[0].as_py(), math.prod(shape))
        yield from flat.to_numpy(zero_copy_only=False).reshape(shape)


def _is_tensor_of_ray(type_: Any) -> bool:
    """Whether an Arrow type is Ray's own of tensors of one shape, whose cells are read slowly."""
    is_own = isinstance(type_, arrow().BaseExtensionType) and type_.extension_name.startswith(
        _RAY_TENSOR
    )
    return is_own and 0 not in type_.shape and is_list(type_.storage_type)


def is_list(type_: Any) -> bool:
    """Whether an Arrow type is one of lists."""
    types = arrow().types
    checks = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    return any(check(type_) for check in checks)


def _array_of(cell: Any) -> Any:
    """The array of a cell of (nested) lists; an error where it is ragged or has nulls."""
    if not cell.is_valid:
        return None
    shape, values = [], cell.values
    shape.append(len(values))
    while is_list(values.type):
        lengths = set(values.value_lengths().to_pylist())
        if len(lengths) > 1 or None in lengths:
            return InputError("its lists are of different lengths, which is no array")
        shape.append(lengths.pop() if lengths else 0)
        values = values.flatten()
    if values.null_count:
        return InputError("its list has nulls in it")
    if len(values) > MOST_ELEMENTS:
        return InputError(f"its list has {len(values)} elements; at most {MOST_ELEMENTS} are read")
    return values.to_numpy(zero_copy_only=False).reshape(shape)


def fitted(array: np.ndarray, spec: TensorSpec, column: str) -> np.ndarray:
    """An array in the dtype of an input, and in its shape where that is plain.

    A flat list of as many elements takes the input's shape; a batch axis of 1 is put in front.
    Raises InputError for numbers that the dtype does not have.
    """
    made = _as_dtype(array, spec, column)
    fixed = shape_of_one(spec)
    if fixed is None or made.shape == fixed:
        return in_batch(made, spec)
    if made.ndim <= 1 and made.size == int(np.prod(fixed, dtype=np.int64)):
        return made.reshape(fixed)
    return in_batch(made, spec)


def shape_of_one(spec: TensorSpec) -> tuple[int, ...] | None:
    """The shape of one record for an input, whose batch axis may be free; None: it is not fixed."""
    sizes = spec.sizes
    if not sizes:
        return spec.fixed
    rest = [size for size in sizes[1:] if size is not None]
    return None if len(rest) < len(sizes) - 1 else (1 if sizes[0] is None else sizes[0], *rest)


def _as_dtype(array: np.ndarray, spec: TensorSpec, column: str) -> np.ndarray:
    wanted = spec.dtype
    if array.dtype == wanted:
        return array
    if wanted.kind == "O":
        if array.dtype.kind in "OUS":
            return array.astype(object)
    elif array.dtype.kind in "fiub":
        with np.errstate(all="ignore"):
            made = array.astype(wanted)
            exact = wanted.kind not in "iub" or np.array_equal(made.astype(array.dtype), array)
        if exact:
            return made
        raise InputError(
            f"column {column!r} has numbers that input {spec.name!r} cannot hold as "
            f"{spec.dtype_name}"
        )
    held = "text" if array.dtype.kind in "US" else array.dtype.name
    raise InputError(
        f"column {column!r} holds {held}, and input {spec.name!r} takes "
        f"{spec.dtype_name}: encoded pictures, lists of numbers or tensors are read"
    )
