"""A timed run as trace events: one process for the device, one for the host.

The format is Chrome's (the "Trace Event Format"); "X" are complete events, "M" name the tracks;
times in microseconds.
"""

from __future__ import annotations

from typing import Any

from vknn.profiling.records import Entry, SegmentRun, TimedRun

DEVICE, HOST = 1, 2
QUEUE, STEPS, OPS = 1, 1, 2


def trace_events(run: TimedRun, device: str) -> list[dict[str, Any]]:
    """The events of a run, names of the tracks first."""
    events = [
        _name("process_name", DEVICE, QUEUE, device),
        _name("thread_name", DEVICE, QUEUE, "queue"),
        _name("process_name", HOST, STEPS, "host"),
        _name("thread_name", HOST, STEPS, "run"),
        _name("thread_name", HOST, OPS, "operators (NumPy)"),
        _event(HOST, STEPS, "run", 0.0, run.seconds),
    ]
    for segment in run.segments:
        events += _commands(segment)
        events += _host_steps(segment)
    return events


def _commands(segment: SegmentRun) -> list[dict[str, Any]]:
    pid, tid = (HOST, OPS) if segment.timed is None else (DEVICE, QUEUE)
    events = []
    for entry, (begin, end) in zip(segment.entries, segment.spans, strict=True):
        name = ", ".join(entry.layers) or entry.label
        event = _event(pid, tid, name, segment.start + begin, end - begin)
        event["args"] = _arguments(entry, (end - begin) * 1e6)
        events.append(event)
    return events


def _host_steps(segment: SegmentRun) -> list[dict[str, Any]]:
    timed = segment.timed
    if timed is None:
        return []
    start = segment.start
    events = [_event(HOST, STEPS, "upload", start, timed.upload)]
    for number, (begin, end) in enumerate(timed.submits):
        name = f"submit {number} and wait"
        events.append(_event(HOST, STEPS, name, start + begin, end - begin))
    downloading = start + timed.wall - timed.download
    return [*events, _event(HOST, STEPS, "download", downloading, timed.download)]


def _arguments(entry: Entry, microseconds: float) -> dict[str, Any]:
    found: dict[str, Any] = {"kernel": entry.kernel, "what": entry.label}
    if entry.groups:
        found["groups"] = "x".join(map(str, entry.groups))
    if entry.flops and microseconds:
        found["GFLOP/s"] = round(entry.flops / microseconds / 1e3, 2)
    if entry.nbytes and microseconds:
        found["GB/s"] = round(entry.nbytes / microseconds / 1e3, 2)
    return found


def _event(pid: int, tid: int, name: str, start: float, seconds: float) -> dict[str, Any]:
    return {
        "ph": "X",
        "pid": pid,
        "tid": tid,
        "name": name,
        "ts": float(start) * 1e6,
        "dur": float(seconds) * 1e6,
    }


def _name(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "tid": tid, "name": what, "args": {"name": name}}
