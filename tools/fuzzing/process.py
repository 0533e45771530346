"""Processes of the fuzzer: children that run cases, forked from one that has imported everything.

The parent opens no device and has one thread, so that a child begins as a new process would. A
child opens the device itself and keeps it, for opening one takes longer than most cases.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import os
import resource
import selectors
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, NoReturn

from fuzzing import case as cases
from fuzzing.corpus import FORMATS
from fuzzing.reuse import keep_modules
from fuzzing.settings import Settings
from vknn.errors import DeviceError
from vknn.runtime import Device, live_objects, open_device

#: Seconds that a child may take to open its device.
STARTING = 120.0
#: Seconds on the clock for one of the processor: others may be busy.
PATIENCE = 12
#: Bytes that the process may grow by in a case: when it is run, beside what the budget allows to be
#: used; and when a file of the corpus is only opened.
MOST_GROWTH = 6 * cases.MEMORY_LIMIT
MOST_GROWTH_OPEN = 64 << 20
#: Bytes that the peak may lie above what is used before it is counted anew.
_WORTH = 16 << 20
_MEMORY = Path("/dev/shm")
_TICKS = os.sysconf("SC_CLK_TCK")


class Worker:
    """A child process; :meth:`ask` it for cases."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as it)
        self._folder = tempfile.TemporaryDirectory(dir=_memory_folder())
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        self._child = os.fork()
        if not self._child:
            os.close(self._requests)
            os.close(self._answers)
            os.dup2(self._errors.fileno(), 1)  # what others print is no answer
            os.dup2(self._errors.fileno(), 2)
            _serve(settings, Path(self._folder.name), requests, answers)
        os.close(requests)
        os.close(answers)
        self.asked = self._answered = 0
        self._rest = b""
        self._status: int | None = None
        about = self._line(STARTING)
        if about is None:
            self.stop()
            raise RuntimeError(f"the child did not start: {self.errors()}")
        self.device = str(json.loads(about)["device"])

    def ask(self, numbers: Sequence[int]) -> Iterator[dict[str, Any]]:
        """Outcomes of cases; the last one may be what ended the child, which is then gone."""
        text = "".join(f"{number}\n" for number in numbers)
        with contextlib.suppress(BrokenPipeError):
            os.write(self._requests, text.encode())
        self.asked += len(numbers)
        for number in numbers:
            if (line := self._line(self._settings.seconds)) is None:
                yield self._gone(number)
                return
            self._answered += 1
            yield json.loads(line)

    def end(self) -> dict[str, int]:
        """The native objects that are left when its device is closed; ends the process.

        None are said of one that has cases left to run.
        """
        if self._answered < self.asked:
            self.stop()
            return {}
        os.close(self._requests)
        self._requests = -1
        line = self._line(STARTING)
        self.stop()
        return dict(json.loads(line)["left"]) if line is not None else {"process": 1}

    def stop(self) -> None:
        """End of the process."""
        if self._ended(0) is None:
            os.kill(self._child, signal.SIGKILL)
            self._ended(60)
        for file in (self._requests, self._answers):
            if file >= 0:
                os.close(file)
        self._requests = self._answers = -1
        self._folder.cleanup()

    def errors(self) -> str:
        """The end of what it wrote to stderr."""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - 1400))
        return self._errors.read().decode("utf-8", "replace")

    def _gone(self, number: int) -> dict[str, Any]:
        """The outcome of the case that it did not survive."""
        ended = self._ended(2)
        if ended is None:
            os.kill(self._child, signal.SIGABRT)  # faulthandler then says where it was
            self._ended(5)
            kind, text = "time", f"more than {self._settings.seconds:g} s"
        else:
            kind, text = "crash", f"the process ended with {ended}"
        self.stop()
        text = f"{text}\n{self.errors()}"
        outcome = cases.described(number, self._settings)
        frames = [line.strip() for line in text.splitlines() if "/vknn/" in line]
        outcome.add(kind, text, frames[0].rpartition("/vknn/")[2] if frames else text[:80])
        return asdict(outcome)

    def _ended(self, seconds: float) -> int | None:
        """Its exit code, negative for a signal; None where it still runs."""
        end = time.monotonic() + seconds
        while self._status is None:
            pid, status = os.waitpid(self._child, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
            elif time.monotonic() >= end:
                break
            else:
                time.sleep(0.01)
        return self._status

    def _line(self, seconds: float) -> bytes | None:
        """The next line; None where the time (of the processor) is over or the process ends."""
        used, end = self._used(), time.monotonic() + PATIENCE * seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(min(1.0, seconds)):
                    if self._used() - used > seconds or time.monotonic() > end:
                        return None
                    continue
                part = os.read(self._answers, 1 << 16)
                if not part:
                    return None
                self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _used(self) -> float:
        """Seconds of the processor that the child has had."""
        try:
            text = Path(f"/proc/{self._child}/stat").read_text(encoding="ascii")
        except OSError:
            return 0.0
        fields = text.rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


def prepare() -> None:
    """Imports that vknn puts off until they are needed, and the list of the corpus."""
    with tempfile.TemporaryDirectory(dir=_memory_folder()) as name:
        for format_ in FORMATS:
            cases.open_right(format_, Path(name))
    gc.collect()
    gc.freeze()  # a collection in a child would copy all pages


def _serve(settings: Settings, folder: Path, requests: int, answers: int) -> NoReturn:
    """The child: numbers of cases come as lines, outcomes go out, until there are no more."""
    code = 1
    try:
        faulthandler.enable()
        limit = settings.address_space
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with os.fdopen(requests) as lines, os.fdopen(answers, "w") as out:
            _cases(settings, folder, lines, out)
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


def _cases(settings: Settings, folder: Path, lines: IO[str], out: IO[str]) -> None:
    keep_modules()
    device = None if settings.open_only else _device(settings.device)
    print(json.dumps({"device": device.name if device else "NumPy"}), file=out, flush=True)
    most = MOST_GROWTH_OPEN if settings.open_only else MOST_GROWTH
    now = _memory()[0]
    for line in lines:
        before = now
        outcome = cases.run(int(line), folder, device, settings)
        now, peak = _memory()
        if peak - before > most:
            text = f"{(peak - before) >> 20} MiB taken, {outcome.done}"
            outcome.add("memory", text, outcome.name)
        if peak - now > _WORTH:
            _restart_peak()
        print(json.dumps(asdict(outcome)), file=out, flush=True)
    if device is not None:
        device.close()
    gc.collect()
    print(json.dumps({"left": live_objects()}), file=out, flush=True)


def _device(name: str) -> Device | None:
    if name == "numpy":
        return None
    try:
        return open_device(name)
    except DeviceError as error:
        print(f"without a device: {error}", file=sys.stderr)
        return None


def _memory() -> tuple[int, int]:
    """Bytes of memory that the process has, and has had at most."""
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    now, peak = (
        int(text.partition(key)[2].split(None, 1)[0]) << 10 for key in ("VmRSS:", "VmHWM:")
    )
    return now, peak


def _restart_peak() -> None:
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def _memory_folder() -> Path | None:
    """Where files lie in memory; None where there is no such place."""
    return _MEMORY if _MEMORY.is_dir() else None
