"""Hold on the workers of a job: Ray ends them some seconds after its pool lets go of them."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Mapping
from typing import Any

from vknn.scale.optional import ray_module
from vknn.scale.ray_worker import finish_checks

#: Seconds between looks at who began: a worker opens its model before it computes.
_LOOK_SECONDS = 0.5
#: Seconds in which the keeper answers.
_ANSWER_SECONDS = 5.0
#: Seconds that NumPy may take for the last checks.
_FINISH_SECONDS = 120.0
#: Seconds in which nothing happens until a worker that finds no place gets another's, and until a
#: job ends for which there is none: clusters may grow.
_PLACE_SECONDS, _NONE_SECONDS = 30.0, 600.0
#: Looks between two looks at where workers are.
_SELDOM = 8
_ALIVE, _DEAD = "ALIVE", "DEAD"
_NO_PLACE = (
    "the machines of the workers went away, and for {:.0f} s no other one offered what they hold: "
    "run it again where there is one, which takes the job up where it was"
)
#: Rounds of last checks: what one worker finds wrong, others that share its device doubt, too.
_ROUNDS = 2


class HeldWorkers:
    """Hold on the workers of a job from their beginning on, by handles of this process.

    It owns them, as its Ray Data made them: others' handles keep no actor alive. A context manager
    that lets go of them at its end.

    Args:
        ray: Ray.
        keeper: The keeper, which knows who began.
    """

    def __init__(self, ray: Any, keeper: Any) -> None:
        self._ray, self._keeper = ray, keeper
        self._handles: dict[str, Any] = {}
        #: What the keeper knew when something happened last, when that was, and places given since.
        self._seen: Any = None
        self._since, self._given = time.perf_counter(), 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._live, name="vknn-hold", daemon=True)

    def __enter__(self) -> HeldWorkers:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        self._handles.clear()

    def finish(self) -> None:
        """Wait for the last checks of the workers."""
        self._end.set()
        self._thread.join()
        self._look()
        with contextlib.suppress(Exception):  # answers are written: the report tells of lost checks
            for _ in range(_ROUNDS):
                alive = [self._handles[n] for n, state in self._states().items() if state == _ALIVE]
                called = [one.__ray_call__.remote(finish_checks) for one in alive]
                self._ray.wait(called, num_returns=len(called), timeout=_FINISH_SECONDS)

    def _live(self) -> None:
        looks = itertools.count(1)
        while not self._end.wait(_LOOK_SECONDS):
            self._look()
            if next(looks) % _SELDOM == 0:
                with contextlib.suppress(Exception):  # as in _look
                    self._look_after(self._states())

    def _states(self) -> dict[str, str]:
        """The workers that are not gone for good, by name: "ALIVE", or what they wait for."""
        actors = ray_module("ray._private.state").actors
        found = {name: str(actors(name).get("State", _DEAD)) for name in self._handles}
        return {name: state for name, state in found.items() if state != _DEAD}

    def _look_after(self, states: Mapping[str, str]) -> None:
        """A place for a worker whose machine went away: that of one that has nothing to do.

        Ray begins it anew with the batches that it had, and with these alone the job would wait for
        ever where others hold all that there is.
        """
        alive = [name for name, state in states.items() if state == _ALIVE]
        now = self._ray.get(self._keeper.under_way.remote(alive), timeout=_ANSWER_SECONDS)
        if len(alive) == len(states) or now != self._seen or now[1]:
            self._seen, self._since = now, time.perf_counter()
            return
        past = time.perf_counter() - self._since
        if alive and past > _PLACE_SECONDS * (1 + self._given):
            self._given += 1
            self._since = time.perf_counter()
            idle = alive[self._given % len(alive)]
            self._ray.kill(self._handles[idle], no_restart=False)
        elif not alive and past > _NONE_SECONDS:
            self._ray.get(self._keeper.fail.remote(_NO_PLACE.format(past)))
            for name in states:
                self._ray.kill(self._handles[name])

    def _look(self) -> None:
        """Handles of the workers that began meanwhile."""
        with contextlib.suppress(Exception):  # the cluster goes, or has ended the actor
            for name in self._ray.get(self._keeper.workers.remote(), timeout=_ANSWER_SECONDS):
                if name not in self._handles:
                    self._handles[name] = _handle(self._ray, name)


def _handle(ray: Any, name: str) -> Any:
    """A handle that counts, of an actor of this process by its id.

    Ray gives weak ones only, which do not. A copy of one can be strong.
    """
    worker = ray_module("ray._private.worker").global_worker
    weak = worker.core_worker.get_actor_handle(ray.ActorID(bytes.fromhex(name)))
    copied, (state, _, outer) = weak.__reduce__()
    return copied(state, False, outer)
