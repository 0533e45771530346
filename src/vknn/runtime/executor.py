"""Executable: a plan made ready to run; a run copies in, submits, waits, copies out."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from vknn import forks, interrupts
from vknn.errors import DeviceError
from vknn.plan import Plan, Role
from vknn.run_limits import acquire, held
from vknn.runtime.counters import CountedRun, Counter, CounterQueries
from vknn.runtime.device import Device
from vknn.runtime.device_array import DeviceArray, on_host, storage_dtype
from vknn.runtime.device_run import DeviceRun
from vknn.runtime.pipeline_statistics import CompiledPipeline, compiled
from vknn.runtime.pipelines import Shaders, pipeline_keys, shipped
from vknn.runtime.plan_memory import PlanMemory
from vknn.runtime.plan_stream import DEPTH, PlanStream, set_bytes
from vknn.runtime.recorded_run import RecordedRun
from vknn.runtime.tensor_pool import TensorAccount
from vknn.runtime.timing import PlanProfile, Timer
from vknn.runtime.vulkan import messages
from vknn.runtime.vulkan.lifetime import Closing, close_all, sweep
from vknn.runtime.vulkan.structs import Struct
from vknn.runtime.weights import WeightPool


class Executable(Closing):
    """A plan made ready on a device. Any thread may run it; a context manager.

    ``weights``: the pool that holds the plan's constants; by default one of its own.
    ``shaders``: gives the SPIR-V of a kernel's variant. ``timeout``: seconds that a run may take,
    by default VKNN_TIMEOUT. ``tensors``: the account of outputs that stay on the device.
    """

    @interrupts.uninterrupted
    def __init__(
        self,
        device: Device,
        plan: Plan,
        weights: WeightPool | None = None,
        *,
        shaders: Shaders = shipped,
        timeout: float | None = None,
        tensors: TensorAccount | None = None,
    ) -> None:
        shared = device.shared
        self.device, self.plan = device, plan
        self._tensors = tensors or TensorAccount()
        self._device_run: DeviceRun | None = None
        #: Arrays that the device may still read or write.
        self._in_use: object = None
        self._shaders = shaders
        self.timeout = shared.timeout if timeout is None else timeout
        self._core, self._transfer = shared.core, shared.transfer
        self._lock = threading.Lock()
        self._closing = threading.Lock()
        forks.renew(self)
        self._streams: list[PlanStream] = []
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
            self._pipelines = shared.pipelines.made(keys, plan.dispatches)
            undo.callback(shared.pipelines.release, keys)
            self._run = RecordedRun(self._core, plan, self._memory.places, self._pipelines)
            undo.callback(self._run.destroy)
            self._host_io = self._run.host_io
            messages.raise_pending()
            self._undo = undo.pop_all()
        self._closed = False
        device.adopt(self)

    def run(
        self, feeds: Mapping[str, np.ndarray | DeviceArray], kept: Collection[str] = ()
    ) -> dict[str, Any]:
        """Outputs for inputs, by name; the outputs are the caller's.

        ``kept``: names of outputs that stay on the device, as DeviceArrays; inputs may be such.

        Raises InputError for names, shapes or dtypes that do not fit, DeviceTimeoutError,
        DeviceLostError, and OutOfMemoryError for outputs that stay.
        """
        on_device = self._host_io.check(feeds)
        if on_device or kept:
            return self._run_on_device(feeds, on_device, kept)
        with interrupts.put_off():
            if not self._lock.acquire(blocking=False):  # few calls where nobody else has it
                acquire(self._lock)
            try:
                self._ready()
                self._host_io.store(feeds)
                self._run.submit()
                self._run.wait(self.timeout)
                outputs = self._host_io.load()
            finally:
                self._lock.release()
        if messages.collected:
            messages.raise_pending()
        return outputs

    @interrupts.uninterrupted
    def stream(self, depth: int = DEPTH) -> PlanStream:
        """A stream of up to ``depth`` runs at once, the host's copies of one beside the device's
        work on another.

        Other runs and streams of this executable may go on beside it. Close it; it is closed with
        the executable at the latest. Raises OutOfMemoryError where its sets of inputs and outputs
        are more than the account of tensors allows, or the device has.
        """
        sweep()
        close_all([stream for stream in self._streams if stream.given_up])
        with held(self._lock):
            self._ready()
            self._streams = [s for s in self._streams if s.is_open]
            more = depth * set_bytes(self._core, self.plan)
            beside = sum(self.plan.arenas.values()) + self._tensors.nbytes
            self._tensors.allow(beside + more, more)
            stream = PlanStream(
                self._core,
                self.plan,
                self._memory,
                self._pipelines,
                self._submitting,
                self.timeout,
                depth,
            )
            self._streams.append(stream)
        return stream

    @interrupts.uninterrupted
    def profile(self, feeds: Mapping[str, np.ndarray]) -> PlanProfile:
        """Run as of :meth:`run`, submit by submit, with timestamps around each command.

        Raises DeviceError where the device has no timestamps.
        """
        self._host_io.check(feeds)
        with self._lock:
            self._ready()
            if self._timer is None:
                self._timer = Timer(self._core, self._run.recorder, self._host_io)
                self._undo.callback(self._timer.destroy)
            profile = self._timer.run(feeds, lambda info: self._execute([info]))
        messages.raise_pending()
        return profile

    @interrupts.uninterrupted
    def count(self, feeds: Mapping[str, np.ndarray], chosen: Sequence[Counter]) -> CountedRun:
        """Values of counters around each command, or each submit, of runs as of :meth:`run`.

        Raises DeviceError where the device has no counters, or another process counts.
        """
        self._host_io.check(feeds)
        with self._lock:
            self._ready()
            queries = CounterQueries(self._core, self._run.recorder, self._host_io, chosen)
            try:
                found = queries.run(feeds, lambda info: self._execute([info]))
            finally:
                queries.destroy()
        messages.raise_pending()
        return found

    @interrupts.uninterrupted
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

    @interrupts.uninterrupted
    def read(self, buffer: int) -> np.ndarray:
        """The bytes (uint8) of a buffer of the plan as the last run left them."""
        with self._lock:
            self._ready()
            place = self._memory.places[buffer]
            return self._transfer.download(place.memory, place.offset, place.nbytes)

    @interrupts.uninterrupted
    def check_guards(self) -> None:
        """Check that ``plan.guards`` are as they were; raises ValidationError if not."""
        with self._lock:
            self._ready()
            self._memory.check_guards()

    @property
    def memory(self) -> dict[Role, int]:
        """Bytes of device memory by role; shared weights count in full."""
        return self._memory.nbytes

    @interrupts.uninterrupted
    def close(self) -> None:
        """Release of everything, after work that is still going on; may be called twice."""
        with self._closing:
            if self._closed:
                return
            with self._lock:
                self._closed = True
            try:
                close_all(self._streams)  # which take their own lock first, and then this one's
                with self._lock:
                    self._run.settle(self.timeout)
                    self._in_use = None
            except BaseException:  # an interrupt: another close goes on with it
                self._closed = False
                raise
            self._undo.close()
        messages.raise_pending()

    @contextlib.contextmanager
    def _submitting(self) -> Iterator[None]:
        """The lock, while a stream submits: submits of a plan must not mix with another run's.

        Within an uninterrupted block.
        """
        if not self._lock.acquire(blocking=False):  # few calls where nobody else has it
            acquire(self._lock)
        try:
            self._ready()
            yield
        finally:
            self._lock.release()

    def _ready(self) -> None:
        if self._closed:
            raise DeviceError(f"the executable of {self.plan.name!r} was closed")
        if self._core.lost is not None:
            self._core.ensure_alive()
        if self._run.in_flight:  # an earlier run was given up on; its buffers are still in use
            self._run.wait(self.timeout)
            self._in_use = None
        if self._batch is not None:
            batch, self._batch = self._batch, None
            shared = self.device.shared
            shared.precompiler.finish(batch, shared.pipelines, self._memory.places)
            self._core.ensure_alive()

    @interrupts.uninterrupted
    def _run_on_device(
        self,
        feeds: Mapping[str, np.ndarray | DeviceArray],
        on_device: Collection[str],
        kept: Collection[str],
    ) -> dict[str, Any]:
        """A run as of :meth:`run` that takes arrays from the device, or leaves some there."""
        sweep()  # outputs of earlier runs, that were dropped
        sources, arrays = self._parted(feeds, on_device)
        ports = self.plan.outputs
        sizes = [math.prod(ports[n].type.dims) * storage_dtype(ports[n]).itemsize for n in kept]
        pool = self.device.shared.tensors
        memories = pool.take(sizes, self._tensors, sum(self.plan.arenas.values()))
        targets = dict(zip(kept, memories, strict=True))
        with self._lock:
            self._ready()
            if self._device_run is None:
                self._device_run = DeviceRun(self._run)
                self._undo.callback(self._device_run.destroy)
            self._host_io.store(arrays)
            submits = self._device_run.submits(sources, targets)
            self._in_use = (sources, targets)
            try:
                self._execute(submits)
            finally:
                if not self._run.in_flight:  # else when it is done
                    self._in_use = None
            outputs: dict[str, Any] = self._host_io.load(without=targets)
            shapes = {name: self._host_io.shape(name) for name in kept}
        for name, memory in targets.items():
            port = ports[name]
            dtype, storage = port.type.dtype.numpy, storage_dtype(port)
            outputs[name] = DeviceArray(memory, shapes[name], dtype, storage, port.bfloat16)
        if messages.collected:
            messages.raise_pending()
        return outputs

    def _parted(
        self, feeds: Mapping[str, np.ndarray | DeviceArray], on_device: Collection[str]
    ) -> tuple[dict[str, DeviceArray], dict[str, np.ndarray]]:
        """Inputs that are copied on the device, and those that the host writes."""
        sources: dict[str, DeviceArray] = {}
        arrays: dict[str, np.ndarray] = {}
        for name, array in feeds.items():
            reason = ""
            if name in on_device and isinstance(array, DeviceArray):
                unfit = array.unfit(self._core, self.plan.inputs[name])
                if unfit is None:
                    sources[name] = array
                    continue
                reason = unfit
            arrays[name] = on_host(name, array, reason)
        return sources, arrays

    def _execute(self, submits: Sequence[Struct]) -> None:
        """Submits all and waits."""
        self._run.submit(submits)
        self._run.wait(self.timeout)
