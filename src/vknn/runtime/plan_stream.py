"""Plan stream: runs of a plan one behind another, the host at work on one beside the device."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack

import numpy as np

from vknn import forks, interrupts
from vknn.errors import DeviceError
from vknn.plan import Plan, Role
from vknn.runtime.pipelines import Pipeline
from vknn.runtime.plan_memory import PlanMemory
from vknn.runtime.recorded_run import RecordedRun
from vknn.runtime.stream_clock import StreamClock
from vknn.runtime.vulkan import messages
from vknn.runtime.vulkan.core import Core
from vknn.runtime.vulkan.lifetime import Closing

#: Runs under way at once: while the device computes one the host empties and fills another's sets.
DEPTH = 2


class PlanStream(Closing):
    """Row of runs of a plan, up to ``depth`` at once; made by ``Executable.stream``.

    Each has inputs, outputs and staging memory of its own; they share the activations, and the
    barrier that each begins with keeps them apart. ``ready`` is entered while work is submitted:
    what submits for the plan does so one after another. Any thread may use it; a context manager.
    """

    close_order = -1  # before the executable whose activations it uses

    def __init__(
        self,
        core: Core,
        plan: Plan,
        memory: PlanMemory,
        pipelines: Sequence[Pipeline],
        ready: Callable[[], AbstractContextManager[None]],
        timeout: float,
        depth: int = DEPTH,
    ) -> None:
        self._core, self._plan, self._ready, self._timeout = core, plan, ready, timeout
        self._clock = core.stream_clock
        self._lock = threading.RLock()  # taken before that of ``ready``, never within it
        forks.renew(self)
        self._pending: deque[RecordedRun] = deque()
        self._undo = ExitStack()
        with ExitStack() as undo:
            self._runs = [_one_run(undo, core, plan, memory, pipelines) for _ in range(depth)]
            self._free = deque(self._runs)
            messages.raise_pending()
            self._undo = undo.pop_all()
        #: Whether nobody waits for its runs any more; the executable is to close it.
        self.given_up = False
        self._closed = False

    @property
    def is_open(self) -> bool:
        """Whether it was not closed yet."""
        return not self._closed

    @property
    def pending(self) -> int:
        """Number of runs whose outputs were not taken yet."""
        return len(self._pending)

    @property
    def full(self) -> bool:
        """Whether outputs must be taken before the next inputs are given."""
        return not self._free

    @interrupts.uninterrupted
    def push(self, feeds: Mapping[str, np.ndarray]) -> None:
        """Start of a run; it does not wait for it. Not while :attr:`full`.

        Raises InputError, with which the runs before this one are still good, DeviceLostError, and
        DeviceError once the stream or its executable is closed.
        """
        with self._lock:
            self._check_open()
            run = self._free[0]
            run.host_io.check(feeds)
            begin = time.perf_counter()
            run.host_io.store(feeds)
            with self._ready():
                run.submit()
            if self._clock is not None:
                self._clock.upload += time.perf_counter() - begin
            earlier = list(self._pending)
            self._pending.append(self._free.popleft())
            for other in earlier:
                other.deliver()

    @interrupts.uninterrupted
    def pop(self) -> dict[str, np.ndarray]:
        """Outputs of the oldest run, by name, as of ``Executable.run``; waits for it."""
        with self._lock:
            self._check_open()
            run = self._pending[0]
            try:
                begin = time.perf_counter()
                run.wait(self._timeout)
                done = time.perf_counter()
                outputs = run.host_io.load()
                if self._clock is not None:
                    self._note(run, self._clock, done - begin, time.perf_counter() - done)
            finally:
                if not run.in_flight:  # else it is late, and may be asked for again
                    self._free.append(self._pending.popleft())
        if messages.collected:
            messages.raise_pending()
        return outputs

    def give_up(self) -> None:
        """End without a wait for the device: the executable closes it, when it next has to wait."""
        self.given_up = True

    @interrupts.uninterrupted
    def close(self) -> None:
        """Release of everything, after work that is still going on; may be called twice."""
        with self._lock:
            if self._closed:
                return
            for run in self._runs:  # an interrupted push is in flight and not pending
                run.settle(self._timeout)
            self._closed = True  # not before: an interrupted close can be tried again
            self._undo.close()

    def _note(self, run: RecordedRun, clock: StreamClock, waited: float, download: float) -> None:
        clock.waited += waited
        clock.download += download
        clock.runs += 1
        if run.span is not None:
            run.span.add_to(clock)

    def _check_open(self) -> None:
        if self._closed or self.given_up:
            raise DeviceError(f"the stream of {self._plan.name!r} was closed")
        self._core.ensure_alive()


def set_bytes(core: Core, plan: Plan) -> int:
    """Bytes of the inputs, outputs and staging memory of one run that is under way."""
    ports = sum(plan.arenas.get(role, 0) for role in (Role.INPUT, Role.OUTPUT))
    return ports if core.limits.unified_memory else 2 * ports


def _one_run(
    undo: ExitStack,
    core: Core,
    plan: Plan,
    memory: PlanMemory,
    pipelines: Sequence[Pipeline],
) -> RecordedRun:
    timed = core.stream_clock is not None
    run = RecordedRun(core, plan, memory.ports(undo), pipelines, beside=True, timed=timed)
    undo.callback(run.destroy)
    return run
