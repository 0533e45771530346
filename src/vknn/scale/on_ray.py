"""Ray engine: a job on Ray Data, which reads, schedules, writes, and knows what is done."""

from __future__ import annotations

import contextlib
import itertools
import posixpath
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from vknn.errors import InputError, VknnError
from vknn.scale.archives import UnreadError
from vknn.scale.cluster import check_schedulable, joined, pool_for, survey
from vknn.scale.doubles import drop_doubles
from vknn.scale.folder import Folder
from vknn.scale.held_workers import HeldWorkers
from vknn.scale.job_run import TELL_SECONDS, JobRun
from vknn.scale.killed import Killed
from vknn.scale.layout import JobLayout
from vknn.scale.optional import arrow, arrow_part, ray_module
from vknn.scale.options import BATCH, DEVICE, ERROR, NUMPY, Predictor
from vknn.scale.outcome import JobError
from vknn.scale.ray_noise import quiet_data
from vknn.scale.ray_sources import dataset_of, left_of, undone_of
from vknn.scale.ray_worker import Setup
from vknn.scale.reading import Rows, read
from vknn.scale.report import DeviceReport
from vknn.scale.sources import PARQUET
from vknn.scale.stages import FIRST_ROWS, end_keeper, prepared, staged

_PENDING = ".pending.parquet"
#: An error of ours in the text of one of Ray's, which has lost what caused it.
_OWN_ERROR = re.compile(r"(?:^|: )vknn\.[\w.]+Error: (.+)")
#: Begin of what Ray adds to an error's text.
_ADVICE = "\nFailed to apply UDF transform"
#: Begin of its last line, which says nothing of what happened.
_ADVISED = "To change retry attempts"
#: Seconds in which workers tell of what they did last.
_ACCOUNT_SECONDS = 3.0
#: Seconds in which the keeper of a job that ends early answers: what stops the job may have
#: stopped Ray, too.
_STOP_SECONDS = 5.0


