"""Survey of a source before a job: its columns, how many records, and whether all files fit."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from vknn.errors import InputError, VknnError
from vknn.scale.archives import KEY, UnreadError, archive_columns
from vknn.scale.array_files import heads_of
from vknn.scale.optional import arrow, arrow_part
from vknn.scale.reading import (
    Rows,
    array_type,
    check_columns,
    parquet_file,
    plain_type,
    read_parquet,
    row_count,
)
from vknn.scale.sources import ARRAYS, BYTES, OWN_ID, PARQUET, PICTURES, RecordSource

#: Files whose beginnings or ends are read at once: each is a moment of waiting.
_READERS = 8
_Look = Callable[[RecordSource, str], Any]


@dataclass(frozen=True)
class Survey:
    """Knowledge of a source before its records are read.

    Attributes:
        source: The source, which knows now what types its columns have.
        schema: The columns, name -> Arrow type (None: not known before they are read).
        count: Number of records; None where it is known only once all are read.
    """

    source: RecordSource
    schema: dict[str, Any]
    count: int | None


def surveyed(source: RecordSource, id_column: str | None, kept: Sequence[str]) -> Survey:
    """The survey of a source, for which each file is opened once.

    Args:
        source: The source.
        id_column: Column that names records; None: none does.
        kept: Columns that answers have.

    Raises:
        vknn.InputError: A column is missing or has types that no type holds, or ids are null or
            occur twice.
        vknn.VknnError: A file cannot be read.
    """
    pa = arrow()
    if source.kind == PICTURES:
        schema = {OWN_ID[PICTURES]: pa.string(), BYTES: pa.binary()}
        found = Survey(source, schema, len(source.paths))
    elif source.kind == PARQUET:
        found = _of_parquet(source, id_column, kept)
    elif source.kind == ARRAYS:
        found = _of_arrays(source, kept)
    else:
        columns = {n: pa.string() if n == KEY else pa.binary() for n in archive_columns(source)}
        found = Survey(source, columns, None)
    _check_kept(list(found.schema), kept)
    return found


def _check_kept(names: Sequence[str], kept: Sequence[str]) -> None:
    if missing := [name for name in kept if name not in names]:
        raise InputError(f"the source has no column {missing[0]!r}; it has {', '.join(names)}")


@dataclass
class _Types:
    """Types of the columns of files, met one after another.

    Attributes:
        kept: Columns of which one type has to hold all values.
        first: File that was met first.
        schema: Column -> type that holds all values so far.
        differing: Columns of several types.
        mixed: Those of them that no type holds.
        lacking: Columns of the first file that others lack -> the first of these.
    """

    kept: Sequence[str]
    first: str = ""
    schema: dict[str, Any] = field(default_factory=dict)
    differing: set[str] = field(default_factory=set)
    mixed: set[str] = field(default_factory=set)
    lacking: dict[str, str] = field(default_factory=dict)

    def meet(self, types: dict[str, Any], path: str) -> None:
        """A file. Raises InputError where a kept column of it is missing or does not fit."""
        if not self.first:
            self.first, self.schema = path, dict(types)
            _check_kept(list(types), self.kept)
            return
        check_columns(list(types), self.kept, path)
        for name in self.schema.keys() - types.keys():
            self.lacking.setdefault(name, path)
        for name, own in types.items():
            known = self.schema.get(name)
            if known is None or own is None or known.equals(own) or name in self.mixed:
                continue
            self.differing.add(name)
            common = _common(known, own)
            if common is not None:
                self.schema[name] = common
                continue
            self.mixed.add(name)
            if name in self.kept:
                raise InputError(
                    f"{path}: column {name!r} is {own}, and {known} in files before it: write it "
                    "alike, as no column of answers holds both"
                )

    def noted(self, source: RecordSource) -> RecordSource:
        """The source that knows the types."""
        casts = {n: self.schema[n] for n in sorted(self.differing - self.mixed)}
        mixed = frozenset(self.mixed)
        return replace(source, casts=casts, mixed=mixed, lacking=self.lacking)


def _common(one: Any, other: Any) -> Any:
    """The Arrow type that holds the values of two; None where there is none.

    Numbers become no text, nor text numbers: "007" and 7 are two ids.
    """
    pa = arrow()
    schemas = [pa.schema([("x", plain_type(type_))]) for type_ in (one, other)]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field("x").type
    except pa.ArrowException:
        return None


def is_of_kind(one: Any, other: Any) -> bool:
    """Whether equal values of two Arrow types are equal in Python, too, as 1 and 1.0 are."""
    types = arrow().types
    kinds = (
        (types.is_string, types.is_large_string),
        (types.is_binary, types.is_large_binary, types.is_fixed_size_binary),
        (types.is_integer, types.is_floating, types.is_decimal),
    )
    one, other = plain_type(one), plain_type(other)
    return bool(one.equals(other)) or any(
        all(any(check(type_) for check in checks) for type_ in (one, other)) for checks in kinds
    )


def _of_parquet(source: RecordSource, id_column: str | None, kept: Sequence[str]) -> Survey:
    types, count = _Types(kept), 0
    for path, file in _each(source, parquet_file):
        own = file.schema_arrow
        types.meet({name: own.field(name).type for name in own.names}, path)
        count += file.metadata.num_rows
    noted = types.noted(source)
    if id_column is not None:
        count = _checked_ids(noted, id_column)
    return Survey(noted, types.schema, count)


def _each(source: RecordSource, look: _Look) -> Iterator[tuple[str, Any]]:
    """What ``look`` finds in each file, some of which are looked at at a time.

    Raises VknnError behind all of them for those that cannot be read.
    """
    problems: dict[str, VknnError] = {}

    def found(path: str) -> Any:
        try:
            return look(source, path)
        except VknnError as error:
            return error

    paths = iter(source.paths)
    with ThreadPoolExecutor(_READERS, "vknn-survey") as pool:
        while some := list(itertools.islice(paths, 4 * _READERS)):
            for path, one in zip(some, pool.map(found, some), strict=True):
                if isinstance(one, VknnError):
                    problems[path] = one
                else:
                    yield path, one
    if len(problems) == 1:
        raise next(iter(problems.values()))
    if problems:
        raise UnreadError({path: str(error) for path, error in problems.items()})


def _checked_ids(source: RecordSource, column: str) -> int:
    """Number of the ids of a column of Parquet files, which must all differ."""
    seen: set[Any] = set()
    count = 0
    for rows in _ids(source, column):
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


def _ids(source: RecordSource, column: str) -> Iterator[Rows]:
    """Rows with the ids of all files. Raises VknnError at one that is damaged."""
    for path in source.paths:
        yield from read_parquet(source, path, [column], 1 << 16)


def _has_nan(ids: Any) -> bool:
    """Whether ids are numbers with NaN among them, which is not even the same as itself."""
    compute = arrow_part("compute")
    return arrow().types.is_floating(ids.type) and bool(compute.any(compute.is_nan(ids)).as_py())


def _doubles(source: RecordSource, column: str) -> str:
    """The error for ids that occur twice, with examples."""
    seen: set[Any] = set()
    twice: dict[Any, str] = {}
    for rows in _ids(source, column):
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


def _of_arrays(source: RecordSource, kept: Sequence[str]) -> Survey:
    own = OWN_ID[ARRAYS]
    types, count = _Types([name for name in kept if name != own]), 0
    for path, heads in _each(source, heads_of):
        if own in heads:
            raise InputError(f"{path}: the column {own!r} names records: rename that array")
        types.meet({name: array_type(*head) for name, head in heads.items()}, path)
        count += row_count({name: shape for name, (shape, _) in heads.items()}, path)
    return Survey(types.noted(source), {own: arrow().string(), **types.schema}, count)
