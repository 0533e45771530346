"""Compilation of pipelines on idle cores, for drivers that compile at the first dispatch.

Such a driver (Mesa's llvmpipe) compiles in its queue's one thread and keeps what it compiled in a
cache on disk. So workers open devices of their own and dispatch the pipelines of a new plan there,
without any workgroups, while the plan is made ready; the thread of the first run does the same on
the real device with what is left. What a worker compiled, the run finds in the driver's cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vknn import forks, interrupts, run_limits
from vknn.environment import Environment
from vknn.errors import DeviceLostError, VknnError
from vknn.plan import Dispatch, Plan, View
from vknn.runtime import cachefile, driver_watch, refusals
from vknn.runtime.pipelines import Pipeline, PipelineKey, Pipelines
from vknn.runtime.quirks import compiles_late
from vknn.runtime.recorder import Place, Recorder
from vknn.runtime.vulkan import commands
from vknn.runtime.vulkan.core import Core
from vknn.runtime.vulkan.memory import Allocation

#: Least number of new pipelines that is worth a worker. Most workers at a time: each takes 20 to
#: 30 MB of the process while it compiles (but no device memory to speak of).
LEAST_TASKS, MAX_WORKERS = 4, 3
#: Seconds that a driver may take for a pipeline before it is taken to hang.
COMPILE_SECONDS = 300.0
#: Seconds after which a wait for workers looks whether the run is to end.
_WAIT_SLICE = 0.05
#: Bytes of a pipeline's digest, and most digests that are kept.
_DIGEST_BYTES, _MOST_DIGESTS = 16, 1 << 12
#: Sizes of the buffers that stand in for real ones. Which sizes are powers of two goes into
#: llvmpipe's code where a shader reads texels.
_STAND_IN_BYTES = (48, 64)


@dataclass(frozen=True, eq=False)
class CompileTask:
    """A pipeline to compile, with a dispatch that needs it.

    ``powers``: for each binding, whether it reads texels of a buffer whose size is a power of 2.
    """

    dispatch: Dispatch
    key: PipelineKey
    powers: tuple[bool, ...]
    digest: bytes


@dataclass(eq=False)
class Batch:
    """New pipelines of a plan: ``tasks`` nobody has begun, ``begun`` by workers and not done."""

    tasks: deque[CompileTask]
    begun: int = 0
    digests: list[bytes] = field(default_factory=list)


class Precompiler:
    """The workers of a device, and what is known to lie in its driver's cache.

    What goes wrong in a worker is no error: the run then compiles by itself.
    """

    def __init__(self, core: Core, folder: Path | None) -> None:
        self._core = core
        wanted = compiles_late(core.snapshot) and "precompile" not in core.disabled
        self._path: Path | None = None
        if wanted and folder is not None:
            self._path = cachefile.cache_file(folder, core.snapshot).with_suffix(".compiled")
        self._changed = threading.Condition()
        self._batches: deque[Batch] = deque()
        self._workers: list[threading.Thread] = []
        self._closed = False

    def begin(
        self,
        dispatches: Sequence[Dispatch],
        keys: Sequence[PipelineKey],
        places: Sequence[Place],
    ) -> Batch | None:
        """Start of workers on what the driver has never seen; None where that is too little."""
        if self._path is None or len(keys) < LEAST_TASKS or _cores() < 2:
            return None
        if refusals.refused or refusals.one_at_a_time:
            return None
        known = _digests(cachefile.read(self._path))
        tasks = [t for t in _tasks(dispatches, keys, places) if t.digest not in known]
        if len(tasks) < LEAST_TASKS:
            return None
        # The largest first: then all cores are done at about the same time.
        tasks.sort(key=lambda task: -len(task.key.spirv))
        batch = Batch(deque(tasks), digests=[task.digest for task in tasks])
        with self._changed:
            self._batches.append(batch)
            self._workers = [thread for thread in self._workers if thread.is_alive()]
            wanted = min(_cores() - 1, MAX_WORKERS, len(tasks) - 1) - len(self._workers)
            with contextlib.suppress(RuntimeError):  # no further thread can be started
                for _ in range(wanted):
                    thread = threading.Thread(
                        target=self._work, name="vknn precompile", daemon=True
                    )
                    thread.start()
                    self._workers.append(thread)
        return batch

    def finish(self, batch: Batch, pipelines: Pipelines, places: Sequence[Place]) -> None:
        """Compilation of what is left of a batch; waits for what workers have begun."""
        try:
            with contextlib.suppress(VknnError), _DryDispatcher(self._core) as dispatcher:
                while (task := self._take(batch)) is not None:
                    with pipelines.lent(task.key, task.dispatch) as pipeline:
                        dispatcher.dispatch(task.dispatch, pipeline, places)
            with self._changed:
                while not self._changed.wait_for(lambda: not batch.begun, _WAIT_SLICE):
                    interrupts.point()
                    run_limits.check()
        finally:
            self.drop(batch)
        if self._path is not None:
            known = _digests(cachefile.read(self._path)) | dict.fromkeys(batch.digests)
            cachefile.write(self._path, b"".join([*known][-_MOST_DIGESTS:]))

    def drop(self, batch: Batch) -> None:
        """Withdrawal of the batch from the workers: none begins another task of it."""
        with self._changed:
            batch.tasks.clear()
            with contextlib.suppress(ValueError):
                self._batches.remove(batch)

    def destroy(self) -> None:
        """Wait for the workers, which end after what they have begun."""
        with self._changed:
            self._closed = True
            self._batches.clear()
        for thread in self._workers:
            thread.join()

    def abandon(self) -> None:
        """Loss of the workers, which a forked child does not have."""
        self._changed = threading.Condition()
        self._batches.clear()
        self._workers.clear()

    def _take(self, batch: Batch) -> CompileTask | None:
        with self._changed:
            return batch.tasks.popleft() if batch.tasks else None

    def _next(self) -> tuple[Batch, CompileTask] | None:
        """A task for a worker, which is to call :meth:`_through` when it is done."""
        with self._changed:
            for batch in self._batches:
                if batch.tasks and not self._closed:
                    batch.begun += 1
                    return batch, batch.tasks.popleft()
        return None

    def _through(self, batch: Batch) -> None:
        with self._changed:
            batch.begun -= 1
            self._changed.notify_all()

    def _work(self) -> None:
        with contextlib.suppress(Exception), _CompileWorker(self._core) as worker:
            while (found := self._next()) is not None:
                batch, task = found
                try:
                    with forks.busy():
                        goes_on = worker.compile(task)
                finally:
                    self._through(batch)
                if not goes_on:
                    break


class _DryDispatcher:
    """Dispatches without workgroups, one at a time: the driver compiles and does nothing else."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._undo = ExitStack()

    def __enter__(self) -> _DryDispatcher:
        with ExitStack() as undo:
            pool = commands.CommandPool(self._core)
            undo.callback(pool.destroy)
            self._fence = commands.Fence(self._core)
            undo.callback(self._fence.destroy)
            self._target = pool.allocate()
            self._info = commands.submit_info(self._target)
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._undo.close()

    def dispatch(self, step: Dispatch, pipeline: Pipeline, places: Sequence[Place]) -> None:
        """Has the driver compile ``pipeline`` for buffers that lie in ``places``."""
        empty = replace(step, groups=(0, 0, 0))
        plan = Plan("precompile", (), {}, (empty,), (1,), {}, {})
        recorder = Recorder(self._core, plan, places, [pipeline])
        try:
            recorder.record(self._target, (0, 1))
            self._fence.reset()
            self._submit()
        finally:
            recorder.destroy()

    def _submit(self) -> None:
        core = self._core
        try:
            with driver_watch.at(core.snapshot.name, "running a pipeline for the first time"):
                core.submit(self._info.ptr, self._fence.handle)
                done = core.wait(self._fence.array, COMPILE_SECONDS)
            if not done:
                core.lost, core.abandoned = "compiling a pipeline never finished", True
                raise DeviceLostError(core.lost)
        except BaseException:
            core.idle()  # what was recorded may still be in use
            raise


