"""Watch of a lab: its kernel run anew each time that its GLSL, or lab.json, is saved."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vknn.errors import DeviceLostError, VknnError
from vknn.kernel_lab.kernel_source import FOLDER
from vknn.kernel_lab.lab import Lab, described
from vknn.kernel_lab.report import LabRun
from vknn.kernel_lab.workbench import DESCRIPTION, RUNS, Version, check_runs

#: Seconds between looks at the files, and those that a file must have stayed as it is.
INTERVAL, SETTLED = 0.05, 0.05
#: Seconds of timed runs, so that the numbers of a slow kernel do not keep one waiting.
MOST_SECONDS = 0.4

Stamp = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class Watched:
    """A version of a kernel: its run, or the error that there was instead.

    Attributes:
        number: Its number, from 1 on.
        run: The run; None after an error.
        error: The error's text, with the compiler's line; "" where there is a run.
        seconds: From the save that was seen to the numbers.
    """

    number: int
    run: LabRun | None
    error: str
    seconds: float

    def document(self) -> dict[str, Any]:
        """The version as JSON takes it."""
        run = None if self.run is None else self.run.document()
        own = {"number": self.number, "error": self.error, "seconds": self.seconds}
        return {**own, "run": run}

    def line(self) -> str:
        """The version in a line, or the error's lines."""
        head = f"{self.number:3}  {self.seconds:.2f} s  "
        if self.run is None:
            return f"{head}{self.error}"
        parts = []
        if self.run.median is not None:
            ratio = "" if self.run.ratio is None else f" ({self.run.ratio:.2f} of the first)"
            parts.append(f"{self.run.median:,.1f} us{ratio}")
        numbers = self.run.driver_numbers()
        parts += [
            f"{name} {numbers[name]:,}" for name in ("registers", "spills") if name in numbers
        ]
        return f"{head}{', '.join(parts)}  {self.run.summary()}"


def watch(
    lab: Lab,
    device: str = "auto",
    *,
    runs: int = RUNS,
    tolerance: float | None = None,
    ended: Callable[[], bool] = lambda: False,
) -> Iterator[Watched]:
    """The kernel as it is, and again each time that a file is saved, until ``ended`` says so.

    A file that does not compile, or is saved half, gives an error and the watch goes on. A change
    of lab.json opens it anew. Raises DeviceLostError where the device is gone, and what there is to
    say of the device before the first version.
    """
    check_runs(runs)
    before: Stamp | None = None
    lab.device(device)
    with ExitStack() as held:
        versions = _Versions(lab, device, runs, tolerance, held)
        while not ended():
            stamp = _stamp(lab.folder)
            if stamp == before:
                time.sleep(INTERVAL)
                continue
            begin = time.perf_counter()
            if before is not None:
                time.sleep(SETTLED)
                if _stamp(lab.folder) != stamp:
                    continue  # an editor that is still writing
            anew = before is not None and before[:1] != stamp[:1]
            before = stamp
            yield versions.next(begin, anew)


class _Versions:
    """The versions of a watched kernel; the first that ran is kept, for the others' ratios."""

    def __init__(
        self, lab: Lab, device: str, runs: int, tolerance: float | None, held: ExitStack
    ) -> None:
        self._lab, self._device, self._held = lab, device, held
        self._runs, self._tolerance = runs, tolerance
        self._first: Version | None = None
        self._number = 0

    def next(self, begin: float, anew: bool) -> Watched:
        """The version that is in the folder now, or its error. ``anew``: lab.json was saved."""
        self._number += 1
        run, error = None, ""
        try:
            if anew:
                self._lab.describe(described(self._lab.folder))
            run = self._run()
        except DeviceLostError:
            raise
        except VknnError as failure:
            error = str(failure).strip()
        return Watched(self._number, run, error, time.perf_counter() - begin)

    def _run(self) -> LabRun:
        version = self._lab.version(self._device)
        with ExitStack() as undo:
            undo.callback(version.close)
            run = self._lab.measured(
                version, self._runs, self._tolerance, self._first, MOST_SECONDS
            )
            if self._first is None:
                self._first = version
                self._held.push(undo.pop_all())
        return run


def _stamp(folder: Path) -> Stamp:
    """Times and sizes of lab.json and of what lies below glsl/."""
    sources = (p for end in ("comp", "glsl") for p in (folder / FOLDER).rglob(f"*.{end}"))
    files = [folder / DESCRIPTION, *sorted(sources)]
    found = []
    for file in files:
        try:
            status = file.lstat()
        except OSError:
            continue
        found.append((str(file), status.st_mtime_ns, status.st_size))
    return tuple(found)
