"""Cost of saving: what runs of ``vknn profile`` lose where samples, report and trace are written.

    python benchmarks/saving.py net.param --random-weights --shape data=3,224,224
    python benchmarks/saving.py net.param --save            # kept as results/saving.json

Pairs of processes whose runs take turns; one of them gives names of layers to other tools and tells
what ran (VKNN_DEBUG), and saves a .vkprof file, a page and a trace. Each run is timed from outside.
For a machine that does nothing else. Exits with 1 where it is not known that runs cost less than
the goal more.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(1, str(ROOT / "src"))

from vknn.profiling.comparison.statistics import paired_ratio  # noqa: E402
from vknn.profiling.comparison.turns import OPTION, Player, started  # noqa: E402
from vknn.runtime import open_device  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "saving.json"
#: Saving may cost runs less than this share of their time.
GOAL = 0.02
#: A first run of each process meets cold caches.
FIRST = 1
RUNS = "20"


def pair(arguments: list[str], number: int) -> float:
    """Ratio of the medians of runs, with saving over without, of two processes."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        plain = [sys.executable, "-m", "vknn", "profile", "--runs", RUNS, *arguments, OPTION]
        files = [("--save", "a.vkprof"), ("--html", "a.html"), ("--trace", "a.json")]
        saving = [*plain, *(w for option, name in files for w in (option, str(Path(folder, name))))]
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        both = ((plain, env), (saving, {**env, "VKNN_DEBUG": "1"}))
        sides = [stack.enter_context(started(command, variables)) for command, variables in both]
        times = _times(sides, number % 2)
        errors = [e for e in (side.error() for side in sides) if e]
        if errors:
            sys.exit(errors[0])
        missing = [name for _, name in files if not Path(folder, name).is_file()]
        if missing:
            sys.exit(f"{missing[0]} was not written")
    medians = [np.median(side[FIRST:]) for side in times]
    return float(medians[1] / medians[0])


def _times(sides: list[Player], first: int) -> list[list[float]]:
    """Seconds of each run of each side; who comes first changes from run to run."""
    times: list[list[float]] = [[], []]
    alive = min(side.waits() for side in sides)
    while alive:
        for place in (first, 1 - first):
            begin = time.perf_counter()
            # Behind the last run a process saves and ends: that is no run's time.
            alive &= sides[place].turn()
            if alive:
                times[place].append(time.perf_counter() - begin)
        first = 1 - first
    for side in sides:
        while side.process.poll() is None and side.turn():
            pass
    return times


def main() -> int:
    """Ratios of all pairs, printed and perhaps kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="a model, and further arguments of vknn profile behind it")
    parser.add_argument("--pairs", type=int, default=28, metavar="N", help="of processes (28)")
    parser.add_argument("--save", action="store_true", help=f"keep it as {RESULT.name}")
    args, more = parser.parse_known_args()
    ratios = [pair([args.model, *more], number) for number in range(args.pairs)]
    ratio, low, high = paired_ratio(np.array(ratios))
    print(
        f"saving over not saving: {ratio:.4f} (95 %: {low:.4f} to {high:.4f}), {args.pairs} pairs"
    )
    if args.save:
        with open_device("auto") as device:
            about = {"model": Path(args.model).name, "device": device.name}
        found = {**about, "ratio": ratio, "low": low, "high": high}
        RESULT.write_text(json.dumps({**found, "ratios": ratios}, indent=1) + "\n")
    return int(high >= 1 + GOAL)


if __name__ == "__main__":
    sys.exit(main())