@dataclass
class RayRun(JobRun):
    """A run of a job on Ray Data.

    Attributes:
        address: Of a cluster; None: Ray is started on this machine.
    """

    address: str | None = None

    def __post_init__(self) -> None:
        self._errors = Counter(self.outcome.errors)
        self._before = set(self.folder.parts())
        self._state: dict[str, Any] = {}
        self._remember: Callable[[], None] | None = None

    def run(self, remember: Callable[[JobLayout], None]) -> None:
        """Computing of all records that are left; ``remember`` is told the columns of answers.

        Raises JobError where more records fail than may, and UnreadError for damaged files.
        """
        if self.predictor.id is not None and "?" in self.folder.checkpoint:
            raise InputError(
                f"{self.folder.text}: Ray finds no account of what is done in folders with '?' in "
                "their names: give another folder, or --engine local"
            )
        is_resumed = bool(self.done)
        with (
            joined(self.address, is_resumed) as ray, quiet_data(), _own_context(),
            self._checkpoint(),
        ):  # fmt: skip
            counts = (self.outcome.total, self.outcome.rows, self.outcome.errors_now)
            with self._first_noted() as killed:
                setup, pool = prepared(
                    self.predictor, None, source=self.source, stored=self.stored,
                    singly=partial(self._singly, killed), begin=killed.begin_first,
                    schema=self.schema, bound=self.bound, counts=counts, stacked=self.stacked,
                    is_resumed=is_resumed, notes=self.outcome.notes,
                )  # fmt: skip
            self._remember = partial(remember, setup.layout)
            self._remember()
            # Devices need not wait for a large block: Ray's own are 128 MiB, some 200 pictures.
            context = ray_module("ray.data").DataContext.get_current()
            size = setup.portions.block_bytes
            context.target_max_block_size = min(context.target_max_block_size or size, size)
            batch = self.predictor.batch_size
            left = left_of(self.source, self.predictor.id, self.done)
            read_from = dataset_of(
                left, setup.layout.read, self.schema, batch, setup.keeper,
                undone_of(left, self.done), setup.portions.block_rows,
            )  # fmt: skip
            self._write(ray, setup, staged(read_from, setup, pool))
        self._complete()
        if problems := self._state.get("unread"):
            raise UnreadError(problems)

    def _write(self, ray: Any, setup: Setup, dataset: Any) -> None:
        """Computing and writing of a dataset; what the keeper knows then becomes the outcome."""
        keeper, is_whole = setup.keeper, False
        try:
            with HeldWorkers(ray, keeper) as workers, self._told(ray, keeper):
                dataset.write_parquet(
                    self.folder.path,
                    filesystem=self.folder.filesystem,
                    min_rows_per_file=setup.portions.file_rows,
                    filename_provider=_filenames(self._prefix),
                )
                workers.finish()
            self.recount()
            self._finish_checks(ray, keeper, self.outcome.rows)
            is_whole = True
        except Exception as error:
            raise self._failure(ray, keeper, error) from None
        finally:
            with contextlib.suppress(Exception):  # the keeper went with the cluster
                self._take(ray.get(keeper.state.remote(), timeout=_STOP_SECONDS))
                end_keeper(ray, keeper)
            self._note_suspects()
            if not is_whole:
                self.recount()

    @property
    def _prefix(self) -> str:
        """Begin of the names of this run's files."""
        return f"part-{self.outcome.run}"

    def _finish_checks(self, ray: Any, keeper: Any, rows: int) -> None:
        """Wait until workers have compared to NumPy what they sent last.

        What they did last is told a moment later: the keeper is to know of so many ``rows``, which
        are written, but for those of workers that were killed. Raises JobError where the last
        batches had too many errors.
        """
        until = time.perf_counter() + _ACCOUNT_SECONDS
        while True:
            state = ray.get(keeper.state.remote())
            is_whole = state["rows"] >= rows and not state["pending"]
            if is_whole or time.perf_counter() > until:
                break
            time.sleep(0.1)
        if state["pending"]:
            self.outcome.notes.append(
                f"{state['pending']} checks were not finished: Ray ended their workers"
            )
        if state["failure"]:
            raise JobError(state["failure"])

    @contextlib.contextmanager
    def _first_noted(self) -> Iterator[Killed]:
        """Block in which first records are tried in this process; at its end notes are as before.

        One that ends the process is left to those of workers, when the job is run again.
        """
        before = self.folder.running()
        killed = Killed(self.folder, NUMPY, self.predictor.id is not None, self.outcome.run)
        try:
            yield killed
        finally:
            self.folder.write_running(before)

    def _singly(self, killed: Killed, layout: JobLayout) -> Iterator[Rows]:
        """The rows that are left, each by itself; the first ones where columns are known."""

        def is_wanted(name: Any) -> bool:
            return name not in self.done and not killed.is_suspicious(name)

        wanted = None if self.predictor.id is None else is_wanted
        rows = read(self.source, layout.read, 1, wanted)
        return rows if self.stored is None else itertools.islice(rows, FIRST_ROWS)

    @contextlib.contextmanager
    def _checkpoint(self) -> Iterator[None]:
        """Block in which Ray notes what is written, by ids, beside the answers.

        What has rows is the truth: Ray's notes are made of it. Each run has a folder for them: a
        worker that outlives an ended run writes into another one.
        """
        context = ray_module("ray.data").DataContext.get_current()
        before = context.checkpoint_config
        try:
            if self.predictor.id is not None:
                from ray.data.checkpoint import CheckpointConfig

                path = self.folder.notes(self.outcome.run)
                self._note_done(path)
                context.checkpoint_config = CheckpointConfig(
                    self.predictor.id,
                    path,
                    override_filesystem=self.folder.filesystem,
                    delete_checkpoint_on_success=False,
                )
            yield
        finally:
            context.checkpoint_config = before

    def _note_done(self, path: str) -> None:
        pa, name, place = arrow(), self.predictor.id, self.folder.filesystem
        self.folder.remove_notes()
        if self.done and name is not None and self.source.kind == PARQUET:  # others leave it out
            place.create_dir(path, recursive=True)
            ids = pa.table({name: pa.array(sorted(self.done), self.schema[name] or pa.string())})
            arrow_part("parquet").write_table(
                ids, posixpath.join(path, "before.parquet"), filesystem=place
            )

    @contextlib.contextmanager
    def _told(self, ray: Any, keeper: Any) -> Iterator[None]:
        """Block in which the caller is told how far the job is, and job.json what was measured."""
        stop = threading.Event()

        def work() -> None:
            while not stop.wait(TELL_SECONDS):
                with contextlib.suppress(Exception):
                    if self.folder.lost:
                        keeper.fail.remote(self.folder.lost)
                    self._take(ray.get(keeper.state.remote(), timeout=_STOP_SECONDS))
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
        own.rows, own.errors = state["rows"], self._errors + Counter(state["errors"])
        own.devices = {name: DeviceReport(**found) for name, found in state["devices"].items()}
        own.waiting = state["waiting"]
        own.peak = max(own.peak, state["memory"])
        for text in state["notes"]:
            own.note(text)
        self._state = state
        if state["stacked"] != self.stacked:
            self.stacked.update(state["stacked"])
            if self._remember is not None:
                self._remember()

    def _failure(self, ray: Any, keeper: Any, error: Exception) -> VknnError:
        """The error of a job, out of what Ray wraps it in."""
        with contextlib.suppress(Exception):
            told = ray.get(keeper.state.remote(), timeout=_STOP_SECONDS)["failure"]
            if told:
                return JobError(told)
        inner: BaseException | None = error
        while inner is not None:
            wrapped = getattr(inner, "cause", None)  # Ray's error has the type of what it wraps
            cause = wrapped or inner.__cause__
            if isinstance(inner, VknnError) and wrapped is None:
                inner.args = (str(inner).split(_ADVICE)[0], *inner.args[1:])
                return inner
            inner = cause if isinstance(cause, BaseException) else None
        lines = [line for line in str(error).splitlines() if line.strip()]
        if ours := [found for line in lines if (found := _OWN_ERROR.search(line))]:
            return JobError(f"a worker ended the job: {ours[-1][1]}")
        told = [line for line in lines if not line.startswith(_ADVISED)] or [""]
        return JobError(f"Ray ended the job: {type(error).__name__}: {told[-1]}")

    def recount(self) -> None:
        """Count of the rows that are written, those of this run by their files' names."""
        self.outcome.rows, self.outcome.new_rows, self.outcome.errors = 0, 0, Counter()
        for path in self._whole_parts():
            table = self.folder.read_part(path, [ERROR])
            self.outcome.rows += table.num_rows
            if posixpath.basename(path).startswith(self._prefix):
                self.outcome.new_rows += table.num_rows
            for error in table.column(ERROR).to_pylist():
                if error is not None:
                    self.outcome.errors[error["type"]] += 1

    def _whole_parts(self) -> list[str]:
        """The files that are written to their ends: some are not, where a run was broken off."""
        return [path for path in self.folder.parts() if self._is_whole(path)]

    def _is_whole(self, path: str) -> bool:
        """Whether a file is written to its end: it is not, where a run was broken off."""
        try:
            self.folder.read_part(path, [DEVICE])
        except VknnError:
            return False
        return True

    def _complete(self) -> None:
        """Check that no record has two rows."""
        for path in set(self.folder.parts()) - self._before:
            # A worker of an ended run wrote it behind the beginning of this one, which did the
            # same records.
            if not posixpath.basename(path).startswith(self._prefix):
                self.folder.remove_part(path)
        self.recount()
        name = self.predictor.id
        if name is not None and len(ids := self._ids(name)) != len(set(ids)):
            doubles = drop_doubles(self.folder, name)
            self.recount()
            if self.outcome.total is None:
                raise InputError(
                    f"the source has ids twice, such as {doubles[0]!r}: ids name records, and the "
                    f"first row of each is kept"
                )
        self.folder.remove_notes()
        self.folder.write_running({})

    def _ids(self, name: str) -> list[Any]:
        parts = self.folder.parts()
        return [i for p in parts for i in self.folder.read_part(p, [name]).column(name).to_pylist()]

    def _note_suspects(self) -> None:
        """Note of the rows that devices wrote which computed wrong later."""
        suspects = set(map(tuple, self._state.get("suspect", ())))
        pa, name = arrow(), self.predictor.id
        for path in self._whole_parts() if suspects else []:
            table = self.folder.read_part(path, [*([name] if name else []), DEVICE, BATCH])
            columns = table.column(DEVICE).to_pylist(), table.column(BATCH).to_pylist()
            pairs = zip(*columns, strict=True)
            own = table.filter(pa.array([pair in suspects for pair in pairs], pa.bool_()))
            if own.num_rows:
                file = pa.array([path] * own.num_rows, pa.string())
                added = self.folder.add_suspects(own.append_column("file", file))
                self.outcome.suspects += added


