"""Ratios to ncnn on GPUs that are not here, by the counts that are kept.

    python benchmarks/reach.py                        # all that modelled.py --save has kept
    python benchmarks/reach.py navi21 --update-docs

A time is modelled: of each dispatch by its code, and a fitted cost for each dispatch's gap; without
what is fixed in a run. A second table has multiply-adds' share of the hot loops where machine code
was read. Exits with 1 where a goal is missed, with 2 where nothing is kept.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(ROOT / "src"), str(ROOT / "tools")]

from counting.hot_loops import HotLoops, hot_loops, hot_table  # noqa: E402
from counting.reach import GOALS, reach_of, reach_table  # noqa: E402
from counting.report import between_markers  # noqa: E402
from counting.sides import costs_of  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "modelled"
PAGE = ROOT / "docs" / "gpu.md"
PRECISIONS = ["fp16", "fp16-arithmetic", "fp32"]
#: Devices whose hot loops are told: machine code is read of AMD's GPUs only.
HOT_DEVICES = ("navi21", "navi31")


def main() -> int:
    args = _arguments()
    costs = RESULTS / "costs.json"
    found, hot, dispatches = [], [], {}
    for device in args.devices:
        card = GOALS[device].card
        every = {label: c for null in GOALS for label, c in costs_of(costs, null).items()}
        dispatches[device] = every[card].dispatch
        for precision in args.precision:
            path = args.results / device / f"compared-{precision}.json"
            if path.exists():
                document = json.loads(path.read_text())
                found.append(reach_of(document, dispatches[device]))
                if device in HOT_DEVICES:
                    hot.append(hot_loops(document))
            else:
                print(f"{path} is not kept", file=sys.stderr)
    if not found:
        return 2
    table = reach_table(found, dispatches)
    print(table)
    if args.update_docs:
        between_markers(PAGE, "reach", table)
    _tell_hot_loops(hot, args.update_docs)
    return 0 if all(reach.reached for reach in found) else 1


def _tell_hot_loops(found: Sequence[HotLoops | None], update_docs: bool) -> None:
    known = [loops for loops in found if loops is not None]
    if len(known) < len(found):
        print("no shares of hot loops are kept of some: count them anew", file=sys.stderr)
    if known:
        table = hot_table(known)
        print(table)
        if update_docs:
            between_markers(PAGE, "hot", table)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("devices", nargs="*", metavar="DEVICE", help=f"{', '.join(GOALS)} (all)")
    add("--precision", nargs="+", choices=PRECISIONS, default=PRECISIONS)
    add("--results", type=Path, default=RESULTS, help=f"where counts are kept ({RESULTS})")
    add("--update-docs", action="store_true", help="put the table into docs/gpu.md")
    args = parser.parse_args()
    args.devices = args.devices or list(GOALS)
    if unknown := [device for device in args.devices if device not in GOALS]:
        parser.error(f"no goals for {', '.join(unknown)}")
    return args


if __name__ == "__main__":
    sys.exit(main())
