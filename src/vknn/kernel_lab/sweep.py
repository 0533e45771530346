"""Sweep of a lab's kernel over values of its constants and macros.

Workgroups follow the lanes of a workgroup, so that there are as many lanes along each axis as
before. How they, or push constants, depend on other constants only the rules of vknn.lowering
know: there the same groups are taken, and the row shows whether that is right. A result that is
wrong says that groups or push constants must follow; one that is right with half the groups, too,
has lanes that do nothing, which is a wrong time. ``groups`` and ``push`` give formulas.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from vknn.errors import DeviceLostError, RunTimeoutError, VknnError
from vknn.kernel_lab.axes import LANES, combinations, typed_axes
from vknn.kernel_lab.checks import check_bindings
from vknn.kernel_lab.description import LabDescription, Number
from vknn.kernel_lab.formula import evaluated
from vknn.kernel_lab.kernel_source import CompiledKernel, KernelSource
from vknn.kernel_lab.report import LabRun, plain
from vknn.kernel_lab.workbench import Version, Workbench, check_runs
from vknn.plan import Access
from vknn.printable import one_line
from vknn.rich_text import text_of

IDLE = "also with half the groups: they must follow (--groups, groups=)"
FOLLOW = "groups or push constants may have to follow (--groups, --push)"


@dataclass(frozen=True)
class SweepRow:
    """A combination of a sweep.

    Attributes:
        values: The value of each axis, as it was typed.
        local: Lanes of a workgroup.
        groups: Workgroups.
        run: The run; None where the device cannot run it.
        reason: Why there is no run, or why its time says little; else "".
    """

    values: dict[str, str]
    local: tuple[int, int, int]
    groups: tuple[int, int, int]
    run: LabRun | None
    reason: str = ""

    @property
    def ok(self) -> bool:
        """Whether it ran, and is right with groups that all have something to do."""
        return self.run is not None and self.run.ok and not self.reason


@dataclass(frozen=True)
class Sweep:
    """Result of :meth:`vknn.kernel_lab.Lab.sweep`. ``print`` shows it as a table.

    Attributes:
        base: The kernel as the lab has it.
        rows: The combinations.
    """

    base: LabRun
    rows: tuple[SweepRow, ...]

    @property
    def best(self) -> SweepRow | None:
        """The row with the least ratio of those that are right; None without any."""
        right = [r for r in self.rows if r.ok and r.run is not None and r.run.ratio is not None]
        return min(right, key=_ratio, default=None)

    def to_json(self) -> str:
        """All of it as JSON; times in microseconds."""
        rows = [
            {
                "values": row.values,
                "local": row.local,
                "groups": row.groups,
                "ok": row.ok,
                "reason": row.reason,
                "run": None if row.run is None else row.run.document(),
            }
            for row in self.rows
        ]
        best = None if self.best is None else self.best.values
        document = {"base": self.base.document(), "best": best, "rows": rows}
        return json.dumps(plain(document), indent=2)

    def table(self) -> Table:
        """The combinations, a row each, below the kernel as it is."""
        title = one_line(f"{self.base.kernel} on {self.base.device}")
        table = Table(title=Text(title), title_justify="left")
        axes = list(self.rows[0].values) if self.rows else []
        numbers = list(self.base.driver_numbers())
        for name in (*axes, "lanes", "groups", "median us", "min us", "ratio", *numbers):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("", overflow="fold")
        first = SweepRow(dict.fromkeys(axes, ""), self.base.local, self.base.groups, self.base)
        for row in (first, *self.rows):
            style = "bold" if row is self.best else None if row.ok else "red"
            cells = map(one_line, self._cells(row, numbers))
            table.add_row(*(Text(cell) for cell in cells), style=style)
        return table

    def __rich__(self) -> RenderableType:
        return self.table()

    def __str__(self) -> str:
        return text_of(self, 200)

    def _cells(self, row: SweepRow, numbers: list[str]) -> list[str]:
        shape = ["x".join(map(str, row.local)), "x".join(map(str, row.groups))]
        run = row.run
        if run is None:
            return [*row.values.values(), *shape, *[""] * (3 + len(numbers)), row.reason]
        times = ["", "", ""]
        if run.median is not None and run.fastest is not None:
            ratio = "" if run.ratio is None else f"{run.ratio:.2f}"
            times = [f"{run.median:,.1f}", f"{run.fastest:,.1f}", ratio]
        told = run.driver_numbers()
        own = [f"{told[name]:,}" if name in told else "" for name in numbers]
        verdict = "; ".join(filter(None, (run.brief(), row.reason)))
        if run is self.base:
            verdict = f"as it is: {verdict}"
        return [*row.values.values(), *shape, *times, *own, verdict]


def _ratio(row: SweepRow) -> float:
    assert row.run is not None and row.run.ratio is not None
    return row.run.ratio


def swept(
    lab: Workbench,
    axes: str | Mapping[str, Any],
    device: str,
    groups: str | None,
    push: Mapping[str, str],
    runs: int,
    tolerance: float | None,
) -> Sweep:
    """The sweep of :meth:`vknn.kernel_lab.Lab.sweep`."""
    check_runs(runs)
    source = lab.source()
    compiled = lab.compiled(source, lab.description.variant)
    unknown = sorted(set(push) - {member.name for member in compiled.declared.push})
    if unknown:
        names = ", ".join(member.name for member in compiled.declared.push) or "none"
        raise VknnError(f"push constants: {', '.join(unknown)} not known; known: {names}")
    macros = source.macros(lab.description.variant)
    chosen = list(combinations(typed_axes(axes, compiled.declared, macros)))
    with lab.loaded(lab.description, compiled, device) as version:
        base = lab.measured(version, runs, tolerance)
        maker = _Rows(lab, source, device, version, groups, push, runs, tolerance)
        maker.base_right = base.ok
        maker.base_idles = base.ok and maker.idle(lab.description, compiled)
        return Sweep(base, tuple(maker.row(shown, words) for shown, words in chosen))


class _Rows:
    """The rows of a sweep, each timed in turn with the kernel as it is."""

    def __init__(
        self,
        lab: Workbench,
        source: KernelSource,
        device: str,
        base: Version,
        groups: str | None,
        push: Mapping[str, str],
        runs: int,
        tolerance: float | None,
    ) -> None:
        self.lab, self.source, self.device, self.base = lab, source, device, base
        self.groups, self.push, self.runs, self.tolerance = groups, push, runs, tolerance
        #: Whether the kernel as it is gives the right result.
        self.base_right = True
        #: Whether the kernel as it is has groups that do nothing, so that they say nothing here.
        self.base_idles = False

    def row(self, shown: dict[str, str], words: Mapping[str, str]) -> SweepRow:
        """A combination's row. What the driver refuses is its reason; a lost device ends all."""
        description = self.lab.description
        try:
            compiled, description = self._chosen(words)
            with self.lab.loaded(description, compiled, self.device) as version:
                run = self.lab.measured(version, self.runs, self.tolerance, self.base)
        except (DeviceLostError, RunTimeoutError):
            raise
        except VknnError as error:
            reason = str(error).strip()
            return SweepRow(shown, description.local, description.groups, None, reason)
        reason = ""
        if not run.ok and self.groups is None and self.base_right:
            reason = FOLLOW
        elif run.ok and self.groups is None and not self.base_idles:
            reason = IDLE if self.idle(description, compiled) else ""
        return SweepRow(shown, description.local, description.groups, run, reason)

    def idle(self, description: LabDescription, compiled: CompiledKernel) -> bool:
        """Whether half of the groups give the right result, too."""
        halves = _halved(description.groups)
        if halves is None or self.base.kernel.device.snapshot.is_null:
            return False
        half = dataclasses.replace(description, groups=halves)
        with self.lab.loaded(half, compiled, self.device) as version:
            return self.lab.measured(version, 0, self.tolerance).ok

    def _chosen(self, words: Mapping[str, str]) -> tuple[CompiledKernel, LabDescription]:
        """The kernel compiled for a combination, and the description of its dispatch."""
        lab, source = self.lab, self.source
        before = lab.compiled(source, lab.description.variant).declared
        lanes = {n: w for n, w in words.items() if n in LANES and n not in before.constants}
        constants = {n: w for n, w in words.items() if n in before.constants}
        macros = {n: w for n, w in words.items() if n not in lanes and n not in constants}
        variant = {**lab.description.variant, **macros}
        compiled = lab.compiled(source, variant)
        numbers = {n: _number(n, w) for n, w in constants.items()}
        local = _lanes(lab.description.local, lanes, before.local)
        changed = dataclasses.replace(
            lab.description,
            variant=variant,
            constants={**lab.description.constants, **numbers},
            local=local,
        )
        if macros:
            changed = _with_views(changed, compiled)
        return compiled, self._following(changed, compiled)

    def _following(self, changed: LabDescription, compiled: CompiledKernel) -> LabDescription:
        """A description whose groups and push constants follow its constants."""
        names = _names(changed, compiled)
        push = {
            **changed.push,
            **{n: evaluated(f, names, 1, f"push constant {n}")[0] for n, f in self.push.items()},
        }
        names.update({n: v for n, v in push.items() if isinstance(v, int | float)})
        if self.groups is None:
            old = self.lab.description
            lanes = [g * s for g, s in zip(old.groups, old.local, strict=True)]
            x, y, z = (-(-n // size) for n, size in zip(lanes, changed.local, strict=True))
        else:
            x, y, z = evaluated(self.groups, names, 3, "groups")
        return dataclasses.replace(changed, push=push, groups=(x, y, z))


def _names(description: LabDescription, compiled: CompiledKernel) -> dict[str, Number]:
    """The numbers that formulas may name."""
    names: dict[str, Number] = {n: c.default for n, c in compiled.declared.constants.items()}
    names.update(description.constants)
    names.update({n: int(v) for n, v in description.variant.items() if v.isdecimal()})
    names.update({n: v for n, v in description.push.items() if not isinstance(v, tuple)})
    names.update(zip(LANES, description.local, strict=True))
    return names


def _lanes(
    local: tuple[int, int, int], words: Mapping[str, str], free: frozenset[int]
) -> tuple[int, int, int]:
    sizes = list(local)
    for name, word in words.items():
        axis = LANES.index(name)
        if axis not in free:
            raise VknnError(f"{name}: the shader fixes the lanes along {'xyz'[axis]} itself")
        sizes[axis] = int(_number(name, word))
        if sizes[axis] < 1:
            raise VknnError(f"{name}: {word} lanes")
    return sizes[0], sizes[1], sizes[2]


def _with_views(description: LabDescription, compiled: CompiledKernel) -> LabDescription:
    """A description whose read buffers are seen as the shader's variant declares them."""
    found = []
    for number, b in enumerate(description.bindings):
        declared = compiled.declared.descriptors.get(number)
        if declared is not None and b.access is Access.READ:
            found.append(dataclasses.replace(b, view=declared.view))
        else:
            found.append(b)
    check_bindings(compiled.declared, found, "sweep")
    return dataclasses.replace(description, bindings=tuple(found))


def _number(name: str, word: str) -> Number:
    try:
        return float(word) if "." in word or "e" in word.lower() else int(word)
    except ValueError:
        raise VknnError(f"{name}: {word!r} is no number") from None


def _halved(groups: tuple[int, int, int]) -> tuple[int, int, int] | None:
    """The groups with the longest axis halved; None of a single group."""
    axis = max(range(3), key=lambda n: groups[n])
    if groups[axis] < 2:
        return None
    halves = list(groups)
    halves[axis] = -(-groups[axis] // 2)
    return halves[0], halves[1], halves[2]
