"""Timed runs as a profile's document has them, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from vknn.profiling.lifetimes import held_bytes
from vknn.profiling.records import Entry, SegmentRun, TimedRun
from vknn.runtime import PlanProfile

#: Digits behind the point of seconds: a tenth of a nanosecond.
_DIGITS = 10


def run_document(run: TimedRun) -> dict[str, Any]:
    """All times of a run, in seconds."""
    return {"seconds": rounded(run.seconds), "segments": [_segment(s) for s in run.segments]}


def timed_run(
    document: dict[str, Any], entries: list[list[Entry]], held: list[np.ndarray | None]
) -> TimedRun:
    """The run that :func:`run_document` described; ``entries`` and ``held`` of each segment."""
    parts = zip(document["segments"], entries, held, strict=True)
    segments = [_segment_run(*part) for part in parts]
    return TimedRun(segments, 0.0, float(document["seconds"]))


def entries_of(segment: dict[str, Any]) -> list[Entry]:
    """Entries of the commands of a segment's document."""
    return [
        Entry(
            segment["where"],
            command["kernel"],
            command["label"],
            tuple(command["layers"]),
            tuple(command["groups"]) if command["kind"] == "dispatch" else None,
            command["flops"],
            command["nbytes"],
        )
        for command in segment["commands"]
    ]


def held_of(segment: dict[str, Any]) -> np.ndarray | None:
    """Bytes held at each command of a segment's document; None on the host."""
    if segment["where"] != "vulkan":
        return None
    buffers = ((b["role"], b["nbytes"], (b["first"], b["last"])) for b in segment["buffers"])
    return held_bytes(buffers, len(segment["commands"]))


def rounded(seconds: float) -> float:
    return round(float(seconds), _DIGITS)


def _segment(segment: SegmentRun) -> dict[str, Any]:
    timed = segment.timed
    return {
        "start": rounded(segment.start),
        "seconds": rounded(segment.seconds),
        "upload": None if timed is None else rounded(timed.upload),
        "download": None if timed is None else rounded(timed.download),
        "submits": [] if timed is None else _intervals(timed.submits),
        "spans": _intervals(segment.spans),
    }


def _segment_run(
    document: dict[str, Any], entries: list[Entry], held: np.ndarray | None
) -> SegmentRun:
    spans, submits = (_array(document[name]) for name in ("spans", "submits"))
    timed = None
    if document["upload"] is not None and document["download"] is not None:
        first = float(spans[0, 0]) if len(spans) else 0.0
        wall, up, down = (float(document[n]) for n in ("seconds", "upload", "download"))
        timed = PlanProfile({}, (spans - first) * 1e9, submits, up, down, wall, first)
    start, seconds = float(document["start"]), float(document["seconds"])
    return SegmentRun(entries, start, seconds, spans, timed, held)


def _intervals(spans: np.ndarray) -> list[list[float]]:
    # Clocks that run backwards by a rounding would make a file that no reader takes.
    ordered = np.maximum.accumulate(np.asarray(spans, float), axis=1)
    return [[float(b), float(e)] for b, e in np.round(ordered, _DIGITS)]


def _array(intervals: list[list[float]]) -> np.ndarray:
    return np.array(intervals, float).reshape(-1, 2)
