"""Stacker: several examples in one run, where that is proven right and measured faster."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from vknn.batching.agreement import are_near, same_bits, shape_of
from vknn.batching.case import NotIndependentError
from vknn.batching.stacked_engine import StackedEngine
from vknn.batching.stacked_model import joined, parted
from vknn.engine import Engine
from vknn.errors import (
    DeviceLostError,
    DeviceTimeoutError,
    RunCancelledError,
    ValidationError,
    VknnError,
)
from vknn.item_stream import streamed
from vknn.precision import CUMULATIVE

#: Examples of a stacked run. Of more, devices gain little; the work of one shape waits for others.
STACKED = 8
#: The most that anybody may ask for.
MOST_STACKED = 256
#: Times as fast, per example, as runs of one that stacked runs have to be: less is within what
#: measurements differ by, and stacked runs take more memory and answer later.
GAIN = 1.3
#: What takes the device away.
LOST = (DeviceLostError, DeviceTimeoutError)
#: Errors that are neither an example's nor for stacking.
RAISED = (*LOST, RunCancelledError, ValidationError)
#: Seconds of a run that are work enough for any device: stacking is not tried.
_LONG = 0.05
#: Answers of a measured stream, and seconds that one takes where so many are too long.
_ROUNDS, _ANSWERS, _FEW, _BRIEF = 3, 12, 4, 0.25
#: Arrays of one example by input.
Feeds = Mapping[str, np.ndarray]


class Stacker:
    """Stacker of ``count`` examples to a run, beside an engine's runs of one.

    Examples of a shape are stacked where the graph says that each is computed by itself, and the
    device computes the same bits for an example wherever it stands, near to those that it computes
    for it alone. The engine closes it when it closes its own programs.

    Attributes:
        count: Examples of a run.
        known: Shapes that were looked at -> whether they are stacked.
        times: Shapes that were looked at -> seconds of a run of one, and of making its program.
        gains: Shapes that were measured -> what :meth:`gain` found.
    """

    def __init__(
        self, engine: Engine, count: int, known: dict[Hashable, bool] | None = None
    ) -> None:
        self.engine, self.count = engine, count
        self._stacked = StackedEngine(engine, count)
        self.known: dict[Hashable, bool] = {} if known is None else known
        self.times: dict[Hashable, tuple[float, float]] = {}
        self.gains: dict[Hashable, float] = {}
        engine.beside.append(self)

    @classmethod
    def of(
        cls, engine: Engine, count: int, known: dict[Hashable, bool] | None = None
    ) -> Stacker | None:
        """The stacker of an engine; None where its model cannot be stacked."""
        try:
            return cls(engine, count, known)
        except NotIndependentError:
            return None

    def takes(self, feeds: Sequence[Feeds]) -> bool:
        """Whether examples of one shape are stacked; decided by the first that can be computed."""
        shape = shape_of(feeds[0])
        for one in feeds:
            if shape in self.known:
                break
            try:
                alone = self.alone(one)
            except RAISED:
                raise
            except (VknnError, MemoryError):
                continue  # its own error; the next one may tell
            # Once only: a device that is lost by it is not asked again.
            self.known[shape] = False
            try:
                self.known[shape] = self._is_right(one, alone)
            except LOST:
                raise
            except BaseException:  # cancelled, or interrupted
                del self.known[shape]
                raise
        return self.known.get(shape, False)

    def alone(self, feeds: Feeds) -> dict[str, Any]:
        """Outputs of one example, by a run of its own."""
        return self.engine.model.results(self.engine.run(feeds))

    def run(self, feeds: Sequence[Feeds]) -> list[dict[str, Any]]:
        """Outputs of at most ``count`` examples of one shape, by one run."""
        results = self._stacked.run(joined(self._padded(feeds)))
        return parted(self._stacked.model.results(results))[: len(feeds)]

    def stream(
        self, packs: Iterable[Sequence[Feeds]], in_flight: int = 2
    ) -> Generator[Any, None, None]:
        """Outputs of the examples of each pack, a list, or the error of its run.

        Those of a pack of fewer than ``count`` have others behind them, which are none's.
        """
        items = (joined(self._padded(feeds)) for feeds in packs)
        for found in streamed(self._stacked, items, None, (), in_flight, "return"):
            yield found if isinstance(found, Exception) else parted(found)

    def gain(self, feeds: Feeds, fill: float = 1.0) -> float:
        """Times as fast, per example, as runs of one that full stacked runs are, by measurement.

        0 where examples of this shape are not stacked, and where even :meth:`run` says that it is
        less than GAIN for runs of which examples take the share ``fill`` of the places.
        """
        seconds = seconds_of(lambda: self.alone(feeds))
        if seconds > _LONG or not self.takes([feeds]):
            return 0.0
        together = seconds_of(lambda: self.run([feeds]))
        # Waits that streams do without are in both, and in single runs most.
        if fill * self.count * seconds < GAIN * together:
            return 0.0
        answers = max(_FEW, min(_ANSWERS, int(_BRIEF / max(together, 1e-6))))
        alone = stacked = float("inf")
        for _ in range(_ROUNDS):  # in turns, so that what slows one slows both
            one, many = itertools.repeat(feeds, answers), itertools.repeat([feeds], answers)
            singly = streamed(self.engine, one, None, (), 2, "return")
            alone = min(alone, _seconds_each(singly))
            stacked = min(stacked, _seconds_each(self.stream(many)))
        return alone * self.count / stacked

    def pays(self, feeds: Feeds, fill: float) -> bool:
        """Whether stacked runs are faster. ``fill``: share of their places that examples take."""
        return fill * self.gain(feeds, fill) >= GAIN

    def refuse(self, feeds: Feeds) -> None:
        """Note that examples of this shape are not stacked any more."""
        shape = shape_of(feeds)
        self.known[shape], self.gains[shape] = False, 0.0

    def close(self) -> None:
        """Release of what its runs hold; may be called twice. Further runs make it anew."""
        self._stacked.close()

    def close_idle(self) -> None:
        """The same, unless a stream is open."""
        self._stacked.forget_idle()

    def _padded(self, feeds: Sequence[Feeds]) -> list[Feeds]:
        """The examples with the last one in the places that are left."""
        return [*feeds, *[feeds[-1]] * (self.count - len(feeds))]

    def _is_right(self, feeds: Feeds, alone: Mapping[str, Any]) -> bool:
        """Whether runs of examples like this one give each what it gets alone, in every place."""
        like = [_like(feeds, number, self.count) for number in range(self.count)]
        options = self.engine.target.options
        share = CUMULATIVE[options.precision, options.arithmetic]
        try:
            found, moved = self.run(like), self.run([*like[1:], like[0]])
        except RAISED:
            raise
        except (VknnError, MemoryError):
            return False
        turned = [*found[1:], found[0]]
        return are_near(found[0], alone, share) and same_bits(turned, moved)


def seconds_of(work: Callable[[], object]) -> float:
    """Least seconds of two rounds of some work."""
    times = []
    for _ in range(2):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def filled(numbers: Iterable[int], count: int) -> float:
    """Share of the places of stacked runs that are taken, 0 to 1; 1 of none.

    ``numbers``: how many examples there are of each shape.
    """
    each = list(numbers)
    runs = sum(-(-number // count) for number in each)
    return sum(each) / (runs * count) if runs else 1.0


def _like(feeds: Feeds, number: int, count: int) -> dict[str, np.ndarray]:
    """Inputs like those of an example, its own numbers in other places, floats a bit smaller."""
    made = {}
    for name, array in feeds.items():
        moved = np.roll(array, number * max(1, array.size // count))
        small = moved * (1 - number / (2 * count)) if array.dtype.kind == "f" else moved
        made[name] = np.asarray(small, array.dtype)
    return made


def _seconds_each(results: Iterable[Any]) -> float:
    """Seconds for an answer of a stream, without its first half; raises the error of one."""
    times = []
    for found in results:
        if isinstance(found, Exception):
            raise found
        times.append(time.perf_counter())
    half = len(times) // 2
    return (times[-1] - times[half - 1]) / (len(times) - half)