class _CompileWorker:
    """A device of its own, with buffers that stand in for the real ones."""

    def __init__(self, like: Core) -> None:
        self._like = like
        self._undo = ExitStack()
        self._timed: list[tuple[CompileTask, float]] = []

    def __enter__(self) -> _CompileWorker:
        with forks.busy(), ExitStack() as undo:
            core = Core(self._like.snapshot, Environment(disabled=self._like.disabled))
            undo.callback(core.destroy)
            self._core = core
            self._pipelines = Pipelines(core, None)
            undo.callback(self._pipelines.destroy)
            self._places = []
            for size in _STAND_IN_BYTES:
                memory = Allocation(core, size, "device")
                undo.callback(memory.destroy)
                self._places.append(Place(memory, 0, size))
            self._dispatcher = undo.enter_context(_DryDispatcher(core))
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        with forks.busy():
            self._undo.close()

    def compile(self, task: CompileTask) -> bool:
        """Compiles; False where that is useless: the driver finds nothing of what it compiled."""
        self._timed.append((task, self._seconds(task, self._pipelines)))
        if len(self._timed) != 2:  # the first has had time to reach the disk
            return True
        (first, seconds), _ = self._timed
        again = Pipelines(self._core, None)
        try:
            return self._seconds(first, again) < seconds / 2
        finally:
            again.destroy()

    def _seconds(self, task: CompileTask, pipelines: Pipelines) -> float:
        """How long the task's first dispatch takes."""
        bindings = tuple(
            replace(binding, buffer=int(power))
            for binding, power in zip(task.dispatch.bindings, task.powers, strict=True)
        )
        dispatch = replace(task.dispatch, bindings=bindings)
        with pipelines.lent(task.key, task.dispatch) as pipeline:
            start = time.perf_counter()
            self._dispatcher.dispatch(dispatch, pipeline, self._places)
            return time.perf_counter() - start


