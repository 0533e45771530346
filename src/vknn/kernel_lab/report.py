"""Report of a lab's run: verdict, times, and what the driver made of the kernel."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from vknn.kernel_lab.comparison import OutputCheck
from vknn.printable import one_line
from vknn.profiling import StaticEntry
from vknn.rich_text import text_of

#: What is shown of the driver's numbers.
DRIVER = ("registers", "spills", "scratch", "shared", "code", "instructions", "waves")


@dataclass(frozen=True)
class LabRun:
    """Result of :meth:`vknn.kernel_lab.Lab.run`. ``print`` shows it.

    Attributes:
        folder: The lab's folder.
        kernel: Name of the kernel.
        layers: The layers that the dispatch computes.
        device: Name of the device.
        driver: Its driver.
        local: Lanes of a workgroup.
        groups: Workgroups.
        times: Microseconds of each timed run by the device's timestamps; none where it has none.
        first: Those of the version that it was timed in turn with; none where it was not.
        outputs: The check of each output; none on a device that computes nothing.
        compiled: What the driver made of the kernel, where it tells.
        notes: Remarks on names that the shader lacks, and on the device.
    """

    folder: str
    kernel: str
    layers: tuple[str, ...]
    device: str
    driver: str
    local: tuple[int, int, int]
    groups: tuple[int, int, int]
    times: tuple[float, ...]
    first: tuple[float, ...]
    outputs: tuple[OutputCheck, ...]
    compiled: StaticEntry
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every output is right."""
        return all(check.ok for check in self.outputs)

    @property
    def fastest(self) -> float | None:
        """The least microseconds of a run; None without timestamps."""
        return min(self.times, default=None)

    @property
    def median(self) -> float | None:
        """The median of the microseconds; None without timestamps."""
        return median(self.times) if self.times else None

    @property
    def ratio(self) -> float | None:
        """The median as a multiple of that of the version it was timed in turn with."""
        return median(self.times) / median(self.first) if self.times and self.first else None

    @property
    def excess(self) -> float:
        """The largest error of all outputs as a multiple of what is allowed."""
        return max((check.excess for check in self.outputs), default=0.0)

    def driver_numbers(self) -> dict[str, int]:
        """The driver's numbers (registers, spills, ...) by name, those that it tells."""
        found = {name: getattr(self.compiled, name) for name in DRIVER}
        return {name: value for name, value in found.items() if value is not None}

    def summary(self) -> str:
        """The verdict in one line."""
        if not self.outputs:
            return "not checked"
        wrong = [check for check in self.outputs if not check.ok]
        if not wrong:
            return f"right, at {self.excess:.2g} of what is allowed"
        return "; ".join(f"binding {c.binding} ({c.name}): {c.summary()}" for c in wrong)

    def brief(self) -> str:
        """The verdict in a few words."""
        if self.ok:
            return "right" if self.outputs else "not checked"
        check = next(check for check in self.outputs if not check.ok)
        if not check.wrong:
            return f"wrong: {check.summary()}"
        first = ",".join(map(str, check.first or ()))
        missing = f", {check.unwritten} of them not written" if check.unwritten else ""
        return f"wrong: {check.wrong} of {check.count}{missing}, first [{first}]"

    def document(self) -> dict[str, Any]:
        """All of it as JSON takes it; times in microseconds, infinities and NaN as text."""
        own = {
            "folder": self.folder,
            "kernel": self.kernel,
            "layers": self.layers,
            "device": self.device,
            "driver": self.driver,
            "local": self.local,
            "groups": self.groups,
            "checked": bool(self.outputs),
            "ok": self.ok,
            "min": self.fastest,
            "median": self.median,
            "times": self.times,
            "ratio": self.ratio,
            "first": self.first,
            "outputs": [asdict(check) for check in self.outputs],
            "compiled": self.compiled.document(),
            "notes": self.notes,
        }
        return dict(plain(own))

    def to_json(self) -> str:
        """The same as text."""
        return json.dumps(self.document(), indent=2)

    def table(self) -> Table:
        """The outputs, a row each."""
        title = f"{self.kernel} for {', '.join(self.layers) or '-'} on {self.device}"
        table = Table(title=escape(one_line(title)), title_justify="left")
        for name in ("output", "against"):
            table.add_column(name, overflow="fold")
        for name in ("elements", "wrong", "max abs", "of limit", "from device"):
            table.add_column(name, justify="right")
        table.add_column("first wrong", overflow="fold")
        table.add_column("behind the end")
        table.add_column("")
        for check in self.outputs:
            table.add_row(
                *map(escape, map(one_line, _cells(check))), style=None if check.ok else "red"
            )
        return table

    def lines(self) -> list[str]:
        """Times, the driver's numbers, notes and the verdict."""
        shape = f"{'x'.join(map(str, self.groups))} groups of {'x'.join(map(str, self.local))}"
        found = [f"{shape}: {times_text(self)}"]
        numbers = self.driver_numbers()
        if numbers:
            found.append(", ".join(f"{name} {value:,}" for name, value in numbers.items()))
        else:
            found.append(f"{self.device} does not tell registers and spills")
        return [*found, *(f"note: {note}" for note in self.notes), self.summary()]

    def __rich__(self) -> RenderableType:
        style = "green" if self.ok else "bold red"
        *others, verdict = (Text(line) for line in self.lines())
        verdict.stylize(style)
        parts = [self.table()] if self.outputs else []
        return Group(*parts, *others, verdict)

    def __str__(self) -> str:
        return text_of(self, 200)


def times_text(run: LabRun) -> str:
    """Minimum and median of a run in words."""
    if run.fastest is None or run.median is None:
        return "not timed"
    return f"{run.fastest:,.1f} us at best, median {run.median:,.1f} us of {len(run.times)}"


def plain(value: Any) -> Any:
    """A document without infinities and NaN, which JSON lacks: they become text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value


def _cells(check: OutputCheck) -> list[str]:
    first = ""
    if check.first is not None:
        place = ",".join(map(str, check.first))
        first = f"{place}: {check.actual:.7g} for {check.expected:.7g}"
    sentinels = "not watched" if check.sentinels is None else f"{check.sentinels} bytes changed"
    return [
        f"{check.binding} {check.name}",
        "NumPy" if check.against == "numpy" else "the device then",
        f"{check.count:,}",
        f"{check.wrong:,}",
        f"{check.max_abs:.2g}",
        f"{check.excess:.2g}",
        f"{check.from_device:.2g}",
        first,
        "untouched" if check.sentinels == 0 else sentinels,
        "ok" if check.ok else "FAIL",
    ]
