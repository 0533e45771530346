"""Overhead of the host in a run: a chain of small convolutions, a dispatch each."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

from vknn.formats.ncnn.random_weights import write_random_weights
from vknn.session import Session

DISPATCHES = 100
ROUNDS = 8
WIDTH, CHANNELS = 8, 4


def chain(length: int) -> str:
    """An ncnn network of ``length`` pointwise convolutions."""
    weights = CHANNELS * CHANNELS
    layers = [f"Input data 0 1 b0 0={WIDTH} 1={WIDTH} 2={CHANNELS}"]
    layers += [
        f"Convolution c{i} 1 1 b{i} b{i + 1} 0={CHANNELS} 1=1 5=1 6={weights} 9=1"
        for i in range(length)
    ]
    return "\n".join(["7767517", f"{len(layers)} {length + 1}", *layers]) + "\n"


def measure_overhead(device: str, folder: Path, runs: int) -> dict[str, Any]:
    """Medians, in seconds: "run" (Session.run), "waited" (submit to fence), "host" (the rest).

    Of the quietest of several rounds of ``runs``: what else the machine does is not the host's.
    """
    length = DISPATCHES
    while True:
        param = folder / f"chain{length}.param"
        param.write_text(chain(length))
        write_random_weights(param, param.with_suffix(".bin"))
        with Session(param, device=device) as session:
            feeds = {session.inputs[0].name: np.ones((CHANNELS, WIDTH, WIDTH), np.float32)}
            (executable,) = session._engine.program(feeds).executables
            extra = len(executable.plan.dispatches) - DISPATCHES
            if extra == 0 or length != DISPATCHES:
                rounds = [_measure(session, feeds, executable, runs) for _ in range(ROUNDS)]
                return min(rounds, key=lambda found: found["host"])
        length -= extra


def _measure(
    session: Session, feeds: dict[str, np.ndarray], executable: Any, runs: int
) -> dict[str, Any]:
    begun, waited = [0.0], []
    run = executable._run
    submit, wait = run.submit, run.wait

    def submitted() -> None:
        begun[0] = time.perf_counter()
        submit()

    def done(timeout: float) -> None:
        wait(timeout)
        waited.append(time.perf_counter() - begun[0])

    # The one way to tell the wait from the rest without timestamps, which cost time themselves.
    run.submit, run.wait = submitted, done
    walls = []
    for _ in range(3 + runs):
        begin = time.perf_counter()
        session.run(feeds)
        walls.append(time.perf_counter() - begin)
    run.submit, run.wait = submit, wait
    host = [wall - wait for wall, wait in zip(walls[3:], waited[3:], strict=True)]
    return {
        "dispatches": len(executable.plan.dispatches),
        "run": statistics.median(walls[3:]),
        "waited": statistics.median(waited[3:]),
        "host": statistics.median(host),
    }
