"""First record of a job that can be computed: it says which columns answers have."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from vknn.errors import DeviceError, VknnError
from vknn.scale.archives import readable
from vknn.scale.layout import JobLayout
from vknn.scale.reading import Rows
from vknn.scale.records import Record, cells_of, record_of
from vknn.scale.worker import Worker

#: Records at which a model may fail before one is computed.
_TRIES = 32
_NO_CLASSES = "labels are not used: nothing says which output has scores of classes; a recipe does"


@dataclass(frozen=True)
class FirstRecord:
    """A record with its answer.

    Attributes:
        layout: The columns of a job, those of outputs with it.
        rows: Its row of the source.
        record: The record.
        outputs: Its outputs by name.
        seconds: Time that these took, with what is done for a first record only.
    """

    layout: JobLayout
    rows: Rows
    record: Record
    outputs: dict[str, Any]
    seconds: float = 0.0


def first_record(
    worker: Worker,
    layout: JobLayout,
    singly: Iterable[Rows],
    is_fixed: bool,
    begin: Callable[[Rows | None, bool], None] | None = None,
) -> FirstRecord | Exception | None:
    """The first record that can be computed; the first one's error where none can, None for none.

    Args:
        worker: What computes it.
        layout: The columns that are read.
        singly: The rows, each by itself.
        is_fixed: Whether the inputs of all records have one shape.
        begin: Told a row before it is read, with False, and with True before it is computed; None
            behind one that is good.

    Raises the model's error where it fails at one record after another, and not for what they hold.
    """
    begin = begin or (lambda rows, is_read: None)
    first: Exception | None = None
    failed: list[VknnError] = []
    for rows in readable(singly):
        begin(rows, False)
        (record,) = records_of(layout, rows)
        assert isinstance(record, Record)
        if record.error is None:
            begin(rows, True)
            try:
                start = time.perf_counter()
                outputs = worker.answer(record.feeds)
                seconds = time.perf_counter() - start
                made = worker.with_outputs(layout, record, outputs, is_fixed)
                begin(None, True)
                if made.task is None and worker.predictor.labels is not None:
                    warnings.warn(_NO_CLASSES, RuntimeWarning, stacklevel=2)
                return FirstRecord(made, rows, record, outputs, seconds)
            except DeviceError:
                raise
            except VknnError as error:
                first = first or _named(worker, rows, error)
                if not isinstance(error, ValueError):  # perhaps not of this record alone
                    failed.append(error)
                if len(failed) == _TRIES:
                    break
        if first is None and record.error is not None:
            first = _named(worker, rows, record.error)
    if failed:
        raise failed[0]
    return first


def _named(worker: Worker, rows: Rows, error: Exception) -> Exception:
    """An error of a row that names its record, where records have names."""
    name = worker.predictor.id
    if name is None:
        return error
    return VknnError(f"record {rows.table.column(name)[0].as_py()!r}: {error}")


def records_of(
    layout: JobLayout, rows: Rows, pool: ThreadPoolExecutor | None = None
) -> list[Future[Record] | Record]:
    """The records of rows; pictures are decoded by the threads of a pool, where there is one."""
    cells = [list(cells_of(rows.table.column(c.column))) for c in layout.inputs]
    found: list[Future[Record] | Record] = []
    for number, row in enumerate(zip(*cells, strict=True)):
        if number in rows.errors:
            found.append(Record(error=rows.errors[number]))
        elif pool is not None and any(isinstance(value, bytes | Mapping) for value in row):
            found.append(pool.submit(record_of, layout.inputs, row))
        else:
            found.append(record_of(layout.inputs, row))
    return found