#: Of Ray Data's context in a job: no block that fails is dropped, and Parquet, of what is done,
#: is listed in one thread. Those of its newer reader import fsspec.implementations.http at a time:
#: where that lacks aiohttp, one of them now and then finds half of it, and the job ends (Ray 2.60).
_CONTEXT = {"max_errored_blocks": 0, "use_datasource_v2": False}


@contextlib.contextmanager
def _own_context() -> Iterator[None]:
    """Block at whose end Ray Data's context, which is the application's, is what it was."""
    context = ray_module("ray.data").DataContext.get_current()
    names = ("target_max_block_size", *_CONTEXT)
    before = {name: getattr(context, name) for name in names if hasattr(context, name)}
    for name in _CONTEXT.keys() & before.keys():
        setattr(context, name, _CONTEXT[name])
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(context, name, value)


def planned_workers(predictor: Predictor, address: str | None) -> list[str]:
    """The workers that a job would have and the machines with their devices, in words.

    Ray is started or joined for it.
    """
    with joined(address) as ray:
        offers = ray.cluster_resources()
        pool = pool_for(predictor, offers)
        check_schedulable(pool, offers, is_resumed=False)
        machines = survey(ray, pool.mode, predictor.device)
        return [pool.text(predictor.device), *(machine.text() for machine in machines)]


def remove_pending(folder: Folder) -> None:
    """Removal of files of answers that a job of Ray's did not finish writing, and of its notes."""
    fs, place = arrow_part("fs"), folder.filesystem
    every = [f for path in folder.all_notes() for f in place.get_file_info(fs.FileSelector(path))]
    pending = [f.path for f in every if f.path.endswith(_PENDING)]
    begins = tuple(posixpath.basename(path)[: -len(_PENDING)] for path in pending)
    for path in folder.parts() if begins else []:
        if posixpath.basename(path).startswith(begins):
            folder.remove_part(path)
    folder.remove_notes()


def _filenames(prefix: str) -> Any:
    from ray.data.datasource import FilenameProvider

    class RunFilenames(FilenameProvider):  # type: ignore[misc,valid-type]
        """Names of a run's files."""

        def get_filename_for_task(self, write_uuid: str, task_index: int) -> str:
            return f"{prefix}-{write_uuid}_{task_index:06d}.parquet"

    return RunFilenames()
