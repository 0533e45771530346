"""vknn beside ncnn on GPUs that are not here: counts of a run, and its time by fitted costs.

    python benchmarks/modelled.py navi21
    python benchmarks/modelled.py navi21 a740 --networks squeezenet resnet18 --save
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
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(ROOT / "src"), str(ROOT / "tools")]

from comparison.networks import NETWORKS  # noqa: E402
from counting import kept, layer, sides  # noqa: E402
from counting.engines import Engine, Workshop  # noqa: E402
from counting.log import LoggedRun  # noqa: E402
from counting.report import between_markers, side_tables  # noqa: E402

import null_drivers  # noqa: E402
import prepare  # noqa: E402
from vknn.errors import VknnError  # noqa: E402
from vknn.formats.ncnn.random_weights import write_random_weights  # noqa: E402

FOLDER = ROOT.parent / "shared" / "benchmark" / "ncnn"
RESULTS = ROOT / "benchmarks" / "results" / "modelled"
COSTS = RESULTS / "costs.json"
PAGE = ROOT / "docs" / "gpu.md"
#: Precision -> the way that ncnn runs: its options as they come store float16 where they can.
MODES = {"fp16": "default", "fp32": "fp32"}


def main() -> int:
    args = _arguments()
    try:
        documents = [_document(args, device) for device in args.devices]
    except (null_drivers.Unavailable, layer.Unbuildable, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    tables = side_tables(documents)
    print(tables)
    if args.update_docs:
        between_markers(PAGE, "compared", tables)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("devices", nargs="+", choices=sorted(null_drivers.DEVICES), metavar="DEVICE")
    add("--networks", nargs="+", choices=list(NETWORKS), default=list(NETWORKS), metavar="NAME")
    add("--folder", type=Path, default=FOLDER, help=f"the .param files ({FOLDER})")
    add("--precision", choices=list(MODES), default="fp16")
    add("--wheel", type=Path, help="folder with another ncnn than this Python's")
    add("--runs", type=int, default=15, help="runs of which the least host time is taken")
    add("--save", action="store_true", help="keep it, in a folder of the device")
    add("--results", type=Path, default=RESULTS, help=f"where it is kept ({RESULTS})")
    add("--read", action="store_true", help="show what is kept in place of counting")
    add("--update-docs", action="store_true", help="put the tables into docs/gpu.md")
    return parser.parse_args()


def _document(args: argparse.Namespace, device: str) -> dict[str, Any]:
    path = args.results / device / f"compared-{args.precision}.json"
    if args.read:
        document: dict[str, Any] = json.loads(path.read_text())
        return document
    null_drivers.set_up(device)
    with tempfile.TemporaryDirectory(prefix="vknn-") as folder:
        document = compared(args, Workshop(device, layer.built(prepare.CACHE), Path(folder)))
    if args.save:
        kept.write(path, document)
    return document


def compared(args: argparse.Namespace, place: Workshop) -> dict[str, Any]:
    """Both engines' counts of each network on a null device, as a document to be kept."""
    networks = _networks(args, place.folder)
    costs = sides.costs_of(COSTS, place.device)
    engines = {
        "vknn": Engine("vknn", args.precision),
        "ncnn": Engine("ncnn", MODES[args.precision], args.wheel),
    }
    found: dict[str, dict[str, Any]] = {network["name"]: {} for network in networks}
    about = {"device": "", "precision": args.precision}
    for name, engine in engines.items():
        print(f"{place.device}: {name}", file=sys.stderr, flush=True)
        runs, errors = _counted(place, engine, networks)
        host = place.timed(engine, networks, args.runs)
        for network, error in errors.items():
            found[network][name] = {"error": error}
            print(f"{place.device}: {name}: {network}: {error}", file=sys.stderr)
        for network, run in runs.items():
            about |= {"device": run.device, name: run.notes.get("version", "")}
            times = host.get(network, [])
            texts = _texts(place, engine, network)
            found[network][name] = sides.side(name, network, run, texts, times, costs)
    assumed = [*sides.ASSUMPTIONS, *([] if costs else [f"no costs are kept for {place.device}"])]
    return {"null": place.device, **about, "assumptions": assumed, "networks": found}


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
        param, weights = (args.folder / f"{name}.param").resolve(), folder / f"{name}.bin"
        try:
            write_random_weights(param, weights)
        except (VknnError, OSError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        job = {"name": name, "param": str(param), "weights": str(weights)}
        networks.append({**job, "shape": list(NETWORKS[name])})
    return networks


if __name__ == "__main__":
    sys.exit(main())
