"""Batches of a worker on Ray: reading of their records, and the tables of their answers."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from vknn.scale.layout import JobLayout
from vknn.scale.optional import arrow
from vknn.scale.packed import is_packed, unpacked
from vknn.scale.records import Record, cells_of, record_of
from vknn.scale.report import WorkTimes

#: Those of a record's row, and its error.
Cells = tuple[dict[str, Any], dict[str, Any] | None]


@dataclass
class RayBatch:
    """A batch on its way through a worker.

    Attributes:
        table: Its records in the source.
        names: Their names.
        key: What tells it from others, whichever process computes it.
        records: What was read; None before that, where they are read one by one, and once they are
            computed.
        name: Its name in answers.
        cells: Of each record, those of its row, and its error.
        tables: Of each record, that of its answer; None where records are not computed one by one.
        device: Where it was computed.
        times: Account of that.
    """

    table: Any = None
    names: Sequence[Any] = ()
    key: str = ""
    records: list[Record] | None = None
    name: str = ""
    cells: list[Cells] = field(default_factory=list)
    tables: list[Any] | None = None
    device: str = ""
    times: WorkTimes = field(default_factory=WorkTimes)


class BatchReader:
    """Reader of batches, for several threads at once.

    Args:
        layout: What goes in and out.
        id_column: Column that names records; None: they have no names.
    """

    def __init__(self, layout: JobLayout, id_column: str | None) -> None:
        self._layout, self._id = layout, id_column
        self._pool = ThreadPoolExecutor(os.cpu_count() or 1, "vknn-decode")

    def batch(self, table: Any, owner: str) -> RayBatch:
        """The batch of a table, of which nothing is read but what tells it from the owner's others.

        Records that have no names are named by their numbers.
        """
        return RayBatch(table, *named(table, self._id, owner))

    def read(self, batch: RayBatch) -> list[Record]:
        """All records of a batch, which has them then."""
        each = self._pool.map if any(c.may_be_picture for c in self._layout.inputs) else map
        batch.records = list(each(self.record, self.rows(batch)))
        return batch.records

    def rows(self, batch: RayBatch) -> Iterable[Any]:
        """Cells of each record's inputs, or records that were packed."""
        table, inputs = batch.table, self._layout.inputs
        if is_packed(table):
            return unpacked(table, [i.form.spec.name for i in inputs])
        return zip(*(list(cells_of(table.column(i.column))) for i in inputs), strict=True)

    def record(self, row: Any) -> Record:
        """The record of one of :meth:`rows`."""
        return row if isinstance(row, Record) else record_of(self._layout.inputs, row)

    def answers(self, batch: RayBatch) -> Any:
        """Table of a batch that was computed."""
        if batch.tables is not None:
            return arrow().concat_tables(batch.tables)
        return self._table(batch, batch.table, batch.cells)

    def add_answer(self, batch: RayBatch) -> None:
        """Table of the last record of a batch that was computed, by itself."""
        assert batch.tables is not None
        row = batch.table.slice(len(batch.cells) - 1, 1)
        batch.tables.append(self._table(batch, row, batch.cells[-1:]))

    def _table(self, batch: RayBatch, source: Any, cells: Sequence[Cells]) -> Any:
        return self._layout.table(
            source, [row for row, _ in cells], [error for _, error in cells],
            [batch.device] * len(cells), batch.name,
        )  # fmt: skip


def named(table: Any, id_column: str | None, owner: str) -> tuple[Sequence[Any], str]:
    """Names of a table's records, and a key that tells it from the owner's others."""
    if id_column is None:
        return range(table.num_rows), f"{owner}:{_digest(table)}"
    names = table.column(id_column).to_pylist()
    digest = hashlib.blake2b(repr(names).encode(), digest_size=16).hexdigest()
    return names, f"{owner}:{digest}"


def hopeless(names: Sequence[Any], has_names: bool, deaths: int, how: str) -> str:
    """Reason to end a job at a batch at none of whose records by itself processes ended.

    Args:
        names: Of its records.
        has_names: Whether these are the source's.
        deaths: How often processes ended.
        how: How the last one did; empty: that is not known.
    """
    told = f", {names[0]!r} to {names[-1]!r}" if has_names else ""
    return (
        f"{deaths} processes ended{how and f' ({how})'} at a batch of {len(names)} records{told}, "
        "and at none of them by itself: a smaller batch size may pass"
    )


def _digest(table: Any) -> str:
    """Digest of all that a table holds."""
    found = hashlib.blake2b(digest_size=16)
    for piece in table.to_batches():
        found.update(piece.serialize() if piece.num_columns else b"")
    return found.hexdigest()
