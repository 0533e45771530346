"""Costs of real GPUs, fitted to published times of ncnn: a run, a dispatch, arithmetic, bytes.

    python benchmarks/calibration.py                       # the table, from kept counts
    python benchmarks/calibration.py --save --update-docs  # keep the costs, show them in the docs
    python benchmarks/calibration.py --count navi21 --wheel FOLDER --networks FOLDER

ncnn's dispatches are counted on null devices (--count, where ``pip install --target FOLDER
ncnn==1.0.20231027`` and ncnn's benchmark networks are); the times lie beside the checkout
(../shared/gpu). docs/gpu.md says how the fit is made.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(ROOT / "src"), str(ROOT / "tools")]

from counting import kept, layer  # noqa: E402
from counting.cards import CARDS, NETWORKS, Card, published_times  # noqa: E402
from counting.engines import Engine, Workshop  # noqa: E402
from counting.fit import Fitted, Subject, Workload, cross_validate, expected  # noqa: E402
from counting.log import LoggedRun, group_lanes  # noqa: E402
from counting.report import between_markers, markdown  # noqa: E402
from counting.work import ncnn_work  # noqa: E402

import null_drivers  # noqa: E402
import prepare  # noqa: E402

TIMES = ROOT.parent / "shared" / "gpu" / "published_ncnn.csv"
NETS = ROOT.parent / "shared" / "benchmark" / "ncnn"
RESULTS = ROOT / "benchmarks" / "results" / "modelled"
#: The version of most of the published times.
VERSION = "1.0.20231027"
KEPT = f"ncnn-{VERSION}.json"
COSTS = RESULTS / "costs.json"
PAGE = ROOT / "docs" / "gpu.md"
MARKER = "calibration"
#: Random thirds left out.
ROUNDS = 10
#: What a fit should reach on networks that it has not seen: the median error, and the worst.
MEDIAN, WORST = 0.15, 0.60


def main() -> int:
    args = _arguments()
    try:
        if args.count:
            for device in args.count:
                _count(device, args.wheel, args.networks)
            return 0
    except (layer.Unbuildable, null_drivers.Unavailable) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if not args.times.exists():
        print(f"skipped: there are no published times ({args.times})")
        return 0
    fitted = calibrated(args.times, RESULTS, args.rounds)
    tables = page_tables(fitted)
    print(tables)
    if args.save:
        kept.write(COSTS, costs_document(fitted))
    if args.update_docs:
        between_markers(PAGE, MARKER, tables)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--times", type=Path, default=TIMES, help=f"published times ({TIMES})")
    add("--rounds", type=int, default=ROUNDS, help="times that the networks are parted in thirds")
    add("--save", action="store_true", help=f"write the costs to {COSTS.relative_to(ROOT)}")
    add("--update-docs", action="store_true", help="put the tables into docs/gpu.md")
    add("--count", nargs="+", metavar="DEVICE", help="count ncnn on null devices instead")
    add("--wheel", type=Path, help="folder with another ncnn than this Python's")
    add("--networks", type=Path, nargs="+", default=[NETS], help="folders of .param files")
    return parser.parse_args()


def calibrated(times: Path, results: Path, rounds: int) -> dict[Card, Fitted]:
    """The fit of each card whose counts are kept under ``results``."""
    published = published_times(times)
    workloads = {path.parent.name: workload(path) for path in sorted(results.glob(f"*/{KEPT}"))}
    cards = {c.label: c for c in CARDS if c.published in published and c.null in workloads}
    subjects = [
        Subject(
            name=card.label,
            family=card.vendor,
            chip=card.chip or card.label,
            nominal=expected(card.tflops, card.gbytes),
            workload=workloads[card.null],
            times=published[card.published],
        )
        for card in cards.values()
    ]
    return {cards[name]: found for name, found in cross_validate(subjects, rounds).items()}


def workload(path: Path) -> Workload:
    """The dispatches of a kept file."""
    networks = json.loads(path.read_text(encoding="utf-8"))["networks"]
    return Workload({name: kept.works_of(found["rows"]) for name, found in networks.items()})


def reached(found: Fitted) -> bool:
    """Whether networks left out are met as well as is wanted."""
    return median(found.left_out) < MEDIAN and max(found.left_out) <= WORST


def page_tables(fitted: Mapping[Card, Fitted]) -> str:
    """Markdown for docs/gpu.md: costs, errors, rates beside the nominal ones."""
    good = [card for card, found in fitted.items() if reached(found)]
    vendors = sorted({card.vendor for card in good})
    summary = (
        f"On {len(good)} of {len(fitted)} GPUs, of {len(vendors)} vendors ({', '.join(vendors)}), "
        f"networks that were left out are met with a median error under {MEDIAN:.0%} and none "
        f"above {WORST:.0%}; these have a mark in the last column."
    )
    heads = [
        "GPU",
        "counted on",
        "networks",
        "a run, us",
        "a dispatch, us",
        "10^9 multiply-adds, us",
    ]
    heads += ["a MB, us", "1000 steps of a lane, us", "depthwise", "fit: median, worst"]
    heads += ["left out: median, worst", "worst network", ""]
    rows = [_row(card, found) for card, found in fitted.items()]
    tables = [markdown(heads, rows), _rates(fitted), _machines(fitted)]
    return "\n\n".join([summary, *tables])


def _row(card: Card, found: Fitted) -> list[str]:
    costs, inside = found.costs, [abs(error) for error in found.inside.values()]
    name, error = found.worst
    return [
        card.label,
        card.null if card.same else f"({card.null})",
        str(len(inside)),
        rounded(costs.run),
        rounded(costs.dispatch),
        rounded(costs.macs * 1e3),
        rounded(costs.megabyte),
        rounded(costs.steps),
        rounded(costs.grouped),
        f"{median(inside):.0%}, {max(inside):.0%}",
        f"{median(found.left_out):.0%}, {max(found.left_out):.0%}",
        f"{name} {error:+.0%}",
        "reached" if reached(found) else "",
    ]


def _rates(fitted: Mapping[Card, Fitted]) -> str:
    heads = ["GPU", "float32, nominal, TFLOPS", "fitted, TFLOPS", "memory, nominal, GB/s"]
    heads += ["fitted, GB/s", "lanes that are busy side by side"]
    rows = [
        [
            card.label,
            rounded(card.tflops),
            rounded(2 / found.costs.macs),
            rounded(card.gbytes),
            rounded(1e3 / found.costs.megabyte),
            rounded(found.costs.steps * 1e3 / found.costs.macs),
        ]
        for card, found in fitted.items()
    ]
    return markdown(heads, rows)


def _machines(fitted: Mapping[Card, Fitted]) -> str:
    """Medians over the cards on which the fit has reached what is wanted, by kind of device, in the
    terms of vknn.lowering.kit.machine."""
    rows = []
    for kind in ("discrete", "integrated"):
        costs = [
            found.costs for card, found in fitted.items() if card.kind == kind and reached(found)
        ]
        if not costs:
            continue
        terms = [
            [c.dispatch for c in costs],
            [c.megabyte for c in costs],
            [c.steps * 1e3 / c.macs for c in costs],
            [c.steps for c in costs],
            [c.macs * 1e3 for c in costs],
        ]
        spans = (f"{rounded(median(v))} ({rounded(min(v))} to {rounded(max(v))})" for v in terms)
        rows.append([kind, str(len(costs)), *spans])
    heads = ["kind of device", "GPUs", "dispatch, us", "10^6 bytes, us", "lanes side by side"]
    return markdown([*heads, "a lane's step, ns", "10^9 multiply-adds, us"], rows)


def rounded(value: float) -> str:
    """Two or three digits that count."""
    digits = 2 - math.floor(math.log10(abs(value))) if value else 0
    return f"{round(value, digits - 1 if digits > 0 else 0):,.{max(0, digits - 1)}f}"


def costs_document(fitted: Mapping[Card, Fitted]) -> dict[str, Any]:
    """Costs by card, with the null devices that they were counted on."""
    return {
        "unit": "microseconds: run, dispatch, 10^6 multiply-adds, 10^6 bytes, 1000 steps of a lane",
        "cards": {
            card.label: {
                "null": card.null,
                **{name: float(f"{v:.3g}") for name, v in vars(found.costs).items()},
                "left_out": round(median(found.left_out), 3),
            }
            for card, found in fitted.items()
        },
    }


def _count(device: str, wheel: Path | None, folders: list[Path]) -> None:
    """ncnn with its options as they come and no weights, as benchncnn runs it.

    What is kept of networks that are in none of the folders stays.
    """
    null_drivers.set_up(device)
    networks = []
    for name, size in NETWORKS.items():
        found = [f / f"{name}.param" for f in folders if (f / f"{name}.param").exists()]
        if not found:
            print(f"{name}: no {name}.param in {', '.join(map(str, folders))}")
            continue
        param = str(found[0].resolve())
        networks.append({"name": name, "param": param, "weights": None, "shape": [3, size, size]})
    with tempfile.TemporaryDirectory(prefix="vknn-") as folder:
        place = Workshop(device, layer.built(prepare.CACHE), Path(folder))
        texts = Path(folder) / "texts"
        runs, errors = place.counted(Engine("ncnn", "default", wheel), networks, texts)
        for name, error in errors.items():
            print(f"{device}: {name}: {error}")
        others = {run.notes["version"] for run in runs.values()} - {VERSION}
        if others:
            print(f"error: ncnn {VERSION} is wanted, this is {', '.join(others)} (--wheel)")
            return
        found = {name: counted(run, texts) for name, run in runs.items() if name not in errors}
    path = RESULTS / device / KEPT
    known = json.loads(path.read_text())["networks"] if path.exists() else {}
    every = {name: (known | found)[name] for name in NETWORKS if name in known | found}
    document = {"device": device, "engine": f"ncnn {VERSION}", "columns": kept.COLUMNS}
    kept.write(path, {**document, "networks": every})


def counted(run: LoggedRun, texts: Path) -> dict[str, Any]:
    """A run's counts and rows, to be kept."""
    works = ncnn_work(run, group_lanes(run, texts), VERSION)
    if works is None:
        raise ValueError(f"nothing is known of the kernels of ncnn {VERSION}")
    return {
        "dispatches": len(run.dispatches),
        "barriers": run.barriers,
        "submits": run.submits,
        "peak_mb": round(run.peak / 1e6),
        "rows": kept.rows_of(works),
    }


if __name__ == "__main__":
    sys.exit(main())
