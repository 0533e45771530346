"""Counters of a device by layer (``vknn profile --counters``)."""

from __future__ import annotations

import difflib
import fnmatch
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from vknn import reference
from vknn.errors import DeviceError, VknnError
from vknn.plan import Plan
from vknn.precision import Precision
from vknn.printable import one_line
from vknn.profiling.labels import first_rows, named_cell
from vknn.profiling.records import Entry, command_entry
from vknn.rich_text import text_of
from vknn.runtime.counters import SUBMITS, Counter
from vknn.runtime.counters import counters as device_counters
from vknn.runtime.recorder import submit_ranges
from vknn.segment import Segment
from vknn.session import Session, engine_of
from vknn.tool_inputs import Shapes, complete_feeds, opened

#: Fields of counters and entries.
_COUNTER, _ENTRY = ([f.name for f in fields(made)] for made in (Counter, Entry))


@dataclass(frozen=True, eq=False)
class CounterProfile:
    """Result of :func:`count`. ``print`` shows it as a table.

    Attributes:
        model: The file, or the name of the graph.
        device: Name of the device.
        counters: What was counted.
        by: "commands" or "submits": what a row stands for. A counter that cannot be read around a
            command makes all rows submits, whose values have copies in and out in them.
        entries: A command, or a submit with its layers, for each row.
        values: float64 [rows, counters], in the counters' units.
        passes: How often each part of the model was run for them.
    """

    model: str
    device: str
    counters: tuple[Counter, ...]
    by: str
    entries: tuple[Entry, ...]
    values: np.ndarray = field(repr=False)
    passes: int

    @classmethod
    def from_document(cls, model: str, device: str, document: Mapping[str, Any]) -> CounterProfile:
        """The profile that :meth:`document` described, checked before; null values are NaN."""
        counters = tuple(Counter(**{n: c[n] for n in _COUNTER}) for c in document["counters"])
        rows = document["rows"]
        entries = tuple(
            Entry(**{n: row[n] for n in _ENTRY} | {n: _tuple(row[n]) for n in ("layers", "groups")})
            for row in rows
        )
        # NumPy takes None for NaN.
        values = np.array([row["values"] for row in rows], np.float64)
        shape = len(rows), len(counters)
        by, passes = document["by"], document["passes"]
        return cls(model, device, counters, by, entries, values.reshape(shape), passes)

    def document(self) -> dict[str, Any]:
        """The part of it in a profile's file (docs/vkprof.md); null where a value is no number."""
        rows = [
            {**asdict(entry), "values": [float(v) if np.isfinite(v) else None for v in values]}
            for entry, values in zip(self.entries, self.values, strict=True)
        ]
        counters = [asdict(counter) for counter in self.counters]
        return {"by": self.by, "passes": self.passes, "counters": counters, "rows": rows}

    def table(self, limit: int | None = None) -> Table:
        """Rows as a rich table; ``limit``: the most, None for all."""
        times = "once" if self.passes == 1 else f"{self.passes} times"
        title = one_line(f"{self.model} on {self.device}, by {self.by}, run {times}")
        table = Table(title=Text(title), title_justify="left")
        for name in ("layers", "kernel", "what"):
            table.add_column(name, overflow="fold")
        for counter in self.counters:
            unit = f" ({counter.unit})" if counter.unit else ""
            table.add_column(Text(one_line(counter.name + unit)), justify="right")
        rows = list(zip(self.entries, self.values, strict=True))
        for entry, values in first_rows(rows, limit):
            names = (named_cell(*entry.layers), named_cell(entry.kernel), named_cell(entry.label))
            table.add_row(*names, *map(_number, values))
        return table

    def to_json(self) -> str:
        """JSON of everything; values as the driver gave them, null where they are no numbers."""
        document = {"model": self.model, "device": self.device, **self.document()}
        return json.dumps(document, indent=2)

    def __rich__(self) -> Table:
        return self.table()

    def __str__(self) -> str:
        return text_of(self, 200)


def counters(session: Session) -> tuple[Counter, ...]:
    """Counters of a session's device that can be read around commands or submits.

    Raises:
        vknn.DeviceError: There is no device, or its driver offers none; the text says which switch
            it needs, where that is known.
    """
    if session.device is None:
        raise DeviceError("counters are a device's: NumPy has none")
    return device_counters(session.device.shared.core)


