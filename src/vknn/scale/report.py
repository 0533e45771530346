"""Report of a batch job: what was done, by whom, and what went wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class WorkTimes:
    """Seconds of a worker's time, and memory.

    Attributes:
        busy: The device computed, by its timestamps where runs overlap and it has them, else by the
            host's clock.
        upload: The host wrote inputs and submitted work.
        download: The host read outputs.
        memory: Bytes of device memory at most.
    """

    busy: float = 0.0
    upload: float = 0.0
    download: float = 0.0
    memory: int = 0

    def since(self, before: WorkTimes) -> WorkTimes:
        """The times of what came after ``before``; the memory at most so far."""
        return WorkTimes(
            self.busy - before.busy,
            self.upload - before.upload,
            self.download - before.download,
            self.memory,
        )


@dataclass
class DeviceReport:
    """Account of what a device did.

    Attributes:
        name: Its name.
        rows: Records that it computed.
        busy_seconds: Time in which it computed, by its timestamps where runs overlap.
        upload_seconds: Time in which the host wrote inputs and submitted work.
        download_seconds: Time in which the host read outputs.
        memory: Bytes of its memory that one worker had at most.
        cold_seconds: Time from opening the model to the first answer.
        checks: Records that NumPy computed, too.
        largest_error: The largest error of these, as a multiple of what is allowed; infinite for
            outputs of another shape, and where only one side is finite.
        stacked: Records of one shape that one run computed.
        deaths: Processes that ended while they used it.
        retired: Why it is not used any more; None where it is.
    """

    name: str
    rows: int = 0
    busy_seconds: float = 0.0
    upload_seconds: float = 0.0
    download_seconds: float = 0.0
    memory: int = 0
    cold_seconds: float = 0.0
    checks: int = 0
    largest_error: float = 0.0
    stacked: int = 1
    deaths: int = 0
    retired: str | None = None

    def add(self, times: WorkTimes) -> None:
        """Addition of a worker's times."""
        self.busy_seconds += times.busy
        self.upload_seconds += times.upload
        self.download_seconds += times.download
        self.memory = max(self.memory, times.memory)


@dataclass
class Report:
    """Report of a job.

    Attributes:
        output: Where its answers are.
        state: "done", "stopped" (it can be taken up again) or "planned".
        engine: "local" or "ray".
        rows: Records with an answer or an error, of this run and those before it.
        new_rows: Those of this run.
        errors: Records that could not be computed, by type of error.
        seconds: This run took so long.
        waiting_seconds: Time in which devices waited for inputs.
        writing_seconds: Time that writing answers took, in one process; tasks of Ray's tell nobody.
        peak_memory: Bytes of memory of the largest process.
        devices: What each device did, by its lasting name.
        suspects: Rows that a device wrote which disagreed with NumPy later.
        notes: What else there is to say.
    """

    output: str
    state: str = "stopped"
    engine: str = "local"
    rows: int = 0
    new_rows: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    waiting_seconds: float = 0.0
    writing_seconds: float = 0.0
    peak_memory: int = 0
    devices: dict[str, DeviceReport] = field(default_factory=dict)
    suspects: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def error_count(self) -> int:
        """Records that could not be computed."""
        return sum(self.errors.values())

    @property
    def rows_per_second(self) -> float:
        """Records of this run in a second."""
        return self.new_rows / self.seconds if self.seconds else 0.0

    def to_json(self) -> str:
        """The report as a JSON document; null are infinite errors, and what nobody measured."""
        document = asdict(self)
        if self.engine == "ray":
            document["writing_seconds"] = None
        document["rows_per_second"] = self.rows_per_second
        for device in document["devices"].values():
            share = device["busy_seconds"] / self.seconds if self.seconds else 0.0
            device["busy_share"] = min(1.0, share)
            device["rows_per_second"] = device["rows"] / self.seconds if self.seconds else 0.0
        return json.dumps(finite(document), indent=2, allow_nan=False)

    def __str__(self) -> str:
        lines = [
            f"{self.output}: {self.state}, {_count(self.rows, 'row')}"
            + (f", {self.new_rows} of them now" if self.new_rows != self.rows else "")
            + f", {self.seconds:.1f} s, {self.rows_per_second:.1f} rows/s ({self.engine})"
        ]
        if self.errors:
            kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.errors.items()))
            lines.append(f"  errors: {kinds}")
        lines += [_device_line(device, self.seconds) for device in self.devices.values()]
        if self.seconds:
            written = "" if self.engine == "ray" else f", writing {self.writing_seconds:.1f} s"
            lines.append(
                f"  waiting for inputs {self.waiting_seconds:.1f} s{written}, memory "
                f"{self.peak_memory / 2**20:.0f} MiB"
            )
        if self.suspects:
            lines.append(f"  {self.suspects} suspect rows: --redo-suspect computes them again")
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


def _device_line(device: DeviceReport, seconds: float) -> str:
    share = 100 * min(1.0, device.busy_seconds / seconds) if seconds else 0.0
    rate = device.rows / seconds if seconds else 0.0
    text = (
        f"  {device.name}: {_count(device.rows, 'row')}, {rate:.1f} rows/s, "
        f"computing {share:.0f} % of the time, "
        f"upload {device.upload_seconds:.1f} s, download {device.download_seconds:.1f} s, first "
        f"answer after {device.cold_seconds:.1f} s, memory {device.memory / 2**20:.0f} MiB"
    )
    if device.stacked > 1:
        text += f", {device.stacked} records a run"
    if device.checks:
        text += (
            f", {_count(device.checks, 'check')}, largest error {device.largest_error:.2g} of what "
            "is allowed"
        )
    if device.deaths:
        text += f", {device.deaths} processes ended"
    return text + (f", RETIRED: {device.retired}" if device.retired else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def finite(value: Any) -> Any:
    """A JSON document with None for numbers that JSON has not: infinities, NaN (RFC 8259, 6)."""
    if isinstance(value, Mapping):
        return {name: finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def report_of(document: Mapping[str, Any]) -> Report:
    """The report that :meth:`Report.to_json` wrote."""
    known = {name: value for name, value in document.items() if name in Report.__annotations__}
    devices = {
        key: DeviceReport(**{n: v for n, v in d.items() if n in DeviceReport.__annotations__})
        for key, d in known.get("devices", {}).items()
    }
    for device in devices.values():
        if device.largest_error is None:
            device.largest_error = math.inf
    return Report(
        **{**known, "devices": devices, "writing_seconds": known.get("writing_seconds") or 0.0}
    )
