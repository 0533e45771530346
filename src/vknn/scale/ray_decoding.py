"""Decoding of pictures by tasks of Ray Data, on processors beside the devices."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from vknn.errors import InputError
from vknn.scale.attempts import MOST_BATCH_DEATHS
from vknn.scale.keeper_link import answer_of
from vknn.scale.killed import MOST_DEATHS, died_row
from vknn.scale.layout import JobLayout
from vknn.scale.optional import ray_module
from vknn.scale.outcome import JobError
from vknn.scale.packed import READ_ERROR, DecodeError, packed
from vknn.scale.ray_batch import hopeless, named
from vknn.scale.records import Record, cells_of, record_of

#: Name of this process.
_PROCESS = secrets.token_hex(8)


def decode_stage(table: Any, layout: JobLayout, id_column: str | None, keeper: Any) -> Any:
    """A table whose pictures are decoded: what is kept, and packed records.

    Ray tries a task whose process ended again without end. So the keeper is told of each batch: one
    at which two processes ended is decoded record by record, and a record at which two did becomes
    an error. Raises JobError where processes end at a batch and at none of its records.
    """
    ray = ray_module()
    # A task that is tried again has the same number.
    names, key = named(table, id_column, ray.get_runtime_context().get_task_id())
    deaths = answer_of(ray, keeper.begin_reading.remote(key, _PROCESS))
    if deaths >= MOST_BATCH_DEATHS:
        text = hopeless(names, id_column is not None, deaths, "")
        answer_of(ray, keeper.fail.remote(text))
        raise JobError(text)
    decoder = _Decoder(table, layout)
    if deaths < MOST_DEATHS:
        with ThreadPoolExecutor(2, "vknn-decode") as pool:
            records = list(pool.map(decoder.record, range(len(names))))
    else:
        records = [decoder.alone(ray, keeper, key, number) for number in range(len(names))]
    inputs = [column.form.spec.name for column in layout.inputs]
    found = packed(table.select(list(layout.kept)), inputs, records)
    answer_of(ray, keeper.end_reading.remote(key))
    return found


class _Decoder:
    """Decoder of a table's records."""

    def __init__(self, table: Any, layout: JobLayout) -> None:
        self._inputs = layout.inputs
        columns = (table.column(column.column) for column in layout.inputs)
        self._rows = list(zip(*(cells_of(column) for column in columns), strict=True))
        has_unread = READ_ERROR in table.column_names
        #: Why files could not be read, by row.
        self._unread = table.column(READ_ERROR).to_pylist() if has_unread else None

    def record(self, number: int) -> Record:
        """The record of a row."""
        problem = None if self._unread is None else self._unread[number]
        if problem is not None:
            return Record(error=InputError(problem))
        return record_of(self._inputs, self._rows[number])

    def alone(self, ray: Any, keeper: Any, batch: str, number: int) -> Record:
        """The record of a row of a batch, of which the keeper knows; an error where it gave up."""
        key = f"{batch}:{number}"
        deaths = answer_of(ray, keeper.begin_record.remote("", key))
        if deaths >= MOST_DEATHS:
            told = died_row(deaths, "", "")
            return Record(error=DecodeError(told["type"], told["message"]), attempts=deaths - 1)
        record = self.record(number)
        answer_of(ray, keeper.end_record.remote(key))
        return record
