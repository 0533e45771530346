"""Item stream: a model's answers to many inputs in their order, errors in the places of theirs."""

from __future__ import annotations

import operator
from collections import defaultdict, deque
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from vknn.engine import Engine
from vknn.errors import (
    DeviceLostError,
    InputError,
    OutOfMemoryError,
    RunCancelledError,
    RunTimeoutError,
    ValidationError,
    VknnError,
    name_of,
)
from vknn.program import Program
from vknn.runtime import DeviceArray, as_tensors
from vknn.streamed_runs import StreamedRuns

#: Results of an item, or the error in its place.
Answer = dict[str, Any] | VknnError
#: The most runs under way at once; a device that is busy gains nothing from further ones.
MOST_IN_FLIGHT = 8
#: Items of one program after which it was worth while to record runs for them.
_WORTHWHILE = 32
#: Errors that are never those of one item: what comes behind it would fare no better.
_OF_THE_STREAM = (RunTimeoutError, RunCancelledError, DeviceLostError, ValidationError)


def checked_in_flight(given: Any) -> int:
    """A number of runs that a user gave; raises VknnError for one that is none."""
    wanted = (
        f"runs from 1 to {MOST_IN_FLIGHT}; each that is under way takes memory for its inputs and "
        "outputs"
    )
    return checked_number("in_flight", given, MOST_IN_FLIGHT, wanted)


def checked_number(name: str, given: Any, most: int, wanted: str) -> int:
    """A number from 1 to ``most`` that a user gave for ``name``; raises VknnError for another."""
    try:
        number = 0 if isinstance(given, bool) else operator.index(given)
    except TypeError:
        number = 0
    if 1 <= number <= most:
        return number
    # Python refuses to write integers of thousands of digits.
    shown = repr(given) if abs(number) < 10**9 else "(a number of many digits)"
    raise VknnError(f"{name}={shown}: expected a number of {wanted}")


def checked_errors(given: Any) -> bool:
    """Whether errors of items are returned, not raised; raises VknnError for another word."""
    if not isinstance(given, str) or given not in ("return", "raise"):
        raise VknnError(f"errors={given!r}: expected 'return' or 'raise'")
    return given == "return"


def checked_items(inputs: Any, method: str) -> Iterable[Any]:
    """The inputs of many runs; raises InputError for what is one of them, or nothing."""
    if isinstance(inputs, Iterable) and not isinstance(inputs, Mapping | str | bytes):
        return inputs
    raise InputError(
        f"{method} takes an iterable of inputs, a dict for each run, "
        f"not a single {type(inputs).__name__}"
    )


def grouped(items: Sequence[Any]) -> list[list[int]]:
    """Numbers of the items of each shape, in the order in which the shapes come.

    Programs are kept for some shapes only: where many take turns, each would be prepared anew.
    """
    groups: dict[object, list[int]] = defaultdict(list)
    for number, item in enumerate(items):
        groups[_shapes(item)].append(number)
    return list(groups.values())


def _shapes(item: Any) -> object:
    """Shapes and dtypes of an item's arrays, where these say them; equal for what runs alike."""
    if isinstance(item, Mapping):
        return tuple((name, *_shape(array)) for name, array in item.items())
    return _shape(item)


def _shape(array: Any) -> tuple[tuple[int, ...] | None, np.dtype | None]:
    shape, dtype = getattr(array, "shape", None), getattr(array, "dtype", None)
    return (
        shape if isinstance(shape, tuple) else None,
        dtype if isinstance(dtype, np.dtype) else None,
    )


def streamed(
    engine: Engine,
    items: Iterable[Any],
    timeout: float | None,
    kept: Collection[str],
    in_flight: int,
    errors: str,
) -> Generator[Answer, None, None]:
    """Answers to all items; what it holds is freed at its end.

    ``timeout``: seconds for each. ``kept``: names of outputs that stay on the device.
    """
    number, returns = checked_in_flight(in_flight), checked_errors(errors)
    with engine.streaming(timeout, number) as runs:
        yield from _ItemStream(engine, runs, kept, returns).answers(items)


