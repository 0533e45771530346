"""Profiles that ``vknn-run --profile`` writes, of a bundle that ran elsewhere, a phone perhaps."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from vknn.errors import VknnError
from vknn.json_file import beginning, read_json
from vknn.printable import one_line
from vknn.profiling.profile import Profile
from vknn.profiling.profile_tables import commands_table
from vknn.profiling.records import Entry, SegmentRun, TimedRun
from vknn.profiling.schema import Wrong, count, duration, list_of, object_of, text
from vknn.runtime import PlanProfile

#: The most bytes of such a file: one of 20,000 steps has a tenth of them.
MAX_BYTES = 64 << 20
_STEP = object_of(
    label=text,
    op=text,
    kernel=text,
    groups=list_of(count, 3),
    flops=count,
    bytes=count,
    begin=duration,
    microseconds=duration,
)
#: Fields of all that vknn-run writes: where it ran, and which plan.
ABOUT = {"device": text, "driver": text, "target": text, "shapes": text, "precision": text}
#: What vknn-run writes of a profile; times in microseconds.
_DOCUMENT = object_of(
    **ABOUT,
    runs=count,
    microseconds=duration,
    steps=list_of(_STEP),
)


def is_runner_profile(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as JSON, as profiles of vknn-run do; others are compressed."""
    return _head(path)[:1] == b"{"


def names_device_first(path: str | os.PathLike[str]) -> bool:
    """Whether a file is JSON that begins as vknn-run's does, which Polygraphy's does not."""
    return re.match(rb'{\s*"device"\s*:', _head(path)) is not None


def _head(path: str | os.PathLike[str]) -> bytes:
    return beginning(path).lstrip()


def read_runner_document(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The document of a file that vknn-run wrote, checked; times are means, in microseconds.

    Raises:
        vknn.VknnError: It is no such profile, or damaged.
    """
    name = os.fspath(path)
    document = read_json(Path(path), MAX_BYTES)
    try:
        _DOCUMENT(document, "")
    except Wrong as error:
        raise VknnError(f"{name}: no profile of vknn-run: {error}") from None
    return document


def runner_profile(document: dict[str, Any], name: str) -> Profile:
    """The profile of a runner's document: one run, whose times are the means of so many.

    ``name``: the file's, since the document does not say of which network it is.
    """
    steps = document["steps"]
    begins = np.array([step["begin"] for step in steps], float) * 1e-6
    lengths = np.array([step["microseconds"] for step in steps], float) * 1e-6
    spans = np.stack([begins, begins + lengths], axis=1)
    seconds = document["microseconds"] * 1e-6
    timed = PlanProfile({}, spans * 1e9, np.zeros((0, 2)), 0.0, 0.0, seconds, 0.0)
    segment = SegmentRun([_entry(step) for step in steps], 0.0, seconds, spans, timed)
    device = f"{document['device']} ({document['driver']})"
    model = f"{name} ({document['target']}, {document['precision']})"
    run = TimedRun([segment], 0.0, seconds)
    return Profile(model, device, [run], [seconds])


def page_document(document: dict[str, Any], name: str) -> dict[str, Any]:
    """Document for :func:`vknn.reports.page` of a runner's: as much of a ``.vkprof`` as that knows.

    ``means`` says of how many runs its times are the means. It has neither buffers nor kernels.
    """
    steps = document["steps"]
    spans = [[s["begin"] * 1e-6, (s["begin"] + s["microseconds"]) * 1e-6] for s in steps]
    timed = {"start": 0.0, "seconds": document["microseconds"] * 1e-6, "spans": spans}
    timed |= {"upload": None, "download": None, "submits": []}
    options = {option: document[option] for option in ("target", "shapes", "precision", "runs")}
    return {
        "format": "vkprof",
        "means": document["runs"],
        "model": {"name": name, "format": "vknn-run"},
        "device": {"name": document["device"], "driver": document["driver"]},
        "options": options,
        "segments": [{"where": "vulkan", "commands": [_command(step) for step in steps]}],
        "kernels": {},
        "runs": [{"seconds": timed["seconds"], "segments": [timed]}],
        "plain": [],
    }


def _command(step: dict[str, Any]) -> dict[str, Any]:
    groups = step["groups"]
    return {
        "kind": "dispatch" if any(groups) else step["kernel"],
        "kernel": step["kernel"],
        "label": step["op"],
        "op": step["op"].partition(" ")[0],
        "layers": [step["label"]],
        "groups": groups if any(groups) else None,
        "flops": step["flops"],
        "nbytes": step["bytes"],
    }


def runner_table(profile: Profile, runs: int, order: str, limit: int | None) -> Table:
    """Steps as a table; arguments as of :meth:`vknn.profiling.Profile.table`."""
    title = f"{one_line(profile.model)} on {one_line(profile.device)}, mean of {runs} runs"
    rows = [(timing, None) for timing in profile.timings]
    if order == "time":
        rows.sort(key=lambda row: -row[0].median)
    return commands_table(title, rows, (), limit, means=True)


def _entry(step: dict[str, Any]) -> Entry:
    groups = tuple(step["groups"])
    return Entry(
        "vulkan",
        step["kernel"],
        step["op"],
        (step["label"],),
        groups if any(groups) else None,
        step["flops"],
        step["bytes"],
    )
