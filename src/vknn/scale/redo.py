"""Rows computed again: files of answers with other rows in place of suspect ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vknn.scale.folder import Folder
from vknn.scale.optional import arrow


def replace_rows(folder: Folder, suspects: Any, tables: Sequence[Any], id_column: str) -> None:
    """Writing of files anew with other rows in place of suspect ones."""
    new = {
        row[id_column]: (table, number)
        for table in tables
        for number, row in enumerate(table.select([id_column]).to_pylist())
    }
    for path in dict.fromkeys(suspects.column("file").to_pylist()):
        old = folder.read_part(path)
        rows = []
        for number, name in enumerate(old.column(id_column).to_pylist()):
            table, place = new.get(name, (old, number))
            rows.append(table.slice(place, 1))
        folder.write_part(
            arrow().concat_tables(rows, promote_options="default").combine_chunks(), path
        )
