"""Rows computed again: files of answers with other rows in place of suspect ones."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Sequence
from typing import Any

from vknn.scale.folder import Folder
from vknn.scale.optional import arrow
from vknn.scale.options import ERROR


def errors_of(folder: Folder, suspects: Any, id_column: str) -> Counter[str]:
    """Errors of suspect rows, by type."""
    ids = set(suspects.column(id_column).to_pylist())
    found: Counter[str] = Counter()
    for path in _files(folder, suspects):
        rows = folder.read_part(path, [id_column, ERROR]).to_pylist()
        found.update(r[ERROR]["type"] for r in rows if r[id_column] in ids and r[ERROR])
    return found


def replace_rows(folder: Folder, suspects: Any, tables: Sequence[Any], id_column: str) -> None:
    """Writing of files anew with other rows in place of suspect ones."""
    new = {
        row[id_column]: (table, number)
        for table in tables
        for number, row in enumerate(table.select([id_column]).to_pylist())
    }
    for path in _files(folder, suspects):
        old = folder.read_part(path)
        rows = []
        for number, name in enumerate(old.column(id_column).to_pylist()):
            table, place = new.get(name, (old, number))
            rows.append(table.slice(place, 1))
        folder.write_part(
            arrow().concat_tables(rows, promote_options="default").combine_chunks(), path
        )


def _files(folder: Folder, suspects: Any) -> list[str]:
    """The files with suspect rows, each once, where the folder is now: it may have been moved."""
    names = map(posixpath.basename, suspects.column("file").to_pylist())
    return [posixpath.join(folder.path, name) for name in dict.fromkeys(names)]
