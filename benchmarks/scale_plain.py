"""Ray Data alone, beside batch jobs: what a class of a few lines reaches on the same machine.

What vknn's workers add to Ray (accounts of records that end processes, checks, devices that are
leased) is the difference; what is missing here as well is Ray's own, or the machine's.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import vknn

#: Batches at the beginning that are not counted: the session is opened and warm behind them.
_FIRST = 3


class Loop:
    """A loop over ``Session.run``, as a user would write it."""

    def __init__(self, model: Path) -> None:
        self.session = vknn.Session(model)
        (self.spec,) = self.session.inputs

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        rows = batch["data"]
        batched = self.spec.sizes is not None and len(self.spec.sizes) == rows.ndim
        for row in rows:
            self.session.run({self.spec.name: row[None] if batched else row})
        return {"id": batch["id"], "end": np.full(len(rows), time.time())}


class Sleep:
    """A batch of 50 ms that costs nothing."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.name = seconds, str(os.getpid())

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        time.sleep(self.seconds)
        return {"batch": np.array([self.name + "-"] * len(batch["id"]))}


@contextlib.contextmanager
def cluster(processors: int = 4) -> Iterator[Any]:
    """Ray on this machine, as a small local start has it, offering so many processors."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    ray.init(
        address="local", num_cpus=processors, include_dashboard=False, logging_level="error",
        log_to_driver=False,
    )  # fmt: skip
    try:
        yield ray
    finally:
        ray.shutdown()


def loop_rate(model: Path, shape: tuple[int, ...], rows: int, batch: int) -> float:
    """Rows a second of one actor that runs a loop over a model."""
    row = np.random.default_rng(0).random(shape, np.float32)

    def made(block: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"id": block["id"], "data": np.stack([row] * len(block["id"]))}

    with cluster() as ray:
        dataset = ray.data.range(rows, override_num_blocks=max(1, rows // batch))
        dataset = dataset.map_batches(made, batch_size=batch).map_batches(
            Loop, fn_constructor_args=(model,), batch_size=batch, num_cpus=0.01,
            compute=ray.data.ActorPoolStrategy(size=1),
        )  # fmt: skip
        ends: dict[float, int] = {}
        for block in dataset.iter_batches(batch_size=None, prefetch_batches=0):
            for end in block["end"]:
                ends[end] = ends.get(end, 0) + 1
    times = sorted(ends)[_FIRST - 1 :]
    return sum(ends[t] for t in times[1:]) / (times[-1] - times[0])


def sleeping(ray: Any, dataset: Any, workers: int, seconds: float, calls: int) -> Any:
    """A dataset whose rows sleep, one a batch, in so many actors of a class of a few lines.

    ``calls``: tasks that an actor has under way at once; one of them sleeps. Ray's own is 1, and
    vknn.scale has 2.
    """
    return dataset.map_batches(
        Sleep, fn_constructor_args=(seconds,), batch_size=1, num_cpus=0.01,
        compute=ray.data.ActorPoolStrategy(size=workers, max_concurrent_calls_per_actor=calls),
    )  # fmt: skip
