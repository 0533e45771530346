"""Campaign: many cases in a worker process, which is started again after a crash or a hang."""

from __future__ import annotations

import collections
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from fuzzing.corpus import FORMATS, ROOT

WORKER = Path(__file__).with_name("worker.py")
#: A worker is replaced after so many cases, so that a case depends on few others.
CASES_PER_WORKER = 1000
#: Seconds that a worker may take to start, when modules and shaders are compiled.
STARTING = 120.0
ADDRESS_SPACE = 8 << 30


@dataclass(frozen=True)
class Settings:
    """Settings of a campaign: what is run, and its limits."""

    seed: int = 0
    formats: tuple[str, ...] = FORMATS
    device: str = "auto"
    seconds: float = 10.0
    address_space: int = ADDRESS_SPACE


@dataclass
class Summary:
    """Counts of a campaign."""

    cases: int = 0
    opened: int = 0
    both: int = 0
    ill_conditioned: int = 0
    device: str = ""
    seconds: float = 0.0
    findings: collections.Counter[str] = field(default_factory=collections.Counter)
    signatures: collections.Counter[str] = field(default_factory=collections.Counter)

    def add(self, outcome: dict[str, Any]) -> None:
        """Count of a case."""
        self.cases += 1
        self.opened += outcome["opened"]
        self.both += outcome["both"]
        self.ill_conditioned += outcome["conditioned"]
        for finding in outcome["findings"]:
            self.findings[finding["kind"]] += 1
            self.signatures[finding["signature"]] += 1

    def as_json(self) -> dict[str, Any]:
        """The counts as they are printed."""
        found = dict(self.findings.most_common())
        return {
            "mutated": self.cases, "opened": self.opened, "run on both": self.both,
            "ill-conditioned": self.ill_conditioned, "device": self.device,
            "seconds": round(self.seconds, 1), "findings": found,
            "distinct findings": dict(self.signatures.most_common(40)),
        }  # fmt: skip


class Worker:
    """A child process; :meth:`ask` it for cases."""

    def __init__(self, settings: Settings) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as it)
        arguments = [
            str(settings.seed), ",".join(settings.formats), settings.device,
            str(settings.address_space),
        ]  # fmt: skip
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tools"), str(ROOT)])
        self._child = subprocess.Popen(
            [sys.executable, str(WORKER), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": path},
        )
        self.asked = 0
        self._rest = b""
        about = self._line(STARTING)
        if about is None:
            self.stop()
            raise RuntimeError(f"the worker did not start: {self.errors()}")
        self.device = str(json.loads(about)["device"])

    def ask(self, case: int, seconds: float) -> dict[str, Any]:
        """The outcome of a case; what ended the worker is a finding, and the worker then gone."""
        self.asked += 1
        assert self._child.stdin is not None
        start = time.monotonic()
        try:
            self._child.stdin.write(b"%d\n" % case)
            self._child.stdin.flush()
            line = self._line(seconds)
        except BrokenPipeError:
            line = None
        took = time.monotonic() - start
        if line is not None:
            found: dict[str, Any] = json.loads(line)
            return found
        ended = self._child.poll()
        if ended is None and took < seconds:  # its output is closed, it is ending
            ended = self._child.wait(60)
        if ended is None:
            self._child.send_signal(signal.SIGABRT)  # faulthandler then says where it was
            self._wait(5)
            kind, text = "time", f"more than {seconds:g} s"
        else:
            kind, text = "crash", f"the process ended with {ended}"
        self.stop()
        text = f"{text}\n{self.errors()}"
        return gone(case, kind, text)

    def end(self) -> dict[str, int]:
        """The native objects that are left when its device is closed; ends the process."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        line = self._line(STARTING)
        self.stop()
        return dict(json.loads(line)["left"]) if line is not None else {"process": 1}

    def stop(self) -> None:
        """End of the process."""
        if self._child.poll() is None:
            self._child.kill()
        self._wait(60)

    def errors(self) -> str:
        """The end of what it wrote to stderr."""
        self._errors.seek(0)
        return self._errors.read().decode("utf-8", "replace")[-1400:]

    def _wait(self, seconds: float) -> None:
        try:
            self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            self._child.kill()

    def _line(self, seconds: float) -> bytes | None:
        """The next line; None where the time is over or the process ends."""
        assert self._child.stdout is not None
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._child.stdout, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(max(0.0, end - time.monotonic())):
                    return None
                part = os.read(self._child.stdout.fileno(), 1 << 16)
                if not part:
                    return None
                self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return line


def gone(case: int, kind: str, text: str) -> dict[str, Any]:
    """The outcome of a case that the worker did not survive."""
    frames = [line.strip() for line in text.splitlines() if "/vknn/" in line]
    place = frames[0].rpartition("/vknn/")[2] if frames else text[:80]
    finding = {"kind": kind, "text": text, "signature": f"{kind}: {place}"}
    return {
        "case": case, "name": "", "done": [], "opened": False, "both": False,
        "conditioned": False, "refusal": "", "findings": [finding],
    }  # fmt: skip


class Campaign:
    """A series of cases with one worker at a time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._worker: Worker | None = None
        self.summary = Summary()

    def case(self, number: int) -> dict[str, Any]:
        """The outcome of a case; one that ended the worker is tried once more, by itself."""
        if self._worker is None or self._worker.asked >= CASES_PER_WORKER:
            self.close()
            self._worker = Worker(self._settings)
            self.summary.device = self._worker.device
        outcome = self._worker.ask(number, self._settings.seconds)
        if _ended(outcome):
            self._worker = None
            outcome = self._alone(number, outcome)
        self.summary.add(outcome)
        return outcome

    def close(self) -> None:
        """End of the worker."""
        worker, self._worker = self._worker, None
        if worker is not None and (left := worker.end()):
            self.summary.findings["leak"] += 1
            self.summary.signatures[f"leak: of the device: {left}"] += 1

    def _alone(self, number: int, first: dict[str, Any]) -> dict[str, Any]:
        worker = Worker(self._settings)
        outcome = worker.ask(number, 2 * self._settings.seconds)
        worker.stop()
        if not _ended(outcome) and first["findings"][0]["kind"] == "crash":
            first["findings"][0]["text"] += "\n(not by itself: it depends on cases before it)"
            return first
        return outcome  # slow only beside others, where there is no finding


def _ended(outcome: dict[str, Any]) -> bool:
    return any(f["kind"] in ("time", "crash") for f in outcome["findings"])
