"""Cases of cases.py in torch with CUDA (cuDNN, cuBLAS): the vendor's own times, as a bound.

Runs on the machine's own Python packages. Microseconds between two events of CUDA, a call each.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from typing import Any

from cases import CASES, Conv, Product

SKIP = 77
WARMUP, RUNS = 8, 20
MODES = ("fp32", "tf32", "fp16")


def call(torch: Any, case: Conv | Product, half: bool) -> Callable[[], Any]:
    """A call of the case with random data on the device."""
    dtype = torch.float16 if half else torch.float32
    options = {"device": "cuda", "dtype": dtype}
    if isinstance(case, Product):
        a = torch.randn(case.rows, case.inner, **options)
        b = torch.randn(case.inner, case.columns, **options)
        return lambda: torch.matmul(a, b)
    order = torch.channels_last if half else torch.contiguous_format
    shape = (case.filters, case.channels // case.groups, case.kernel, case.kernel)
    x = torch.randn(1, case.channels, case.size, case.size, **options).to(memory_format=order)
    w = torch.randn(*shape, **options).to(memory_format=order)
    more = {"stride": case.stride, "padding": case.kernel // 2, "groups": case.groups}
    return lambda: torch.nn.functional.conv2d(x, w, **more)


def times(torch: Any, run: Callable[[], Any]) -> list[float]:
    """Microseconds of the calls behind one another, so that the host's part does not count."""
    for _ in range(WARMUP):
        run()
    torch.cuda.synchronize()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(RUNS + 1)]
    torch.cuda._sleep(20_000_000)  # the device waits until all calls are in its queue
    for event in events[:-1]:
        event.record()
        run()
    events[-1].record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) * 1e3 for a, b in itertools.pairwise(events)]


def main(torch: Any) -> Iterator[dict[str, Any]]:
    """Measurements by mode and case, or the error; all so far after each case."""
    torch.backends.cudnn.benchmark = True
    found: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    for mode in MODES:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = mode == "tf32"
        found[mode] = {}
        for case in CASES:
            try:
                with torch.inference_mode():
                    each = times(torch, call(torch, case, mode == "fp16"))
            except RuntimeError as error:
                found[mode][case.name] = {"error": str(error)}
                continue
            median = statistics.median(each)
            rate = case.flops / median / 1e3
            found[mode][case.name] = {"median": median, "min": min(each), "gflops": rate}
            yield found


if __name__ == "__main__":
    try:
        import torch
    except ImportError as error:
        print(f"no torch: {error}", file=sys.stderr)
        sys.exit(SKIP)
    if not torch.cuda.is_available():
        print(f"torch {torch.__version__} sees no CUDA device", file=sys.stderr)
        sys.exit(SKIP)
    for answer in main(torch):
        print(json.dumps(answer), flush=True)
