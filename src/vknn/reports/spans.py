"""Time of a timed run, by what it was spent on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vknn.reports.texts import microseconds


def covered(spans: Iterable[Sequence[float]]) -> float:
    """Length of the union of intervals."""
    length, reached = 0.0, float("-inf")
    for begin, end in sorted(map(tuple, spans)):
        length += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return length


def parts(run: Mapping[str, Any], segments: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Seconds of a timed run, by what they were spent on, as ``Profile.total`` has them."""
    pairs = list(zip(run["segments"], segments, strict=True))
    on_device = [times for times, segment in pairs if segment["where"] != "host"]
    spans = [times["spans"] for times in on_device if times["spans"]]
    busy = sum(covered(s) for s in spans)
    gaps = sum(max(e for _, e in s) - min(b for b, _ in s) for s in spans) - busy
    submits = sum(e - b for times in on_device for b, e in times["submits"])
    return {
        "timed": run["seconds"],
        "upload": sum(times["upload"] or 0.0 for times in on_device),
        "busy": busy,
        "gaps": gaps,
        "submit": max(0.0, submits - busy - gaps),
        "download": sum(times["download"] or 0.0 for times in on_device),
        "host": sum(times["seconds"] for times, segment in pairs if segment["where"] == "host"),
    }


def steps(
    run: Mapping[str, Any], segments: Sequence[Mapping[str, Any]]
) -> list[tuple[str, str, float, float]]:
    """Steps of the host in a run: lane ("host", "submits"), name, begin and end in us."""
    found = []
    for times, segment in zip(run["segments"], segments, strict=True):
        start, end = times["start"], times["start"] + times["seconds"]
        if segment["where"] == "host":
            found.append(("host", "operators on the host", start, end))
            continue
        if times["upload"] is not None:
            found.append(("host", "upload", start, start + times["upload"]))
        for number, (begin, finish) in enumerate(times["submits"]):
            found.append(("submits", f"submit {number} and wait", start + begin, start + finish))
        if times["download"] is not None:
            found.append(("host", "download", end - times["download"], end))
    return [(lane, name, microseconds(b), microseconds(e)) for lane, name, b, e in found]
