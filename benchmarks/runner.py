"""Figures of the C runner of bundles: sizes, first answer, a run, the host's part of it, memory.

    python benchmarks/runner.py                         # all that this machine can (minutes)
    python benchmarks/runner.py --quick                 # whether it works; times mean little
    python benchmarks/runner.py --save --update-docs    # kept, and shown in docs/performance.md
    python benchmarks/runner.py --read benchmarks/results/runner.json --update-docs

Times are of a machine that does nothing else. aarch64 needs ziglang (pip install ziglang), the
host's time alone a null device (tools/null_devices). Exits with 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(ROOT / "src"), str(ROOT / "tools")]

from counting.layer import headers  # noqa: E402
from counting.report import between_markers  # noqa: E402
from exporting import export_times  # noqa: E402

import vknn  # noqa: E402
from vknn.bundle import Bundle, Runner  # noqa: E402
from vknn.bundle.restored import RestoredPlan  # noqa: E402
from vknn.runtime import open_device  # noqa: E402

RUNNER, CACHE = ROOT / "runner", ROOT / ".cache"
RESULT = ROOT / "benchmarks" / "results" / "runner.json"
PAGE = ROOT / "docs" / "performance.md"
NETWORK = ROOT.parent / "shared" / "models" / "ncnn" / "squeezenet_v1.1.param"
SMALL = (
    *("-std=c99", "-Oz", "-s", "-DVKNN_SMALL", "-ffunction-sections", "-fdata-sections"),
    *("-Wl,--gc-sections", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"),
)
LIBRARY = ("-shared", "-fPIC", "-fvisibility=hidden")
KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class Goal:
    """A goal: a figure's name, at most so much of a unit, and what it is."""

    name: str
    most: float
    unit: str
    text: str


GOALS = (
    Goal("program_aarch64", 64, "KB", "stripped program, aarch64"),
    Goal("library_aarch64", 64, "KB", "stripped library, aarch64"),
    Goal("program_x86_64", 64, "KB", "stripped program, x86-64"),
    Goal("library_x86_64", 64, "KB", "stripped library, x86-64"),
    Goal("bundle_beside_weights", 400, "KB", "a bundle beside its packed weights, a plan"),
    Goal("export_time_ratio", 1.50, "", "export, of planning and writing the weights"),
    Goal("export_first_ratio", 1.50, "", "the same without swept modules of an export before"),
    Goal("export_process_ratio", 1.50, "", "the same with a process of its own"),
    Goal("first_warm_ratio", 0.40, "", "first answer, warm caches, of `vknn run`'s"),
    Goal("first_cold_ratio", 1.00, "", "first answer, empty caches, of `vknn run`'s"),
    Goal("run_ratio", 1.02, "", "a run, of Executable.run's"),
    Goal("host_us", 20, "us", "the host's time a run, on a null device"),
    Goal("memory_beside", 8, "MB", "peak memory beside arenas, weights and the driver's own"),
)


def main() -> int:
    args = _arguments()
    if args.host_time is not None:
        print(host_microseconds(Path(args.host_time[0]), Path(args.host_time[1]), args.runs))
        return 0
    if args.read is not None:
        found = json.loads(args.read.read_text())
    else:
        with tempfile.TemporaryDirectory(prefix="vknn-") as folder:
            found = measured(args, Path(folder))
    table = result_table(found)
    print(table)
    if args.save:
        RESULT.write_text(json.dumps(found, indent=1) + "\n")
    if args.update_docs:
        between_markers(PAGE, "runner", table)
    figures = found["figures"]
    return int(any(figures[g.name] > g.most for g in GOALS if figures.get(g.name) is not None))


