"""Lines that VKNN_DEBUG prints to stderr: what ran, plans, dispatches, values."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping

import numpy as np

from vknn.lowering import format_plan
from vknn.lowering.assemble.plan_text import format_step
from vknn.segment import Segment

RUNS, PLANS, DISPATCHES, VALUES = 1, 2, 3, 4

Results = dict[str, np.ndarray]


def traced(level: int) -> Callable[[Segment, Results], Results]:
    """Runner of segments that says what each did, in the detail of ``level`` (VKNN_DEBUG)."""

    def execute(segment: Segment, feeds: Results) -> Results:
        start = time.perf_counter()
        timed = level >= DISPATCHES and segment.executable is not None
        results = _with_timestamps(segment, feeds) if timed else segment.run(feeds)
        milliseconds = (time.perf_counter() - start) * 1e3
        side = "host" if segment.executable is None else "vulkan"
        count = len(segment.graph.nodes)
        say(f"ran {segment.graph.name}: {count} nodes on {side} in {milliseconds:.3f} ms")
        if level >= VALUES:
            _say_values(segment, feeds, results)
        return results

    return execute


def say_plan(segment: Segment) -> None:
    """Output of a segment's plan."""
    if segment.plan is not None:
        for line in format_plan(segment.plan).splitlines():
            say(line)


def say(line: str) -> None:
    """Output of a line."""
    print(f"vknn: {line}", file=sys.stderr)


def _with_timestamps(segment: Segment, feeds: Results) -> Results:
    executable = segment.executable
    assert executable is not None
    if "timestamps" not in executable.device.limits.features:
        for command in executable.plan.commands:
            say(f"  {format_step(command)}")
        return executable.run(feeds)
    profile = executable.profile(feeds)
    for command, (begin, end) in zip(executable.plan.commands, profile.spans, strict=True):
        say(f"  {(end - begin) / 1e3:10.1f} us  {format_step(command)}")
    return profile.outputs


def _say_values(segment: Segment, feeds: Mapping[str, np.ndarray], results: Results) -> None:
    named = {v.name: results[name] for name, v in segment.graph.outputs.items()}
    for name, array in (*feeds.items(), *named.items()):
        say(f"  {name}: {describe(array)}")


def describe(array: np.ndarray) -> str:
    """dtype, shape and, of numbers, the range, mean and count of values that are not finite."""
    text = f"{array.dtype.name}{list(array.shape)}"
    if array.dtype.kind not in "fiub" or array.size == 0:
        return text
    values = array.astype(np.float64)
    finite = values[np.isfinite(values)]
    if finite.size:
        text += f" min {finite.min():.6g} max {finite.max():.6g} mean {finite.mean():.6g}"
    return text + (f" not finite: {values.size - finite.size}" if finite.size < values.size else "")
