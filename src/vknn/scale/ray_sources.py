"""Sources as datasets of Ray Data, whose records are named as the local engine names them."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from vknn.errors import VknnError
from vknn.scale.archives import UnreadError
from vknn.scale.optional import arrow, ray_module
from vknn.scale.packed import READ_ERROR
from vknn.scale.portions import BLOCK_BYTES
from vknn.scale.reading import Rows, read, read_parquet, row_bytes
from vknn.scale.sources import ARRAYS, PARQUET, PICTURES, TARS, RecordSource

#: Rows of a block that a reader gives, where they are no larger than that.
_ROWS = 1024
#: Of pictures, which are large.
_PICTURES = 32
#: Files whose ids are read at a time.
_READERS = 8
#: Pictures that one task reads at most, and tasks above which Ray decides how many there are.
_MOST_PICTURES, _MOST_TASKS = 256, 1000


def dataset_of(
    source: RecordSource,
    columns: tuple[str, ...],
    schema: Mapping[str, Any],
    batch: int,
    keeper: Any,
    wanted: Undone | None = None,
    most_rows: int = _ROWS,
) -> Any:
    """A dataset with some columns of a source, which Arrow reads in tasks of Ray's.

    A picture that cannot be read is a row with an error, and of a damaged file come the records
    before that: Ray's readers would end the job, and say neither which file it was.

    Args:
        source: The source.
        columns: The columns that are needed; the first names records.
        schema: All of its columns, name -> Arrow type (None: not known).
        batch: Rows that are computed together.
        keeper: Actor that is told of archives that are damaged behind the rows that they give.
        wanted: Told a record's name; what it does not want is left out. None: all are wanted.
        most_rows: Rows of a block at most.
    """
    data = ray_module("ray.data")
    # Left out, Ray parts each block into many small ones where there are few files.
    count = -(-len(source.paths) // _files_of_task(source))
    options = {"override_num_blocks": count} if count <= _MOST_TASKS else {}
    rows = min(_PICTURES, most_rows)
    if source.kind != PICTURES:
        rows = block_rows([schema[c] for c in columns], batch, most_rows)
    reader = partial(_Reader, columns=columns, rows=rows, keeper=keeper, wanted=wanted)
    return data.read_datasource(_datasource(source, reader), **options)


class Undone:
    """Whether a record is still to be computed, by its name: the names of those with rows are left
    out.

    They lie sorted in Ray's store, where all readers of a machine share them.
    """

    def __init__(self, done: set[Any]) -> None:
        pa = arrow()
        self._reference = ray_module().put(pa.array(sorted(done), pa.large_string()))
        self._names: Any = None

    def __call__(self, name: str) -> bool:
        if self._names is None:
            self._names = ray_module().get(self._reference)
        at = bisect.bisect_left(self._names, name, key=lambda found: found.as_py())
        return at == len(self._names) or self._names[at].as_py() != name

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_names": None}


def undone_of(source: RecordSource, done: set[Any]) -> Undone | None:
    """Choice of records for readers of archives and arrays; None where they leave nothing out.

    Pictures that are done are no files of the source then, and of tables Ray leaves out rows.
    """
    return Undone(done) if done and source.kind in (TARS, ARRAYS) else None


def left_of(source: RecordSource, id_column: str | None, done: set[Any]) -> RecordSource:
    """The source without pictures and tables that are done: Ray would read them to leave them out.

    Of tables that have some records left, Ray leaves out the others.
    """
    if not done or id_column is None:
        return source
    if source.kind == PICTURES:
        return source.where(lambda path: path not in done)
    if source.kind != PARQUET:
        return source

    def has_left(path: str) -> bool:
        try:
            found = read_parquet(source, path, [id_column], _ROWS, lambda name: name not in done)
            return any(len(rows) for rows in found)
        except VknnError:  # whoever reads it says so
            return True

    with ThreadPoolExecutor(_READERS, "vknn-read") as pool:
        left = dict(zip(source.paths, pool.map(has_left, source.paths), strict=True))
    return source.where(left.__getitem__)


def _files_of_task(source: RecordSource) -> int:
    """Files that one task reads: a block of pictures, of others each by itself."""
    if source.kind != PICTURES:
        return 1
    mean = max(1, sum(source.sizes) // len(source.sizes))
    return max(_PICTURES, min(_MOST_PICTURES, BLOCK_BYTES // mean))


def block_rows(types: Sequence[Any], batch: int, most: int = _ROWS) -> int:
    """Rows of a block: some batches where they fit, so that nobody copies rows to part blocks.

    ``types``: of the columns, Arrow's, None: not known. ``batch``: rows that are computed together.
    ``most``: of a block, where a batch is no more.
    """
    pa = arrow()
    size = sum(
        math.prod(type_.shape) * type_.value_type.bit_width // 8
        for type_ in types
        if isinstance(type_, pa.FixedShapeTensorType)
    )
    fitting = min(_ROWS, most, BLOCK_BYTES // max(1, size))
    # Ray leaves blocks as they are up to half as much again.
    whole = batch * max(1, fitting // batch)
    return whole if whole * size <= BLOCK_BYTES * 3 // 2 and whole <= _ROWS else max(1, fitting)


def _datasource(source: RecordSource, reader: Callable[[RecordSource], Any]) -> Any:
    """A source as Ray's, with a reader for each part of its files."""
    from ray.data import Datasource, ReadTask
    from ray.data.block import BlockMetadata

    size = _files_of_task(source)

    class FileSource(Datasource):  # type: ignore[misc,valid-type]
        """Files, a part of them for each task: pictures in groups, others one by one."""

        def estimate_inmemory_data_size(self) -> int:
            return sum(source.sizes)

        def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[Any]:
            tasks = []
            for part in _parts(source, size):
                metadata = BlockMetadata(
                    num_rows=len(part.paths) if source.kind == PICTURES else None,
                    size_bytes=sum(part.sizes),
                    input_files=part.paths,
                    exec_stats=None,
                )
                tasks.append(ReadTask(reader(part), metadata))
            return tasks

    return FileSource()