class _ItemStream:
    """Row of items: the host works for one while the device computes others.

    ``returns``: whether an item's error is its answer, and the stream goes on. All else is raised
    behind the answers to the items before, and ends it.
    """

    def __init__(
        self, engine: Engine, runs: StreamedRuns, kept: Collection[str], returns: bool
    ) -> None:
        self._engine, self._runs, self._kept, self._returns = engine, runs, kept, returns
        #: Whether no run may begin before the one before it is at its end.
        self._single = runs.in_flight == 1 or engine.keeps_state or bool(kept)
        #: Answers of the items that were begun; None: the run is under way.
        self._row: deque[Answer | None] = deque()
        #: Items behind one another that the program in use had, and how many of a program run by
        #: themselves before others do beside one another: recording these takes a while, which is
        #: lost where shapes change all the time.
        self._alike, self._patience = 0, 1
        #: The error with which the stream ends.
        self._failure: Exception | None = None

    def answers(self, items: Iterable[Any]) -> Iterator[Answer]:
        """Answers to all items."""
        source = iter(items)
        while self._failure is None:
            try:
                item = next(source)
            except StopIteration:
                break
            except Exception as error:
                self._failure = error
                break
            yield from self._begun(item)
        yield from self._rest()
        failure, self._failure = self._failure, None
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # its traceback holds this frame, and so the session and its arrays

    def _begun(self, item: Any) -> Iterator[Answer]:
        """Start of an item's run; gives the answers that are there, or have to make room."""
        runs, row = self._runs, self._row
        if self._single:
            self._start(item, None)
        elif (prepared := self._prepared(item)) is not None:
            program, arrays = prepared
            if program is not runs.program:
                yield from self._rest()
                self._change(program)
            self._alike += 1
            if self._alike == self._patience + 1:
                with runs.timed():
                    runs.begin()
            beside = runs.overlap and not any(isinstance(a, DeviceArray) for a in arrays.values())
            if not beside:
                yield from self._rest()
            self._start(item, arrays if beside else None)
        while row and (row[0] is not None or runs.full or len(row) >= runs.in_flight):
            yield self._oldest()

    def _rest(self) -> Iterator[Answer]:
        """Answers to all items that were begun."""
        while self._row:
            yield self._oldest()

    def _prepared(self, item: Any) -> tuple[Program, dict[str, Any]] | None:
        """An item's program and arrays for it; None where it has an error, noted."""
        try:
            with self._runs.timed(), self._runs.alone():
                prepared = self._engine.prepared(item)
                self._runs.hold(prepared[0])
                return prepared
        except Exception as error:
            self._note(error)
            return None

    def _change(self, program: Program) -> None:
        """Change to another program; no run is under way."""
        if self._runs.overlap:
            self._patience = (
                1 if self._alike >= _WORTHWHILE else min(2 * self._patience, _WORTHWHILE)
            )
        self._alike = 0
        with self._runs.timed():
            self._runs.change(program)

    def _start(self, item: Any, arrays: dict[str, Any] | None) -> None:
        """Start of a run beside others; without arrays one by itself, to its end."""
        try:
            if arrays is None:
                with self._runs.timed(), self._runs.alone():
                    results = self._engine.run_within(item, self._runs.limit, self._kept)
                self._row.append(self._seen(results))
            else:
                with self._runs.timed():
                    self._runs.push(arrays)
                self._row.append(None)
        except Exception as error:
            self._note(error)

    def _oldest(self) -> Answer:
        """The first answer of the row; waits for its run."""
        answer, runs = self._row.popleft(), self._runs
        if answer is not None:
            return answer
        pending = runs.pending
        try:
            with runs.timed():
                results = runs.pop()
            return self._seen(self._engine.decoded(results))
        except Exception as error:
            # Of the stream is what leaves the run where it is: it is late, or somebody closed it.
            if runs.pending == pending or not self._is_answer(error):
                raise
            return returned(error, self._engine.model.file)

    def _seen(self, results: dict[str, Any]) -> dict[str, Any]:
        """Decoded results as the user sees them."""
        return as_tensors(self._engine.model.results(results), self._kept)

    def _note(self, error: Exception) -> None:
        """Note of an error in the row, or as the one with which the stream ends."""
        if self._is_answer(error):
            self._row.append(returned(error, self._engine.model.file))
        else:
            self._failure = error

    def _is_answer(self, error: Exception) -> bool:
        """Whether an error is one item's, and is to be returned."""
        one = isinstance(error, VknnError | MemoryError) and not isinstance(error, _OF_THE_STREAM)
        return one and self._returns and self._engine.usable and self._runs.usable


def returned(error: Exception, file: str | None) -> VknnError:
    """An item's error as its answer: it names the model's file.

    Tracebacks are left out, whose frames would keep the item's arrays for as long as the error.
    """
    try:
        name_of(error, file)
    except OutOfMemoryError as made:  # of a MemoryError
        error = made
    assert isinstance(error, VknnError)
    behind: list[BaseException | None] = [error]
    while behind:
        one = behind.pop()
        if one is not None:
            one.__traceback__ = None
            behind += [one.__cause__, None if one.__context__ is one.__cause__ else one.__context__]
    return error
