"""Packs: records of one shape that are computed together, and answers in the records' order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vknn.batching import shape_of
from vknn.scale.records import Record


@dataclass
class PackedRecord:
    """A record on its way.

    Attributes:
        record: The record.
        number: Records that were read before it.
        found: Its outputs, or the error in their place.
        has_answer: Whether ``found`` is there.
        begun: Whether a run for it was begun.
    """

    record: Record
    number: int = 0
    found: Any = None
    has_answer: bool = False
    begun: bool = False

    def answer(self, found: Any) -> None:
        """Note of what was found."""
        self.found, self.has_answer = found, True


@dataclass(frozen=True)
class Pack:
    """Records of one shape. ``is_stacked``: they are computed by one run."""

    entries: Sequence[PackedRecord]
    is_stacked: bool

    @property
    def feeds(self) -> list[dict[str, np.ndarray]]:
        """Inputs of its records."""
        return [entry.record.feeds for entry in self.entries]


class Packs:
    """Row of records, of which those of one shape become packs.

    Args:
        records: They may be read while earlier ones are computed.
        count: Records of a pack at most. It has fewer where its first one waited for ``window``
            others to be read, and at the end.
        window: How many are read before a record that waits is begun.
        stacks: Whether one run computes a pack of these inputs.
    """

    def __init__(
        self,
        records: Iterable[Record],
        count: int,
        window: int,
        stacks: Callable[[list[dict[str, np.ndarray]]], bool],
    ) -> None:
        self._source, self._count, self._stacks = iter(records), count, stacks
        self._window = max(window, count) if count > 1 else 1
        self._row: deque[PackedRecord] = deque()
        #: Shape -> records that wait, in order.
        self._waiting: dict[Hashable, list[PackedRecord]] = {}
        self._head: Pack | None = None
        self._number = 0
        self._has_ended = False
        #: The error with which the records end.
        self._failure: Exception | None = None

    def head(self) -> Pack | None:
        """The pack to begin next; None: all were begun."""
        if self._head is None:
            entries = self._full()
            if entries:
                is_stacked = self._count > 1 and self._stacks([e.record.feeds for e in entries])
                self._head = Pack(entries, is_stacked)
        return self._head

    def begin(self) -> Pack:
        """The pack of :meth:`head`, which is begun."""
        pack, self._head = self._head, None
        assert pack is not None
        for entry in pack.entries:
            entry.begun = True
        return pack

    def answered(self) -> Iterator[tuple[Record, Any]]:
        """Records with their answers, up to the first that has none; they leave the row."""
        while self._row and self._row[0].has_answer:
            entry = self._row.popleft()
            yield entry.record, entry.found

    def again(self) -> None:
        """Return of all records without an answer to those that wait; an attempt of some failed."""
        self._waiting, self._head = {}, None
        for entry in self._row:
            if not entry.has_answer:
                entry.record.attempts += entry.begun
                entry.begun = False
                self._wait(entry)

    def end(self) -> None:
        """End: raises the error with which the records ended, if any."""
        if self._failure is not None:
            raise self._failure

    def _full(self) -> list[PackedRecord]:
        """Records of a pack; none where all were begun."""
        while True:
            first = min(self._waiting, key=lambda s: self._waiting[s][0].number, default=None)
            if first is not None and self._number - self._waiting[first][0].number >= self._window:
                return self._taken(first)
            full = next((s for s, own in self._waiting.items() if len(own) >= self._count), None)
            if full is not None:
                return self._taken(full)
            if not self._read():
                return [] if first is None else self._taken(first)

    def _taken(self, shape: Hashable) -> list[PackedRecord]:
        """Records of a shape that wait no more."""
        entries = self._waiting.pop(shape)
        if rest := entries[self._count :]:
            self._waiting[shape] = rest
        return entries[: self._count]

    def _read(self) -> bool:
        """A further record; False: there is none."""
        if self._has_ended:
            return False
        try:
            record = next(self._source)
        except StopIteration:
            self._has_ended = True
            return False
        except Exception as error:  # behind the answers to the records before it
            self._has_ended, self._failure = True, error
            return False
        entry = PackedRecord(record, self._number)
        self._number += 1
        self._row.append(entry)
        if record.error is not None:
            entry.answer(record.error)
        else:
            self._wait(entry)
        return True

    def _wait(self, entry: PackedRecord) -> None:
        shape = shape_of(entry.record.feeds) if self._count > 1 else ()
        self._waiting.setdefault(shape, []).append(entry)
