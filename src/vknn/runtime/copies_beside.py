"""Copies beside computing: a run's copies in and out on a queue that does nothing else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from vknn.runtime.host_io import HostIO
from vknn.runtime.vulkan import commands
from vknn.runtime.vulkan.commands import CommandPool, Semaphore
from vknn.runtime.vulkan.core import Core
from vknn.runtime.vulkan.structs import Struct
from vknn.runtime.vulkan.vulkan_api import ffi


class CopiesBeside:
    """The copies of one run, recorded once for the device's second queue.

    Computing waits for ``arrived`` and signals ``computed``; either is None where nothing is copied
    on that side. The copies in of a run are submitted before the copies out of the one before it,
    which would hold them up until that one is computed.
    """

    def __init__(self, core: Core, host_io: HostIO) -> None:
        self._core = core
        self._into: Any = None
        self._out: Any = None
        self.arrived: Semaphore | None = None
        self.computed: Semaphore | None = None
        self._semaphores = ExitStack()
        inputs, outputs = host_io.staged
        with ExitStack() as undo:
            self._pool = CommandPool(core, core.families[-1])
            undo.callback(self._pool.destroy)
            self._into = self._recorded(host_io.copy_in) if inputs else None
            self._out = self._recorded(host_io.copy_out) if outputs else None
            undo.callback(self._drop_semaphores)
            self.renew()
            self._undo = undo.pop_all()

    def renew(self) -> None:
        """New semaphores: those of a run that was given up on may be signalled or not."""
        self._drop_semaphores()
        self.arrived = self._semaphore() if self._into else None
        self.computed = self._semaphore() if self._out else None
        self._come = self._into and commands.submit_info(self._into, signal=self.arrived)
        self._leave = self._out and commands.submit_info(self._out, wait=self.computed)

    def submit_in(self) -> None:
        """Submit of the copies in."""
        self._submit(self._come, ffi.NULL)

    def submit_out(self, fence: Any) -> None:
        """Submit of the copies out; when they are done the fence is signalled."""
        self._submit(self._leave, fence)

    def destroy(self) -> None:
        self._undo.close()

    def _submit(self, info: Struct | None, fence: Any) -> None:
        if info is not None:
            self._core.submit(info.ptr, fence, self._core.copies)

    def _semaphore(self) -> Semaphore:
        semaphore = Semaphore(self._core)
        self._semaphores.callback(semaphore.destroy)
        return semaphore

    def _drop_semaphores(self) -> None:
        self._semaphores.close()

    def _recorded(self, record: Callable[[Any], None]) -> Any:
        target = self._pool.allocate()
        commands.begin(self._core, target)
        record(target)
        commands.end(self._core, target)
        return target
