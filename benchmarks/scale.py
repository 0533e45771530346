"""Batch jobs beside bare loops: rows a second, first answers, scheduling, memory.

    python benchmarks/scale.py                       # all but memory and drill; some minutes
    python benchmarks/scale.py --only local ray
    python benchmarks/scale.py --only memory --rows 20000
    python benchmarks/scale.py --only drill
    python benchmarks/scale.py --save
    python benchmarks/scale.py --only ray --networks squeezenet --rounds 1 --save --add
    python benchmarks/scale.py --only ray --networks squeezenet --device-threads 1 --save
    python benchmarks/scale.py --only scheduling --workers 1 2 --save --add

A rate is that of rows after the start: two jobs of different sizes, the difference of rows by that
of times, with a bare loop over ``Session.run`` between them, and for Ray the same loop in an actor
without vknn.scale. llvmpipe computes on all processors, those of Ray too; with ``--device-threads``
it leaves some of them to Ray, as a card does. Run it on a machine that does nothing else;
docs/scale.md says what is promised.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(1, str(ROOT / "src"))

import numpy as np  # noqa: E402
import scale_plain as plain  # noqa: E402

import vknn  # noqa: E402
from vknn import scale  # noqa: E402

MODELS = ROOT.parent / "shared" / "models"
RESULTS = ROOT / "benchmarks" / "results"
#: Name -> model, shape of a row, rows of the small and the large job, rows of a batch.
NETWORKS = {
    "squeezenet": (MODELS / "ncnn" / "squeezenet_v1.1.param", (3, 227, 227), 64, 960, 32),
    "digits": (MODELS / "onnx" / "mnist_cntk.onnx", (1, 28, 28), 2000, 12000, 1000),
}
#: Share of a bare loop's rows a second that jobs are to reach.
GOALS = {"squeezenet": 0.9, "digits": 0.6}
#: Seconds of a batch, and batches of a worker at the end, where some workers have none.
_SLEEP, _LAST = 0.05, 40
#: Batches of a worker; of many workers the first ones compute while the last ones begin.
_FEW_BATCHES, _MANY_BATCHES, _MANY = 400, 800, 8


def main() -> int:
    args = _arguments()
    parts: dict[str, Callable[[argparse.Namespace], Any]] = {
        "local": lambda a: _rates("local", a), "ray": lambda a: _rates("ray", a),
        "stream": _streams, "first": _first_answers, "scheduling": _scheduling, "memory": _memory,
        "drill": _drill,
    }  # fmt: skip
    for part in args.only:
        name, threads = part, args.device_threads
        if threads:
            os.environ["LP_NUM_THREADS"], name = str(threads), f"{part}, device threads: {threads}"
        print(f"{name}:", flush=True)
        result = parts[part](args)
        if args.add:
            result = _joined(_document().get(name, {}).get("result", {}), result)
        print(json.dumps(result, indent=2), flush=True)
        if args.save:
            _keep(name, result)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = ["local", "ray", "stream", "first", "scheduling", "memory", "drill"]
    add = parser.add_argument
    add("--only", nargs="+", choices=names, default=names[:-2], metavar="PART")
    add("--rounds", type=int, default=3, help="rounds of each pair of jobs (3)")
    add("--rows", type=int, default=20_000, help="rows of the memory part (20000)")
    add("--drill-rows", type=int, default=2_000, help="rows of the fault drill (2000)")
    add("--networks", nargs="+", choices=list(NETWORKS), default=list(NETWORKS), metavar="NAME")
    add("--workers", nargs="+", type=int, default=[1, 2, 4, 8, 16], help="of scheduling")
    add(
        "--device-threads", type=int, metavar="N", help="processors that llvmpipe computes on (all)"
    )
    add("--add", action="store_true", help="join it with what is kept: rounds, numbers of workers")
    add("--save", action="store_true", help="keep it under benchmarks/results/<device>/")
    return parser.parse_args()


def _keep(name: str, result: Any) -> None:
    """Writing of a part's result beside those of the others."""
    path, kept = _kept(), _document()
    kept[name] = {"date": datetime.date.today().isoformat(), "result": result}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(kept, indent=2) + "\n")
    print(f"written: {path}", flush=True)


def _document() -> dict[str, Any]:
    """All that is kept."""
    path = _kept()
    return dict(json.loads(path.read_text())) if path.exists() else {}


