"""Time of an export beside planning and writing the weights: a part of runner.py."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

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
    """CPU time of an export from a file, and of planning from it and writing the weights, in turn.

    Each is the least of all rounds, so that modules have been compiled and read; an export sweeps
    them anew.
    """

    def exported() -> None:
        modules.forget()
        vknn.export(network, folder / "timed.vkb", targets=(target,), shapes=shapes, example=False)

    def planned_alone() -> None:
        with vknn.Session(network, device="cpu") as session, gc_pause.paused():
            graph = Network(session, shapes, {}, False).graph()
            _, plan = planned(graph, TARGETS[target], LoweringOptions())
            arrays = {id(array): array for array in plan.constants.values()}
            with (folder / "weights").open("wb") as file:
                for array in arrays.values():
                    file.write(np.ascontiguousarray(array).data)

    def milliseconds(work: Callable[[], None]) -> float:
        begin = time.process_time()
        work()
        return (time.process_time() - begin) * 1e3

    times = [(milliseconds(exported), milliseconds(planned_alone)) for _ in range(rounds)]
    whole, alone = (min(column) for column in zip(*times, strict=True))
    return {"export_ms": whole, "export_planning_ms": alone, "export_ratio": whole / alone}
