"""Executable: a plan made ready to run; a run copies in, submits, waits, copies out."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import numpy as np

from vknn.errors import DeviceError, DeviceLostError, DeviceTimeoutError
from vknn.plan import Plan, Role
from vknn.runtime.device import Device
from vknn.runtime.host_io import HostIO
from vknn.runtime.pipeline_statistics import CompiledPipeline, compiled
from vknn.runtime.pipelines import Shaders, pipeline_keys
from vknn.runtime.plan_memory import PlanMemory
from vknn.runtime.recorder import Recorder, submit_ranges
from vknn.runtime.timing import PlanProfile, Timer
from vknn.runtime.vulkan import commands, messages
from vknn.runtime.vulkan.commands import CommandPool, Fence
from vknn.runtime.vulkan.lifetime import Closing, sweep
from vknn.runtime.vulkan.structs import Struct
from vknn.runtime.vulkan.vulkan_api import ffi
from vknn.runtime.weights import WeightPool


def _shipped(kernel: str, variant: tuple[tuple[str, str], ...]) -> bytes:
    from vknn.runtime.spirv.modules import spirv  # needed only where a plan has dispatches

    return spirv(kernel, variant)


class Executable(Closing):
    """A plan made ready on a device. Any thread may run it; a context manager.

    ``weights``: the pool that holds the plan's constants; by default one of its own.
    ``shaders``: gives the SPIR-V of a kernel's variant. ``timeout``: seconds that a run may take,
    by default VKNN_TIMEOUT.
    """

    def __init__(
        self,
        device: Device,
        plan: Plan,
        weights: WeightPool | None = None,
        *,
        shaders: Shaders = _shipped,
        timeout: float | None = None,
    ) -> None:
        shared = device.shared
        self.device, self.plan = device, plan
        self._shaders = shaders
        self.timeout = shared.timeout if timeout is None else timeout
        self._core, self._transfer = shared.core, shared.transfer
        self._lock = threading.Lock()
        self._in_flight = False
        self._timer: Timer | None = None
        self._undo = ExitStack()
        sweep()
        self._core.ensure_alive()
        keys = pipeline_keys(plan.dispatches, shaders)
        with ExitStack() as undo:
            self._memory = PlanMemory(device, plan, weights)
            undo.callback(self._memory.destroy)
            self._batch = shared.precompiler.begin(plan.dispatches, keys, self._memory.places)
            if self._batch is not None:
                undo.callback(shared.precompiler.drop, self._batch)
            pipelines = shared.pipelines.made(keys, plan.dispatches)
            self._host_io = HostIO(self._core, plan, self._memory.places)
            undo.callback(self._host_io.destroy)
            self._recorder = Recorder(self._core, plan, self._memory.places, pipelines)
            undo.callback(self._recorder.destroy)
            self._pool = CommandPool(self._core)
            undo.callback(self._pool.destroy)
            self._fence = Fence(self._core)
            undo.callback(self._fence.destroy)
            self._submits = self._record()
            messages.raise_pending()
            self._undo = undo.pop_all()
        self._closed = False
        device.adopt(self)

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outputs for inputs, by name; the outputs are the caller's.

        Raises InputError for names, shapes or dtypes that do not fit, DeviceTimeoutError and
        DeviceLostError.
        """
        self._host_io.check(feeds)
        with self._lock:
            self._ready()
            self._host_io.store(feeds)
            self._execute(self._submits)
            outputs = self._host_io.load()
        if messages.collected:
            messages.raise_pending()
        return outputs

    def profile(self, feeds: Mapping[str, np.ndarray]) -> PlanProfile:
        """Run as of :meth:`run`, submit by submit, with timestamps around each command.

        Raises DeviceError where the device has no timestamps.
        """
        self._host_io.check(feeds)
        with self._lock:
            self._ready()
            if self._timer is None:
                self._timer = Timer(self._core, self._recorder, self._host_io)
                self._undo.callback(self._timer.destroy)
            profile = self._timer.run(feeds, lambda info: self._execute([info]))
        messages.raise_pending()
        return profile

    def compiled(self, *, texts: bool = False) -> list[CompiledPipeline]:
        """Statistics of each dispatch's pipeline by the compiler; with ``texts`` its code, too.

        Raises DeviceError where the driver does not tell.
        """
        with self._lock:
            self._ready()
            keys = pipeline_keys(self.plan.dispatches, self._shaders)
            pipelines = self.device.shared.pipelines
            found = compiled(self._core, pipelines, keys, self.plan.dispatches, texts=texts)
        messages.raise_pending()
        return found

    def modules(self) -> list[bytes]:
        """SPIR-V of each dispatch, cut to what its specialization constants leave of it."""
        return [key.spirv for key in pipeline_keys(self.plan.dispatches, self._shaders)]

    def read(self, buffer: int) -> np.ndarray:
        """The bytes (uint8) of a buffer of the plan as the last run left them."""
        with self._lock:
            self._ready()
            place = self._memory.places[buffer]
            return self._transfer.download(place.memory, place.offset, place.nbytes)

    def check_guards(self) -> None:
        """Check that ``plan.guards`` are as they were; raises ValidationError if not."""
        with self._lock:
            self._ready()
            self._memory.check_guards()

    @property
    def memory(self) -> dict[Role, int]:
        """Bytes of device memory by role; shared weights count in full."""
        return self._memory.nbytes

    def close(self) -> None:
        """Release of everything, after work that is still going on; may be called twice."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._settle()
            self._undo.close()
        messages.raise_pending()

    def _record(self) -> list[Struct]:
        ranges = submit_ranges(self.plan)
        infos = []
        for number, steps in enumerate(ranges):
            target = self._pool.allocate()
            before = self._host_io.before if number == 0 else None
            after = self._host_io.after if number == len(ranges) - 1 else None
            self._recorder.record(target, steps, before, after)
            infos.append(commands.submit_info(target))
        return infos

    def _ready(self) -> None:
        if self._closed:
            raise DeviceError(f"the executable of {self.plan.name!r} was closed")
        if self._core.lost is not None:
            self._core.ensure_alive()
        if self._in_flight:  # an earlier run was given up on; its buffers are still in use
            self._wait()
        if self._batch is not None:
            batch, self._batch = self._batch, None
            shared = self.device.shared
            shared.precompiler.finish(batch, shared.pipelines, self._memory.places)
            self._core.ensure_alive()

    def _execute(self, submits: Sequence[Struct]) -> None:
        """Submits all and waits; only the last signals the fence, as they run in order."""
        self._fence.reset()
        self._in_flight = True
        try:
            for info in submits:
                self._core.submit(info.ptr, self._fence.handle if info is submits[-1] else ffi.NULL)
        except BaseException:
            self._core.idle()  # the fence will never be signalled
            self._in_flight = False
            raise
        self._wait()

    def _wait(self) -> None:
        if not self._core.wait(self._fence.array, self.timeout):
            raise DeviceTimeoutError(
                f"{self.plan.name!r} did not finish within {self.timeout:g} s on "
                f"{self._core.snapshot.name}; raise VKNN_TIMEOUT (seconds) or use smaller inputs"
            )
        self._in_flight = False

    def _settle(self) -> None:
        """Waits for a run that was given up on. What the device still uses cannot be freed."""
        if not self._in_flight or self._core.lost is not None:
            return
        with contextlib.suppress(DeviceLostError):
            if not self._core.wait(self._fence.array, self.timeout):
                self._core.lost = f"{self.plan.name!r} never finished"
                self._core.abandoned = True
