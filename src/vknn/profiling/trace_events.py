"""A timed run as trace events: one process for the device, one for the host.

The format is Chrome's (the "Trace Event Format"); "X" are complete events, "M" name the tracks, "s"
and "f" are the ends of arrows, "C" are values of counters; times in microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

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
        events += _arrows(segment, tracks, start)
        events += _counters(segment, tracks, start)
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


def _arrows(segment: SegmentRun, tracks: Tracks, start: float) -> list[Event]:
    """An arrow from each submit to the first command that began behind it."""
    if segment.timed is None or not len(segment.spans):
        return []
    events: list[Event] = []
    for number, (begin, _) in enumerate(segment.timed.submits):
        behind = np.flatnonzero(segment.spans[:, 0] >= begin)
        if not len(behind):
            continue
        # The number has to be the only one of its kind in a trace: its time is.
        name = f"{tracks.queue[0]}-{start + begin:.9f}-{number}"
        for kind, track, moment in (
            ("s", tracks.steps, begin),
            ("f", tracks.queue, segment.spans[behind[0], 0]),
        ):
            event_ = {
                "ph": kind,
                "pid": track[0],
                "tid": track[1],
                "name": "submit",
                "cat": "submit",
                "id": name,
                "ts": float(start + moment) * 1e6,
            }
            events.append({**event_, "bp": "e"} if kind == "f" else event_)
    return events


def _counters(segment: SegmentRun, tracks: Tracks, start: float) -> list[Event]:
    """GB/s of each command that tells its bytes, and the bytes that buffers hold meanwhile."""
    if segment.timed is None:
        return []
    events = []
    for place, (entry, (begin, end)) in enumerate(zip(segment.entries, segment.spans, strict=True)):
        if segment.held is not None:
            megabytes = int(segment.held[place]) / 1e6
            events.append(_value(tracks, "memory (MB)", start + begin, megabytes))
        if entry.nbytes and end > begin:
            speed = entry.nbytes / (end - begin) / 1e9
            events.append(_value(tracks, "GB/s", start + begin, speed))
            events.append(_value(tracks, "GB/s", start + end, 0.0))
    return events


def _value(tracks: Tracks, name: str, moment: float, value: float) -> Event:
    """A counter's value from a moment on, in seconds."""
    return {
        "ph": "C",
        "pid": tracks.queue[0],
        "name": name,
        "ts": float(moment) * 1e6,
        "args": {name: round(float(value), 3)},
    }


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
