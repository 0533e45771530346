"""Reading of a source in this process: its records as Arrow tables, a batch at a time."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from vknn.errors import InputError, VknnError
from vknn.scale.archives import KEY, MOST_BYTES, Note, archive_columns, archive_records
from vknn.scale.optional import arrow, arrow_part
from vknn.scale.sources import (
    ARRAYS,
    BYTES,
    DATA,
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


def schema_of(source: RecordSource) -> dict[str, Any]:
    """The columns of a source, name -> Arrow type (None: not known before they are read)."""
    pa = arrow()
    if source.kind == PICTURES:
        return {OWN_ID[PICTURES]: pa.string(), BYTES: pa.binary()}
    if source.kind == PARQUET:
        schema = _parquet(source, source.paths[0]).schema_arrow
        return {name: schema.field(name).type for name in schema.names}
    if source.kind == ARRAYS:
        arrays = _arrays(source, source.paths[0])
        return {OWN_ID[ARRAYS]: pa.string(), **{n: _row_type(a) for n, a in arrays.items()}}
    return {n: pa.string() if n == KEY else pa.binary() for n in archive_columns(source)}


def is_of_one_type(source: RecordSource, column: str) -> bool:
    """Whether a column has one type, that of tensors of a shape for example, in all files."""
    if len(source.paths) == 1:
        return True
    each = (schema_of(replace(source, paths=(path,))) for path in source.paths)
    types = (schema.get(column) for schema in each)
    first = next(types)
    return all(first == other for other in types)


def counted(source: RecordSource, id_column: str | None) -> int | None:
    """Number of records; None where it is known only once all are read.

    Raises InputError for ids that are null or occur twice.
    """
    if source.kind == PICTURES:
        return len(source.paths)
    if source.kind == ARRAYS:
        return sum(_row_count(_arrays(source, path), path) for path in source.paths)
    if source.kind != PARQUET:
        return None
    if id_column is None:
        return sum(_parquet(source, path).metadata.num_rows for path in source.paths)
    return _checked_ids(source, id_column)


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
    """
    if source.kind == TARS:
        return _read_tars(source, columns, rows, wanted, note)
    readers = {PICTURES: _read_pictures, PARQUET: _read_parquet, ARRAYS: _read_arrays}
    return readers[source.kind](source, columns, rows, wanted)


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


def _read_parquet(
    source: RecordSource, columns: Sequence[str], rows: int, wanted: _Wanted
) -> Iterator[Rows]:
    pa = arrow()
    types: dict[str, Any] = {}
    for path in source.paths:
        file = _parquet(source, path)
        _check_columns(file.schema_arrow.names, columns, path)
        try:
            many = rows * max(1, _LEAST_ROWS // rows)
            for batch in file.iter_batches(many, columns=list(dict.fromkeys(columns))):
                table = _in_types(pa.Table.from_batches([batch]), types, path, source.paths[0])
                if wanted is not None:
                    ids = table.column(columns[0]).to_pylist()
                    table = table.filter(pa.array([wanted(i) for i in ids], pa.bool_()))
                for begin in range(0, table.num_rows, rows):
                    yield Rows(table.slice(begin, rows), path=path)
        except (pa.ArrowException, OSError) as error:
            raise VknnError(f"{path} cannot be read: {error}") from None


#: Types of columns that Arrow neither filters nor takes rows of.
_VIEWS = ("string_view", "binary_view")


def _in_types(table: Any, types: dict[str, Any], path: str, first: str) -> Any:
    """A table whose plain columns have the types of the first file's; raises InputError."""
    pa = arrow()
    for number, own in enumerate(table.schema):
        if str(own.type) in _VIEWS:
            raise InputError(
                f"{path}: column {own.name!r} is {own.type}, of which no rows can be taken: write "
                "it as string or binary"
            )
        known = types.setdefault(own.name, own.type)
        nested = pa.types.is_nested(known) or isinstance(known, pa.ExtensionType)
        if known.equals(own.type) or nested or pa.types.is_null(known):
            continue
        try:
            column = table.column(number).cast(known)
        except pa.ArrowException:
            raise InputError(
                f"{path}: column {own.name!r} is {own.type}, and {known} in {first}"
            ) from None
        table = table.set_column(number, own.name, column)
    return table


def _read_arrays(
    source: RecordSource, columns: Sequence[str], rows: int, wanted: _Wanted
) -> Iterator[Rows]:
    pa = arrow()
    known = OWN_ID[ARRAYS]
    for path in source.paths:
        arrays = _arrays(source, path)
        if missing := [n for n in columns if n != known and n not in arrays]:
            raise InputError(f"{path} has no array {missing[0]!r}; it has {', '.join(arrays)}")
        for some in _chunks(range(_row_count(arrays, path)), rows):
            ids = [f"{path}#{number}" for number in some]
            kept = [i for i, name in enumerate(ids) if wanted is None or wanted(name)]
            if not kept:
                continue
            places: Any = np.array([some[i] for i in kept])
            if len(kept) == len(some):  # no copy: rows of a mapped file are read where they lie
                places = slice(some[0], some[-1] + 1)
            data = {known: pa.array([ids[i] for i in kept], pa.string())}
            for name, array in arrays.items():
                if name in columns:
                    data[name] = _tensor_column(np.asarray(array[places]), path)
            yield Rows(pa.table(data).select(list(columns)))


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


def check_parquet(source: RecordSource, columns: Sequence[str]) -> None:
    """Check that all Parquet files have columns of these names. Raises VknnError."""
    for path in source.paths:
        _check_columns(_parquet(source, path).schema_arrow.names, columns, path)


def _check_columns(names: Sequence[str], columns: Sequence[str], path: str) -> None:
    if missing := [name for name in columns if name not in names]:
        raise InputError(f"{path} has no column {missing[0]!r}; it has {', '.join(names)}")


def _parquet(source: RecordSource, path: str) -> Any:
    pa, parquet = arrow(), arrow_part("parquet")
    try:
        file = parquet.ParquetFile(opened(source, path))
        names = file.schema_arrow.names
    except (pa.ArrowException, OSError) as error:
        raise VknnError(f"{path} cannot be read: {error}") from None
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"{path} has two columns of the name {twice[0]!r}")
    return file


