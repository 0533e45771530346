"""vknn and ncnn in turn on a network: PARAM BIN SHAPE DEVICE. Seconds of each run."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from vknn.errors import VknnError
from vknn.profiling.peer import NcnnPeer
from vknn.runtime import open_device
from vknn.session import Session
from vknn.tool_inputs import complete_feeds

#: Rounds at most and at least; seconds after which the least is enough.
WARMUP, ROUNDS, LEAST, SECONDS = 3, 30, 3, 6.0
#: Seconds before each run: threads of the engine before may spin on.
PAUSE = 0.005
VKNN = {
    "vknn fp32": {"precision": "fp32"},
    "vknn fp16": {"precision": "fp16"},
    "vknn fp16 arithmetic": {"precision": "fp16", "arithmetic": "fp16"},
}
NCNN = {"ncnn fp32": "fp32", "ncnn as it comes": "default"}
Run = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]


def main(param: str, weights: str, shape: str, selector: str) -> dict[str, Any]:
    """Times of all engines that can do it, a run of each a round, and why others cannot."""
    runs: dict[str, Run] = {}
    errors: dict[str, dict[str, str]] = {}
    with ExitStack() as stack:
        device = stack.enter_context(open_device(selector))
        with Session(param, weights, device="numpy") as session:
            shapes = {spec.name: tuple(json.loads(shape)) for spec in session.inputs}
            feeds = complete_feeds(session, shapes=shapes)
            outputs = [spec.name for spec in session.outputs]
        for name, options in VKNN.items():
            try:
                made = Session(param, weights, device=device, **options)
                runs[name] = stack.enter_context(made).run
                runs[name](feeds)
            except VknnError as error:
                runs.pop(name, None)
                errors[name] = {"error": str(error)}
        for name, mode in NCNN.items():
            try:
                peer = NcnnPeer(param, weights, device.name, outputs, mode)
                stack.callback(peer.close)
                peer.run(feeds)
                runs[name] = peer.run
            except VknnError as error:
                errors[name] = {"error": str(error)}
        seconds = rounds(runs, feeds)
        name = device.name
    series = {
        n: {"min": min(s), "median": statistics.median(s), "seconds": s} for n, s in seconds.items()
    }
    return {"device": name, "series": series, "errors": errors}


def rounds(runs: dict[str, Run], feeds: dict[str, np.ndarray]) -> dict[str, list[float]]:
    """Seconds of the runs by engine, uploads and downloads included."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    start = time.perf_counter()
    for number in range(WARMUP + ROUNDS):
        if number >= WARMUP + LEAST and time.perf_counter() - start > SECONDS:
            break
        for name, run in runs.items():
            time.sleep(PAUSE)
            begin = time.perf_counter()
            run(feeds)
            if number >= WARMUP:
                found[name].append(time.perf_counter() - begin)
    return found


if __name__ == "__main__":
    found = main(*sys.argv[1:])
    print(json.dumps(found), flush=True)
    if "vknn fp32" in found["errors"]:
        sys.exit(found["errors"]["vknn fp32"]["error"])
