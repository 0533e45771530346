"""Parts of a job's answers: Parquet files, written when enough rows are together."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from vknn.scale.folder import Folder
from vknn.scale.layout import JobLayout
from vknn.scale.optional import arrow
from vknn.scale.options import BATCH, DEVICE, ERROR

#: A file is written when it would have so many rows or bytes, or its first row is so old (s).
PART_ROWS, PART_BYTES, PART_SECONDS = 50_000, 1 << 26, 10.0


class PartWriter:
    """Tables of answers, gathered and written.

    Args:
        folder: Where files go.
        confirm: Called before anything is written: raises where the rows are not to be trusted.
        write: Takes each table in place of a new file.
        may_err: Whether rows that are written may turn out to be wrong later: then it keeps in mind
            which ones these are.

    Attributes:
        seconds: Time that writing took.
        rows: Rows that were taken so far.
    """

    def __init__(
        self,
        folder: Folder,
        confirm: Callable[[], None],
        write: Callable[[Any], None] | None = None,
        may_err: bool = True,
    ) -> None:
        self._folder, self._confirm = folder, confirm
        self._write, self._may_err = write, may_err
        self._tables: list[Any] = []
        self._rows, self._bytes, self._begin = 0, 0, 0.0
        self.seconds, self.rows = 0.0, 0
        #: Files since the last good check: number of the first row, name, what tells rows apart.
        self._unsure: deque[tuple[int, str, Any]] = deque()

    def add(self, table: Any) -> None:
        """Rows to be written, which others may join before that happens."""
        if not self._tables:
            self._begin = time.perf_counter()
        self._tables.append(table)
        self._rows += table.num_rows
        self.rows += table.num_rows
        self._bytes += table.nbytes
        late = time.perf_counter() > self._begin + PART_SECONDS
        if self._rows >= PART_ROWS or self._bytes >= PART_BYTES or late:
            self.flush()

    def flush(self) -> None:
        """Writing of all rows that are gathered."""
        if not self._tables:
            return
        self._confirm()
        begin = time.perf_counter()
        table = arrow().concat_tables(self._tables)
        if self._write is not None:
            self._write(table)
        else:
            path = self._folder.new_part()
            self._folder.write_part(table, path)
            if self._may_err:
                self._unsure.append((self.rows - self._rows, path, _names(table)))
        self._tables, self._rows, self._bytes = [], 0, 0
        self.seconds += time.perf_counter() - begin

    def drop(self) -> list[Any]:
        """The tables that are gathered and not written, which it forgets."""
        tables, self._tables = self._tables, []
        self._rows, self._bytes = 0, 0
        return tables

    def trust(self, row: int) -> None:
        """Note that the device computed right at the row of this number, counted from 0."""
        while self._unsure and self._unsure[0][0] + self._unsure[0][2].num_rows <= row + 1:
            self._unsure.popleft()

    def suspects(self, row: int) -> Any:
        """The rows that were written behind the row of this number, a table; None: none were."""
        pa = arrow()
        found = []
        for first, path, names in self._unsure:
            own = names.slice(max(0, row + 1 - first))
            name = pa.array([path] * own.num_rows, pa.string())
            found.append(own.append_column("file", name))
        tables = [table for table in found if table.num_rows]
        return pa.concat_tables(tables) if tables else None


def add_columns(folder: Folder, layout: JobLayout) -> None:
    """Outputs, all null, in files that were written before any record told what outputs there are.

    Readers take the columns of one file for those of all: with such a file first they would see
    none of the outputs that others have.
    """
    for path in folder.parts():
        table = folder.read_part(path)
        errors, devices = (table.column(name).to_pylist() for name in (ERROR, DEVICE))
        made = layout.table(table, [{}] * table.num_rows, errors, devices, "")
        if set(made.column_names) <= set(table.column_names):
            continue
        made = made.set_column(made.column_names.index(BATCH), BATCH, table.column(BATCH))
        folder.write_part(made, path)


def written_by(folder: Folder, device: str, runs: Sequence[str]) -> Any:
    """The rows that a device wrote in some runs in one process; None: it wrote none.

    ``runs``: their names, with which those of batches begin.
    """
    pa = arrow()
    begins = tuple(f"{run}-" for run in runs)
    tables = []
    for path in folder.parts() if begins else []:
        names = _names(folder.read_part(path))
        pairs = zip(*(names.column(c).to_pylist() for c in (DEVICE, BATCH)), strict=True)
        own = names.filter(pa.array([d == device and b.startswith(begins) for d, b in pairs]))
        if own.num_rows:
            tables.append(own.append_column("file", pa.array([path] * own.num_rows, pa.string())))
    return pa.concat_tables(tables) if tables else None


def _names(table: Any) -> Any:
    """What tells the rows of a table apart: the first column, device and batch."""
    first = table.column_names[0]
    return table.select([*([first] if first != DEVICE else []), DEVICE, BATCH])
