"""Counts of right comparisons: a network with itself, and with one layer made 10 % slower.

    python benchmarks/comparisons.py net.param --random-weights --shape data=3,224,224 \
        --layer conv2_2/expand --folder DIR             # goes on where it was stopped
    python benchmarks/comparisons.py ... --save         # kept as results/comparisons.json

Both run ``vknn profile --versus`` with its defaults, in turn, on two copies of this checkout. In
one of them the layer's dispatch has a tenth more workgroups, which compute what others do, too. The
layer has to be computed by convolution/conv, and no other dispatch may have as many workgroups. For
a machine that does nothing else: an hour and a half for thirty each. Exits with 1 over a goal.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(1, str(ROOT / "src"))

from vknn.profiling import Profile  # noqa: E402
from vknn.profiling.comparison.versus import PAIRS, RUNS  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "comparisons.json"
COPIED = ("pyproject.toml", "setup.py", "shaders", "src")
SIDES = ("itself", "planted")
PROFILE = [sys.executable, "-m", "vknn", "profile"]
KERNEL = "convolution/conv"
MORE = 1.1
#: Of thirty: most that call the network slower or faster than itself, least that name the layer.
CALLED, NAMED = 2, 28
#: Seconds that a comparison may take.
LONGEST = 120.0

#: A file of the checkout, a text that is there once, and what stands there instead.
Edit = tuple[str, str, str]
#: Workgroups beyond the last compute what the first do.
REPEATED: Edit = (
    f"shaders/{KERNEL}.comp",
    "    if (id >= p.total) return;\n    int lane",
    "    if (id >= p.total) id -= p.total;\n    int lane",
)
RECORDER = "src/vknn/runtime/recorder.py"
DISPATCH = "lib.vkCmdDispatch(target, *step.groups)"


def checkouts(folder: Path, arguments: list[str], layer: str) -> dict[str, Path]:
    """The copies: of the one that is compared with itself, and the planted one."""
    groups = groups_of(arguments, layer)
    more = (int(groups[0] * MORE), *groups[1:])
    planted = f"lib.vkCmdDispatch(target, *({more} if step.groups == {groups} else step.groups))"
    edits = {"itself": [REPEATED], "planted": [REPEATED, (RECORDER, DISPATCH, planted)]}
    copies = {side: copied(folder / f"{side}-checkout", edits[side]) for side in SIDES}
    for copy in copies.values():  # their shaders are compiled before anything is compared
        command = [*PROFILE, *arguments, "--runs", "1"]
        subprocess.run(command, env=environment(copy), stdout=subprocess.DEVNULL, check=True)
    return copies


def copied(folder: Path, edits: list[Edit]) -> Path:
    """A new copy of the checkout with these edits."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in COPIED:
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy2)(source, folder / name)
    for name, before, after in edits:
        text = (folder / name).read_text()
        if text.count(before) != 1:
            sys.exit(f"{name}: {before!r} is there {text.count(before)} times, not once")
        (folder / name).write_text(text.replace(before, after))
    return folder


def groups_of(arguments: list[str], layer: str) -> tuple[int, ...]:
    """The workgroups of the layer's dispatch, which no other has."""
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder, "a.vkprof"))
        command = [*PROFILE, *arguments, "--runs", "1", "--save", file]
        subprocess.run(command, env=environment(ROOT), stdout=subprocess.DEVNULL, check=True)
        entries = [timing.entry for timing in Profile.load(file).timings]
    of = [entry for entry in entries if layer in entry.layers]
    if [entry.kernel for entry in of] != [KERNEL]:
        sys.exit(f"layer {layer!r} is computed by {[e.kernel for e in of]}, not {KERNEL}")
    [groups] = [entry.groups for entry in of]
    if sum(entry.groups == groups for entry in entries) != 1 or groups is None:
        sys.exit(f"layer {layer!r}: other dispatches have {groups} workgroups, too")
    return tuple(groups)


def environment(checkout: Path) -> dict[str, str]:
    """Variables of a process that runs a checkout."""
    return {**os.environ, "PYTHONPATH": str(checkout / "src")}


def comparison(arguments: list[str], own: Path, other: Path) -> dict[str, Any]:
    """JSON of ``vknn profile --versus``, and the seconds that it took."""
    command = [*PROFILE, *arguments, "--versus", str(other), "--json"]
    begin = time.perf_counter()
    done = subprocess.run(
        command, env=environment(own), capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.stderr)
    return {"seconds": time.perf_counter() - begin, "comparison": json.loads(done.stdout)}


def outcome(found: dict[str, Any], layer: str) -> dict[str, Any]:
    """Words of a comparison for the whole and the layer, and the other layers that it named."""
    rows = found["comparison"]["rows"]
    [row] = [row for row in rows if row["layers"] == [layer]]
    called = [r for r in rows if r["word"] in ("slower", "faster") and r is not row]
    whole = found["comparison"]["whole"]
    return {
        "seconds": round(found["seconds"], 1),
        "whole": [whole["word"], round(whole["ratio"], 4), whole["p"]],
        "layer": [row["word"], round(row["ratio"], 4), row["p"]],
        "others": [[r["layers"], r["word"], round(r["ratio"], 4)] for r in called],
    }


def summary(found: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Counts over all comparisons of both sides."""
    return {
        "count": len(found["itself"]),
        "whole_called": sum(one["whole"][0] in ("slower", "faster") for one in found["itself"]),
        "any_layer_called": sum(
            bool(one["others"]) or one["layer"][0] in ("slower", "faster")
            for one in found["itself"]
        ),
        "named": sum(one["layer"][0] == "slower" for one in found["planted"]),
        "others_named": sum(bool(one["others"]) for one in found["planted"]),
        "longest_seconds": max(one["seconds"] for side in SIDES for one in found[side]),
    }


def main() -> int:
    """All comparisons, in turn; one line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("model", help="a model, and further arguments of vknn profile behind it")
    add("--layer", required=True, metavar="NAME", help="the layer that is made slower")
    add("--count", type=int, default=30, metavar="N", help="comparisons of each kind (30)")
    add("--folder", type=Path, required=True, help="for the copies and what each comparison said")
    add("--save", action="store_true", help=f"keep the figures as {RESULT.name}")
    args, more = parser.parse_known_args()
    arguments = [args.model, *more]
    copies = checkouts(args.folder, arguments, args.layer)
    found: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    for number in range(1, args.count + 1):
        for side in SIDES:
            file = args.folder / f"{side}{number}.json"
            if not file.is_file():
                one = comparison(arguments, copies["itself"], copies[side])
                file.write_text(json.dumps(one))
            found[side].append(outcome(json.loads(file.read_text()), args.layer))
            print(side, number, json.dumps(found[side][-1]), flush=True)
    figures = summary(found)
    print(json.dumps(figures))
    if args.save:
        about = {"model": Path(args.model).name, "layer": args.layer, "slower_by": MORE - 1}
        defaults = {"pairs": PAIRS, "runs": RUNS}
        before = json.loads(file.read_text())["comparison"]["before"]  # "net.param on NAME, fp32"
        document = {
            **about,
            **defaults,
            "device": before.partition(" on ")[2],
            **figures,
            "comparisons": found,
        }
        RESULT.write_text(json.dumps(document, indent=1) + "\n")
    share = figures["count"] / 30
    return int(
        figures["whole_called"] > CALLED * share
        or figures["named"] < NAMED * share
        or figures["longest_seconds"] > LONGEST
    )


if __name__ == "__main__":
    sys.exit(main())
