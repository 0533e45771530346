"""Reading of a source in this process: its records as Arrow tables, a batch at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vknn.errors import InputError, VknnError
from vknn.scale.archives import KEY, MOST_BYTES, Note, UnreadError, archive_records
from vknn.scale.array_files import arrays_of
from vknn.scale.optional import arrow, arrow_part
from vknn.scale.sources import (
    ARRAYS,
    BYTES,
    OWN_ID,
    PARQUET,
    PICTURES,
    TARS,
    RecordSource,
    opened,
)

_READERS = 8
#: Rows of Parquet that are read together, be it for batches of one row.
_LEAST_ROWS = 32
#: Bytes of a column of Parquet that are read together, here and over a network: left to itself
#: Arrow reads a row group's at once.
_BUFFER, _REMOTE_BUFFER = 1 << 20, 8 << 20


@dataclass(frozen=True)
class Rows:
    """Rows of a source: an Arrow table, for some of them why they could not be read, and where
    they are from (of Parquet).
    """

    table: Any
    errors: dict[int, Exception] = field(default_factory=dict)
    path: str = ""

    def __len__(self) -> int:
        return int(self.table.num_rows)


def read(
    source: RecordSource,
    columns: Sequence[str],
    rows: int,
    wanted: Callable[[Any], bool] | None = None,
    note: Note | None = None,
) -> Iterator[Rows]:
    """The records in order, so many rows at a time.

    Args:
        source: The source.
        columns: The columns that are needed; the first names records.
        rows: Of a batch.
        wanted: Told a record's name; what it does not want is left out, unread where that can be.
        note: Told what users are to know of the files.

    Raises InputError for files that do not fit and, behind all records that there are, UnreadError
    where files are damaged.
    """
    if source.kind == TARS:
        return _read_tars(source, columns, rows, wanted, note)
    if source.kind == PICTURES:
        return _read_pictures(source, columns, rows, wanted)
    return _read_files(source, columns, rows, wanted)


_Wanted = Callable[[Any], bool] | None


def _read_pictures(
    source: RecordSource, columns: Sequence[str], rows: int, wanted: _Wanted
) -> Iterator[Rows]:
    pa = arrow()
    known = OWN_ID[PICTURES]
    paths = [path for path in source.paths if wanted is None or wanted(path)]
    sizes = dict(zip(source.paths, source.sizes, strict=True))

    def contents(path: str) -> bytes | Exception:
        if sizes[path] > MOST_BYTES:
            return InputError(f"{path} has {sizes[path]} bytes; at most {MOST_BYTES} are read")
        try:
            with source.filesystem.open_input_stream(source.place(path)) as file:
                return bytes(file.read())
        except OSError as error:
            return InputError(f"{path} cannot be read: {error}")

    with ThreadPoolExecutor(_READERS, "vknn-read") as pool:
        for some in _chunks(paths, rows):
            found = list(pool.map(contents, some)) if BYTES in columns else [b""] * len(some)
            errors = {i: f for i, f in enumerate(found) if isinstance(f, Exception)}
            data = [None if isinstance(f, Exception) else f for f in found]
            table = pa.table(
                {known: pa.array(some, pa.string()), BYTES: pa.array(data, pa.binary())}
            )
            yield Rows(table.select(list(columns)), errors)


def _read_files(
    source: RecordSource, columns: Sequence[str], rows: int, wanted: _Wanted
) -> Iterator[Rows]:
    """Rows of Parquet or arrays; a damaged file ends with what stands before that."""
    problems: dict[str, str] = {}
    read_one = read_parquet if source.kind == PARQUET else _read_arrays
    for path in source.paths:
        try:
            yield from read_one(source, path, columns, rows, wanted)
        except InputError:
            raise
        except VknnError as error:
            problems[path] = str(error)
    if problems:
        raise UnreadError(problems)


def read_parquet(
    source: RecordSource, path: str, columns: Sequence[str], rows: int, wanted: _Wanted = None
) -> Iterator[Rows]:
    """Rows of a Parquet file. Raises VknnError where it is damaged."""
    pa = arrow()
    file = parquet_file(source, path)
    check_columns(file.schema_arrow.names, columns, path)
    many = rows * max(1, _LEAST_ROWS // rows)
    try:
        for batch in file.iter_batches(many, columns=list(dict.fromkeys(columns))):
            table = in_types(pa.Table.from_batches([batch]), source.casts, path)
            if wanted is not None:
                ids = table.column(columns[0]).to_pylist()
                table = table.filter(pa.array([wanted(i) for i in ids], pa.bool_()))
            for begin in range(0, table.num_rows, rows):
                yield Rows(table.slice(begin, rows), path=path)
    except (pa.ArrowException, OSError) as error:
        raise VknnError(f"{path} cannot be read: {' '.join(str(error).split())}") from None


def row_bytes(source: RecordSource, path: str, columns: Sequence[str]) -> int:
    """Mean bytes of some columns in a row of a Parquet file. Raises VknnError."""
    found = parquet_file(source, path).metadata
    groups = [found.row_group(number) for number in range(found.num_row_groups)]
    parts = (group.column(number) for group in groups for number in range(group.num_columns))
    own = (part for part in parts if part.path_in_schema.split(".")[0] in columns)
    return sum(part.total_uncompressed_size for part in own) // max(1, found.num_rows)


#: Types of columns that Arrow neither filters nor takes rows of.
_VIEWS = ("string_view", "binary_view")


def plain_type(type_: Any) -> Any:
    """The Arrow type of the values, be they written as numbers of a dictionary."""
    return type_.value_type if arrow().types.is_dictionary(type_) else type_


def in_types(table: Any, casts: Mapping[str, Any], path: str = "") -> Any:
    """A table whose columns have the types that all files' values have. Raises InputError.

    Args:
        table: Rows of a file.
        casts: Columns of several types -> the type that holds all of them.
        path: The file, where that is known.
    """
    pa = arrow()
    where = f"{path}: " if path else ""
    for number, own in enumerate(table.schema):
        if str(own.type) in _VIEWS:
            raise InputError(
                f"{where}column {own.name!r} is {own.type}, of which no rows can be taken: write "
                "it as string or binary"
            )
        known = casts.get(own.name)
        if known is None or known.equals(own.type):
            continue
        try:
            column = table.column(number).cast(known)
        except pa.ArrowException as error:
            raise InputError(
                f"{where}column {own.name!r} is {own.type}, and {known} in other files: {error}"
            ) from None
        table = table.set_column(number, own.name, column)
    return table


def _read_arrays(
    source: RecordSource, path: str, columns: Sequence[str], rows: int, wanted: _Wanted
) -> Iterator[Rows]:
    """Rows of a .npy or .npz. Raises VknnError where it is damaged."""
    pa = arrow()
    known = OWN_ID[ARRAYS]
    with arrays_of(source, path, columns) as arrays:
        if missing := [n for n in columns if n != known and n not in arrays]:
            raise InputError(f"{path} has no array {missing[0]!r}; it has {', '.join(arrays)}")
        for some in _chunks(range(row_count({n: a.shape for n, a in arrays.items()}, path)), rows):
            ids = [f"{path}#{number}" for number in some]
            kept = [i for i, name in enumerate(ids) if wanted is None or wanted(name)]
            if not kept:
                continue
            data = {known: pa.array([ids[i] for i in kept], pa.string())}
            for name, array in arrays.items():
                if name in columns:
                    own = array[some[0] : some[-1] + 1]
                    if len(kept) < len(some):  # else no copy: mapped rows are read where they lie
                        own = own[kept]
                    data[name] = _tensor_column(np.asarray(own), path)
            yield Rows(in_types(pa.table(data).select(list(columns)), source.casts, path))


def _read_tars(
    source: RecordSource, columns: Sequence[str], rows: int, wanted: _Wanted, note: Note | None
) -> Iterator[Rows]:
    pa = arrow()
    for some in _chunks_up_to_errors(archive_records(source, wanted, note), rows):
        data = {
            name: pa.array(
                [row.get(name) for row in some], pa.string() if name == KEY else pa.binary()
            )
            for name in columns
        }
        yield Rows(pa.table(data))


def check_columns(names: Sequence[str], columns: Sequence[str], path: str) -> None:
    """Check that a file has columns of these names. Raises InputError."""
    if missing := [name for name in columns if name not in names]:
        raise InputError(f"{path} has no column {missing[0]!r}; it has {', '.join(names)}")


def parquet_file(source: RecordSource, path: str) -> Any:
    """A Parquet file of a source, open. Raises VknnError."""
    pa, parquet = arrow(), arrow_part("parquet")
    try:
        size = _BUFFER if source.is_local else _REMOTE_BUFFER
        file = parquet.ParquetFile(opened(source, path), pre_buffer=False, buffer_size=size)
        names = file.schema_arrow.names
    except (pa.ArrowException, OSError) as error:
        raise VknnError(f"{path} cannot be read: {error}") from None
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"{path} has two columns of the name {twice[0]!r}")
    return file


def row_count(shapes: Mapping[str, tuple[int, ...]], path: str) -> int:
    """Number of rows of arrays by their shapes. Raises InputError where they differ in it."""
    if not shapes:
        raise InputError(f"{path} has no arrays in it")
    if single := [name for name, shape in shapes.items() if not shape]:
        raise InputError(f"{path}: array {single[0]!r} is a single number: its first axis has rows")
    counts = {shape[0] for shape in shapes.values()}
    if len(counts) != 1:
        shown = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
        raise InputError(f"{path}: the first axes count rows and differ: {shown}")
    return counts.pop()


def array_type(shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """The Arrow type of an array's rows; None where they have none."""
    if not shape or not _is_number(dtype):
        return None
    pa = arrow()
    element = pa.from_numpy_dtype(_native(dtype))
    if len(shape) == 1:
        return element
    return pa.list_(element) if 0 in shape[1:] else pa.fixed_shape_tensor(element, shape[1:])


