"""Hold on the workers of a job: Ray ends them some seconds after its pool lets go of them."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from vknn.scale.optional import ray_module
from vknn.scale.ray_worker import finish_checks

#: Seconds between looks at who began: a worker opens its model before it computes.
_LOOK_SECONDS = 0.5
#: Seconds in which the keeper answers.
_ANSWER_SECONDS = 5.0
#: Seconds that NumPy may take for the last checks.
_FINISH_SECONDS = 120.0
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
        for _ in range(_ROUNDS):
            called = [one.__ray_call__.remote(finish_checks) for one in self._handles.values()]
            self._ray.wait(called, num_returns=len(called), timeout=_FINISH_SECONDS)

    def _live(self) -> None:
        while not self._end.wait(_LOOK_SECONDS):
            self._look()

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
