"""vknn beside ncnn on GPUs that are not here: counts of a run, and its time by fitted costs.

    python benchmarks/modelled.py navi21
    python benchmarks/modelled.py navi21 a740 --networks squeezenet resnet18 --save
    python benchmarks/modelled.py navi21 --only vknn --save   # beside the ncnn that is kept
    python benchmarks/modelled.py navi21 a740 --read --update-docs

Both engines run on the null device under a Vulkan layer: dispatches, barriers, copies, submits,
device memory, pipelines with the driver's statistics, and the host's time of a run. Nothing is
computed there; docs/gpu.md says what is counted and what is modelled.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(ROOT / "src"), str(ROOT / "tools")]

from comparison.networks import NETWORKS  # noqa: E402
from counting import kept, layer, made, sides  # noqa: E402
from counting.engines import Engine, Workshop  # noqa: E402
from counting.fit import Costs  # noqa: E402
from counting.log import LoggedRun  # noqa: E402
from counting.report import ENGINES, between_markers, side_tables  # noqa: E402

import null_drivers  # noqa: E402
import prepare  # noqa: E402
from vknn.errors import VknnError  # noqa: E402
from vknn.formats.ncnn.random_weights import write_random_weights  # noqa: E402

FOLDER = ROOT.parent / "shared" / "benchmark" / "ncnn"
RESULTS = ROOT / "benchmarks" / "results" / "modelled"
COSTS = RESULTS / "costs.json"
PAGE = ROOT / "docs" / "gpu.md"
#: Precision -> the way that ncnn runs: its options as they come store float16 and compute in it
#: where they can. "fp16-arithmetic": vknn computes in it, too.
MODES = {"fp16": "default", "fp16-arithmetic": "default", "fp32": "fp32"}
SIZES = {**NETWORKS, **made.SHAPES}


def main() -> int:
    args = _arguments()
    documents = []
    for device in args.devices:
        try:
            documents.append(_document(args, device))
        except (null_drivers.Unavailable, layer.Unbuildable, OSError) as error:
            print(f"error: {device}: {error}", file=sys.stderr)
    if documents:
        print(side_tables(documents))
    if len(documents) < len(args.devices):
        return 2
    if args.update_docs:
        between_markers(PAGE, "compared", side_tables(documents))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("devices", nargs="+", choices=sorted(null_drivers.DEVICES), metavar="DEVICE")
    add("--networks", nargs="+", choices=list(SIZES), default=list(SIZES), metavar="NAME")
    add("--folder", type=Path, default=FOLDER, help=f"the .param files ({FOLDER})")
    add("--precision", choices=list(MODES), default="fp16")
    add("--wheel", type=Path, help="folder with another ncnn than this Python's")
    add("--only", choices=list(ENGINES), help="count this engine; the other's side is as kept")
    add(
        "--runs",
        type=int,
        default=15,
        help="runs of which the least host time is taken; 0: none, what is kept stays",
    )
    add("--save", action="store_true", help="keep it, in a folder of the device")
    add("--results", type=Path, default=RESULTS, help=f"where it is kept ({RESULTS})")
    add("--read", action="store_true", help="show what is kept in place of counting")
    add("--update-docs", action="store_true", help="put the tables into docs/gpu.md")
    args = parser.parse_args()
    for name in ("folder", "wheel"):
        folder = getattr(args, name)
        if folder is not None and not folder.is_dir() and not args.read:
            parser.error(f"--{name}: there is no folder {folder}")
    if args.runs < 0:
        parser.error(f"--runs: {args.runs} is below 0")
    return args


def _document(args: argparse.Namespace, device: str) -> dict[str, Any]:
    path = args.results / device / f"compared-{args.precision}.json"
    if args.read:
        document: dict[str, Any] = json.loads(path.read_text())
        return document
    null_drivers.set_up(device)
    with tempfile.TemporaryDirectory(prefix="vknn-") as folder:
        place = Workshop(device, layer.built(prepare.CACHE), Path(folder))
        document = compared(args, place, _other_side(args, device) if args.only else None)
    if args.save:
        if not args.runs and path.exists():
            _take_host_times(document, json.loads(path.read_text(encoding="utf-8")))
        kept.write(path, document)
    return document


def _take_host_times(document: dict[str, Any], old: Mapping[str, Any]) -> None:
    """Host times of what is kept, for sides of which nothing was timed this time."""
    for network, engines in document["networks"].items():
        for engine, found in engines.items():
            before = old["networks"].get(network, {}).get(engine, {})
            if found.get("host_us", 0) is None:
                found["host_us"] = before.get("host_us")


def _other_side(args: argparse.Namespace, device: str) -> dict[str, Any]:
    """What is kept; of ncnn under the first precision for which it runs in the same way."""
    same = [m for m in MODES if args.only == "vknn" and MODES[m] == MODES[args.precision]]
    names = [f"compared-{precision}.json" for precision in (*same, args.precision)]
    paths = [args.results / device / name for name in names]
    path = next((path for path in paths if path.exists()), paths[0])
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def compared(
    args: argparse.Namespace, place: Workshop, old: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Both engines' counts of each network on a null device, as a document to be kept.

    ``old``: the document in which a side that is not counted stands.
    """
    networks = _networks(args, place.folder)
    costs = sides.costs_of(COSTS, place.device)
    found: dict[str, dict[str, Any]] = {network["name"]: {} for network in networks}
    about = {"device": "", "precision": args.precision}
    for name in ENGINES:
        if old is not None and name != args.only:
            about[name] = old[name]
            for network, engines in found.items():
                engines[name] = old["networks"].get(network, {}).get(name, {"error": "not kept"})
            continue
        engine = Engine(name, args.precision if name == "vknn" else MODES[args.precision])
        if name == "ncnn":
            engine = replace(engine, wheel=args.wheel)
        print(f"{place.device}: {name}", file=sys.stderr, flush=True)
        for network, made_side in _sides(args, place, engine, networks, costs, about):
            found[network][name] = made_side
    assumed = [*sides.ASSUMPTIONS, *([] if costs else [f"no costs are kept for {place.device}"])]
    return {"null": place.device, **about, "assumptions": assumed, "networks": found}


