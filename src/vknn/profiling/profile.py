"""Profile (``vknn.profile``): a table of everything that runs, with its time."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table

from vknn.errors import VknnError
from vknn.named_files import replacing
from vknn.precision import Precision
from vknn.printable import one_line
from vknn.profiling.counter_profile import CounterProfile, chosen_counters, count
from vknn.profiling.frames import arrow_table, data_frame
from vknn.profiling.limits import Limits
from vknn.profiling.profile_tables import Timing, commands_table
from vknn.profiling.records import TimedRun, parts_of
from vknn.profiling.remembered import remembered_limits
from vknn.profiling.static import StaticProfile
from vknn.profiling.static import static as static_profile
from vknn.profiling.static_columns import columns_of, compiled_document, modelled_sum
from vknn.profiling.trace_events import trace_events
from vknn.profiling.vkprof import about, complete_document, read_document, write_document
from vknn.profiling.vkprof.summary import about_table
from vknn.profiling.vkprof.timed_runs import entries_of, held_of, timed_run
from vknn.program import Program
from vknn.reports import page
from vknn.reports.matched import matched_entries
from vknn.rich_text import text_of
from vknn.segment import Segment
from vknn.session import Session, engine_of
from vknn.tool_inputs import ProgressCallback, Shapes, complete_feeds, opened


@dataclass(eq=False)
class Profile:
    """Result of :func:`vknn.profile`. ``print`` shows it as tables.

    Runs with timestamps go submit by submit and so are a little slower than plain runs.

    Attributes:
        model: The file, or the name of the graph.
        device: Name of the device, "NumPy" without one.
        runs: The runs with timestamps, as they were recorded.
        plain: Seconds of each run without timestamps.
        about: What else a file of it holds (docs/vkprof.md): model, machine, device, options,
            layers, plans, kernels; None where that was not recorded.
    """

    model: str
    device: str
    runs: list[TimedRun] = field(repr=False)
    plain: list[float] = field(repr=False)
    about: dict[str, Any] | None = field(default=None, repr=False)

    @cached_property
    def timings(self) -> list[Timing]:
        """Times of every command and host operator, in order."""
        entries = [e for s in self.runs[0].segments for e in s.entries]
        none = np.zeros((0, 2))  # a network may hold nothing that is computed
        spans = [np.concatenate([none, *(s.spans for s in r.segments)]) for r in self.runs]
        lengths = np.array([s[:, 1] - s[:, 0] for s in spans]) * 1e6
        medians, least = np.median(lengths, axis=0), lengths.min(axis=0, initial=np.inf)
        total = float(medians.sum()) or 1.0
        return [
            Timing(e, float(m), float(n), float(m) / total)
            for e, m, n in zip(entries, medians, least, strict=True)
        ]

    @cached_property
    def compiled(self) -> list[Mapping[str, Any] | None] | None:
        """Entries of a static profile, one for each of ``timings``, or None where nobody asked.

        They are what :meth:`vknn.profiling.StaticProfile.to_json` writes; None of a command that is
        not among them.
        """
        about = self.about or {}
        static = about.get("static")
        return None if static is None else matched_entries(static, about["segments"])

    @cached_property
    def counters(self) -> CounterProfile | None:
        """Values of the device's counters, from a run of their own; None where nobody asked."""
        found = (self.about or {}).get("counters")
        if found is None:
            return None
        return CounterProfile.from_document(self.model, self.device, found)

    @property
    def _entries(self) -> list[Mapping[str, Any] | None]:
        return [None] * len(self.timings) if self.compiled is None else self.compiled

    @property
    def total(self) -> dict[str, float]:
        """Medians over the runs, in microseconds, by what the time was spent on.

        "wall": a plain run; "timed": a run with timestamps, which is made of "upload", "busy" (at
        least one command is running), "gaps" (between commands), "submit" (until the device begins
        and until the host is told of the end), "download" and "host" (ops on the host).
        """
        each = [parts_of(run) for run in self.runs]
        parts = {name: float(np.median([e[name] for e in each])) * 1e6 for name in each[0]}
        return {"wall": float(np.median(self.plain)) * 1e6, **parts}

    def to_json(self) -> str:
        """JSON of everything; times in microseconds."""
        document = {
            "model": self.model,
            "device": self.device,
            "runs": len(self.runs),
            "total": self.total,
            "commands": [
                {
                    **asdict(t.entry),
                    "median": t.median,
                    "min": t.least,
                    "share": t.share,
                    "gflops": t.gflops,
                    "gbytes": t.gbytes,
                    **({} if self.compiled is None else {"compiled": compiled_document(c)}),
                }
                for t, c in zip(self.timings, self._entries, strict=True)
            ],
            **({} if self.counters is None else {"counters": self.counters.document()}),
        }
        return json.dumps(document, indent=2)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        limits: Limits | None = None,
        static: StaticProfile | None = None,
    ) -> None:
        """The whole profile written to a file (docs/vkprof.md), which ``load`` reads.

        Every sample of every dispatch, plans, layers, and the source of the kernels; no weights.

        Args:
            path: The file, by custom ``*.vkprof``.
            limits: What the device can do, to hold times against (``measure_limits``), in place of
                what is remembered of it.
            static: What the driver made of the same plans, in place of what ``profile`` asked it.

        Raises:
            vknn.VknnError: The profile was made by hand, or is too large for a file.
        """
        write_document(path, self.to_document(limits=limits, static=static))

    def to_document(
        self, *, limits: Limits | None = None, static: StaticProfile | None = None
    ) -> dict[str, Any]:
        """The document that :meth:`save` writes, with its arguments; seconds and bytes."""
        if self.about is None:
            raise VknnError("this profile was not made by vknn.profile: there is nothing to save")
        more: dict[str, Any] = {}
        if limits is not None:
            more["limits"] = json.loads(limits.to_json())
        if static is not None:
            more["static"] = json.loads(static.to_json())
        return complete_document({**self.about, **more}, self.runs, self.plain)

    def to_html(
        self,
        *,
        limits: Limits | None = None,
        static: StaticProfile | None = None,
        verify: Mapping[str, Any] | None = None,
    ) -> str:
        """One HTML file of the profile as text, which needs no network (docs/reports.md).

        ``limits`` and ``static`` are those of :meth:`save`; ``verify`` is a cross-check of the same
        model, read from a report's JSON. Raises VknnError for a profile that was made by hand.
        """
        return page(self.to_document(limits=limits, static=static), verify)

    def save_html(self, path: str | os.PathLike[str], **more: Any) -> None:
        """The text of :meth:`to_html`, with its arguments, written to a file."""
        with replacing(path) as file:
            file.write(self.to_html(**more).encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Profile:
        """The profile of a file that :meth:`save` wrote, here or elsewhere.

        Raises:
            vknn.VknnError: The file is cut off, damaged, no profile, or of a newer version.
            OSError: There is no such file.
        """
        return cls.from_document(read_document(path))

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Profile:
        """The profile of a document that ``read_document`` gave."""
        entries = [entries_of(segment) for segment in document["segments"]]
        held = [held_of(segment) for segment in document["segments"]]
        runs = [timed_run(run, entries, held) for run in document["runs"]]
        device = document["device"]["name"] if document["device"] is not None else "NumPy"
        plain = [float(seconds) for seconds in document["plain"]]
        # The times are kept once: as lists they take several times the memory.
        about = {name: part for name, part in document.items() if name not in ("runs", "plain")}
        return cls(document["model"]["name"], device, runs, plain, about)

    def to_arrow(self) -> Any:
        """Every sample as a ``pyarrow.Table``, a row for each command of each run.

        Columns: ``run``, ``segment``, ``command`` (numbers from 0), ``where``, ``kernel``,
        ``label``, ``layers`` (lists of strings), ``flops``, ``nbytes``, and ``begin``, ``end``
        (since the run began) and ``seconds``, all in seconds.

        Raises:
            vknn.VknnError: pyarrow is not installed.
        """
        return arrow_table(self.runs)

    def to_dataframe(self) -> Any:
        """Every sample as a ``pandas.DataFrame``, with the columns of :meth:`to_arrow`.

        Raises:
            vknn.VknnError: pandas is not installed.
        """
        return data_frame(self.runs)

    def to_trace(self) -> dict[str, Any]:
        """The run of median length in Chrome's trace format (ui.perfetto.dev reads it)."""
        ordered = sorted(self.runs, key=lambda r: r.seconds)
        events = trace_events(ordered[len(ordered) // 2], self.device)
        return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"model": self.model}}

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """The trace of :meth:`to_trace` written to a file as JSON."""
        with replacing(path) as file:
            file.write(json.dumps(self.to_trace()).encode())

    def table(self, order: str = "plan", limit: int | None = None) -> Table:
        """Commands as a rich table, with what the compiler made of them where that is known.

        Args:
            order: "plan", or "time" for the longest first.
            limit: The most rows; None for all.
        """
        title = (
            f"{one_line(self.model)} on {one_line(self.device)}, median of {len(self.runs)} runs"
        )
        rows = list(zip(self.timings, self._entries, strict=True))
        if order == "time":
            rows.sort(key=lambda row: -row[0].median)
        static = (self.about or {}).get("static") or {}
        assumed = str(static.get("assumptions", ""))
        return commands_table(title, rows, columns_of(self._entries), limit, assumed)

    def about_table(self) -> Table:
        """Table of what was measured, on what and how; empty where that was not recorded."""
        return about_table(self.about)

    def totals_table(self) -> Table:
        """Wall time, GPU-busy time and the gaps, side by side."""
        table = Table(title="a run, us", title_justify="left")
        total = self.total
        heads = {"wall": "wall, plain", "timed": "wall, timed", "busy": "GPU busy"}
        modelled = modelled_sum(self._entries)
        if modelled is not None:
            total["GPU modelled"] = modelled
        for name in total:
            table.add_column(heads.get(name, name), justify="right")
        table.add_row(*(f"{value:,.0f}" for value in total.values()))
        return table

    def __rich__(self) -> RenderableType:
        return Group(self.table(), self.totals_table())

    def __str__(self) -> str:
        return text_of(self)


def profile(
    model: str | os.PathLike[str] | Session,
    inputs: Mapping[str, np.ndarray] | None = None,
    *,
    signature: str | None = None,
    runs: int = 10,
    warmup: int = 2,
    weights: str | os.PathLike[str] | None = None,
    device: str = "auto",
    precision: Precision = "fp32",
    arithmetic: str = "fp32",
    shapes: Shapes | None = None,
    seed: int = 0,
    static: bool = False,
    counters: Sequence[str] = (),
    progress: ProgressCallback | None = None,
) -> Profile:
    """Times of every dispatch of a model on the device, and of every operator on the host.

    Plain runs and runs with timestamps take turns.

    Args:
        model: A model file or an open session.
        inputs: Arrays by name; random ones stand in for those that are missing.
        signature: Key of the signature that is run, as for :meth:`vknn.Session.run`.
        runs: How many runs of each kind are measured.
        warmup: How many go before them.
        weights: The model's second file, as for :class:`vknn.Session`.
        device: As for :class:`vknn.Session`; not used where ``model`` is a session. So are
            ``precision`` and ``arithmetic``.
        precision: As for :class:`vknn.Session`.
        arithmetic: As for :class:`vknn.Session`.
        shapes: Shapes of random inputs by name, where the model leaves them open.
        seed: Of random inputs.
        static: Whether to ask the driver, after the runs, what its compiler made of each dispatch,
            with the texts of its machine code (:func:`vknn.profiling.static`): columns of the
            tables, and of what is saved. All kernels are compiled once more for it. NumPy has none.
        counters: Counters of the device, by name or pattern, that are read in a run of their own
            after the others (:func:`vknn.profiling.count`).
        progress: Told the number of runs done, of all runs, and what is being done.

    Returns:
        Times of each dispatch and of whole runs. What is remembered of the device's limits
        (``vknn bench --device-limits``) is saved with them.

    Raises:
        vknn.DeviceError: The device has no timestamps, or no counters where some are named.
        vknn.VknnError: ``runs`` is below 1, no counter has such a name, or what
            :class:`vknn.Session` and its ``run`` raise.
    """
    if runs < 1:
        raise VknnError(f"runs={runs}: at least one run is needed")
    with opened(
        model,
        weights,
        device=device,
        precision=precision,
        arithmetic=arithmetic,
        signature=signature,
    ) as session:
        if counters:
            chosen_counters(session, counters)  # what there is not is told before anything runs
        feeds = complete_feeds(session, inputs, shapes, seed)
        if session.model.variables:  # what fills them is not part of most runs
            session.run(feeds)
        program, encoded = engine_of(session).program(feeds), engine_of(session).encode(feeds)
        arrays = {v.name: encoded[v.name] for v in program.graph.inputs}
        timed: list[TimedRun] = []
        plain: list[float] = []
        results: Mapping[str, Any] = {}
        segments: list[Segment] = []
        for number in range(warmup + runs):
            if progress is not None:
                progress(number, warmup + runs, "run" if number >= warmup else "warm-up")
            with engine_of(session).same_variables():
                begin = time.perf_counter()
                results = session.run(feeds)
                plain.append(time.perf_counter() - begin)
            segments = []
            timed.append(_timed_run(program, arrays, segments))
        where = session.device.name if session.device is not None else "NumPy"
        name = program.graph.name if isinstance(model, Session) else str(model)
        asked = {"runs": runs, "warmup": warmup, "seed": seed}
        more = about(session, name, feeds, results, segments, asked)
        if static and session.device is not None:
            more["static"] = json.loads(static_profile(session, feeds, texts=True).to_json())
        if counters:
            with engine_of(session).same_variables():
                more["counters"] = count(session, feeds, names=counters).document()
        limits = None if session.device is None else remembered_limits(session.device)
        if limits is not None:
            more["limits"] = json.loads(limits.to_json())
        return Profile(name, where, _alike(timed[warmup:]), plain[warmup:], more)


def _timed_run(program: Program, arrays: Mapping[str, np.ndarray], met: list[Segment]) -> TimedRun:
    """A run with timestamps; ``met`` gets the segments that it comes through."""
    run = TimedRun()

    def execute(segment: Segment, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        met.append(segment)
        return run.execute(segment, feeds)

    program.run(arrays, execute)
    run.seconds = time.perf_counter() - run.began
    return run


def _alike(runs: Sequence[TimedRun]) -> list[TimedRun]:
    """The runs that ran the same commands as the last one: data may decide which plans run."""
    ways = [[s.entries for s in r.segments] for r in runs]
    return [r for r, way in zip(runs, ways, strict=True) if way == ways[-1]]
