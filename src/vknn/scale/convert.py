"""Conversion of a finished job's answers to one file of another format."""

from __future__ import annotations

import base64
import json
import os
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from vknn.errors import InputError, VknnError
from vknn.named_files import replacing
from vknn.scale.folder import Folder
from vknn.scale.optional import arrow
from vknn.scale.records import cells_of, is_list
from vknn.scale.report import finite
from vknn.scale.sources import find_source

FORMATS = ("parquet", "npz", "jsonl")


def check_target(
    output: str | os.PathLike[str], format: str, source: Sequence[str | os.PathLike[str]]
) -> None:
    """Check that what :func:`convert` would write is no file of the source. Raises InputError."""
    folder = Folder(output)
    path = _target(folder, format)
    if format != "npz" or not folder.is_local or not os.path.exists(path):  # sources are no .jsonl
        return
    files = find_source(source)
    if files.is_local and os.path.realpath(path) in map(
        os.path.realpath, map(files.place, files.paths)
    ):
        raise InputError(
            f"--format {format} would write {path}, which is in the source: give another folder"
        )


def _target(folder: Folder, format: str) -> str:
    """The file beside a folder."""
    return f"{folder.path}.{format}"


def convert(output: str | os.PathLike[str], format: str) -> str:
    """The answers of a job's folder in one file beside it, <folder>.npz or <folder>.jsonl.

    Returns:
        The file.

    Raises:
        vknn.VknnError: The folder is not on this machine or has no answers, or rows have outputs of
            different shapes, which .npz has no place for.
    """
    folder = Folder(output)
    if not folder.is_local:
        raise VknnError(f"{output}: only answers in a folder of this machine are converted")
    parts = folder.parts()
    if not parts:
        raise VknnError(f"{output} has no answers")
    path = _target(folder, format)
    if format == "jsonl":
        _write_jsonl(folder, parts, path)
    else:
        _write_npz(folder, parts, path)
    return path


def _write_jsonl(folder: Folder, parts: list[str], path: str) -> None:
    """A line of JSON for each row: tensors are lists, what is not finite null, bytes base64."""
    with replacing(path) as file:
        for part in parts:
            for row in _rows(folder.read_part(part)):
                file.write(_line(row).encode() + b"\n")


def _line(row: Any) -> str:
    try:
        return json.dumps(row, default=_as_json, allow_nan=False)
    except ValueError:  # JSON has no infinities and no NaN (RFC 8259, section 6)
        return json.dumps(finite(row), default=_as_json, allow_nan=False)


def _rows(table: Any) -> Iterator[dict[str, Any]]:
    pa = arrow()
    columns = {}
    for name in table.column_names:
        column = table.column(name)
        if isinstance(column.type, pa.FixedShapeTensorType):
            columns[name] = [None if cell is None else cell.tolist() for cell in cells_of(column)]
        else:
            columns[name] = _plain(column)
    for number in range(table.num_rows):
        yield {name: values[number] for name, values in columns.items()}


def _plain(column: Any) -> list[Any]:
    """The values of a column; maps are dictionaries, but for those that have a key twice."""
    try:
        values: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    except KeyError:
        values = column.to_pylist()
    return values


def _write_npz(folder: Folder, parts: list[str], path: str) -> None:
    """An array for each column, whose first axis counts the rows.

    What NumPy has no type for (errors, things found, dictionaries, dates) is text, of JSON where it
    has parts.
    """
    pa = arrow()
    tables = [folder.read_part(part) for part in parts]
    whole = pa.concat_tables(tables, promote_options="default")
    arrays: dict[str, Any] = {}
    for name in whole.column_names:
        arrays[name] = _array(name, whole.column(name))
    with replacing(path) as file, zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        for name, array in arrays.items():  # np.savez has no place for a column "file"
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def _array(name: str, column: Any) -> np.ndarray:
    pa = arrow()
    type_ = column.type
    if isinstance(type_, pa.FixedShapeTensorType):
        if type_.permutation not in (None, [*range(len(type_.shape))]):
            return _stacked(name, column)
        width = int(np.prod(type_.shape))
        dtype = pa.array([], type_.value_type).to_numpy(zero_copy_only=False).dtype
        if column.null_count and dtype.kind != "f":
            raise _no_nulls(name)
        rows = np.full((len(column), width), np.nan if dtype.kind == "f" else 0, dtype)
        place = 0
        for chunk in column.chunks:
            valid = chunk.is_valid().to_numpy(zero_copy_only=False)
            values = chunk.storage.flatten().to_numpy(zero_copy_only=False)
            rows[place : place + len(chunk)][valid] = values.reshape(-1, width)
            place += len(chunk)
        return rows.reshape(len(column), *type_.shape)
    if pa.types.is_floating(type_):
        return np.asarray(column.fill_null(float("nan")).to_numpy())
    if pa.types.is_integer(type_) or pa.types.is_boolean(type_):
        if column.null_count:
            raise _no_nulls(name)
        return np.asarray(column.to_numpy())
    if _holds_elements(type_):
        return _stacked(name, column)
    return np.array(["" if v is None else _text(v) for v in _plain(column)], str)


def _holds_elements(type_: Any) -> bool:
    """Whether an Arrow type is one of (nested) lists of numbers, truth values or text."""
    types = arrow().types
    element = type_
    while is_list(element):
        element = element.value_type
    known = (types.is_integer, types.is_floating, types.is_boolean, types.is_string)
    return element is not type_ and any(check(element) for check in known)


def _stacked(name: str, column: Any) -> np.ndarray:
    """Lists as an array, where all rows have one shape."""
    cells = list(cells_of(column))
    cells = [c.astype(str) if isinstance(c, np.ndarray) and c.dtype == object else c for c in cells]
    there = [cell for cell in cells if isinstance(cell, np.ndarray)]
    nulls = sum(cell is None for cell in cells)
    if len({cell.shape for cell in there}) != 1 or len(there) + nulls < len(cells):
        raise VknnError(
            f"column {name!r} has rows of different shapes ({column.type}), which .npz has no "
            "place for: --format jsonl"
        )
    if not nulls:
        return np.stack(there)
    if there[0].dtype.kind not in "fU":
        raise _no_nulls(name)
    empty = np.full_like(there[0], np.nan if there[0].dtype.kind == "f" else "")
    return np.stack([empty if cell is None else cell for cell in cells])


def _no_nulls(name: str) -> VknnError:
    return VknnError(
        f"column {name!r} has nulls, and .npz has no integers for these: --format jsonl"
    )


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return _line(value) if isinstance(value, dict | list | tuple) else _as_json(value)


def _as_json(value: Any) -> str:
    """Text for what JSON has no type for."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