def _native(dtype: np.dtype) -> np.dtype:
    """The element type that Arrow has for numbers of a type."""
    return np.dtype(np.uint8) if dtype.kind == "b" else dtype.newbyteorder("=")


def _is_number(dtype: np.dtype) -> bool:
    """Whether elements are numbers that Arrow has, too."""
    return dtype.kind in "fiub" and dtype.itemsize <= 8


def _tensor_column(array: np.ndarray, path: str) -> Any:
    """The rows of an array as an Arrow column."""
    pa = arrow()
    if not _is_number(array.dtype):
        raise InputError(f"{path} holds {array.dtype}: numbers are read")
    array = array.astype(_native(array.dtype), copy=False)
    if array.ndim == 1:
        return pa.array(array)
    if 0 in array.shape[1:]:
        return pa.array(list(array.reshape(len(array), -1)))
    flat = pa.array(np.ascontiguousarray(array).reshape(-1))
    storage = pa.FixedSizeListArray.from_arrays(flat, int(np.prod(array.shape[1:])))
    type_ = pa.fixed_shape_tensor(flat.type, array.shape[1:])
    return pa.ExtensionArray.from_storage(type_, storage)


def _chunks(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(items)
    while some := list(itertools.islice(iterator, size)):
        yield some


def _chunks_up_to_errors(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """The chunks; where items end with an error it comes behind those that there were."""
    some: list[Any] = []
    try:
        for item in items:
            some.append(item)
            if len(some) == size:
                yield some
                some = []
    except (VknnError, OSError) as error:
        if some:
            yield some
        raise error
    if some:
        yield some
