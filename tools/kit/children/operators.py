"""Convolutions and matrix products of cases.py, each a network of one layer: DEVICE MODE.

Microseconds of the device's own timestamps, all dispatches of the layer together.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from cases import CASES, Conv, Product

from vknn.errors import VknnError
from vknn.formats.ncnn.random_weights import write_random_weights
from vknn.profiling import Profile, profile
from vknn.runtime import open_device
from vknn.session import Session
from vknn.tool_inputs import complete_feeds

#: Timed runs; seconds of a run from which on one is enough; seconds after which no case begins.
RUNS, SLOW, SECONDS = 10, 0.5, 40.0
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


def main(selector: str, mode: str) -> dict[str, Any]:
    """By case: microseconds, floating point operations a second in thousands of millions, and the
    kernels; or the error."""
    found: dict[str, Any] = {}
    start = time.perf_counter()
    with open_device(selector) as device, tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if time.perf_counter() - start > SECONDS:
                found[case.name] = {"error": f"left out after {SECONDS:g} s"}
                continue
            param, weights = Path(folder) / "case.param", Path(folder) / "case.bin"
            param.write_text(network(case))
            write_random_weights(param, weights)
            try:
                with Session(param, weights, device=device, **MODES[mode]) as session:
                    result = timed_profile(session)
            except VknnError as error:
                found[case.name] = {"error": str(error)}
                continue
            timed = [t for t in result.timings if t.entry.where == "vulkan"]
            median, least = (sum(getattr(t, n) for t in timed) for n in ("median", "least"))
            found[case.name] = {
                "median": median,
                "min": least,
                "gflops": case.flops / median / 1e3 if median else None,
                "kernels": [t.entry.label for t in timed],
                "dispatches": [t.median for t in timed],
            }
    return found


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])), flush=True)