def _sides(
    args: argparse.Namespace,
    place: Workshop,
    engine: Engine,
    networks: list[dict[str, Any]],
    costs: Mapping[str, Costs],
    about: dict[str, str],
) -> Iterator[tuple[str, dict[str, Any]]]:
    """An engine's side by network; ``about`` gets the device's name and the engine's version."""
    runs, errors = _counted(place, engine, networks)
    host = place.timed(engine, networks, args.runs) if args.runs else {}
    for network, error in errors.items():
        print(f"{place.device}: {engine.name}: {network}: {error}", file=sys.stderr)
        yield network, {"error": error}
    for network, run in runs.items():
        about |= {"device": run.device, engine.name: run.notes.get("version", "")}
        texts = _texts(place, engine, network)
        times = host.get(network, [])
        yield network, sides.side(engine.name, network, run, texts, times, costs)


def _counted(
    place: Workshop, engine: Engine, networks: list[dict[str, Any]]
) -> tuple[dict[str, LoggedRun], dict[str, str]]:
    """Runs and errors by network. A process and a folder of texts each: pipelines are numbered
    anew with every device that an engine opens."""
    runs: dict[str, LoggedRun] = {}
    errors: dict[str, str] = {}
    for network in networks:
        made, failed = place.counted(engine, [network], _texts(place, engine, network["name"]))
        runs |= made
        errors |= failed
    return runs, errors


def _texts(place: Workshop, engine: Engine, network: str) -> Path:
    return place.folder / f"texts-{engine.name}-{network}"


def _networks(args: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    networks = []
    for name in args.networks:
        weights = folder / f"{name}.bin"
        try:
            param = _param(args, name, folder)
            write_random_weights(param, weights)
        except (VknnError, OSError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        job = {"name": name, "param": str(param), "weights": str(weights)}
        networks.append({**job, "shape": list(SIZES[name])})
    return networks


def _param(args: argparse.Namespace, name: str, folder: Path) -> Path:
    if name in made.MADE:
        return made.written(name, folder)
    path: Path = (args.folder / f"{name}.param").resolve()
    return path


if __name__ == "__main__":
    sys.exit(main())
