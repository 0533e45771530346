"""Time of an export beside planning and writing the weights: a part of runner.py."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np

import vknn
from vknn import gc_pause
from vknn.bundle import TARGETS, modules
from vknn.bundle.network import Network
from vknn.bundle.segments import planned
from vknn.lowering import LoweringOptions


def export_times(
    network: Path, shapes: dict[str, tuple[int, ...]], folder: Path, target: str, rounds: int
) -> dict[str, float | None]:
    """Times of an export from a file, and of planning from it and writing the weights, in turn.

    Each is the least of all rounds. "export_ms" and "export_planning_ms" are what a user waits for,
    where kernels are compiled and swept modules of an export before lie on disk; "export_first_ms"
    is where none do. "export_cpu_ratio" compares the CPU time, of all threads, in place of the
    time. Memory holds compiled kernels, but no swept modules.
    """

    def exported() -> None:
        modules.forget()
        vknn.export(network, folder / "timed.vkb", targets=(target,), shapes=shapes, example=False)

    def exported_first() -> None:
        with (
            tempfile.TemporaryDirectory(dir=folder) as empty,
            mock.patch("vknn.runtime.spirv.modules.cache_folder", lambda: Path(empty)),
        ):
            exported()

    def planned_alone() -> None:
        with vknn.Session(network, device="cpu") as session, gc_pause.paused():
            graph = Network(session, shapes, {}, False).graph()
            _, plan = planned(graph, TARGETS[target], LoweringOptions())
            arrays = {id(array): array for array in plan.constants.values()}
            with (folder / "weights").open("wb") as file:
                for array in arrays.values():
                    file.write(np.ascontiguousarray(array).data)

    def milliseconds(work: Callable[[], None]) -> tuple[float, float]:
        begin, cpu = time.perf_counter(), time.process_time()
        work()
        return (time.perf_counter() - begin) * 1e3, (time.process_time() - cpu) * 1e3

    works = (planned_alone, exported, exported_first)
    times = np.array([[milliseconds(work) for work in works] for _ in range(rounds)]).min(axis=0)
    (alone, alone_cpu), (whole, whole_cpu), (first, _) = times.tolist()
    return {
        "export_ms": whole,
        "export_planning_ms": alone,
        "export_first_ms": first,
        "export_ratio": whole / alone,
        "export_first_ratio": first / alone,
        "export_cpu_ratio": whole_cpu / alone_cpu,
    }