def _checked_ids(source: RecordSource, column: str) -> int:
    """Number of the ids of a column of Parquet files, which must all differ."""
    seen: set[Any] = set()
    count = 0
    for rows in _read_parquet(source, [column], 1 << 16, None):
        ids = rows.table.column(column)
        if ids.null_count or _has_nan(ids):
            raise InputError(f"{rows.path}: id column {column!r} has nulls, and ids name records")
        values = ids.to_pylist()
        count += len(values)
        try:
            seen.update(values)
        except TypeError:
            raise InputError(
                f"id column {column!r} holds {ids.type}: text or numbers name records"
            ) from None
        if len(seen) < count:
            raise InputError(_doubles(source, column))
    return count


def _has_nan(ids: Any) -> bool:
    """Whether ids are numbers with NaN among them, which is not even the same as itself."""
    compute = arrow_part("compute")
    return arrow().types.is_floating(ids.type) and bool(compute.any(compute.is_nan(ids)).as_py())


def _doubles(source: RecordSource, column: str) -> str:
    """The error for ids that occur twice, with examples."""
    seen: set[Any] = set()
    twice: dict[Any, str] = {}
    for rows in _read_parquet(source, [column], 1 << 16, None):
        for value in rows.table.column(column).to_pylist():
            if value in seen:
                twice.setdefault(value, rows.path)
            seen.add(value)
        if len(twice) >= 3:
            break
    shown = ", ".join(repr(value) for value in itertools.islice(twice, 3))
    return (
        f"id column {column!r} has ids that occur twice, such as {shown} in "
        f"{next(iter(twice.values()))}: every record needs an id of its own"
    )


def _arrays(source: RecordSource, path: str) -> dict[str, Any]:
    """The arrays of a .npy or .npz by name; a .npy's are mapped where that can be."""
    try:
        if path.lower().endswith(".npy") and source.is_local:
            return {DATA: np.load(source.place(path), mmap_mode="r", allow_pickle=False)}
        with opened(source, path) as file:
            found = np.load(io.BytesIO(file.read()), allow_pickle=False)
        if isinstance(found, np.ndarray):
            return {DATA: found}
        return {name: found[name] for name in found.files}
    except VknnError:
        raise
    except Exception as error:  # NumPy's readers of damaged files raise errors of many kinds
        raise VknnError(f"{path} is no NumPy file: {error}") from None


def _row_count(arrays: dict[str, Any], path: str) -> int:
    if not arrays:
        raise InputError(f"{path} has no arrays in it")
    counts = {len(array) if array.ndim else -1 for array in arrays.values()}
    if len(counts) != 1 or -1 in counts:
        shown = ", ".join(f"{name} {list(a.shape)}" for name, a in arrays.items())
        raise InputError(f"{path}: the first axes count rows and differ: {shown}")
    return counts.pop()


def _row_type(array: np.ndarray) -> Any:
    """The Arrow type of an array's rows; None where they have none."""
    if not array.ndim or not _is_number(array):
        return None
    return _tensor_column(np.zeros((1, *array.shape[1:]), array.dtype), "").type


def _is_number(array: np.ndarray) -> bool:
    """Whether an array holds numbers that Arrow has, too."""
    return array.dtype.kind in "fiub" and array.dtype.itemsize <= 8


def _tensor_column(array: np.ndarray, path: str) -> Any:
    """The rows of an array as an Arrow column."""
    pa = arrow()
    if not _is_number(array):
        raise InputError(f"{path} holds {array.dtype}: numbers are read")
    native = np.dtype(np.uint8) if array.dtype.kind == "b" else array.dtype.newbyteorder("=")
    array = array.astype(native, copy=False)
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
