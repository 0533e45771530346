"""Profile of a network: the layers that take longest, a switch, and before against after.

    python examples/profile_and_switch.py tools/demo_model/digits.param --shape image=1,8,8 \\
        --disable winograd,fusion

vknn.profile times every dispatch on the device. The script prints the most expensive layers, what
they take without and with the switches given, and the kernels that compute them; then the least and
the median time of whole runs without and with the switches. All are measured in turn, so that both
suffer alike from whatever else the machine does.

Switches: --precision fp16 (half the memory and traffic), --arithmetic fp16 (faster where the GPU
multiplies float16 faster), --disable (parts of vknn, to see what each is worth; docs/environment.md
lists them) and --tuned (the kernels that "vknn tune MODEL" measured; the rest of the comparison is
without them). With --device numpy the times are those of the operators on the host.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence

import numpy as np

import vknn
from inputs import add_feed_arguments, add_model_arguments, feeds_for

ROUNDS = 4

Layers = tuple[str, ...]
Times = dict[Layers, tuple[float, str]]


def by_layers(session: vknn.Session, feeds: Mapping[str, np.ndarray], runs: int) -> Times:
    """Median microseconds on the device, and the kernels, of each group of layers."""
    found: Times = {}
    for timing in vknn.profile(session, feeds, runs=runs).timings:
        time_before, kernels = found.get(timing.entry.layers, (0.0, ""))
        kernels = f"{kernels}, {timing.entry.label}".removeprefix(", ")
        found[timing.entry.layers] = (time_before + timing.median, kernels)
    return found


def layers_in_turn(
    sessions: Sequence[vknn.Session], feeds: Mapping[str, np.ndarray], runs: int
) -> list[Times]:
    """Times of layers, as ``by_layers``, for each session: the least of rounds in turn."""
    found: list[Times] = [{} for _ in sessions]
    for _ in range(ROUNDS):
        for session, times in zip(sessions, found, strict=True):
            for layers, item in by_layers(session, feeds, max(1, runs // ROUNDS)).items():
                times[layers] = min(item, times.get(layers, item))
    return found


def runs_in_turn(
    sessions: Sequence[vknn.Session], feeds: Mapping[str, np.ndarray], runs: int
) -> list[list[float]]:
    """Milliseconds of whole runs, a list for each session; upload and download included."""
    times: list[list[float]] = [[] for _ in sessions]
    for _ in range(runs):
        for session, series in zip(sessions, times, strict=True):
            begin = time.perf_counter()
            session.run(feeds)
            series.append(1e3 * (time.perf_counter() - begin))
    return times


def parts(layers: Layers) -> set[str]:
    """The layers of the file; those that one dispatch computes are joined by + in a name."""
    return {part for name in layers for part in name.split("+")}


def print_layers(before: Times, after: Times, limit: int) -> None:
    """The layers that took longest before, and what the same layers take after."""
    total = sum(duration for duration, _ in before.values()) or 1.0
    dearest = sorted(before.items(), key=lambda item: -item[1][0])[:limit]
    print(f"{'before us':>10} {'share':>6} {'after us':>10}  layers: kernels before -> after")
    for layers, (duration, kernels) in dearest:
        same = [item for name, item in after.items() if parts(name) <= parts(layers)]
        later = f"{sum(microseconds for microseconds, _ in same):10,.1f}" if same else " " * 10
        others = ", ".join(names for _, names in same) or "in one dispatch with other layers"
        change = kernels if kernels == others else f"{kernels} -> {others}"
        print(f"{duration:10,.1f} {duration / total:6.1%} {later}  {', '.join(layers)}: {change}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_model_arguments(parser)
    parser.add_argument("--device", default="auto", help="auto, vulkan:1, numpy or part of a name")
    parser.add_argument("--limit", type=int, default=5, help="how many layers to print (5)")
    parser.add_argument("--runs", type=int, default=20, help="runs of each kind (20)")
    switches = parser.add_argument_group("what is switched")
    switches.add_argument("--precision", choices=["fp32", "fp16"], default="fp32")
    switches.add_argument("--arithmetic", choices=["fp32", "fp16"], default="fp32")
    switches.add_argument("--disable", default="", help="names parted by commas")
    switches.add_argument("--tuned", action="store_true", help="take the kernels of vknn tune")
    add_feed_arguments(parser)
    options = parser.parse_args(arguments)
    files = (options.model, options.weights)
    with (
        vknn.Session(*files, device=options.device, tuned=False) as before,
        vknn.Session(
            *files,
            device=before.device or options.device,
            precision=options.precision,
            arithmetic=options.arithmetic,
            disable=[name for name in options.disable.split(",") if name],
            tuned=options.tuned,
        ) as after,
    ):
        feeds = feeds_for(before, options)
        print(f"on {before.device.name if before.device is not None else 'NumPy'}")
        first, second = layers_in_turn((before, after), feeds, options.runs)
        print_layers(first, second, options.limit)
        one, other = runs_in_turn((before, after), feeds, options.runs)
    print(f"{'whole run':>10} {'min ms':>9} {'median ms':>10}")
    for name, series in (("before", one), ("after", other)):
        print(f"{name:>10} {min(series):9.3f} {statistics.median(series):10.3f}")
    ratios = min(one) / min(other), statistics.median(one) / statistics.median(other)
    print(f"{'speedup':>10} {ratios[0]:8.2f}x {ratios[1]:9.2f}x")
    return 0


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except vknn.VknnError as error:
        raise SystemExit(f"error: {error}") from None
