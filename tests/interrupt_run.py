"""Child process of test_interrupts.py: work that gets SIGINT at random moments, again and again.

Arguments: a model, the device, a seed, how often at most, and for how many seconds. After each
interrupt a session is opened and run, and native objects are counted. Prints a line of JSON: how
many interrupts came in time, by the kind of work, and what was wrong.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tests.small_model import SHAPE
from tests.training import models
from tests.training.examples import points

import vknn
from vknn.runtime import live_objects

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it

X = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
FEEDS = {"data": X}
KINDS = (
    "opening", "running", "planning", "streaming", "verifying", "profiling", "keeping", "training",
)  # fmt: skip
EXAMPLES = points(8)
MOST_WRONG = 5


class Work:
    """Kinds of work with a model; each leaves nothing open."""

    def __init__(self, model: str, device: str) -> None:
        self._model, self._device = model, device
        self._updatable = models.written(models.regressor(), Path(model).parent, "updatable")
        self._size = 0

    def session(self) -> vknn.Session:
        return vknn.Session(self._model, device=self._device)

    def right(self) -> np.ndarray:
        """The results of a new session."""
        with self.session() as session:
            return np.asarray(session.run(FEEDS)["out"])

    def opening(self) -> None:
        self.session().close()

    def running(self) -> None:
        with self.session() as session:
            for _ in range(20):
                session.run(FEEDS, timeout=60)

    def planning(self) -> None:
        """Shapes that were not there before: plans and pipelines are made."""
        with self.session() as session:
            for _ in range(3):
                self._size += 1
                session.run({"data": np.resize(X, (SHAPE[0], 8 + self._size % 97, 8))})

    def streaming(self) -> None:
        with self.session() as session:
            for _ in range(5):
                list(session.stream([FEEDS] * 7, errors="raise"))

    def verifying(self) -> None:
        vknn.verify(self._model, FEEDS)

    def keeping(self) -> None:
        """Device tensors, which outlive their session."""
        with self.session() as session:
            kept = [session.run(FEEDS, on_device=True)["out"] for _ in range(5)]
        for tensor in kept:
            with tensor:
                np.from_dlpack(tensor)

    def training(self) -> None:
        with vknn.Session(self._updatable, device=self._device) as session:
            session.update(EXAMPLES, epochs=2)
            session.run({"x": EXAMPLES["x"][0]})

    def profiling(self) -> None:
        vknn.profile(self._model, FEEDS)


def interrupted(work: Callable[[], None], seconds: float) -> bool:
    """Whether work was interrupted by a SIGINT that comes after so many seconds."""

    def send() -> None:
        time.sleep(seconds)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    in_time = True
    try:
        thread.start()
        work()
        in_time = False
        thread.join()
        time.sleep(
            0.01
        )  # it comes now, unless Python had it ignored, in a weak reference's callback
    except KeyboardInterrupt:
        thread.join()
        return in_time
    return False


def state_of(work: Work, expected: np.ndarray) -> list[str]:
    """What is wrong after an interrupt."""
    wrong = []
    try:
        if not np.array_equal(work.right(), expected):
            wrong.append("the next session's results differ")
    except Exception as error:
        wrong.append(f"the next session: {error!r}")
    if live_objects():
        gc.collect()  # a session in the interrupt's traceback
        work.right()
    if left := live_objects():
        wrong.append(f"left: {left}")
    return wrong


def main(model: str, device: str, seed: str, count: str, seconds: str) -> None:
    random_ = random.Random(int(seed))
    work = Work(model, device)
    expected, spans = work.right(), {}
    end = time.monotonic() + float(seconds)
    for kind in KINDS:
        for _ in range(2):  # the first compiles
            start = time.monotonic()
            getattr(work, kind)()
            spans[kind] = time.monotonic() - start
    tried, in_time, wrong = 0, Counter[str](), list[str]()
    while tried < int(count) and time.monotonic() < end and len(wrong) < MOST_WRONG:
        faulthandler.dump_traceback_later(200, exit=True)  # a hang is told with its place
        tried += 1
        kind = random_.choice(KINDS)
        try:
            in_time[kind] += interrupted(getattr(work, kind), random_.uniform(0, spans[kind]))
        except Exception as error:
            wrong.append(f"{kind}: {error!r}")
        wrong += [f"{kind}: {text}" for text in state_of(work, expected)]
    faulthandler.cancel_dump_traceback_later()
    print(json.dumps({"tried": tried, "in time": in_time, "wrong": wrong}), flush=True)


if __name__ == "__main__":
    faulthandler.enable()
    main(*sys.argv[1:])
