"""Worker: a session that computes records, and tells errors instead of ending at them."""

from __future__ import annotations

import dataclasses
import os
import runpy
import time
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vknn.answers import Recipe, decode, find_recipe
from vknn.batching import LOST, STACKED, Stacker, shape_of
from vknn.errors import DeviceLostError, InputError, RunCancelledError, VknnError
from vknn.runtime.stream_clock import StreamClock
from vknn.scale.columns import output_columns
from vknn.scale.layout import JobLayout, input_layout
from vknn.scale.options import Predictor
from vknn.scale.outcome import error_row
from vknn.scale.packs import Pack, PackedRecord, Packs
from vknn.scale.records import Record
from vknn.scale.report import WorkTimes
from vknn.session import Session, engine_of

#: Instead of a recipe's file: outputs mean nothing.
_NO_RECIPE = "none"
#: A device that failed once may work when it is opened anew; a second time it does not.
_REOPENED = 1
#: Contents of the files with layers that were run: a second time their layers would be there.
_ran: set[bytes] = set()


class Worker:
    """A predictor at work on a device. A context manager.

    Attributes:
        predictor: What it computes.
        session: The open session; another one once a lost device was opened anew.
        recipe: What the outputs mean; None where nothing says it.
        device: A name of the device that lasts, or "numpy".
        first: ``time.perf_counter()`` of its first answer; None before that.
        stacked: Records of one shape that a run computes; 1: each has its own. To be set before
            there are results.
    """

    def __init__(self, predictor: Predictor, device: str | None = None) -> None:
        self.predictor, self._selector = predictor, device or predictor.device
        self._reopened = 0
        self.first: float | None = None
        self._host_busy, self._answers = 0.0, 0
        self._times = WorkTimes()
        self._clock: StreamClock | None = None
        #: Of the clock: device, upload, download and runs that are not of records.
        self._apart = (0.0, 0.0, 0.0, 0)
        self.stacked = predictor.stacked or 1
        self._stacker: Stacker | None = None
        self._shapes_stacked: dict[Hashable, bool] = {}
        run_layers(predictor)
        self.session = self._opened()
        self.device = lasting_name(self.session)
        try:
            self.recipe, self._wanted = self._recipe()
            self._labels = predictor.label_names()
        except BaseException:
            self.session.close()
            raise

    def layout(self, schema: Mapping[str, Any]) -> JobLayout:
        """Columns of a source for the model's inputs. Raises InputError."""
        names = [spec.name for spec in self.session.outputs]
        if unknown := [n for n in self.predictor.outputs or () if n not in names]:
            raise InputError(f"there is no output {unknown[0]!r}; there are {', '.join(names)}")
        return input_layout(self.session, self.predictor, schema, self.recipe)

    def with_outputs(
        self, layout: JobLayout, record: Record, outputs: Mapping[str, Any], is_fixed: bool
    ) -> JobLayout:
        """The layout with columns for the outputs, which are those of a first record.

        ``is_fixed``: whether the inputs of all records have the shapes of this one. Raises
        VknnError where an output has no column.
        """
        shapes = self._shapes(record, outputs) if is_fixed else {}
        own = set(layout.answer_types())
        columns = output_columns(outputs, shapes, self.predictor.outputs, (*layout.kept, *own))
        task = self._task(outputs, record)
        return JobLayout(layout.inputs, layout.kept, columns, task)

    def answer(self, feeds: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Outputs of one record, which knows nothing of others."""
        self.session.reset_state()
        return self.session.run(feeds)

    def again(self, feeds: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Outputs of one record, computed as :meth:`results` computes them."""
        stacker = self._stacker if self.stacked > 1 else None
        if stacker is not None and stacker.known.get(shape_of(feeds)):
            return stacker.run([feeds])[0]
        return self.session.run(feeds)

    def measure_stacked(self, record: Record, fill: float = 1.0) -> int:
        """Number of records that one run is to compute: 1 where more are not faster here.

        ``fill``: share of the places of stacked runs that records take, 0 to 1. What it finds is
        for :attr:`stacked`. Raises the error of a record that cannot be computed alone.
        """
        if self.predictor.stacked is not None:
            return self.predictor.stacked
        count = min(STACKED, self.predictor.batch_size)
        if count == 1:
            return 1
        self.answer(record.feeds)
        try:
            stacker = self._stacker_of(count)
            if stacker is not None and stacker.pays(record.feeds, fill):
                return count
        except RunCancelledError:
            raise
        except (VknnError, MemoryError) as error:
            if isinstance(error, LOST):
                if self._reopened >= _REOPENED:
                    raise
                self._reopened += 1
                self._reopen(error)
        finally:
            self._begin_account()
        self._close_stacker()
        return 1

    def results(self, records: Iterable[Record]) -> Iterator[tuple[Record, Any]]:
        """Each of the records with its outputs by name, or with the error that it gave, in order.

        Up to :attr:`stacked` records of one shape are computed by one run, where nothing mixes
        them; what a record gets does not depend on those beside it. A lost device is opened anew,
        once. Raises DeviceError when it is lost again.
        """
        packs = Packs(records, self.stacked, self.predictor.batch_size, self._stacks)
        while True:
            try:
                for _ in self._timed(self._computed(packs)):
                    yield from packs.answered()
                break
            except LOST as error:
                if self._reopened >= _REOPENED:
                    raise
                self._reopened += 1
                packs.again()
                self._reopen(error)
        yield from packs.answered()
        packs.end()

    def cells(
        self, layout: JobLayout, record: Record, outputs: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The values of a row's columns: outputs, and what they mean. Raises VknnError."""
        made = {}
        for column in layout.outputs:
            value = outputs[column.output]
            if problem := column.problem(value):
                raise VknnError(f"output {column.output!r} does not fit its column: {problem}")
            made[column.name] = value
        place = record.place_for(self.recipe)
        if layout.task is not None and self.recipe is not None and place is not None:
            answer = decode(
                self.session.model, outputs, self.recipe, place,
                labels=self._labels, threshold=self.predictor.threshold,
            )  # fmt: skip
            made.update(layout.told(answer))
        return made

    def row(
        self, layout: JobLayout, record: Record, found: Any
    ) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Cells of a record's row, and its error, of what :meth:`results` gave for it."""
        if not isinstance(found, Exception):
            try:
                return self.cells(layout, record, found), None
            except (VknnError, MemoryError) as error:
                found = error
        return {}, error_row(found, record.attempts + 1, self.session.model.file)

    def times(self) -> WorkTimes:
        """Account of its time so far."""
        found, clock = dataclasses.replace(self._times), self._clock
        if self.session.device is not None:
            found.memory = self.session.device.memory_peak
        apart, upload, download, runs = self._apart
        if clock is not None:
            found.upload += clock.upload - upload
            found.download += clock.download - download
        measured = clock is not None and clock.device is not None
        # Runs that do not overlap (models with state, or in several parts) are not in the clock.
        if clock is not None and measured and 2 * (clock.runs - runs) >= self._answers > 0:
            found.busy += (clock.device or 0.0) - apart
        else:
            found.busy += self._host_busy
        return found

    def idle(self, seconds: float) -> None:
        """Note of time that it waited for inputs while it was asked for answers."""
        self._host_busy -= seconds

    def close(self) -> None:
        """Release of the session; may be called twice."""
        self._close_stacker()
        self.session.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _computed(self, packs: Packs) -> Iterator[None]:
        """Computing of all packs; comes back at each answer."""
        while (pack := packs.head()) is not None:
            yield from self._stacked_runs(packs) if pack.is_stacked else self._single_runs(packs)

    def _single_runs(self, packs: Packs) -> Iterator[None]:
        """Runs of single records, up to a pack that is stacked."""
        under_way: deque[PackedRecord] = deque()

        def feeds() -> Iterator[dict[str, np.ndarray]]:
            while (pack := packs.head()) is not None and not pack.is_stacked:
                for entry in packs.begin().entries:
                    under_way.append(entry)
                    if engine_of(self.session).keeps_state:
                        self.session.reset_state()  # a record knows nothing of the one before it
                    yield entry.record.feeds

        # Without a device nothing goes on beside the host: no run is prepared for that.
        in_flight = 1 if self.session.device is None else 2
        for found in self.session.stream(feeds(), in_flight):
            under_way.popleft().answer(found)
            yield

    def _stacked_runs(self, packs: Packs) -> Iterator[None]:
        """Runs of stacked packs, up to one that is not; records of one that fails run singly."""
        under_way: deque[Pack] = deque()

        def feeds() -> Iterator[list[dict[str, np.ndarray]]]:
            while (pack := packs.head()) is not None and pack.is_stacked:
                under_way.append(packs.begin())
                yield pack.feeds

        assert self._stacker is not None
        for found in self._stacker.stream(feeds()):
            pack = under_way.popleft()
            each = self.session.stream(pack.feeds) if isinstance(found, Exception) else found
            for entry, one in zip(pack.entries, each, strict=False):  # some places are padding
                entry.answer(one)
            yield

    def _stacks(self, feeds: list[dict[str, np.ndarray]]) -> bool:
        """Whether records of one shape are computed by one run."""
        stacker = self._stacker_of(self.stacked)
        return stacker is not None and stacker.takes(feeds)

    def _stacker_of(self, count: int) -> Stacker | None:
        """What computes so many records at once; None where the model cannot be stacked."""
        if self._stacker is None or self._stacker.count != count:
            self._close_stacker()
            self._stacker = Stacker.of(engine_of(self.session), count, self._shapes_stacked)
        return self._stacker

    def _close_stacker(self) -> None:
        if self._stacker is not None:
            self._stacker.close()
            self._stacker = None

    def _begin_account(self) -> None:
        """Begin of the account of streams' time: what was before is not work on records."""
        if self._clock is not None:
            clock = self._clock
            self._apart = (clock.device or 0.0, clock.upload, clock.download, clock.runs)

    def _timed(self, results: Iterable[Any]) -> Iterator[Any]:
        """The results, with the time between asking for one and having it counted as work."""
        iterator = iter(results)
        while True:
            begin = time.perf_counter()
            try:
                found = next(iterator)
            except StopIteration:
                return
            finally:
                self._host_busy += time.perf_counter() - begin
            self._answers += 1
            if self.first is None:
                self.first = time.perf_counter()
            yield found

    def _opened(self) -> Session:
        own = self.predictor
        device = "auto" if self._selector == "gpu" else self._selector
        session = Session(
            own.model, own.weights, device=device, precision=own.precision,
            arithmetic=own.arithmetic, disable=own.disable,
        )  # fmt: skip
        self._clock = None if session.device is None else session.device.time_streams()
        self._apart = (0.0, 0.0, 0.0, 0)
        return session

    def _reopen(self, error: Exception) -> None:
        with_text = f"{self.device}: {error}"
        self._times = self.times()
        self._host_busy, self._answers = 0.0, 0
        self._close_stacker()
        self.session.close()
        try:
            self.session = self._opened()
        except VknnError as again:
            raise DeviceLostError(f"{with_text}; it cannot be opened anew: {again}") from None

    def _recipe(self) -> tuple[Recipe | None, bool]:
        """The recipe, and whether the user asks for it."""
        given = self.predictor.recipe
        if given is None:
            found = find_recipe(self.session, self.predictor.model)
            return (None, False) if found is None else found
        if os.fspath(given) == _NO_RECIPE:
            return None, False
        return Recipe.load(given), True

    def _task(self, outputs: Mapping[str, Any], record: Record) -> str | None:
        """What answers are about; None where nothing says what these outputs mean."""
        place = record.place_for(self.recipe)
        if self.recipe is None or place is None:
            return None
        try:
            answer = decode(self.session.model, outputs, self.recipe, place, labels=self._labels)
        except RunCancelledError:
            raise
        except VknnError:
            if self._wanted or self._labels is not None:
                raise
            self.recipe = None
            return None
        return answer.task

    def _shapes(
        self, record: Record, outputs: Mapping[str, Any]
    ) -> dict[str, tuple[int | None, ...] | None]:
        """Shapes of the outputs that no record's values can change."""
        engine = engine_of(self.session)
        graph = engine.program(record.feeds).graph
        static = graph.continuation is None and all(
            value.type.is_static for value in graph.outputs.values()
        )
        if not static or self.session.model.value_inputs:
            return {}
        return {n: np.shape(v) for n, v in outputs.items() if not isinstance(v, Mapping | list)}


def run_layers(predictor: Predictor) -> None:
    """Run of the Python files that register layers of one's own, once a process each.

    Raises VknnError.
    """
    for path in predictor.layers:
        try:
            contents = Path(path).read_bytes()
            if contents in _ran:
                continue
            runpy.run_path(os.fspath(path))
            _ran.add(contents)
        except VknnError:
            raise
        except Exception as error:
            raise VknnError(f"layers {path}: {type(error).__name__}: {error}") from error


def lasting_name(session: Session) -> str:
    """A name of a session's device that lasts, or "numpy"."""
    if session.device is None:
        return "numpy"
    snapshot = session.device.snapshot
    return next(iter(snapshot.lasting_names), f"vulkan:{snapshot.index}")


def device_name(worker: Worker) -> str:
    """Name of a worker's device, for people."""
    return "NumPy" if worker.session.device is None else worker.session.device.name
