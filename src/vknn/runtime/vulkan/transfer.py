"""Transfer of bytes between arrays and buffers outside of runs: weights, guards, inspection."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from vknn.errors import DeviceTimeoutError
from vknn.runtime.vulkan import commands
from vknn.runtime.vulkan.commands import CommandPool, Fence
from vknn.runtime.vulkan.core import Core
from vknn.runtime.vulkan.memory import Allocation

SLOT_BYTES = 4 << 20
SLOTS = 2


class _Slot:
    """A part of the staging ring: memory, a command buffer and a fence of its own."""

    def __init__(self, core: Core, pool: CommandPool) -> None:
        self.core = core
        self.staging = Allocation(core, SLOT_BYTES, "download")  # cached: serves both ways
        self.commands = pool.allocate()
        self.info = commands.submit_info(self.commands)
        self.fence = Fence(core)
        self.busy = False

    def submit(self) -> None:
        commands.end(self.core, self.commands)
        self.fence.reset()
        self.core.submit(self.info.ptr, self.fence.handle)
        self.busy = True

    def finish(self, timeout: float) -> None:
        if self.busy and not self.core.wait(self.fence.array, timeout):
            raise DeviceTimeoutError(f"a copy to or from the device took over {timeout:g} s")
        self.busy = False

    def destroy(self) -> None:
        self.fence.destroy()
        self.staging.destroy()


class Transfer:
    """A persistent ring of staging memory; made when first needed, kept until the device closes.

    While one slot is being copied by the device the host fills the other.
    """

    def __init__(self, core: Core, timeout: float) -> None:
        self._core, self._timeout = core, timeout
        self._lock = threading.Lock()
        self._pool: CommandPool | None = None
        self._slots: list[_Slot] = []
        self._barriers = commands.Barriers()

    def upload(self, target: Allocation, offset: int, data: np.ndarray) -> None:
        """Writing of the bytes of ``data`` (contiguous) into a buffer; offset a multiple of 4."""
        raw = data.reshape(-1).view(np.uint8)
        if target.mapped is not None:
            target.mapped[offset : offset + raw.size] = raw
            target.flush()
            return
        with self._lock:
            for number, start in enumerate(range(0, raw.size, SLOT_BYTES)):
                part = raw[start : start + SLOT_BYTES]
                slot = self._slot(number)
                self._mapped(slot)[: part.size] = part
                slot.staging.flush()
                self._record(slot, slot.staging, target, (0, offset + start, _words(part.size)))
            self._finish()

    def download(self, source: Allocation, offset: int, nbytes: int) -> np.ndarray:
        """A copy of bytes of a buffer, when the device is done with what was submitted before."""
        result = np.empty(nbytes, np.uint8)
        if source.mapped is not None:
            source.invalidate()
            result[:] = source.mapped[offset : offset + nbytes]
            return result
        with self._lock:
            for start in range(0, nbytes, SLOT_BYTES):
                size = min(SLOT_BYTES, nbytes - start)
                slot = self._slot(0)
                self._record(slot, source, slot.staging, (offset + start, 0, _words(size)))
                slot.finish(self._timeout)
                slot.staging.invalidate()
                result[start : start + size] = self._mapped(slot)[:size]
        return result

    def destroy(self) -> None:
        for slot in reversed(self._slots):
            slot.destroy()
        self._slots.clear()
        if self._pool is not None:
            self._pool.destroy()
            self._pool = None

    def _slot(self, number: int) -> _Slot:
        if self._pool is None:
            self._pool = CommandPool(self._core)
        while len(self._slots) < min(number + 1, SLOTS):
            self._slots.append(_Slot(self._core, self._pool))
        slot = self._slots[number % SLOTS]
        slot.finish(self._timeout)
        return slot

    def _record(
        self, slot: _Slot, source: Allocation, target: Allocation, region: tuple[int, int, int]
    ) -> None:
        commands.begin(self._core, slot.commands, once=True)
        self._barriers.device(slot.commands)
        commands.copy(slot.commands, source.handle, target.handle, [region])
        self._barriers.device(slot.commands)
        self._barriers.host(slot.commands)
        slot.submit()

    def _finish(self) -> None:
        for slot in self._slots:
            slot.finish(self._timeout)

    def _mapped(self, slot: _Slot) -> Any:
        assert slot.staging.mapped is not None, "staging memory is always mapped"
        return slot.staging.mapped


def _words(nbytes: int) -> int:
    return -(-nbytes // 4) * 4
