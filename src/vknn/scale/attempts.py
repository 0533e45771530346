"""Attempts of a job's workers at batches and records, and what is to blame for a process's end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from vknn.scale.killed import MOST_DEATHS

#: A batch at which so many processes ended, and at none of its records, ends the job.
MOST_BATCH_DEATHS = 5


@dataclass
class _Tried:
    """Attempts at something: the devices of those that ended a process, and of that under way.

    "" is no device: the record was read, or its row made. None: nothing is under way.
    """

    died_on: list[str] = field(default_factory=list)
    device: str | None = None


class Attempts:
    """Attempts that workers began, and how many ended in the end of a process.

    Keys of batches begin with the worker and a colon, and those of records with their batch's. A
    task of Ray's is a worker, too.
    """

    def __init__(self) -> None:
        self._batches: dict[str, _Tried] = {}
        self._records: dict[str, _Tried] = {}
        #: Worker -> key and device of the batch that its process did last.
        self._last: dict[str, tuple[str, str]] = {}

    def begin(self, device: str, key: str) -> int:
        """A batch is begun. Tells how many processes ended with it before."""
        tried = self._batches.setdefault(key, _Tried())
        tried.device = device
        return len(tried.died_on)

    def pause(self, key: str) -> None:
        """A batch is not begun after all."""
        self._batches.setdefault(key, _Tried()).device = None

    def end(self, device: str, key: str) -> None:
        """A batch is done. Whether it ended processes stays known: Ray may give it again."""
        self._last[worker_of(key)] = key, device
        _done(self._batches, key)

    def begin_record(self, device: str, key: str) -> int:
        """A record is begun by itself. Tells how many processes ended with it before.

        Where these are too many it is not to be computed, and nothing is begun. ``device``: empty
        where it is not computed, but read or written.
        """
        tried = self._records.setdefault(key, _Tried())
        if len(tried.died_on) < MOST_DEATHS:
            tried.device = device
        return len(tried.died_on)

    def end_record(self, key: str) -> None:
        """A record that was begun by itself is done."""
        _done(self._records, key)

    def died_on(self, key: str) -> Iterable[str]:
        """The devices on which processes ended with a record, each once."""
        return dict.fromkeys(filter(None, self._records.get(key, _Tried()).died_on))

    def batches_under_way(self, workers: Sequence[str]) -> int:
        """Number of batches that some workers have begun."""
        begun = [key for key, tried in self._batches.items() if tried.device is not None]
        return sum(worker_of(key) in workers for key in begun)

    def blame(
        self, worker: str, noted: Sequence[str] | None, device: str
    ) -> tuple[str, str | None] | None:
        """Blame for the end of a worker's process.

        It is the record that was under way by itself; else each batch that was, as the process had
        two; else the last one that was done, as what it gave may not have reached Ray.

        Args:
            worker: The worker.
            noted: Keys of the batches under way as the process noted them on its machine, where
                messages may be lost; None: there is no note.
            device: The worker's.

        Returns:
            Device and key of a record, None in place of that for batches; None: nothing is to
            blame.
        """
        records, batches = _begun(worker, self._records), _begun(worker, self._batches)
        if noted is not None:
            for tried in batches.values():
                tried.device = None
            own = [key for key in noted if worker_of(key) == worker]
            batches = {key: self._batches.setdefault(key, _Tried()) for key in own}
        last = self._last.pop(worker, None)
        if not records and not batches and last is not None:
            key, device = last
            batches = {key: self._batches.setdefault(key, _Tried())}
        blamed = records or batches
        for tried in blamed.values():
            tried.died_on.append(device if tried.device is None else tried.device)
        for tried in (*records.values(), *batches.values()):
            tried.device = None
        if not blamed:
            return None
        on = next(iter(blamed.values())).died_on[-1]
        return on, next(iter(records), None)


def worker_of(key: str) -> str:
    """The worker of a batch or a record."""
    return key.partition(":")[0]


def _begun(worker: str, tried: Mapping[str, _Tried]) -> dict[str, _Tried]:
    """What a worker has under way."""
    return {
        key: one
        for key, one in tried.items()
        if one.device is not None and worker_of(key) == worker
    }


def _done(tried: dict[str, _Tried], key: str) -> None:
    """End of an attempt, which is forgotten where none ended a process."""
    one = tried.get(key)
    if one is not None:
        one.device = None
        if not one.died_on:
            del tried[key]
