"""Watch of a lab: its kernel run anew each time that its GLSL, or lab.json, is saved."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vknn.errors import DeviceLostError, VknnError
from vknn.kernel_lab.kernel_source import FOLDER
from vknn.kernel_lab.lab import Lab, described
from vknn.kernel_lab.report import LabRun
from vknn.kernel_lab.workbench import DESCRIPTION, RUNS

#: Seconds between looks at the files, and those that a file must have stayed as it is.
INTERVAL, SETTLED = 0.05, 0.05

Stamp = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class Watched:
    """A version of a kernel: its run, or the error that there was instead.

    Attributes:
        number: Its number, from 1 on.
        run: The run; None after an error.
        error: The error's text, with the compiler's line; "" where there is a run.
        seconds: From the save that was seen to the numbers.
        ratio: Median time as a multiple of that of the first version that ran; None without one.
    """

    number: int
    run: LabRun | None
    error: str
    seconds: float
    ratio: float | None

    def document(self) -> dict[str, Any]:
        """The version as JSON takes it."""
        run = None if self.run is None else self.run.document()
        own = {"number": self.number, "error": self.error, "seconds": self.seconds}
        return {**own, "ratio": self.ratio, "run": run}

    def line(self) -> str:
        """The version in a line, or the error's lines."""
        head = f"{self.number:3}  {self.seconds:.2f} s  "
        if self.run is None:
            return f"{head}{self.error}"
        parts = []
        if self.run.median is not None:
            ratio = "" if self.ratio is None else f" ({self.ratio:.2f} of the first)"
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
    first: float | None = None
    before: Stamp | None = None
    number = 0
    lab.device(device)
    while not ended():
        stamp = _stamp(lab.folder)
        if stamp == before:
            time.sleep(INTERVAL)
            continue
        begin = time.monotonic()
        if before is not None:
            time.sleep(SETTLED)
            if _stamp(lab.folder) != stamp:
                continue  # an editor that is still writing
        anew = before is not None and before[:1] != stamp[:1]
        before = stamp
        number += 1
        run, error = _tried(lab, device, runs, tolerance, anew)
        median = None if run is None else run.median
        first = median if first is None else first
        ratio = None if median is None or not first else median / first
        yield Watched(number, run, error, time.monotonic() - begin, ratio)


def _tried(
    lab: Lab, device: str, runs: int, tolerance: float | None, anew: bool
) -> tuple[LabRun | None, str]:
    """A run, or an error's text. ``anew``: the description was saved, too."""
    try:
        if anew:
            lab.description = described(lab.folder)
            lab.forget()
        return lab.run(device, runs=runs, tolerance=tolerance), ""
    except DeviceLostError:
        raise
    except VknnError as error:
        return None, str(error).strip()


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