def measured(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """All figures; None for those that this machine cannot give."""
    rounds = 2 if args.quick else args.runs
    program, library = folder / "vknn-run", folder / "libvknn_run.so"
    compiled([*SMALL], [RUNNER / "main.c", RUNNER / "vknn_run.c"], program)
    compiled([*SMALL, *LIBRARY], [RUNNER / "vknn_run.c"], library)
    figures: dict[str, float | None] = {
        "program_x86_64": program.stat().st_size / KIB,
        "library_x86_64": library.stat().st_size / KIB,
        **cross_sizes(folder),
    }
    feeds = random_feeds(args.network, args.shape)
    with open_device("auto") as device:
        target, name = target_of(device), device.name
    bundle = folder / "net.vkb"
    vknn.export(args.network, bundle, targets=(target,), shapes=args.shape, example=False)
    opened = Bundle.open(bundle)
    weights = sum(plan.weight_bytes for plan in opened.plans)
    figures["bundle_beside_weights"] = (opened.nbytes - weights) / KIB / len(opened.plans)
    figures |= export_times(args.network, args.shape, folder, target, rounds)
    figures |= first_answers(args, folder, program, bundle, feeds, rounds)
    figures |= runs_in_turn(library, opened, feeds, rounds)
    figures["host_us"] = null_host_time(args, folder, library, rounds)
    figures["memory_beside"] = memory_beside(folder, program, bundle, library)
    return {
        "date": date.today().isoformat(),
        "network": args.network.name,
        "target": target,
        "device": name,
        "machine": platform.machine(),
        "vknn": vknn.__version__,
        "runs": rounds,
        "quick": args.quick,
        "figures": figures,
    }


def compiled(
    flags: Sequence[str], sources: Sequence[Path], target: Path, compiler: Sequence[str] = ()
) -> None:
    """A file that the C compiler makes of the sources."""
    shared = CACHE / "vulkan_layer"
    shared.mkdir(parents=True, exist_ok=True)
    include = target.parent / "include"  # without another C library's headers beside Vulkan's
    include.mkdir(exist_ok=True)
    for name in ("vulkan", "vk_video"):
        if not (include / name).exists():
            (include / name).symlink_to(headers(shared) / name)
    found = list(compiler) or [shutil.which("cc") or shutil.which("clang") or "gcc"]
    command = [*found, *flags, "-isystem", str(include), *map(str, sources), "-o", str(target)]
    environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(CACHE / "zig")}
    subprocess.run([*command, "-lpthread", "-ldl", "-lm"], check=True, env=environment)


