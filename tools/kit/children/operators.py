"""Convolutions and matrix products of cases.py, each a network of one layer: DEVICE MODE.

Microseconds of the device's own timestamps, all dispatches of the layer together; apart from them
those that bring its input and output into another layout, of which a whole network has few.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cases import CASES, Conv, Product

from vknn.errors import VknnError
from vknn.formats.ncnn.random_weights import write_random_weights
from vknn.profiling import Profile, profile
from vknn.runtime import Device, open_device
from vknn.session import Session
from vknn.tool_inputs import complete_feeds

#: Timed runs; seconds of a run from which on one is enough.
RUNS, SLOW = 10, 0.3
MOST_OF_A_CPU = 5e9
MODES = {
    "fp32": {"precision": "fp32"},
    "fp16": {"precision": "fp16"},
    "fp16-arithmetic": {"precision": "fp16", "arithmetic": "fp16"},
}


def network(case: Conv | Product) -> str:
    """The case as an ncnn .param."""
    if isinstance(case, Product):
        source = f"Input x 0 1 x 0={case.inner} 1={case.rows}"
        count = case.inner * case.columns
        layer = f"InnerProduct y 1 1 x y 0={case.columns} 1=1 2={count}"
    else:
        source = f"Input x 0 1 x 0={case.size} 1={case.size} 2={case.channels}"
        count = case.filters * case.channels // case.groups * case.kernel**2
        kind, groups = ("ConvolutionDepthWise", f" 7={case.groups}")
        if case.groups == 1:
            kind, groups = "Convolution", ""
        shape = f"0={case.filters} 1={case.kernel} 3={case.stride} 4={case.kernel // 2}"
        layer = f"{kind} y 1 1 x y {shape} 5=1 6={count}{groups}"
    return f"7767517\n2 2\n{source}\n{layer}\n"


def timed_profile(session: Session) -> Profile:
    """A profile of several runs, of one where a run is slow."""
    feeds = complete_feeds(session)
    session.run(feeds)
    begin = time.perf_counter()
    session.run(feeds)
    slow = time.perf_counter() - begin > SLOW
    return profile(session, feeds, runs=1 if slow else RUNS, warmup=0 if slow else 3)


def measured(case: Conv | Product, device: Device, mode: str, folder: Path) -> dict[str, Any]:
    """Microseconds, floating point operations a second in thousands of millions, and kernels."""
    param, weights = folder / "case.param", folder / "case.bin"
    param.write_text(network(case))
    write_random_weights(param, weights)
    with Session(param, weights, device=device, **MODES[mode]) as session:
        result = timed_profile(session)
    dispatches = [t for t in result.timings if t.entry.groups is not None]
    timed = [t for t in dispatches if t.entry.label != "repack"]
    median, least = (sum(getattr(t, n) for t in timed) for n in ("median", "least"))
    return {
        "median": median,
        "min": least,
        "gflops": case.flops / median / 1e3 if median else None,
        "kernels": [t.entry.label for t in timed],
        "dispatches": [t.median for t in timed],
        "repacks": [t.median for t in dispatches if t.entry.label == "repack"],
    }


def main(selector: str, mode: str) -> Iterator[dict[str, Any]]:
    """Measurements by case, or the error; all so far after each."""
    found: dict[str, Any] = {}
    with open_device(selector) as device, tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if device.limits.kind == "cpu" and case.flops > MOST_OF_A_CPU:
                found[case.name] = {"error": "left out: too much for a CPU"}
                continue
            try:
                found[case.name] = measured(case, device, mode, Path(folder))
            except VknnError as error:
                found[case.name] = {"error": str(error)}
            yield found


if __name__ == "__main__":
    for answer in main(*sys.argv[1:]):
        print(json.dumps(answer), flush=True)
