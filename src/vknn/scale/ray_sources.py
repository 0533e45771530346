"""Sources as datasets of Ray Data, whose records are named as the local engine names them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from vknn.scale.optional import arrow, ray_module
from vknn.scale.packed import READ_ERROR
from vknn.scale.reading import Rows, read
from vknn.scale.sources import PARQUET, PICTURES, RecordSource

#: Rows of a block that a reader gives.
_ROWS = 1024
#: Of pictures, which are large.
_PICTURES = 32


def dataset_of(source: RecordSource, columns: tuple[str, ...]) -> Any:
    """A dataset with some columns of a source; Parquet is read by Ray's own reader.

    A picture that cannot be read is a row with an error: Ray's reader of files would end the job.
    """
    data = ray_module("ray.data")
    if source.kind == PARQUET:
        with _one_listing(data.DataContext.get_current()):
            found = data.read_parquet(list(source.paths), filesystem=source.filesystem)
        return found.select_columns(list(columns))
    return data.read_datasource(_datasource(source, columns))


@contextlib.contextmanager
def _one_listing(context: Any) -> Iterator[None]:
    """Block in which Ray's reader of Parquet lists files in one thread.

    Its newer one lists in several, which import fsspec.implementations.http at a time: where that
    lacks aiohttp, one of them now and then finds half of it, and the job ends (Ray 2.60).
    """
    before = getattr(context, "use_datasource_v2", None)
    if before is None:
        yield
        return
    context.use_datasource_v2 = False
    try:
        yield
    finally:
        context.use_datasource_v2 = before


def _datasource(source: RecordSource, columns: tuple[str, ...]) -> Any:
    from ray.data import Datasource, ReadTask
    from ray.data.block import BlockMetadata

    class FileSource(Datasource):  # type: ignore[misc,valid-type]
        """Files, a part of them for each task: pictures in groups, others one by one."""

        def estimate_inmemory_data_size(self) -> int:
            return sum(source.sizes)

        def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[Any]:
            tasks = []
            for part in _parts(source, parallelism):
                rows = len(part.paths) if source.kind == PICTURES else None
                metadata = BlockMetadata(
                    num_rows=rows,
                    size_bytes=sum(part.sizes),
                    input_files=part.paths,
                    exec_stats=None,
                )
                tasks.append(ReadTask(_Reader(part, columns), metadata))
            return tasks

    return FileSource()


def _parts(source: RecordSource, most: int) -> Iterator[RecordSource]:
    """The source in parts, at most so many where its files are pictures."""
    count = len(source.paths)
    size = max(1, -(-count // max(1, most))) if source.kind == PICTURES else 1
    for begin in range(0, count, size):
        some = slice(begin, begin + size)
        yield RecordSource(
            source.kind, source.given, source.paths[some], source.sizes[some], source.filesystem
        )


class _Reader:
    """Reading of some files; sent to the machine that does it."""

    def __init__(self, source: RecordSource, columns: Sequence[str]) -> None:
        self._source, self._columns = source, columns

    def __call__(self) -> Iterator[Any]:
        pictures = self._source.kind == PICTURES
        for rows in read(self._source, self._columns, _PICTURES if pictures else _ROWS):
            yield _with_errors(rows) if pictures else rows.table


def _with_errors(rows: Rows) -> Any:
    """The rows with a column that says why some of them could not be read."""
    pa = arrow()
    texts = [None if n not in rows.errors else str(rows.errors[n]) for n in range(len(rows))]
    return rows.table.append_column(READ_ERROR, pa.array(texts, pa.string()))
