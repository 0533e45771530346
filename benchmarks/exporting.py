"""Time of an export beside planning and writing the weights: a part of runner.py."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np

import vknn
from vknn import gc_pause
from vknn.bundle import TARGETS, modules
from vknn.bundle.network import Network
from vknn.bundle.segments import planned
from vknn.lowering import LoweringOptions
from vknn.runtime.spirv import kept_sweeps
from vknn.runtime.spirv import modules as spirv_modules

Shapes = dict[str, tuple[int, ...]]


def export_times(
    network: Path, shapes: Shapes, folder: Path, target: str, rounds: int
) -> dict[str, float | None]:
    """Times of an export from a file, and of planning from it and writing the weights, in turn.

    Each is the least of all rounds, in milliseconds; what a user waits for, but "export_cpu_ratio",
    which compares the CPU time of all threads. "export_time_ms" is where kernels are in memory and
    an export before left swept modules on disk, "export_first_ms" where none did, and
    "export_process_ms" the same with a process of its own, which also reads kernels from disk.
    """
    works = [
        lambda: plan_alone(network, shapes, folder, target),
        lambda: export(network, shapes, folder, target),
        lambda: export_first(network, shapes, folder, target),
    ]
    times = np.array([[milliseconds(work) for work in works] for _ in range(rounds)]).min(axis=0)
    (alone, alone_cpu), (whole, whole_cpu), (first, _) = times.tolist()
    given = (str(network), json.dumps(shapes), str(folder), target)

    def started(work: str) -> tuple[float, float]:
        return milliseconds(lambda: subprocess.run(
            [sys.executable, __file__, work, *given], check=True
        ))  # fmt: skip

    processes = [[started(work)[0] for work in WORKS] for _ in range(min(rounds, 5))]
    process_alone, process_whole = np.array(processes).min(axis=0).tolist()
    return {
        "export_time_ms": whole,
        "export_planning_ms": alone,
        "export_first_ms": first,
        "export_process_ms": process_whole,
        "export_process_planning_ms": process_alone,
        "export_time_ratio": whole / alone,
        "export_first_ratio": first / alone,
        "export_process_ratio": process_whole / process_alone,
        "export_cpu_ratio": whole_cpu / alone_cpu,
    }


def milliseconds(work: Callable[[], object]) -> tuple[float, float]:
    """Time that a work takes, and CPU time of this process."""
    begin, cpu = time.perf_counter(), time.process_time()
    work()
    return (time.perf_counter() - begin) * 1e3, (time.process_time() - cpu) * 1e3


def plan_alone(network: Path, shapes: Shapes, folder: Path, target: str) -> None:
    """Planning from a file and writing the weights, with which an export is compared."""
    with vknn.Session(network, device="cpu") as session, gc_pause.paused():
        graph = Network(session, shapes, {}, False).graph()
        _, plan = planned(graph, TARGETS[target], LoweringOptions())
        arrays = {id(array): array for array in plan.constants.values()}
        with (folder / "weights").open("wb") as file:
            for array in arrays.values():
                file.write(np.ascontiguousarray(array).data)


def export(network: Path, shapes: Shapes, folder: Path, target: str) -> None:
    """An export that finds no swept modules in memory."""
    modules.forget()
    vknn.export(network, folder / "timed.vkb", targets=(target,), shapes=shapes, example=False)


def export_first(network: Path, shapes: Shapes, folder: Path, target: str) -> None:
    """An export that finds none on disk, either."""
    empty = tempfile.mkdtemp(dir=folder)
    cache = SimpleNamespace(**{**vars(spirv_modules), "cache_folder": lambda: Path(empty)})
    with mock.patch.object(kept_sweeps, "modules", cache):
        export(network, shapes, folder, target)


WORKS = {"plan": plan_alone, "export": export_first}


if __name__ == "__main__":
    _work, _network, _shapes, _folder, _target = sys.argv[1:]
    _given = {name: tuple(dims) for name, dims in json.loads(_shapes).items()}
    WORKS[_work](Path(_network), _given, Path(_folder), _target)
