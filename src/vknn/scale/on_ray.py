"""Ray engine: a job on Ray Data, which reads, schedules, writes, and knows what is done."""

from __future__ import annotations

import contextlib
import posixpath
import threading
from collections.abc import Callable, Iterator
from typing import Any

from vknn.errors import VknnError
from vknn.scale.cluster import check_schedulable, joined, pool_for
from vknn.scale.folder import Folder
from vknn.scale.layout import JobLayout
from vknn.scale.local import TELL_SECONDS
from vknn.scale.optional import arrow, arrow_part, ray_module
from vknn.scale.options import BATCH, DEVICE, Predictor
from vknn.scale.outcome import JobError, Outcome
from vknn.scale.reading import Rows, read
from vknn.scale.report import DeviceReport
from vknn.scale.shares import ErrorBound
from vknn.scale.sources import ARRAYS, PARQUET, PICTURES, RecordSource
from vknn.scale.stages import FIRST_ROWS, prepared, staged

#: Rows of a file of answers at least, where there are so many.
_FILE_ROWS = 512
_PENDING = ".pending.parquet"


class RayRun:
    """A run of a job on Ray Data; arguments as those of :class:`vknn.scale.local.LocalRun`."""

    def __init__(
        self,
        predictor: Predictor,
        source: RecordSource,
        folder: Folder,
        schema: dict[str, Any],
        done: set[Any],
        bound: ErrorBound,
        outcome: Outcome,
        stored: dict[str, Any] | None,
        address: str | None,
        tell: Callable[[Outcome], None] | None,
    ) -> None:
        self.predictor, self.source, self.folder, self.schema = predictor, source, folder, schema
        self.done, self.bound, self.outcome, self.stored = done, bound, outcome, stored
        self.address, self.tell = address, tell
        self._state: dict[str, Any] = {}

    def run(self, remember: Callable[[JobLayout], None]) -> None:
        """Computing of all records that are left; ``remember`` is told the columns of answers.

        Raises JobError where more records fail than may.
        """
        with joined(self.address) as ray, self._checkpoint(ray):
            pool = pool_for(self.predictor, ray.cluster_resources())
            check_schedulable(pool, ray.cluster_resources(), bool(self.done))
            counts = (self.outcome.total, self.outcome.rows, self.outcome.errors_now)
            setup, pool = prepared(
                self.predictor, None, source=self.source, stored=self.stored, first=self._first(),
                bound=self.bound, counts=counts,
            )  # fmt: skip
            remember(setup.layout)
            dataset = staged(self._dataset(ray, setup.layout), setup, pool)
            try:
                with self._told(ray, setup.keeper):
                    dataset.write_parquet(
                        self.folder.path,
                        filesystem=self.folder.filesystem,
                        min_rows_per_file=_FILE_ROWS,
                    )
            except Exception as error:
                raise self._failure(ray, setup.keeper, error) from None
            finally:
                self._take(ray.get(setup.keeper.state.remote()))
        self._complete()

    def _first(self) -> Any:
        """The first rows of the source that are left."""
        pa = arrow()
        columns = [
            name for name in self.schema if self.source.kind != PARQUET or self._is_read(name)
        ]
        wanted = None if self.predictor.id is None else lambda name: name not in self.done
        order = [*self.predictor.kept, *(n for n in columns if n not in self.predictor.kept)]
        tables = []
        count = 0
        for rows in read(self.source, order, 32, wanted):
            tables.append(rows.table)
            count += len(rows)
            if count >= FIRST_ROWS:
                break
        if tables:
            return pa.concat_tables(tables, promote_options="default")
        types = {name: type_ or pa.binary() for name, type_ in self.schema.items()}
        return pa.table({name: pa.array([], type_) for name, type_ in types.items()})

    def _is_read(self, name: str) -> bool:
        """Whether a column of Parquet may be needed: all, where nothing says which are."""
        own = self.predictor
        return not own.columns or name in (*own.columns.values(), *own.kept)

    def _dataset(self, ray: Any, layout: JobLayout) -> Any:
        """The source as a dataset of Ray's."""
        source, paths, place = self.source, list(self.source.paths), self.source.filesystem
        if source.kind == PICTURES:
            return ray.data.read_binary_files(paths, include_paths=True, filesystem=place)
        if source.kind == PARQUET:
            return ray.data.read_parquet(paths, columns=list(layout.read), filesystem=place)
        if source.kind == ARRAYS:
            return ray.data.read_datasource(_array_source(source, layout.read))
        return ray.data.read_webdataset(paths, filesystem=place, decoder=None)

    @contextlib.contextmanager
    def _checkpoint(self, ray: Any) -> Iterator[None]:
        """Block in which Ray notes what is written, by ids, beside the answers.

        What has rows is the truth: Ray's notes are made of it.
        """
        context = ray_module("ray.data").DataContext.get_current()
        before = context.checkpoint_config
        try:
            if self.predictor.id is not None:
                from ray.data.checkpoint import CheckpointConfig

                self._note_done()
                context.checkpoint_config = CheckpointConfig(
                    self.predictor.id,
                    self.folder.checkpoint,
                    override_filesystem=self.folder.filesystem,
                    delete_checkpoint_on_success=False,
                )
            yield
        finally:
            context.checkpoint_config = before

    def _note_done(self) -> None:
        pa, name = arrow(), self.predictor.id
        place, path = self.folder.filesystem, self.folder.checkpoint
        fs = arrow_part("fs")
        if place.get_file_info(path).type != fs.FileType.NotFound:
            place.delete_dir_contents(path)
        if self.done and name is not None:
            place.create_dir(path, recursive=True)
            ids = pa.table({name: pa.array(sorted(self.done), self.schema[name] or pa.string())})
            arrow_part("parquet").write_table(
                ids, posixpath.join(path, "before.parquet"), filesystem=place
            )

    @contextlib.contextmanager
    def _told(self, ray: Any, keeper: Any) -> Iterator[None]:
        """Block in which the caller is told how far the job is."""
        if self.tell is None:
            yield
            return
        stop = threading.Event()

        def work() -> None:
            while not stop.wait(TELL_SECONDS):
                with contextlib.suppress(Exception):
                    self._take(ray.get(keeper.state.remote(), timeout=10))
                    if self.tell is not None:
                        self.tell(self.outcome)

        thread = threading.Thread(target=work, name="vknn-tell", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _take(self, state: dict[str, Any]) -> None:
        """What the keeper knows, as the outcome."""
        own = self.outcome
        own.new_rows = state["new_rows"]
        own.devices = {name: DeviceReport(**found) for name, found in state["devices"].items()}
        own.waiting = state["waiting"]
        own.peak = max(own.peak, state["memory"])
        self._state = state

    def _failure(self, ray: Any, keeper: Any, error: Exception) -> VknnError:
        """The error of a job, out of what Ray wraps it in."""
        with contextlib.suppress(Exception):
            told = ray.get(keeper.state.remote(), timeout=30)["failure"]
            if told:
                return JobError(told)
        inner: BaseException | None = error
        while inner is not None:
            cause = getattr(inner, "cause", None) or inner.__cause__
            if isinstance(inner, VknnError):
                return inner
            inner = cause if isinstance(cause, BaseException) else None
        lines = [line for line in str(error).splitlines() if line.strip()]
        return JobError(f"Ray ended the job: {type(error).__name__}: {lines[-1] if lines else ''}")

    def _complete(self) -> None:
        """Check that every record has a row, and note of the rows that are suspect."""
        suspects = set(map(tuple, self._state["suspect"]))
        count = 0
        self.outcome.rows, self.outcome.errors = 0, type(self.outcome.errors)()
        name = self.predictor.id
        for path in self.folder.parts():
            names = [*([name] if name else []), DEVICE, BATCH, "error"]
            table = self.folder.read_part(path, names)
            count += table.num_rows
            for error in table.column("error").to_pylist():
                if error is not None:
                    self.outcome.errors[error["type"]] += 1
            if suspects:
                self._note_suspects(table, path, suspects)
        self.outcome.rows = count
        if self.outcome.total is not None and count != self.outcome.total:
            raise JobError(
                f"{self.outcome.total} records have {count} rows: the source changed while the job "
                "ran, or files of it vanished; run it again"
            )

    def _note_suspects(self, table: Any, path: str, suspects: set[tuple[str, str]]) -> None:
        pa = arrow()
        pairs = zip(table.column(DEVICE).to_pylist(), table.column(BATCH).to_pylist(), strict=True)
        own = table.filter(pa.array([pair in suspects for pair in pairs], pa.bool_()))
        if own.num_rows:
            own = own.drop_columns(["error"])
            file = pa.array([path] * own.num_rows, pa.string())
            self.folder.add_suspects(own.append_column("file", file))
            self.outcome.suspects += own.num_rows


def planned_workers(predictor: Predictor, address: str | None) -> list[str]:
    """The workers that a job would have, in words; Ray is started or joined for it."""
    with joined(address) as ray:
        return pool_for(predictor, ray.cluster_resources()).texts()


def remove_pending(folder: Folder) -> None:
    """Removal of files of answers that a job of Ray's did not finish writing."""
    fs, place = arrow_part("fs"), folder.filesystem
    found = place.get_file_info(fs.FileSelector(folder.checkpoint, allow_not_found=True))
    pending = [f.path for f in found if f.path.endswith(_PENDING)]
    begins = tuple(posixpath.basename(path)[: -len(_PENDING)] for path in pending)
    for path in folder.parts() if begins else []:
        if posixpath.basename(path).startswith(begins):
            place.delete_file(path)
    for path in pending:
        place.delete_file(path)


def _array_source(source: RecordSource, columns: tuple[str, ...]) -> Any:
    """A source of Ray's for arrays, whose rows have names."""
    from ray.data import Datasource, ReadTask
    from ray.data.block import BlockMetadata

    class ArraySource(Datasource):  # type: ignore[misc,valid-type]
        """Rows of .npy and .npz files."""

        def estimate_inmemory_data_size(self) -> int:
            return sum(source.sizes)

        def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[Any]:
            tasks = []
            for path, size in zip(source.paths, source.sizes, strict=True):
                one = RecordSource(source.kind, source.given, (path,), (size,), source.filesystem)
                metadata = BlockMetadata(
                    num_rows=None, size_bytes=size, input_files=(path,), exec_stats=None
                )
                tasks.append(ReadTask(_Reader(one, columns), metadata))
            return tasks

    return ArraySource()


class _Reader:
    """Reading of one file; sent to the machine that does it."""

    def __init__(self, source: RecordSource, columns: tuple[str, ...]) -> None:
        self._source, self._columns = source, columns

    def __call__(self) -> Iterator[Any]:
        found: Iterator[Rows] = read(self._source, self._columns, 1024)
        for rows in found:
            yield rows.table