def _parts(source: RecordSource, size: int) -> Iterator[RecordSource]:
    """The source in parts of so many files."""
    for begin in range(0, len(source.paths), size):
        some = slice(begin, begin + size)
        yield replace(source, paths=source.paths[some], sizes=source.sizes[some])


class _Reader:
    """Reading of some files; sent to the machine that does it."""

    def __init__(
        self,
        source: RecordSource,
        columns: Sequence[str],
        rows: int,
        keeper: Any,
        wanted: Undone | None,
    ) -> None:
        self._source, self._columns, self._rows = source, columns, rows
        self._keeper, self._wanted = keeper, wanted

    def __call__(self) -> Iterator[Any]:
        try:
            for rows in read(self._source, self._columns, self._most(), self._wanted, self._note):
                yield _with_errors(rows) if self._source.kind == PICTURES else rows.table
        except UnreadError as error:
            # Raised, it would end the job, and rows were lost that other tasks have under way.
            ray_module().get(self._keeper.unread.remote(error.problems))

    def _most(self) -> int:
        """Rows that are read together: of tables no more than fit into a block."""
        if self._source.kind != PARQUET:
            return self._rows
        try:
            sizes = [row_bytes(self._source, path, self._columns) for path in self._source.paths]
        except VknnError:  # which reading tells
            return self._rows
        return max(1, min(self._rows, BLOCK_BYTES // max(1, *sizes)))

    def _note(self, text: str) -> None:
        ray_module().get(self._keeper.note.remote(text))


def _with_errors(rows: Rows) -> Any:
    """The rows with a column that says why some of them could not be read."""
    pa = arrow()
    texts = [None if n not in rows.errors else str(rows.errors[n]) for n in range(len(rows))]
    return rows.table.append_column(READ_ERROR, pa.array(texts, pa.string()))
