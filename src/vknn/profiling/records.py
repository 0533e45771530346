"""Records of a timed run: each command and host op with its times."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np

from vknn import reference
from vknn.graph import Node
from vknn.plan import Command, Dispatch, Plan
from vknn.profiling.lifetimes import held_in
from vknn.runtime import PlanProfile
from vknn.segment import Segment

_HELD: WeakKeyDictionary[Plan, np.ndarray] = WeakKeyDictionary()


@dataclass(frozen=True)
class Entry:
    """A piece of work that is timed, a command of a plan or an operator on the host.

    Attributes:
        where: "vulkan" or "host".
        kernel: The kernel as "family/name", "copy" or "fill"; "numpy" on the host.
        label: The operator and the candidate that was chosen, or the purpose of the command.
        layers: The layers that it computes, as the model file names them.
        groups: Workgroups along x, y and z; None where there are none.
        flops: Floating point operations; 0 where not known.
        nbytes: Bytes read and written; 0 where not known.
    """

    where: str
    kernel: str
    label: str
    layers: tuple[str, ...]
    groups: tuple[int, int, int] | None = None
    flops: int = 0
    nbytes: int = 0


@dataclass(eq=False)
class SegmentRun:
    """A segment's part of a run. ``start``: seconds since the run began; ``spans`` in seconds since
    ``start``, a begin and an end for each of ``entries``; ``held``: the bytes that buffers hold at
    each of them, weights apart."""

    entries: list[Entry]
    start: float
    seconds: float
    spans: np.ndarray
    timed: PlanProfile | None = None
    held: np.ndarray | None = None

    @property
    def busy(self) -> float:
        """Seconds in which at least one command was running."""
        return covered(self.spans)

    @property
    def extent(self) -> float:
        """Seconds from the first begin to the last end."""
        return float(self.spans.max() - self.spans.min()) if self.spans.size else 0.0


@dataclass(eq=False)
class TimedRun:
    """One run of a program with everything timed. Hand :meth:`execute` to ``Program.run``."""

    segments: list[SegmentRun] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)
    seconds: float = 0.0

    def execute(self, segment: Segment, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run of a segment with timestamps, or op by op on the host."""
        start = time.perf_counter() - self.began
        if segment.executable is None or segment.plan is None:
            return self._on_host(segment, feeds, start)
        timed = segment.executable.profile(feeds)
        first = float(timed.submits[0, 0]) if len(timed.submits) else 0.0
        if timed.origin is not None:
            # No command begins before its submit: what is earlier is the calibration's error.
            first = max(first, timed.origin)
        # Else the clocks are taken to meet where the first submit begins.
        spans = timed.spans * 1e-9 + first
        entries = [command_entry(c) for c in segment.plan.commands]
        self.segments.append(
            SegmentRun(entries, start, timed.wall, spans, timed, _held(segment.plan))
        )
        return timed.outputs

    def _on_host(
        self, segment: Segment, feeds: Mapping[str, np.ndarray], start: float
    ) -> dict[str, np.ndarray]:
        ends = [time.perf_counter()]
        entries = [host_entry(n) for n in segment.graph.nodes]
        results = reference.run(
            segment.graph, feeds, observe=lambda node, values: ends.append(time.perf_counter())
        )
        times = np.array(ends) - ends[0]
        spans = np.stack([times[:-1], times[1:]], axis=1)
        seconds = time.perf_counter() - ends[0]
        self.segments.append(SegmentRun(entries, start, seconds, spans))
        return results


def _held(plan: Plan) -> np.ndarray:
    """Bytes held at each command; counted once a plan, as runs are being timed."""
    if plan not in _HELD:
        _HELD[plan] = held_in(plan)
    return _HELD[plan]


def covered(spans: np.ndarray) -> float:
    """Length of the union of intervals [n, 2]."""
    if not len(spans):
        return 0.0
    ordered = spans[np.argsort(spans[:, 0])]
    reached = np.maximum.accumulate(ordered[:, 1])
    # What each interval adds beyond all that began before it.
    before = np.concatenate([[ordered[0, 0]], reached[:-1]])
    return float(np.maximum(ordered[:, 1] - np.maximum(ordered[:, 0], before), 0.0).sum())


def parts_of(run: TimedRun) -> dict[str, float]:
    """Seconds of a timed run, by what they were spent on (``Profile.total`` names the parts)."""
    on_device = [s for s in run.segments if s.timed is not None]
    upload = sum(s.timed.upload for s in on_device if s.timed)
    download = sum(s.timed.download for s in on_device if s.timed)
    submits = sum(float(np.sum(s.timed.submits @ [-1.0, 1.0])) for s in on_device if s.timed)
    busy = sum(s.busy for s in on_device)
    gaps = sum(s.extent for s in on_device) - busy
    return {
        "timed": run.seconds,
        "upload": upload,
        "busy": busy,
        "gaps": gaps,
        "submit": max(0.0, submits - busy - gaps),
        "download": download,
        "host": sum(s.seconds for s in run.segments if s.timed is None),
    }


def command_entry(command: Command) -> Entry:
    """Entry of a plan's command."""
    if isinstance(command, Dispatch):
        return Entry(
            "vulkan",
            command.kernel,
            command.label,
            command.nodes,
            command.groups,
            command.flops,
            command.nbytes,
        )
    kind = type(command).__name__.lower()
    nbytes = 2 * getattr(command, "nbytes", 0)
    return Entry("vulkan", kind, command.label, command.nodes, nbytes=nbytes)


def host_entry(node: Node) -> Entry:
    """Entry of an operator on the host."""
    return Entry("host", "numpy", node.op.type_name, (node.origin.name,))