def counters_table(found: Sequence[Counter]) -> Table:
    """Counters with their units and words, as a rich table."""
    table = Table(title=f"{len(found)} counters", title_justify="left")
    for name in ("counter", "category", "unit", "around", "what"):
        table.add_column(name, overflow="fold")
    for counter in found:
        around = "command" if counter.by_command else "submit"
        what = counter.description + (" (slows the device down)" if counter.slows else "")
        table.add_row(counter.name, counter.category, counter.unit, around, what)
    return table


def count(
    model: str | os.PathLike[str] | Session,
    inputs: Mapping[str, np.ndarray] | None = None,
    *,
    names: Sequence[str],
    weights: str | os.PathLike[str] | None = None,
    device: str = "auto",
    precision: Precision = "fp32",
    arithmetic: str = "fp32",
    shapes: Shapes | None = None,
    seed: int = 0,
) -> CounterProfile:
    """Values of a device's counters around every command of a model (VK_KHR_performance_query).

    A set of counters may take several passes; each runs the same commands on the same inputs.

    Args:
        model: A model file or an open session.
        inputs: Arrays by name; random ones stand in for those that are missing.
        names: Counters, by name or pattern ("L2*"), whatever their case.
        weights: The model's second file, as for :class:`vknn.Session`.
        device: As for :class:`vknn.Session`; not used where ``model`` is a session. So are
            ``precision`` and ``arithmetic``.
        precision: As for :class:`vknn.Session`.
        arithmetic: As for :class:`vknn.Session`.
        shapes: Shapes of random inputs by name, where the model leaves them open.
        seed: Of random inputs.

    Raises:
        vknn.DeviceError: The device has no counters, or another process counts.
        vknn.VknnError: No counter has such a name; or what :class:`vknn.Session` raises.
    """
    with opened(
        model, weights, device=device, precision=precision, arithmetic=arithmetic
    ) as session:
        chosen = chosen_counters(session, names)
        feeds = complete_feeds(session, inputs, shapes, seed)
        engine = engine_of(session)
        program, encoded = engine.program(feeds), engine.encode(feeds)
        counting = _Counting(chosen)
        program.run({v.name: encoded[v.name] for v in program.graph.inputs}, counting.execute)
        assert session.device is not None
        name = program.graph.name if isinstance(model, Session) else str(model)
        values = np.concatenate([np.zeros((0, len(chosen))), *counting.values])
        return CounterProfile(
            name,
            session.device.name,
            chosen,
            counting.by,
            tuple(counting.entries),
            values,
            counting.passes,
        )


@dataclass(eq=False)
class _Counting:
    """Runs of segments with counters around what they do."""

    chosen: tuple[Counter, ...]
    by: str = "commands"
    passes: int = 1
    entries: list[Entry] = field(default_factory=list)
    values: list[np.ndarray] = field(default_factory=list)

    def execute(self, segment: Segment, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run of a segment; what the host computes has no counters."""
        if segment.executable is None or segment.plan is None:
            return reference.run(segment.graph, feeds)
        found = segment.executable.count(feeds, self.chosen)
        self.by, self.passes = found.by, max(self.passes, found.passes)
        if found.by == SUBMITS:
            self.entries += _submits(segment.plan)
        else:
            self.entries += [command_entry(c) for c in segment.plan.commands]
        self.values.append(found.values)
        return found.outputs


def _submits(plan: Plan) -> list[Entry]:
    """An entry for each submit, with the layers of its commands."""
    found = []
    for number, (start, end) in enumerate(submit_ranges(plan)):
        layers = [n for step in plan.steps[start:end] for n in getattr(step, "nodes", ())]
        found.append(Entry("vulkan", "", f"submit {number}", tuple(dict.fromkeys(layers))))
    return found


def chosen_counters(session: Session, names: Sequence[str]) -> tuple[Counter, ...]:
    """Counters of some names or patterns, in the order of the names, each once.

    Raises VknnError for a name that no counter has, or as :func:`counters`.
    """
    available = counters(session)
    found: dict[int, Counter] = {}
    if not names:
        raise VknnError("no counters are named: --counters list shows what there is")
    for name in names:
        own = [c for c in available if fnmatch.fnmatchcase(c.name.casefold(), name.casefold())]
        if not own:
            near = difflib.get_close_matches(name, [c.name for c in available], 3)
            also = f"; near: {', '.join(near)}" if near else ""
            raise VknnError(
                f"the device has no counter {name!r}{also}: --counters list shows what there is"
            )
        found.update({c.index: c for c in own})
    return tuple(found.values())


def _tuple(values: Sequence[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)


def _number(value: float) -> str:
    if not np.isfinite(value):
        return str(value)
    return f"{value:,.0f}" if value == round(value) else f"{value:,.3g}"
