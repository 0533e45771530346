"""Choices of the planner on GPUs that are not here, beside the best candidates by modelled time.

    python benchmarks/choices.py navi21
    python benchmarks/choices.py navi21 a740 --networks squeezenet resnet18 --precision fp16 --far
    python benchmarks/choices.py navi21 --save        # results/choices/navi21.json: a summary
    python benchmarks/choices.py navi21 raven --read --update-docs     # the table of docs/gpu.md

For each distinct problem of the networks (an op with its shapes and precision), the candidates that
take and give the same layouts are compiled on the null device, but for those that are estimated at
more than --near times the least. A candidate's time is that of its dispatches by a static profile,
and for each what a dispatch costs on the card that the device stands for. Where the planner may
join nodes to a chain, the chain and the nodes apart are such candidates, each by the kernels of the
lowest estimates. Candidates that take counters bring a fill with them, so they are rivals only in
networks that have one or where it pays. Exits with 1 where the planner takes a candidate more than
10 % slower than the best.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(ROOT / "src"), str(ROOT / "tools")]

from choosing.report import (  # noqa: E402
    FILL,
    NEAR,
    SUMMARY_HEADS,
    picks_of,
    share,
    summary,
    summary_rows,
    text,
)
from comparison.networks import NETWORKS  # noqa: E402
from counting import kept, made  # noqa: E402
from counting.engines import ending  # noqa: E402
from counting.reach import GOALS  # noqa: E402
from counting.report import between_markers, markdown  # noqa: E402
from counting.sides import costs_of  # noqa: E402

import null_drivers  # noqa: E402
from vknn.formats.ncnn.random_weights import write_random_weights  # noqa: E402
from vknn.profiling.modelled import ASSUMPTIONS  # noqa: E402

FOLDER = ROOT.parent / "shared" / "benchmark" / "ncnn"
RESULTS = ROOT / "benchmarks" / "results"
COSTS = RESULTS / "modelled" / "costs.json"
PAGE = ROOT / "docs" / "gpu.md"
SIZES = {**NETWORKS, **made.SHAPES}
#: The most that a process takes for all problems of a precision: hours where nothing is wrong.
SECONDS = 8 * 3600


def main() -> int:
    args = _arguments()
    if args.read:
        return _tell_kept(args)
    far = failed = False
    for device in args.devices:
        try:
            document = _document(args, device)
        except (null_drivers.Unavailable, OSError, subprocess.SubprocessError) as error:
            print(f"error: {device}: {error}", file=sys.stderr)
            failed = True
            continue
        if args.save:
            kept.write(args.results / f"{device}.json", summary(document))
        for precision, found in document["precisions"].items():
            picks = picks_of(found, FILL * document["dispatch"])
            print(f"{device} ({document['device']}), {precision}, {document['dispatch']} us a")
            print(text(picks, rows=args.rows, only_far=args.far), flush=True)
            far |= share(picks) < 1.0
    return 2 if failed else int(far)


def _tell_kept(args: argparse.Namespace) -> int:
    """The table of what is kept; 2 where something is not."""
    try:
        texts = [(args.results / f"{device}.json").read_text() for device in args.devices]
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    table = markdown(SUMMARY_HEADS, summary_rows([json.loads(found) for found in texts]))
    print(table)
    if args.update_docs:
        between_markers(PAGE, "choices", table)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("devices", nargs="+", choices=sorted(null_drivers.DEVICES), metavar="DEVICE")
    add("--networks", nargs="+", choices=list(SIZES), default=list(SIZES), metavar="NAME")
    add("--folder", type=Path, default=FOLDER, help=f"the .param files ({FOLDER})")
    add("--precision", nargs="+", choices=["fp16", "fp32"], default=["fp16", "fp32"])
    add("--limit", type=int, help="so many problems of each precision")
    add("--near", type=float, default=NEAR, help=f"see above ({NEAR:g}); inf: all candidates")
    add("--far", action="store_true", help="show only what is beyond 10 %%")
    add("--rows", type=int, help="show so many rows at most")
    add("--weights", type=Path, help="a folder that keeps the random weights for another time")
    add("--times", type=Path, help="a folder that keeps modelled times for another time")
    add("--save", action="store_true", help="keep a summary")
    add("--read", action="store_true", help="show what is kept in place of counting")
    add("--update-docs", action="store_true", help="put the table of what is kept into docs/gpu.md")
    add("--results", type=Path, default=RESULTS / "choices", help="where they are kept")
    return parser.parse_args()


def dispatch_cost(device: str) -> float:
    """Microseconds of a dispatch with its barriers: fitted to a card of the device, or assumed."""
    if device in GOALS:
        return costs_of(COSTS, device if device != "navi31" else "navi21")[
            GOALS[device].card
        ].dispatch
    return ASSUMPTIONS.dispatch + ASSUMPTIONS.barrier


def _document(args: argparse.Namespace, device: str) -> dict[str, Any]:
    null_drivers.set_up(device)
    found: dict[str, Any] = {"null": device, "device": "", "dispatch": dispatch_cost(device)}
    found |= {"near": args.near, "precisions": {}}
    with tempfile.TemporaryDirectory(prefix="vknn-") as temporary:
        folder = args.weights or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        networks = [_network(args, name, folder) for name in args.networks]
        for precision in args.precision:
            job = {"networks": networks, "precision": precision, "limit": args.limit}
            times = args.times / f"{device}.json" if args.times else None
            job |= {"dispatch": found["dispatch"], "times": str(times) if times else None}
            job["near"] = args.near
            answer = _answer(device, job)
            found["device"] = answer["device"]
            found["precisions"][precision] = answer["choices"]
    return found


def _network(args: argparse.Namespace, name: str, folder: Path) -> dict[str, Any]:
    """A network as the process takes it, with its files; weights are random."""
    known = args.folder / f"{name}.param"
    param = made.written(name, folder) if name in made.MADE else known.resolve()
    weights = folder / f"{name}.bin"
    if not weights.exists():
        write_random_weights(param, weights)
    return {"name": name, "param": str(param), "weights": str(weights), "shape": SIZES[name]}


def _answer(device: str, job: dict[str, Any]) -> dict[str, Any]:
    """What a process on the null device says. Raises SubprocessError where it fails."""
    variables = {**os.environ, **null_drivers.device_environment(device), "VKNN_NULL_DEVICE": "1"}
    paths = [str(ROOT / "benchmarks"), str(ROOT / "tools"), *sys.path]
    variables["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in paths)
    program = [sys.executable, "-m", "choosing.child", json.dumps(job)]
    try:
        done = subprocess.run(
            null_drivers.command(device, program),
            env=variables,
            cwd=ROOT / "benchmarks",
            stdout=subprocess.PIPE,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise subprocess.SubprocessError(f"no end after {SECONDS} s") from None
    if done.returncode:
        raise subprocess.SubprocessError(ending(done))
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


if __name__ == "__main__":
    sys.exit(main())
