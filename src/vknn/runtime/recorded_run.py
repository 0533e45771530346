"""Recorded run: a plan's commands over one set of inputs and outputs, and the wait for them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from vknn.errors import DeviceError, DeviceTimeoutError
from vknn.plan import Plan
from vknn.runtime.copies_beside import CopiesBeside
from vknn.runtime.host_io import HostIO
from vknn.runtime.pipelines import Pipeline
from vknn.runtime.recorder import Place, Recorder, submit_ranges
from vknn.runtime.stream_clock import Recorded, RunSpan
from vknn.runtime.vulkan import commands
from vknn.runtime.vulkan.commands import CommandPool, Fence
from vknn.runtime.vulkan.core import Core
from vknn.runtime.vulkan.structs import Struct
from vknn.runtime.vulkan.vulkan_api import ffi


class RecordedRun:
    """The commands of a plan, recorded once over the buffers at ``places``; one run at a time.

    ``host_io`` copies in and out; ``recorder`` holds the descriptor sets. ``beside``: the device's
    second queue, where it has one, does the copies to and from staging memory. ``timed``: whether
    ``span`` tells how long a run took, where the device has timestamps.
    """

    def __init__(
        self,
        core: Core,
        plan: Plan,
        places: Sequence[Place],
        pipelines: Sequence[Pipeline],
        *,
        beside: bool = False,
        timed: bool = False,
    ) -> None:
        self.core, self.plan = core, plan
        #: Whether the device may still be at work on what was submitted.
        self.in_flight = False
        self._copies: CopiesBeside | None = None
        #: Whether another queue copies the inputs, and the outputs.
        self._arrives = self._leaves = False
        self._undelivered = False
        self._stale = False
        self._failure: BaseException | None = None
        with ExitStack() as undo:
            self.host_io = HostIO(core, plan, places)
            undo.callback(self.host_io.destroy)
            self.recorder = Recorder(core, plan, places, pipelines)
            undo.callback(self.recorder.destroy)
            self._pool = CommandPool(core)
            undo.callback(self._pool.destroy)
            self._fence = Fence(core)
            undo.callback(self._fence.destroy)
            if beside and core.copies is not None and any(self.host_io.staged):
                self._copies = CopiesBeside(core, self.host_io)
                undo.callback(self._copies.destroy)
                self._arrives, self._leaves = self.host_io.staged
            self.span: RunSpan | None = None
            if timed and "timestamps" in core.limits.features:
                self.span = RunSpan(core)
                undo.callback(self.span.destroy)
            self._commands = self._record()
            self.submits = self._submits()
            self._undo = undo.pop_all()

    def submit(self, submits: Sequence[Struct] | None = None) -> None:
        """Submit of all (of ``submits`` instead, which do what the plan does).

        Only the last signals the fence, as they run in order. Copies out that another queue does
        are submitted by :meth:`deliver`.
        """
        self._fence.reset()
        if self._stale and self._copies is not None:
            self._copies.renew()
            self.submits = self._submits()
        self._stale, self._failure = False, None
        submits = self.submits if submits is None else submits
        self.in_flight = True
        try:
            if self._copies is not None:
                self._copies.submit_in()
            last = ffi.NULL if self._leaves else self._fence.handle
            for info in submits:
                self.core.submit(info.ptr, last if info is submits[-1] else ffi.NULL)
            self._undelivered = self._leaves
        except BaseException:
            self._give_up()
            raise

    def deliver(self) -> None:
        """Submit of the copies out, where another queue does them; an error is :meth:`wait`'s."""
        if not self._undelivered or self._copies is None:
            return
        try:
            self._undelivered = False
            self._copies.submit_out(self._fence.handle)
        except BaseException as error:
            self._give_up()
            self._failure = error
            if not isinstance(error, Exception):
                raise

    def wait(self, timeout: float) -> None:
        """Wait for what was submitted; raises DeviceTimeoutError after ``timeout`` seconds."""
        if self._undelivered:
            self.deliver()
        if self._failure is not None:
            raise self._failure
        if not self.core.wait(self._fence.array, timeout):
            raise DeviceTimeoutError(
                f"{self.plan.name!r} did not finish within {timeout:g} s on "
                f"{self.core.snapshot.name}; raise VKNN_TIMEOUT (seconds) or use smaller inputs"
            )
        self.in_flight = False

    def settle(self, timeout: float) -> None:
        """Wait for a run that was given up on. What the device still uses cannot be freed.

        No error of the driver is raised: where it cannot wait for the run it waits for all.
        """
        if not self.in_flight:
            return
        self.deliver()
        try:
            self.core.ensure_alive()
            done = not self.in_flight or self.core.wait(self._fence.array, timeout)
        except DeviceError:
            self.core.idle()
            done = True
        if not done:
            self.core.lost = f"{self.plan.name!r} never finished"
            self.core.abandoned = True
        self.in_flight = False

    def destroy(self) -> None:
        self._undo.close()

    def _give_up(self) -> None:
        self.core.idle()  # the fence will never be signalled
        self.in_flight = self._undelivered = False
        self._stale = True

    def _record(self) -> list[Any]:
        ranges = submit_ranges(self.plan)
        recorded = []
        for number, steps in enumerate(ranges):
            target = self._pool.allocate()
            first, last = number == 0, number == len(ranges) - 1
            before: Recorded | None = None
            after: Recorded | None = None
            if first and not self._arrives:
                before = self.host_io.before
            if last and not self._leaves:
                after = self.host_io.after
            if self.span is not None:
                begin, end = self.span.around(before, after)
                before, after = begin if first else before, end if last else after
            self.recorder.record(target, steps, before, after)
            recorded.append(target)
        return recorded

    def _submits(self) -> list[Struct]:
        arrived = self._copies.arrived if self._copies is not None else None
        computed = self._copies.computed if self._copies is not None else None
        last = len(self._commands) - 1
        return [
            commands.submit_info(
                target,
                wait=arrived if number == 0 else None,
                signal=computed if number == last else None,
            )
            for number, target in enumerate(self._commands)
        ]