def cross_sizes(folder: Path) -> dict[str, float | None]:
    """KB of program and library for aarch64, where zig is there."""
    if importlib.util.find_spec("ziglang") is None:
        print("no sizes for aarch64: pip install ziglang", file=sys.stderr)
        return {"program_aarch64": None, "library_aarch64": None}
    zig = (sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-gnu")
    zig += ("-moutline", "-Wl,--hash-style=gnu")
    program, library = folder / "arm-program", folder / "arm-library"
    compiled(SMALL, [RUNNER / "main.c", RUNNER / "vknn_run.c"], program, zig)
    compiled([*SMALL, *LIBRARY], [RUNNER / "vknn_run.c"], library, zig)
    sizes = {"program": program, "library": library}
    return {f"{name}_aarch64": path.stat().st_size / KIB for name, path in sizes.items()}


def random_feeds(network: Path, shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Random arrays for all inputs, as the user gives them."""
    generator = np.random.default_rng(0)
    with vknn.Session(network, device="cpu") as session:
        hints = {**session.model.shape_hints, **shapes}
        return {
            spec.name: generator.standard_normal(hints.get(spec.name) or spec.fixed)
            .astype(spec.dtype)
            for spec in session.inputs
        }  # fmt: skip


def target_of(device: Any) -> str:
    """The target whose plans a device runs best: CPUs have one of their own."""
    return "llvmpipe" if device.snapshot.kind == "cpu" else "desktop"


def first_answers(
    args: argparse.Namespace,
    folder: Path,
    program: Path,
    bundle: Path,
    feeds: dict[str, np.ndarray],
    rounds: int,
) -> dict[str, float | None]:
    """Seconds from the start of a process to its answer in a file; the shortest of several."""
    given = []
    for number, (name, array) in enumerate(feeds.items()):
        np.save(folder / f"in{number}.npy", array)
        given += ["--input", f"{name}={folder}/in{number}.npy"]
    [output, *_] = Bundle.open(bundle).plans[0].outputs
    cache = folder / "cache"
    ours = [sys.executable, "-m", "vknn", "run", str(args.network), *given]
    ours += ["--output", str(folder / "out.npz")]
    theirs = [str(program), str(bundle), *given, "--cache", str(cache / "runner")]
    theirs += ["--output", f"{output.name}={folder}/out.npy"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "VKNN_CACHE_DIR": str(cache / "vknn"),
        "MESA_SHADER_CACHE_DIR": str(cache / "mesa"),
    }

    def seconds(command: list[str], is_cold: bool) -> float:
        if is_cold:
            shutil.rmtree(cache, ignore_errors=True)
            (cache / "mesa").mkdir(parents=True)  # the driver makes the last folder alone
        begin = time.perf_counter()
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        return time.perf_counter() - begin

    figures: dict[str, float | None] = {}
    for kind, is_cold in (("cold", True), ("warm", False)):
        pairs = [(seconds(ours, is_cold), seconds(theirs, is_cold)) for _ in range(rounds)]
        python, runner = (min(column) for column in zip(*pairs, strict=True))
        figures[f"first_{kind}_vknn_ms"] = python * 1e3
        figures[f"first_{kind}_runner_ms"] = runner * 1e3
        figures[f"first_{kind}_ratio"] = runner / python
    return figures


def runs_in_turn(
    library: Path, bundle: Bundle, feeds: dict[str, np.ndarray], rounds: int
) -> dict[str, float | None]:
    """Milliseconds of a run of the same plan, by the C library and by Executable.run, in turn."""
    [plan] = bundle.plans
    own = {
        port.name: np.ascontiguousarray(feeds[port.name]).reshape(port.shape).astype(port.dtype)
        for port in plan.inputs
    }
    times: dict[str, list[float]] = {"runner": [], "vknn": []}
    with (
        open_device("auto") as device,
        RestoredPlan(bundle, plan, device) as restored,
        Runner(bundle.file, library=library) as runner,
    ):
        turns: list[tuple[str, Callable[[], object]]] = [
            ("runner", lambda: runner.run(own)),
            ("vknn", lambda: restored.run(own)),
        ]
        for number in range(3 + 20 * rounds):
            for name, work in turns if number % 2 else turns[::-1]:
                begin = time.perf_counter()
                work()
                if number >= 3:
                    times[name].append(time.perf_counter() - begin)
    medians = {name: statistics.median(values) * 1e3 for name, values in times.items()}
    return {
        "run_runner_ms": medians["runner"],
        "run_vknn_ms": medians["vknn"],
        "run_ratio": medians["runner"] / medians["vknn"],
    }


def null_host_time(
    args: argparse.Namespace, folder: Path, library: Path, rounds: int
) -> float | None:
    """Microseconds of a run on a device that computes nothing; None where there is no driver."""
    if not (CACHE / "null_devices").exists():
        print("no host's time alone: tools/null_devices setup", file=sys.stderr)
        return None
    generic = folder / "generic.vkb"
    vknn.export(args.network, generic, shapes=args.shape, example=False)
    own = ["python", str(Path(__file__)), "--runs", str(rounds)]
    command = [str(ROOT / "tools" / "null_devices"), "run", args.null_device, *own]
    done = subprocess.run(
        [*command, "--host-time", str(generic), str(library)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        print(f"no host's time alone: {done.stderr.strip()[-300:]}", file=sys.stderr)
        return None
    return float(done.stdout.split()[-1])


def host_microseconds(bundle: Path, library: Path, rounds: int) -> float:
    """Microseconds of vknn_run itself, the median of the quietest round."""
    with Runner(bundle, library=library) as runner:
        run, net = runner.entry("vknn_run")
        medians = []
        for _ in range(max(3, rounds)):
            times = []
            for _ in range(200):
                begin = time.perf_counter()
                run(net)
                times.append(time.perf_counter() - begin)
            medians.append(statistics.median(times))
        return min(medians) * 1e6


def memory_beside(folder: Path, program: Path, bundle: Path, library: Path) -> float:
    """MB of the program's peak beside device memory, less those of a bundle of one step.

    What the driver takes for itself is in both, but for its code of more pipelines.
    """
    (folder / "relu.param").write_text("7767517\n2 2\nInput d 0 1 data\nReLU r 1 1 data y\n")
    (folder / "relu.bin").write_bytes(b"")
    small = folder / "small.vkb"
    vknn.export(folder / "relu.param", small, shapes={"data": (1, 1, 1)}, example=False)
    found = []
    for path in (bundle, small):
        with Runner(path, library=library) as runner:
            held = runner.memory
        command = [str(program), str(path), "--profile", str(folder / "times.json"), "--runs", "1"]
        process = subprocess.Popen(command)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, command
        found.append(usage.ru_maxrss * KIB - held)
    return (found[0] - found[1]) / MIB


def result_table(found: dict[str, Any]) -> str:
    """Figures and goals as a table for the page."""
    about = f"{found['network']} for target {found['target']} on {found['device']}, {found['date']}"
    lines = [f"{about}: vknn {found['vknn']}, {found['machine']}.", ""]
    if found["quick"]:
        lines[0] += " **Taken with --quick: times mean nothing.**"
    lines += ["| figure | goal, at most | found | reached |", "| --- | --- | --- | --- |"]
    figures = found["figures"]
    for goal in GOALS:
        value = figures.get(goal.name)
        digits = 2 if not goal.unit else 1
        told = "not measured" if value is None else f"{value:.{digits}f} {goal.unit}".strip()
        if goal.name.startswith("first_") or goal.name == "run_ratio":
            told += _parts(figures, goal.name.removesuffix("_ratio"))
        if goal.name.startswith("export_"):
            told += _export_parts(figures, goal.name.removesuffix("_ratio"))
        reached = "" if value is None else "yes" if value <= goal.most else "no"
        most = f"{goal.most:g} {goal.unit}".strip()
        lines.append(f"| {goal.text} | {most} | {told} | {reached} |")
    return "\n".join(lines)


def _parts(figures: dict[str, Any], name: str) -> str:
    runner, own = figures.get(f"{name}_runner_ms"), figures.get(f"{name}_vknn_ms")
    return "" if runner is None or own is None else f" ({runner:.1f} against {own:.1f} ms)"


def _export_parts(figures: dict[str, Any], name: str) -> str:
    alone = "export_process_planning_ms" if name == "export_process" else "export_planning_ms"
    if figures.get(f"{name}_ms") is None or figures.get(alone) is None:
        return ""
    told = f"{figures[f'{name}_ms']:.1f} against {figures[alone]:.1f} ms"
    cpu = figures.get("export_cpu_ratio") if name == "export_time" else None
    return f" ({told})" if cpu is None else f" ({told}; of CPU time {cpu:.2f})"


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, sizes = text.rpartition("=")
    return name, tuple(map(int, sizes.split(",")))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--network", type=Path, default=NETWORK, help=f"the model ({NETWORK.name})")
    add("--shape", action="append", default=[], type=_shape, metavar="NAME=N,N,N")
    add("--runs", type=int, default=10, help="rounds of each measurement (10)")
    add("--quick", action="store_true", help="two rounds, to see that it works")
    add("--null-device", default="a740", help="which one has no GPU (a740)")
    add("--read", type=Path, metavar="FILE.json", help="show a kept result")
    add("--save", action="store_true", help=f"keep it as {RESULT.relative_to(ROOT)}")
    add("--update-docs", action="store_true", help="put the table into docs/performance.md")
    add("--host-time", nargs=2, metavar=("BUNDLE", "LIBRARY"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.shape = dict(args.shape)
    return args


if __name__ == "__main__":
    sys.exit(main())