def _tasks(
    dispatches: Sequence[Dispatch], keys: Sequence[PipelineKey], places: Sequence[Place]
) -> list[CompileTask]:
    """A task for each pipeline and each kind of buffers that it is used with."""
    tasks = {}
    for dispatch, key in zip(dispatches, keys, strict=True):
        powers = tuple(
            b.view is not View.STORAGE and places[b.buffer].memory.nbytes.bit_count() == 1
            for b in dispatch.bindings
        )
        formats = tuple(b.format.value for b in dispatch.bindings)
        if (key, powers, formats) not in tasks:
            digest = _digest(dispatch, key, powers, formats)
            tasks[key, powers, formats] = CompileTask(dispatch, key, powers, digest)
    return list(tasks.values())


def _digest(dispatch: Dispatch, key: PipelineKey, *kind: object) -> bytes:
    """The digest of a pipeline. A module's size stands for its words, which are too many to hash.

    Where two pipelines have the same digest, one is compiled later than it could be.
    """
    views = tuple(view.value for view in key.views)
    what = dispatch.kernel, dispatch.variant, len(key.spirv), key.constants, views, key.push, kind
    return hashlib.sha256(repr(what).encode()).digest()[:_DIGEST_BYTES]


def _digests(data: bytes) -> dict[bytes, Any]:
    """The digests in a file's data, as the keys of a dict, which keeps their order."""
    starts = range(0, len(data) - _DIGEST_BYTES + 1, _DIGEST_BYTES)
    return dict.fromkeys(data[start : start + _DIGEST_BYTES] for start in starts)


def _cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
