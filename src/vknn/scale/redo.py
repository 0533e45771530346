"""Rows computed again: suspect ones, and those with errors."""

from __future__ import annotations

import contextlib
import posixpath
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from vknn.errors import VknnError
from vknn.scale.archives import UnreadError
from vknn.scale.folder import Folder
from vknn.scale.layout import JobLayout
from vknn.scale.local import LocalRun
from vknn.scale.optional import arrow
from vknn.scale.options import DEVICE, ERROR
from vknn.scale.reading import read
from vknn.scale.sources import RecordSource

#: Ids that are read together.
_IDS = 1024


def redo_suspects(run: LocalRun, remember: Callable[[JobLayout], None]) -> None:
    """Suspect rows computed again, on another device, into files that replace the old ones.

    Args:
        run: A run of the job in this process.
        remember: Told the columns of answers.

    Raises:
        vknn.VknnError: The device is the one that computed wrong, or records are not there now.
    """
    folder, outcome, name = run.folder, run.outcome, run.predictor.id
    suspects = folder.suspects()
    if suspects is None:
        outcome.notes.append("no rows are suspect")
        return
    if name is None:
        raise VknnError("without an id column nothing says which records are suspect: --restart")
    ids = set(suspects.column(name).to_pylist())
    found: list[Any] = []
    outcome.rows -= len(ids)
    outcome.errors -= _errors_of(folder, suspects, name)
    again = replace(run, done=run.done - ids, only=ids, write=found.append)
    why = ""
    try:
        again.run(remember)
    except UnreadError as error:  # what lies behind the damage is missed below
        why = f" ({error})"
    wrong = set(suspects.column(DEVICE).to_pylist()) & set(outcome.devices)
    if wrong:
        raise VknnError(
            f"the rows are suspect because device {wrong.pop()} computed wrong: --device names "
            "another, such as numpy"
        )
    again_ids = {i for table in found for i in table.column(name).to_pylist()}
    if gone := sorted(map(str, ids - again_ids)):
        told = f"{len(gone)} suspect records are not in the source now: {gone[0]!r}"
        raise VknnError(told + why)
    _replace_rows(folder, suspects, found, name)
    folder.clear_suspects()
    outcome.suspects = 0


def failed_ids(folder: Folder, id_column: str) -> set[Any]:
    """Names of the records whose rows have an error, without suspect ones."""
    found: set[Any] = set()
    for path in folder.parts():
        table = folder.read_part(path, [id_column, ERROR])
        found.update(table.filter(table.column(ERROR).is_valid()).column(id_column).to_pylist())
    suspects = folder.suspects()
    return found if suspects is None else found - set(suspects.column(id_column).to_pylist())


def drop_failed(folder: Folder, source: RecordSource, id_column: str) -> tuple[int, int]:
    """Removal of rows with errors, whose records are then left to be computed.

    What is left of a file replaces it. Rows of records that are not in the source now stay, and
    those behind the place where a file is damaged: nothing could be put in their place.

    Returns:
        How many rows went, and how many stay.
    """
    failed = failed_ids(folder, id_column)
    there: set[Any] = set()
    with contextlib.suppress(UnreadError):
        for rows in read(source, [id_column], _IDS, failed.__contains__) if failed else ():
            there.update(rows.table.column(id_column).to_pylist())
    for path in folder.parts() if there else ():
        table = folder.read_part(path, [id_column, ERROR])
        pairs = zip(table.column(id_column).to_pylist(), table.column(ERROR), strict=True)
        kept = [not error.is_valid or name not in there for name, error in pairs]
        if all(kept):
            continue
        if any(kept):
            whole = folder.read_part(path).filter(arrow().array(kept, arrow().bool_()))
            folder.write_part(whole.combine_chunks(), path)
        else:
            folder.remove_part(path)
    return len(there), len(failed) - len(there)


def _errors_of(folder: Folder, suspects: Any, id_column: str) -> Counter[str]:
    """Errors of suspect rows, by type."""
    ids = set(suspects.column(id_column).to_pylist())
    found: Counter[str] = Counter()
    for path in _files(folder, suspects):
        rows = folder.read_part(path, [id_column, ERROR]).to_pylist()
        found.update(r[ERROR]["type"] for r in rows if r[id_column] in ids and r[ERROR])
    return found


def _replace_rows(folder: Folder, suspects: Any, tables: Sequence[Any], id_column: str) -> None:
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
