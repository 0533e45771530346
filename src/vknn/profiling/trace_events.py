"""A timed run as trace events: one process for the device, one for the host.

The format is Chrome's (the "Trace Event Format"); "X" are complete events, "M" name the tracks;
times in microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vknn.profiling.records import Entry, SegmentRun, TimedRun

DEVICE, HOST = 1, 2
QUEUE, STEPS, OPS = 1, 1, 2
Event = dict[str, Any]


@dataclass(frozen=True)
class Tracks:
    """Tracks of a run, each a process and a thread: commands, the host's steps, its operators."""

    queue: tuple[int, int] = (DEVICE, QUEUE)
    steps: tuple[int, int] = (HOST, STEPS)
    ops: tuple[int, int] = (HOST, OPS)


_OF_PROFILE = Tracks()


def trace_events(run: TimedRun, device: str) -> list[Event]:
    """The events of a run, names of the tracks first."""
    return [
        name_event("process_name", DEVICE, QUEUE, device),
        name_event("thread_name", DEVICE, QUEUE, "queue"),
        name_event("process_name", HOST, STEPS, "host"),
        name_event("thread_name", HOST, STEPS, "run"),
        name_event("thread_name", HOST, OPS, "operators (NumPy)"),
        *run_events(run, _OF_PROFILE, "run"),
    ]


def run_events(run: TimedRun, tracks: Tracks, name: str, began: float = 0.0) -> list[Event]:
    """The events of a run that began at ``began``, in seconds."""
    events = [event(tracks.steps, name, began, run.seconds)]
    for segment in run.segments:
        start = began + segment.start
        events += _commands(segment, tracks, start)
        events += _host_steps(segment, tracks, start)
    return events


def _commands(segment: SegmentRun, tracks: Tracks, start: float) -> list[Event]:
    track = tracks.ops if segment.timed is None else tracks.queue
    events = []
    for entry, (begin, end) in zip(segment.entries, segment.spans, strict=True):
        name = ", ".join(entry.layers) or entry.label
        command = event(track, name, start + begin, end - begin)
        command["args"] = _arguments(entry, (end - begin) * 1e6)
        events.append(command)
    return events


def _host_steps(segment: SegmentRun, tracks: Tracks, start: float) -> list[Event]:
    timed = segment.timed
    if timed is None:
        return []
    track = tracks.steps
    events = [event(track, "upload", start, timed.upload)]
    for number, (begin, end) in enumerate(timed.submits):
        name = f"submit {number} and wait"
        events.append(event(track, name, start + begin, end - begin))
    downloading = start + timed.wall - timed.download
    return [*events, event(track, "download", downloading, timed.download)]


def _arguments(entry: Entry, microseconds: float) -> dict[str, Any]:
    found: dict[str, Any] = {"kernel": entry.kernel, "what": entry.label}
    if entry.groups:
        found["groups"] = "x".join(map(str, entry.groups))
    if entry.flops and microseconds:
        found["GFLOP/s"] = round(entry.flops / microseconds / 1e3, 2)
    if entry.nbytes and microseconds:
        found["GB/s"] = round(entry.nbytes / microseconds / 1e3, 2)
    return found


def event(track: tuple[int, int], name: str, start: float, seconds: float) -> Event:
    """A complete event; times in seconds."""
    return {
        "ph": "X",
        "pid": track[0],
        "tid": track[1],
        "name": name,
        "ts": float(start) * 1e6,
        "dur": float(seconds) * 1e6,
    }


def name_event(what: str, pid: int, tid: int, name: str) -> Event:
    """Name of a track: ``what`` is "process_name" or "thread_name"."""
    return {"ph": "M", "pid": pid, "tid": tid, "name": what, "args": {"name": name}}
