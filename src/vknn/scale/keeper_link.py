"""Link of a worker to the keeper of its job: what it sends there, and answers."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from vknn.scale.keeper import BatchProgress
from vknn.scale.optional import ray_module
from vknn.scale.outcome import JobError

#: Seconds between two messages about batches: one costs as much as a small batch does.
TELL_SECONDS = 0.25


class KeeperLink:
    """Link to a keeper's actor, which learns of what is sent in the order in which it is.

    What ended is told together with what begins; where nothing does, a moment later.

    Args:
        keeper: Handle of the actor.
    """

    def __init__(self, keeper: Any) -> None:
        self._keeper, self._ray = keeper, ray_module()
        self._lock = threading.Lock()
        self._ended: list[tuple[str, BatchProgress]] = []
        self._told = 0.0
        self._something, self._closed = threading.Event(), threading.Event()
        threading.Thread(target=self._tell_late, name="vknn-account", daemon=True).start()

    def begin(self, device: str, name: str, key: str, at_once: bool) -> Any:
        """Message that a batch is begun; the arguments are those of :meth:`Keeper.begin`.

        Returns:
            A reference of the answer; None where the keeper learns later that it was, or never.
            ``at_once``: it is to learn it now.
        """
        with self._lock:
            if at_once or time.perf_counter() > self._told + TELL_SECONDS:
                return self._tell((device, name, key))
        return None

    def end(self, key: str, progress: BatchProgress) -> None:
        """Message that a batch is done, to be sent soon."""
        with self._lock:
            self._ended.append((key, progress))
        self._something.set()

    def flush(self) -> None:
        """Sending of what is held back."""
        with self._lock:
            if self._ended:
                self._tell(None)

    def close(self) -> None:
        """Sending of what is held back, for the last time."""
        self._closed.set()
        self._something.set()
        self.flush()

    def ask(self, method: str, *arguments: Any) -> Any:
        """Answer of the keeper to a message, as of :meth:`answer`."""
        return self.answer(self.send(method, *arguments))

    def send(self, method: str, *arguments: Any) -> Any:
        """Reference of the keeper's answer."""
        return getattr(self._keeper, method).remote(*arguments)

    def answer(self, told: Any) -> Any:
        """Answer to a message, as of :func:`answer_of`."""
        return answer_of(self._ray, told)

    def _tell(self, begun: tuple[str, str, str] | None) -> Any:
        """Reference of the answer to what ended and begins; the lock is held."""
        ended, self._ended = self._ended, []
        self._told = time.perf_counter()
        return self.send("tell", ended, begun)

    def _tell_late(self) -> None:
        """Work of a thread: what no further batch takes along is sent by itself."""
        while not self._closed.is_set():
            self._something.wait()
            self._something.clear()
            if (
                not self._closed.wait(TELL_SECONDS)
                and time.perf_counter() > self._told + TELL_SECONDS
            ):
                self.flush()


def answer_of(ray: Any, told: Any) -> Any:
    """Answer of a keeper to a message. Raises JobError where it ended: what it knew is lost.

    Where it cannot be reached this machine goes: an error would end the job, and Ray begins a
    process that ended anew, on another machine.
    """
    try:
        return ray.get(told)
    except ray.exceptions.ActorDiedError:
        raise JobError(
            "the process that keeps account of the job ended: run it again, which takes it up "
            "where it was"
        ) from None
    except ray.exceptions.RayActorError:
        os._exit(1)
