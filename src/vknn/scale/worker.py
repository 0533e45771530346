"""Worker: a session that computes records, and tells errors instead of ending at them."""

from __future__ import annotations

import dataclasses
import itertools
import os
import runpy
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vknn.answers import Recipe, decode, find_recipe
from vknn.answers.labels import read_labels
from vknn.errors import DeviceLostError, DeviceTimeoutError, RunCancelledError, VknnError
from vknn.runtime.stream_clock import StreamClock
from vknn.scale.columns import output_columns
from vknn.scale.layout import JobLayout, input_layout
from vknn.scale.options import Predictor
from vknn.scale.outcome import error_row
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
        first: ``time.monotonic()`` of its first answer; None before that.
    """

    def __init__(self, predictor: Predictor, device: str | None = None) -> None:
        self.predictor, self._selector = predictor, device or predictor.device
        self._reopened = 0
        self.first: float | None = None
        self._host_busy, self._answers = 0.0, 0
        self._times = WorkTimes()
        self._clock: StreamClock | None = None
        run_layers(predictor)
        self.session = self._opened()
        self.device = lasting_name(self.session)
        try:
            self.recipe, self._wanted = self._recipe()
            self._labels = _labels(predictor)
        except BaseException:
            self.session.close()
            raise

    def layout(self, schema: Mapping[str, Any]) -> JobLayout:
        """Columns of a source for the model's inputs."""
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

    def results(self, records: Iterable[Record]) -> Iterator[tuple[Record, Any]]:
        """Each of the records with its outputs by name, or with the error that it gave, in order.

        A lost device is opened anew, once. Raises DeviceError when it is lost again.
        """
        waiting: deque[Record] = deque()
        source = iter(records)

        def feeds(again: list[Record]) -> Iterator[dict[str, np.ndarray]]:
            for record in itertools.chain(again, source):
                waiting.append(record)
                if record.error is None:
                    if engine_of(self.session).keeps_state:
                        self.session.reset_state()  # a record knows nothing of the one before it
                    yield record.feeds

        again: list[Record] = []
        while True:
            try:
                for found in self._timed(self.session.stream(feeds(again))):
                    while waiting[0].error is not None:
                        yield waiting[0], waiting.popleft().error
                    yield waiting.popleft(), found
                break
            except (DeviceLostError, DeviceTimeoutError) as error:
                if self._reopened == _REOPENED:
                    raise
                self._reopened += 1
                again = list(waiting)
                waiting.clear()
                for record in again:
                    record.attempts += 1
                self._reopen(error)
        for record in waiting:
            yield record, record.error

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
        if layout.task is not None and self.recipe is not None and record.placement is not None:
            answer = decode(
                self.session.model, outputs, self.recipe, record.placement,
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
        return {}, error_row(found, record.attempts + 1)

    def times(self) -> WorkTimes:
        """Account of its time so far."""
        found, clock = dataclasses.replace(self._times), self._clock
        if self.session.device is not None:
            found.memory = self.session.device.memory_peak
        if clock is not None:
            found.upload, found.download = (
                found.upload + clock.upload,
                found.download + clock.download,
            )
        measured = clock is not None and clock.device is not None
        # Runs that do not overlap (models with state, or in several parts) are not in the clock.
        if clock is not None and measured and 2 * clock.runs >= self._answers > 0:
            found.busy += clock.device or 0.0
        else:
            found.busy += self._host_busy
        return found

    @property
    def busy(self) -> float:
        """Seconds in which its device computed so far."""
        return self.times().busy

    def idle(self, seconds: float) -> None:
        """Note of time that it waited for inputs while it was asked for answers."""
        self._host_busy -= seconds

    def close(self) -> None:
        """Release of the session; may be called twice."""
        self.session.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _timed(self, results: Iterable[Any]) -> Iterator[Any]:
        """The results, with the time between asking for one and having it counted as work."""
        iterator = iter(results)
        while True:
            begin = time.monotonic()
            try:
                found = next(iterator)
            except StopIteration:
                return
            finally:
                self._host_busy += time.monotonic() - begin
            self._answers += 1
            if self.first is None:
                self.first = time.monotonic()
            yield found

    def _opened(self) -> Session:
        own = self.predictor
        device = "auto" if self._selector == "gpu" else self._selector
        session = Session(
            own.model, own.weights, device=device, precision=own.precision,
            arithmetic=own.arithmetic, disable=own.disable,
        )  # fmt: skip
        self._clock = None if session.device is None else session.device.time_streams()
        return session

    def _reopen(self, error: Exception) -> None:
        with_text = f"{self.device}: {error}"
        self._times = self.times()
        self._host_busy, self._answers = 0.0, 0
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
        if self.recipe is None or record.placement is None:
            return None
        try:
            answer = decode(
                self.session.model, outputs, self.recipe, record.placement, labels=self._labels
            )
        except RunCancelledError:
            raise
        except VknnError:
            if self._wanted:
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


def _labels(predictor: Predictor) -> list[str] | None:
    labels = predictor.labels
    if labels is None:
        return None
    return read_labels(Path(labels)) if isinstance(labels, str | os.PathLike) else list(labels)
