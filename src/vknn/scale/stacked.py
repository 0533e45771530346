"""Stacked runs: several records in one run, where that is proven right and measured faster."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from vknn.batching import NotIndependentError, StackedModel, joined, parted
from vknn.crosscheck import output_errors
from vknn.engine import Engine
from vknn.errors import DeviceLostError, DeviceTimeoutError, RunCancelledError, VknnError
from vknn.item_stream import streamed
from vknn.scale.packs import shape_of
from vknn.scale.records import Record
from vknn.session import Session, engine_of

#: Records of a stacked run. Of more, devices gain little; the work of one shape waits for others.
STACKED = 8
#: Times as fast, per record, as runs of one that stacked runs have to be: less is within what
#: measurements differ by, and stacked runs take more memory and answer later.
_GAIN = 1.3
#: Seconds of a run that are work enough for any device: stacking is not tried.
_LONG = 0.05
#: Answers of a measured stream, and seconds that one takes where so many are too long.
_ROUNDS, _ANSWERS, _FEW, _BRIEF = 3, 12, 4, 0.25
#: Records of a job at least whose runs are measured: it takes as long as some fifty of them.
_FEWEST = 1000
#: What takes the device away.
LOST = (DeviceLostError, DeviceTimeoutError)
_Feeds = Mapping[str, np.ndarray]


class Stacker:
    """Stacker of ``count`` records to a run, beside a session.

    Records of a shape are stacked where the graph says that each is computed by itself, and the
    device computes the same bits for a record wherever it stands, near to those that it computes
    for it alone.

    Attributes:
        count: Records of a run.
        known: Shapes that were looked at -> whether they are stacked.
    """

    def __init__(
        self, session: Session, count: int, known: dict[Hashable, bool] | None = None
    ) -> None:
        engine = engine_of(session)
        self._session, self.count = session, count
        self._model = StackedModel(session.model, count)
        self._engine = Engine(self._model, engine.target, engine.timeout)
        self.known: dict[Hashable, bool] = {} if known is None else known

    @classmethod
    def of(
        cls, session: Session, count: int, known: dict[Hashable, bool] | None = None
    ) -> Stacker | None:
        """The stacker of a session; None where its model cannot be stacked."""
        try:
            return cls(session, count, known)
        except NotIndependentError:
            return None

    def takes(self, feeds: Sequence[_Feeds]) -> bool:
        """Whether records of one shape are stacked; decided by the first that can be computed."""
        shape = shape_of(feeds[0])
        for one in feeds:
            if shape in self.known:
                break
            try:
                alone = self._session.run(one)
            except (*LOST, RunCancelledError):
                raise
            except (VknnError, MemoryError):
                continue  # its own error; the next one may tell
            # Once only: a device that is lost by it is not asked again.
            self.known[shape] = False
            self.known[shape] = self._is_right(one, alone)
        return self.known.get(shape, False)

    def run(self, feeds: Sequence[_Feeds]) -> list[dict[str, Any]]:
        """Outputs of at most ``count`` records of one shape, by one run."""
        results = self._engine.run(joined(self._padded(feeds)))
        return parted(self._model.results(results))[: len(feeds)]

    def stream(self, packs: Iterable[Sequence[_Feeds]]) -> Iterator[Any]:
        """Outputs of the records of each pack, a list, or the error of its run."""
        items = (joined(self._padded(feeds)) for feeds in packs)
        for found in streamed(self._engine, items, None, (), 2, "return"):
            yield found if isinstance(found, Exception) else parted(found)

    def pays(self, feeds: _Feeds, fill: float) -> bool:
        """Whether stacked runs are faster. ``fill``: share of their places that records take."""
        seconds = _seconds(lambda: self._session.run(feeds))
        if seconds > _LONG or not self.takes([feeds]):
            return False
        together, places = _seconds(lambda: self.run([feeds])), fill * self.count
        # Waits that streams do without are in both, and in single runs most.
        if seconds < _GAIN * together / places:
            return False
        answers = max(_FEW, min(_ANSWERS, int(_BRIEF / max(together, 1e-6))))
        alone = stacked = float("inf")
        for _ in range(_ROUNDS):  # in turns, so that what slows one slows both
            one, many = itertools.repeat(feeds, answers), itertools.repeat([feeds], answers)
            alone = min(alone, _seconds_each(self._session.stream(one)))
            stacked = min(stacked, _seconds_each(self.stream(many)))
        return alone >= _GAIN * stacked / places

    def close(self) -> None:
        """Release of what its runs hold; may be called twice."""
        self._engine.forget()

    def _padded(self, feeds: Sequence[_Feeds]) -> list[_Feeds]:
        """The records with the last one in the places that are left."""
        return [*feeds, *[feeds[-1]] * (self.count - len(feeds))]

    def _is_right(self, feeds: _Feeds, alone: Mapping[str, Any]) -> bool:
        """Whether runs of records like this one give each what it gets alone, in every place."""
        like = [_like(feeds, number, self.count) for number in range(self.count)]
        try:
            found, moved = self.run(like), self.run([*like[1:], like[0]])
            near = all(error <= 1.0 for _, error in output_errors(self._session, found[0], alone))
        except (*LOST, RunCancelledError):
            raise
        except (VknnError, MemoryError):
            return False
        turned = [*found[1:], found[0]]
        return near and all(same_bits(a, b) for a, b in zip(turned, moved, strict=True))


def same_bits(one: Any, other: Any) -> bool:
    """Whether two outputs, or dicts or lists of some, are the same to the bit."""
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(same_bits(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same_bits, one, other))
    if isinstance(one, np.ndarray | np.generic) and one.dtype != object:
        a, b = np.asarray(one), np.asarray(other)
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    return bool(np.all(one == other))


def filled(records: Sequence[Record], count: int) -> float:
    """Share of the places of stacked runs that these records take, 0 to 1; 1 of none."""
    shapes = Counter(shape_of(record.feeds) for record in records)
    runs = sum(-(-number // count) for number in shapes.values())
    return len(records) / (runs * count) if runs else 1.0


def _like(feeds: _Feeds, number: int, count: int) -> dict[str, np.ndarray]:
    """Inputs like those of a record, with its own numbers in other places, floats a bit smaller."""
    made = {}
    for name, array in feeds.items():
        moved = np.roll(array, number * max(1, array.size // count))
        small = moved * (1 - number / (2 * count)) if array.dtype.kind == "f" else moved
        made[name] = np.asarray(small, array.dtype)
    return made


def is_worth(total: int | None) -> bool:
    """Whether a job of so many records is to be measured; None: nobody knows how many."""
    return total is None or total >= _FEWEST


def _seconds(work: Callable[[], object]) -> float:
    """Least seconds of two rounds of some work."""
    times = []
    for _ in range(2):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def _seconds_each(results: Iterable[Any]) -> float:
    """Seconds for an answer of a stream, without its first half; raises the error of one."""
    times = []
    for found in results:
        if isinstance(found, Exception):
            raise found
        times.append(time.perf_counter())
    half = len(times) // 2
    return (times[-1] - times[half - 1]) / (len(times) - half)
