"""Profiles that ``vknn-run --profile`` writes, of a bundle that ran elsewhere, a phone perhaps."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from vknn.errors import VknnError
from vknn.json_file import read_json
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
#: What vknn-run writes; times in microseconds.
_DOCUMENT = object_of(
    device=text,
    driver=text,
    target=text,
    shapes=text,
    precision=text,
    runs=count,
    microseconds=duration,
    steps=list_of(_STEP),
)


def is_runner_profile(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as JSON, as profiles of vknn-run do; others are compressed."""
    if not os.path.isfile(path):  # whoever reads it says so
        return False
    with open(path, "rb") as file:
        return file.read(64).lstrip()[:1] == b"{"


def read_runner_profile(path: str | os.PathLike[str]) -> tuple[Profile, int]:
    """The profile of a file that vknn-run wrote: one run, whose times are the means of so many.

    Raises:
        vknn.VknnError: It is no such profile, or damaged.
    """
    name = os.fspath(path)
    document = read_json(Path(path), MAX_BYTES)
    try:
        _DOCUMENT(document, "")
    except Wrong as error:
        raise VknnError(f"{name}: no profile of vknn-run: {error}") from None
    steps = document["steps"]
    begins = np.array([step["begin"] for step in steps], float) * 1e-6
    lengths = np.array([step["microseconds"] for step in steps], float) * 1e-6
    spans = np.stack([begins, begins + lengths], axis=1)
    seconds = document["microseconds"] * 1e-6
    timed = PlanProfile({}, spans * 1e9, np.zeros((0, 2)), 0.0, 0.0, seconds, 0.0)
    segment = SegmentRun([_entry(step) for step in steps], 0.0, seconds, spans, timed)
    device = f"{document['device']} ({document['driver']})"
    model = f"{Path(path).name} ({document['target']}, {document['precision']})"
    run = TimedRun([segment], 0.0, seconds)
    return Profile(model, device, [run], [seconds]), document["runs"]


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
