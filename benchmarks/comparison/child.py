"""Measurements that want a process of their own; each takes a job and gives plain data.

Run as ``python -m comparison.child JOB``: a JSON object with "kind", what that kind needs, and
"result", the file that the answer is written to.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from vknn.errors import VknnError
from vknn.host_memory import peak_memory
from vknn.profiling import measure_limits, profile
from vknn.profiling.bench import difference
from vknn.profiling.peer import NcnnPeer
from vknn.runtime import open_device
from vknn.session import Session

from .overhead import measure_overhead
from .results import NCNN, NCNN_CPU, NCNN_DEFAULT, VKNN

Job = Mapping[str, Any]
Feeds = dict[str, np.ndarray]
Run = Callable[[Feeds], dict[str, np.ndarray]]

MODES = {NCNN: "fp32", NCNN_DEFAULT: "default", NCNN_CPU: "cpu"}
WARMUP, LEAST_ROUNDS = 2, 3


def limits(job: Job) -> dict[str, Any]:
    """The device's name and peaks."""
    with open_device(job["device"]) as device:
        found: dict[str, Any] = json.loads(measure_limits(device, runs=job["runs"]).to_json())
    return found


def overhead(job: Job) -> dict[str, Any]:
    """The host's part of a run."""
    return measure_overhead(job["device"], Path(job["folder"]), job["runs"])


def steady(job: Job) -> dict[str, Any]:
    """Times of runs in turn; then the CPU, whose threads may spin on, alone; then our kernels."""
    feeds, errors = _feeds(job), []
    runs: dict[str, list[float]] = {}
    with ExitStack() as stack:
        device = stack.enter_context(open_device(job["device"]))
        session = stack.enter_context(Session(job["param"], job["weights"], device=device))
        engines: dict[str, Run] = {VKNN: session.run}
        for name in (NCNN, NCNN_DEFAULT):
            try:
                engines[name] = _ncnn(job, device.name, name, stack).run
                engines[name](feeds)
            except VknnError as error:
                engines.pop(name, None)
                errors.append(f"{name}: {error}")
        away = None
        if NCNN in engines:
            away = difference(
                session._engine.graph(feeds), session.run(feeds), engines[NCNN](feeds)
            )
        runs = _rounds(engines, feeds, job)
        profiled = profile(session, feeds, runs=LEAST_ROUNDS, warmup=1)
        kernels = _kernels(profiled.timings)
        name = device.name
    if job["cpu"]:
        try:
            with ExitStack() as stack:
                runs |= _rounds({NCNN_CPU: _ncnn(job, name, NCNN_CPU, stack).run}, feeds, job)
        except VknnError as error:
            errors.append(f"{NCNN_CPU}: {error}")
    return {"runs": runs, "difference": away, "kernels": kernels, "errors": errors}


def first(job: Job) -> dict[str, Any]:
    """Seconds from the files to the first answer; ``again`` more runs for the peak of memory."""
    feeds = _feeds(job)
    with ExitStack() as stack:
        if job["engine"] == VKNN:
            begin = time.perf_counter()
            session = Session(job["param"], job["weights"], device=job["device"])
            run: Run = stack.enter_context(session).run
        else:
            __import__("ncnn")  # before the clock starts, as ours is
            begin = time.perf_counter()
            run = _ncnn(job, job["name"], job["engine"], stack).run
        run(feeds)
        seconds = time.perf_counter() - begin
        for _ in range(job["again"]):
            run(feeds)
    peak = peak_memory()
    return {"seconds": seconds, "rss": peak}


def _feeds(job: Job) -> Feeds:
    with np.load(job["feeds"]) as file:
        return dict(file)


def _ncnn(job: Job, device: str, name: str, stack: ExitStack) -> NcnnPeer:
    peer = NcnnPeer(job["param"], job["weights"], device, job["outputs"], MODES[name])
    stack.callback(peer.close)
    return peer


def _rounds(engines: Mapping[str, Run], feeds: Feeds, job: Job) -> dict[str, list[float]]:
    """Each engine once a round. A pause before each: threads of the one before may spin on."""
    found: dict[str, list[float]] = {name: [] for name in engines}
    start = time.perf_counter()
    for number in range(WARMUP + job["runs"]):
        counted = number >= WARMUP
        enough = number >= WARMUP + LEAST_ROUNDS
        if enough and time.perf_counter() - start > job["budget"]:
            break
        for name, run in engines.items():
            time.sleep(job["pause"])
            begin = time.perf_counter()
            run(feeds)
            if counted:
                found[name].append(time.perf_counter() - begin)
    return found


def _kernels(timings: Any) -> list[dict[str, Any]]:
    """By kernel: dispatches, seconds, and what each dispatch had to do (operations and bytes)."""
    grouped: dict[str, dict[str, Any]] = defaultdict(lambda: {"seconds": 0.0, "work": []})
    for timing in timings:
        entry = grouped[timing.entry.kernel]
        entry["seconds"] += timing.median * 1e-6
        entry["work"].append((timing.entry.flops, timing.entry.nbytes))
    return [{"name": name, **entry} for name, entry in grouped.items()]


KINDS: dict[str, Callable[[Job], dict[str, Any]]] = {
    "limits": limits,
    "overhead": overhead,
    "steady": steady,
    "first": first,
}


def main() -> None:
    job = json.loads(sys.argv[1])
    answer = KINDS[job["kind"]](job)
    Path(job["result"]).write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    main()
