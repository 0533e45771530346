"""vknn beside ncnn on the same Vulkan device: speed, cold start, memory, distance to the limits.

    python benchmarks/compare_ncnn.py
    python benchmarks/compare_ncnn.py --networks squeezenet resnet18 --runs 5 --skip-cold
    python benchmarks/compare_ncnn.py --save --update-docs

Weights and inputs are random and the same for both engines. Run it on a machine that does nothing
else; docs/performance.md says what the tables mean.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import os
import re
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(1, str(ROOT / "src"))

from comparison import results, tables  # noqa: E402
from comparison.measure import Failed, Settings, Workplace, measure_network  # noqa: E402
from comparison.networks import NETWORKS, prepare  # noqa: E402
from rich.console import Console  # noqa: E402

from vknn.errors import VknnError  # noqa: E402

FOLDER = ROOT.parent / "shared" / "benchmark" / "ncnn"
PAGE = ROOT / "docs" / "performance.md"
RESULTS = ROOT / "benchmarks" / "results"
#: Above this load average something else is running.
BUSY = 0.7


def main() -> int:
    args = _arguments()
    comparison = results.read(args.read) if args.read else _measure(args)
    if comparison is None:
        return 1
    Console(width=None if sys.stdout.isatty() else 160).print(tables.show(comparison))
    for path in (args.json, _kept(comparison) if args.save else None):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(comparison.to_json() + "\n")
            print(f"written: {path}")
    if args.update_docs:
        tables.update_page(PAGE, comparison)
        print(f"updated: {PAGE}")
    return 1 if any(goal.ok is False for goal in comparison.goals()) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--networks", nargs="+", choices=list(NETWORKS), default=list(NETWORKS), metavar="NAME")
    add("--folder", type=Path, default=FOLDER, help=f"the .param files ({FOLDER})")
    add("--device", default="auto", help="auto, vulkan:1 or part of a name")
    add("--runs", type=int, default=Settings.runs, help="rounds to time")
    add("--budget", type=float, default=Settings.budget, help="seconds of rounds a network")
    add("--cold-runs", type=int, default=Settings.cold, help="cold starts of each kind")
    add("--skip-cold", action="store_true", help="no cold starts")
    add("--skip-cpu", action="store_true", help="without ncnn on the CPU")
    add("--json", type=Path, metavar="PATH", help="write the result there")
    add("--save", action="store_true", help="write it under benchmarks/results/<device>/")
    add("--update-docs", action="store_true", help="put the tables into docs/performance.md")
    add("--read", type=Path, metavar="PATH", help="show a kept result in place of measuring")
    return parser.parse_args()


def _measure(args: argparse.Namespace) -> results.Comparison | None:
    settings = Settings(
        device=args.device,
        runs=args.runs,
        cold=args.cold_runs,
        budget=args.budget,
        cpu=not args.skip_cpu,
    )
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load > BUSY:
        _say(f"the machine is busy (load {load:.1f}): these figures will say little")
    with tempfile.TemporaryDirectory(prefix="vknn-") as folder:
        place = Workplace(Path(folder), settings)
        if place.layer is None:
            _say("no C compiler: ncnn's device memory stays unknown")
        try:
            _say("the device's limits")
            place.limits = place.run("limits", {"runs": 5})
        except Failed as error:
            _say(str(error))
            return None
        overhead = _overhead(place)
        networks = [_network(place, name, args) for name in args.networks]
    return results.Comparison(
        device=place.limits["device"],
        date=datetime.date.today().isoformat(),
        versions=_versions(place.limits),
        networks=networks,
        limits=place.limits,
        overhead=overhead,
        settings={**asdict(settings), "load": load},
    )


def _overhead(place: Workplace) -> dict[str, Any]:
    _say("the host's overhead")
    try:
        found = place.run("overhead", {"folder": str(place.folder), "runs": 50})
    except Failed as error:
        _say(f"overhead: {error}")
        return {}
    return {**found, "submit": place.limits["submit"]}


def _network(place: Workplace, name: str, args: argparse.Namespace) -> results.Network:
    try:
        prepared = prepare(name, args.folder, place.folder)
    except (VknnError, OSError) as error:
        _say(f"{name}: {error}")
        return results.Network(name, errors=[str(error)])
    number = f"[{args.networks.index(name) + 1}/{len(args.networks)}] {name}"
    found = measure_network(place, prepared, not args.skip_cold, lambda w: _say(f"{number}: {w}"))
    for error in found.errors:
        _say(f"{name}: {error}")
    Path(prepared.weights).unlink()
    return found


def _versions(limits: dict[str, Any]) -> dict[str, str]:
    versions = {}
    for package in ("vknn", "ncnn", "numpy"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "(checkout)"
    return {**versions, "driver": limits["driver"]}


def _kept(comparison: results.Comparison) -> Path:
    slug = re.sub(r"[^a-z0-9]+", "-", comparison.device.lower()).strip("-")
    return RESULTS / slug / f"compare_ncnn-{comparison.date}.json"


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
