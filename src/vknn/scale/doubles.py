"""Rows that were written twice, and their removal: every id has exactly one row."""

from __future__ import annotations

from typing import Any

from vknn.scale.folder import Folder
from vknn.scale.optional import arrow


def drop_doubles(folder: Folder, id_column: str) -> list[Any]:
    """Removal of rows whose ids files before them have; what is left of a file replaces it.

    A process that outlives the one that began the job may write rows which another run computes as
    well. Of two such rows either is right.

    Returns:
        The ids that had more than one row.
    """
    pa = arrow()
    seen: set[Any] = set()
    doubles: list[Any] = []
    for path in folder.parts():
        ids = folder.read_part(path, [id_column]).column(id_column).to_pylist()
        kept = []
        for name in ids:
            kept.append(name not in seen)
            seen.add(name)
        if all(kept):
            continue
        doubles += [name for name, is_kept in zip(ids, kept, strict=True) if not is_kept]
        if any(kept):
            table = folder.read_part(path).filter(pa.array(kept, pa.bool_()))
            folder.write_part(table.combine_chunks(), path)
        else:
            folder.remove_part(path)
    return doubles
