"""Recorded run: a plan's commands over one set of inputs and outputs, and the wait for them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from contextlib import ExitStack

from vknn.errors import DeviceLostError, DeviceTimeoutError
from vknn.plan import Plan
from vknn.runtime.host_io import HostIO
from vknn.runtime.pipelines import Pipeline
from vknn.runtime.recorder import Place, Recorder, submit_ranges
from vknn.runtime.vulkan import commands
from vknn.runtime.vulkan.commands import CommandPool, Fence
from vknn.runtime.vulkan.core import Core
from vknn.runtime.vulkan.structs import Struct
from vknn.runtime.vulkan.vulkan_api import ffi


class RecordedRun:
    """The commands of a plan, recorded once over the buffers at ``places``; one run at a time.

    ``host_io`` copies in and out; ``recorder`` holds the descriptor sets.
    """

    def __init__(
        self, core: Core, plan: Plan, places: Sequence[Place], pipelines: Sequence[Pipeline]
    ) -> None:
        self.core, self.plan = core, plan
        #: Whether the device may still be at work on what was submitted.
        self.in_flight = False
        with ExitStack() as undo:
            self.host_io = HostIO(core, plan, places)
            undo.callback(self.host_io.destroy)
            self.recorder = Recorder(core, plan, places, pipelines)
            undo.callback(self.recorder.destroy)
            self._pool = CommandPool(core)
            undo.callback(self._pool.destroy)
            self._fence = Fence(core)
            undo.callback(self._fence.destroy)
            self.submits = self._record()
            self._undo = undo.pop_all()

    def submit(self, submits: Sequence[Struct]) -> None:
        """Submit of all; only the last signals the fence, as they run in order."""
        self._fence.reset()
        self.in_flight = True
        try:
            for info in submits:
                self.core.submit(info.ptr, self._fence.handle if info is submits[-1] else ffi.NULL)
        except BaseException:
            self.core.idle()  # the fence will never be signalled
            self.in_flight = False
            raise

    def wait(self, timeout: float) -> None:
        """Wait for what was submitted; raises DeviceTimeoutError after ``timeout`` seconds."""
        if not self.core.wait(self._fence.array, timeout):
            raise DeviceTimeoutError(
                f"{self.plan.name!r} did not finish within {timeout:g} s on "
                f"{self.core.snapshot.name}; raise VKNN_TIMEOUT (seconds) or use smaller inputs"
            )
        self.in_flight = False

    def settle(self, timeout: float) -> None:
        """Wait for a run that was given up on. What the device still uses cannot be freed."""
        if not self.in_flight or self.core.lost is not None:
            return
        with contextlib.suppress(DeviceLostError):
            if self.core.wait(self._fence.array, timeout):
                self.in_flight = False
            else:
                self.core.lost = f"{self.plan.name!r} never finished"
                self.core.abandoned = True

    def destroy(self) -> None:
        self._undo.close()

    def _record(self) -> list[Struct]:
        ranges = submit_ranges(self.plan)
        infos = []
        for number, steps in enumerate(ranges):
            target = self._pool.allocate()
            before = self.host_io.before if number == 0 else None
            after = self.host_io.after if number == len(ranges) - 1 else None
            self.recorder.record(target, steps, before, after)
            infos.append(commands.submit_info(target))
        return infos