def _joined(kept: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """A part's result with what is kept: rounds behind those before them."""
    for name, found in result.items():
        if isinstance(found, dict) and "rounds" in found:
            before = kept.get(name, {}).get("rounds", {})
            rounds = {way: [*before.get(way, ()), *more] for way, more in found["rounds"].items()}
            result[name] = _summary(name, rounds)
    return {**kept, **result}


def _kept() -> Path:
    with vknn.open_device() as device:
        name = device.name
    return RESULTS / re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") / "scale.json"


def _rates(engine: str, args: argparse.Namespace) -> dict[str, Any]:
    """Rows a second of jobs and of bare loops, by turns."""
    found = {}
    for name in args.networks:
        model, shape, small, large, batch = NETWORKS[name]
        with tempfile.TemporaryDirectory() as folder, vknn.Session(model) as session:
            rows = np.random.default_rng(0).random((large, *shape), np.float32)
            for count in (small, large):
                np.save(Path(folder) / f"{count}.npy", rows[:count])
            rates: dict[str, list[float]] = {"job": [], "bare": []}
            _loop(session, rows[:8])
            for number in range(args.rounds):
                times = [
                    _job(Path(folder), model, count, batch, engine, number)
                    for count in (small, large)
                ]
                rates["job"].append((large - small) / (times[1] - times[0]))
                begin = time.perf_counter()
                _loop(session, rows[: large - small])
                rates["bare"].append((large - small) / (time.perf_counter() - begin))
                if engine == "ray":
                    rate = plain.loop_rate(model, shape, large - small, batch)
                    rates.setdefault("ray alone", []).append(rate)
        found[name] = _summary(name, rates)
    return found


def _summary(name: str, rates: dict[str, list[float]]) -> dict[str, Any]:
    """What a network's rates say, in rows a second."""
    best, median = max(rates["job"]), statistics.median(rates["job"])
    bare, middle = max(rates["bare"]), statistics.median(rates["bare"])
    found = {
        "rows_per_second": best, "median": median, "bare": bare, "bare_median": middle,
        "share": best / bare, "median_share": median / middle, "goal": GOALS[name],
    }  # fmt: skip
    if alone := rates.get("ray alone"):
        found |= {"ray_alone": max(alone), "ray_alone_median": statistics.median(alone)}
    return {**found, "rounds": rates}


def _loop(session: vknn.Session, rows: np.ndarray) -> None:
    (spec,) = session.inputs
    batched = spec.sizes is not None and len(spec.sizes) == rows.ndim
    for row in rows:
        session.run({spec.name: row[None] if batched else row})


def _job(folder: Path, model: Path, count: int, batch: int, engine: str, number: int) -> float:
    begin = time.perf_counter()
    output = folder / f"{engine}-{count}-{number}"
    scale.run(folder / f"{count}.npy", model, output, engine=engine, batch_size=batch, workers=1)
    return time.perf_counter() - begin


def _streams(args: argparse.Namespace) -> dict[str, Any]:
    """Times of ``Session.stream`` by those of ``Session.run`` in a loop."""
    found = {}
    for name, (model, shape, small, _, _) in NETWORKS.items():
        rows = np.random.default_rng(0).random((small, *shape), np.float32)
        with vknn.Session(model) as session:
            _loop(session, rows[:8])
            (spec,) = session.inputs
            batched = spec.sizes is not None and len(spec.sizes) == rows.ndim
            feeds = [{spec.name: row[None] if batched else row} for row in rows]
            times: dict[str, list[float]] = {"run": [], "stream": []}
            for _ in range(2 * args.rounds):
                begin = time.perf_counter()
                _loop(session, rows)
                middle = time.perf_counter()
                for _ in session.stream(feeds):
                    pass
                times["run"].append(middle - begin)
                times["stream"].append(time.perf_counter() - middle)
        found[name] = {
            "min": min(times["stream"]) / min(times["run"]),
            "median": statistics.median(times["stream"]) / statistics.median(times["run"]),
        }
    return found


def _first_answers(args: argparse.Namespace) -> dict[str, Any]:
    """Seconds from the command to its end, for one picture, and where they go."""
    from PIL import Image

    found: dict[str, Any] = {}
    for engine, goal in (("local", 2.0), ("ray", 20.0)):
        times = []
        for _ in range(args.rounds):
            with tempfile.TemporaryDirectory() as folder:
                Image.new("RGB", (300, 200), "teal").save(Path(folder) / "one.png")
                command = [
                    sys.executable, "-m", "vknn", "batch", str(NETWORKS["squeezenet"][0]),
                    str(Path(folder) / "one.png"), "--output", str(Path(folder) / "answers"),
                    "--engine", engine, "--json",
                ]  # fmt: skip
                begin = time.perf_counter()
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                times.append(time.perf_counter() - begin)
                report = json.loads(done.stdout.splitlines()[-1])
        (device,) = report["devices"].values()
        found[engine] = {
            "seconds": min(times), "median": statistics.median(times), "goal": goal,
            "of these in the job": report["seconds"], "to its first answer": device["cold_seconds"],
        }  # fmt: skip
    return found


#: A layer that sleeps in place of computing.
_SLEEPER = """
import time
import vknn

def compute(arrays, weights, options):
    time.sleep({sleep})
    return arrays[0]

vknn.register_layer("ncnn", "Sleeper", shape=lambda shapes, options: shapes[0], compute=compute)
"""


def _scheduling(args: argparse.Namespace) -> dict[str, Any]:
    """Batches a second of 1 to 16 sleeping workers, as a share of what as many would reach.

    They have no device: sixteen of llvmpipe would wait for each other's threads.
    """
    found = {}
    processors = 4 + max(args.workers)
    with plain.cluster(processors) as ray, tempfile.TemporaryDirectory() as folder:
        model = _written(Path(folder), "Input in 0 1 data 0=8\nSleeper sleep 1 1 data out\n")
        layers = Path(folder) / "layers.py"
        layers.write_text(_SLEEPER.format(sleep=_SLEEP))
        for workers in args.workers:
            config = scale.Predictor(
                model, columns={"data": "data"}, layers=[layers], device="numpy",
                workers=workers, batch_size=1,
            )  # fmt: skip
            ways: dict[str, Callable[[Any], Any]] = {
                "share": partial(scale.predict, model=config),
                "ray_alone": partial(plain.sleeping, ray, workers=workers, seconds=_SLEEP, calls=1),
                "ray_alone_two_calls": partial(
                    plain.sleeping, ray, workers=workers, seconds=_SLEEP, calls=2
                ),
            }
            rates = {name: _batches_per_second(ray, way, workers) for name, way in ways.items()}
            shares = {name: rate * _SLEEP / workers for name, rate in rates.items()}
            found[str(workers)] = {**shares, "goal": 0.9}
    return found


def _batches_per_second(ray: Any, way: Callable[[Any], Any], workers: int) -> float:
    """Batches of one row a second, from where all workers work to where some have nothing left."""
    count = (_MANY_BATCHES if workers >= _MANY else _FEW_BATCHES) * workers
    dataset = ray.data.range(count, override_num_blocks=count // 10).map_batches(_numbers)
    seen: set[str] = set()
    rows, begin = 0, (0.0, 0)
    for block in way(dataset).iter_batches(batch_size=None, prefetch_batches=0):
        rows += len(block["batch"])
        found = {name.split("-")[0] for name in block["batch"]}
        if found - seen:
            seen |= found
            begin = (time.perf_counter(), rows)
        if rows >= count - _LAST * workers:
            break
    if len(seen) < workers:
        raise RuntimeError(f"{len(seen)} of {workers} workers got batches")
    return (rows - begin[1]) / (time.perf_counter() - begin[0])


def _numbers(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"id": batch["id"], "data": np.repeat(batch["id"].astype(np.float32)[:, None], 8, 1)}


def _written(folder: Path, layers: str) -> Path:
    """A file of a small ncnn model without weights: its layers' lines."""
    lines = layers.splitlines()
    path = folder / "model.param"
    path.write_text(f"7767517\n{len(lines)} {len(lines)}\n{layers}")
    path.with_suffix(".bin").write_bytes(b"")
    return path


def _memory(args: argparse.Namespace) -> dict[str, Any]:
    """Peak memory of all processes, minute by minute, of a job over rows made on the fly.

    The network is a mean over each channel: what rows cost is what is measured.
    """
    import ray

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(
        address="local", num_cpus=4, include_dashboard=False, logging_level="error",
        log_to_driver=False, object_store_memory=400 << 20, resources={"vulkan": 1.0},
    )  # fmt: skip
    shape = NETWORKS["squeezenet"][1]
    samples: list[tuple[float, int]] = []
    stop = threading.Event()
    begin = time.monotonic()

    def watch() -> None:
        while not stop.wait(1.0):
            samples.append((time.monotonic() - begin, _tree_memory(os.getpid())))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            c, h, w = shape
            model = _written(
                Path(folder),
                f"Input in 0 1 data 0={w} 1={h} 2={c}\nPooling mean 1 1 data out 0=1 4=1\n",
            )
            dataset = ray.data.range(args.rows, override_num_blocks=max(1, args.rows // 32))
            dataset = dataset.map_batches(_made, batch_size=32, fn_kwargs={"shape": shape})
            dataset = scale.predict(dataset, model, columns={"data": "image"}, id="id")
            dataset.write_parquet(str(Path(folder) / "answers"))
    finally:
        stop.set()
        thread.join()
        ray.shutdown()
    minutes = [
        max((used for at, used in samples if 60 * m <= at < 60 * (m + 1)), default=0)
        for m in range(int(samples[-1][0] // 60) + 1)
    ]
    return {"rows": args.rows, "seconds": samples[-1][0], "peak_by_minute": minutes}


def _drill(args: argparse.Namespace) -> dict[str, Any]:
    """A job beside one that is killed in parts and as a whole."""
    from scale_drill import drill

    model, shape, *_ = NETWORKS["squeezenet"]
    with tempfile.TemporaryDirectory() as folder:
        return drill(model, shape, args.drill_rows, Path(folder)) | {"goal": 1.5}


def _made(batch: dict[str, np.ndarray], shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Rows of 600 KB."""
    rows = [np.random.default_rng(int(i)).random(shape, np.float32) for i in batch["id"]]
    return {"id": batch["id"], "image": np.stack(rows)}


def _tree_memory(root: int) -> int:
    """Bytes that a process and all below it hold for themselves."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    total, waiting = 0, [root]
    while waiting:
        process = waiting.pop()
        waiting += children.get(process, [])
        try:
            text = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="utf-8")
        except OSError:
            continue
        held = re.findall(r"^(?:Private_Clean|Private_Dirty):\s+(\d+)", text, re.MULTILINE)
        total += 1024 * sum(map(int, held))
    return total


if __name__ == "__main__":
    sys.exit(main())
