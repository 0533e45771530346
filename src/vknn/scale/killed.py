"""Records that were under way when a process ended, and those that end every process."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from vknn.scale.folder import Folder
from vknn.scale.options import NUMPY
from vknn.scale.reading import Rows

#: A record that was alone when the process ended so many times is not tried again.
MOST_DEATHS = 2
#: A device at which processes ended at so many different records is not used any more.
MOST_DEADLY_RECORDS = 3
#: Why not.
RETIRED = f"processes ended at {MOST_DEADLY_RECORDS} different records"
#: Who ended where no device computed.
_READ = "the process that read it, or made its row,"


class Killed:
    """Note of what is being read and computed, in the job's folder, for the process after this one.

    Two threads may use it: one reads what the other computes later. A batch that was under way when
    a process ended is computed record by record; a record that was alone then is counted, for
    itself and, once it is read, for the device.

    Args:
        folder: The job's folder.
        device: The device that this process computes on, by its lasting name.
        has_names: Whether records have names; without them nothing can be noted.
        run: Name of this run, with which the names of its batches begin.

    Attributes:
        suspicious: Names of the records that were under way, as text.
        unsure: Names of the runs that did not come to their ends, until a device agrees with NumPy
            behind them: what it wrote in them since it last did may be wrong.
    """

    def __init__(self, folder: Folder, device: str, has_names: bool = True, run: str = "") -> None:
        self._folder, self._device, self._has_names = folder, device, has_names
        self._run = run
        before = folder.running() if has_names else {}
        self.suspicious: set[str] = set(before.get("suspicious", ()))
        # Of a record that was alone: the devices on which processes ended, "" where it was read.
        # The other way round it outlives the record's answer.
        self._deaths: dict[str, list[str]] = dict(before.get("deaths", {}))
        self._deadly: dict[str, list[str]] = dict(before.get("deadly", {}))
        self._exit = str(before.get("exit", ""))
        self.unsure: list[str] = list(before.get("runs", ()))
        now = before.get("now", ())
        if len(now) == 1:
            on = str(before.get("on", device))
            self._deaths[now[0]] = [*self._deaths.get(now[0], ()), on]
            if on:
                self._deadly[on] = list(dict.fromkeys([*self._deadly.get(on, ()), now[0]]))
        self.suspicious.update(now)
        self._written = bool(before)
        self._lock = threading.Lock()
        self._now: list[str] = []

    @property
    def deadly(self) -> list[str]:
        """Names of the records at which processes ended on this device, where these are too many.

        NumPy is never to blame. Empty: the device may be used.
        """
        found = [] if self._device == NUMPY else self._deadly.get(self._device, [])
        return found if len(found) >= MOST_DEADLY_RECORDS else []

    def begin(self, names: Sequence[Any], is_read: bool = True) -> None:
        """Note that these records are under way now and no others.

        ``is_read``: the device computes them now; else they are to be read.
        """
        with self._lock:
            self._now = [str(name) for name in names]
            self._write(self._device if is_read else "")

    def add(self, names: Sequence[Any]) -> None:
        """Note of further records that are under way: they are to be read."""
        with self._lock:
            self._now += map(str, names)
            self._write("")

    def end(self, count: int) -> None:
        """The first so many of the records that are under way are done; the next note has it."""
        with self._lock:
            del self._now[:count]

    def _write(self, on: str) -> None:
        """Note, with the device to blame for what happens to a single record; "": none."""
        if not self._has_names:
            return
        document: dict[str, Any] = {"now": self._now, "on": on}
        document["runs"] = [*self.unsure, self._run]
        if self.suspicious:
            document |= {"suspicious": sorted(self.suspicious), "deaths": self._deaths}
        if self._deadly:
            document["deadly"] = self._deadly
        self._folder.write_running(document)
        self._written = True

    def begin_first(self, rows: Rows | None, is_read: bool) -> None:
        """Note of a record that is tried before all others, as :func:`first_record` tells it.

        ``rows``: its row; None: none is under way.
        """
        self.begin([] if rows is None else [rows.table.column(0)[0].as_py()], is_read)

    def is_suspicious(self, name: Any) -> bool:
        """Whether a record was under way when a process ended."""
        return str(name) in self.suspicious

    def is_deadly(self, name: Any) -> bool:
        """Whether a record was alone in two processes that ended."""
        return len(self._deaths.get(str(name), ())) >= MOST_DEATHS

    def error_row(self, name: Any) -> dict[str, Any]:
        """The error of a record that is not tried again."""
        devices = self._deaths[str(name)]
        return died_row(len(devices), self._exit, ", ".join(dict.fromkeys(filter(None, devices))))

    def forget(self) -> None:
        """End of the suspicion: all of these records have answers."""
        self.suspicious, self._deaths = set(), {}
        self.begin([])

    def clear(self) -> None:
        """Removal of the note."""
        if self._written:
            self._folder.write_running({})
            self._written = False


def died_row(deaths: int, how: str, on: str) -> dict[str, Any]:
    """The error of a record at which processes ended.

    Args:
        deaths: How often.
        how: How, such as by which signal; empty: that is not known.
        on: The device, or several; empty: it was not computed then.
    """
    who = f"the process that computed it on {on}" if on else _READ
    ended = f"ended {deaths} times" + (f" ({how})" if how else "")
    return {"type": "ProcessDied", "message": f"{who} {ended}", "attempts": deaths}
