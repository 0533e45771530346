"""Transfer of bytes between arrays and buffers outside of runs: weights, guards, inspection."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from vknn import forks
from vknn.errors import DeviceError, DeviceTimeoutError
from vknn.runtime.vulkan import commands
from vknn.runtime.vulkan.commands import CommandPool, Fence
from vknn.runtime.vulkan.core import Core
from vknn.runtime.vulkan.memory import Allocation

SLOT_BYTES = 4 << 20
SLOTS = 2
#: Alignment of what shares a slot, in bytes.
ALIGNMENT = 16


@dataclass(frozen=True, eq=False)
class Upload:
    """An array to be written at ``offset`` (a multiple of 4) of a buffer, and zeros behind it.

    ``nbytes``: bytes with the zeros; a multiple of 4 or the end of the buffer's use.
    """

    target: Allocation
    offset: int
    data: np.ndarray
    nbytes: int

    def raw(self) -> np.ndarray:
        """The array's bytes."""
        return np.ascontiguousarray(self.data).reshape(-1).view(np.uint8)


class _Slot:
    """A part of the staging ring: memory, a command buffer and a fence of its own."""

    def __init__(self, core: Core, pool: CommandPool) -> None:
        self.core = core
        with contextlib.ExitStack() as undo:
            self.staging = Allocation(core, SLOT_BYTES, "download")  # cached: serves both ways
            undo.callback(self.staging.destroy)
            self.commands = pool.allocate()
            self.info = commands.submit_info(self.commands)
            self.fence = Fence(core)
            undo.pop_all()
        self.busy = False
        #: Bytes that wait for their copy, and where they go: (target, region).
        self.used = 0
        self.waiting: list[tuple[Allocation, tuple[int, int, int]]] = []

    @property
    def bytes(self) -> np.ndarray:
        """The staging memory's bytes."""
        assert self.staging.mapped is not None, "staging memory is always mapped"
        return self.staging.mapped

    def put(self, part: np.ndarray, nbytes: int, target: Allocation, offset: int) -> None:
        """Staging of ``part`` and zeros, ``nbytes`` that have room, for a later copy."""
        start, end = self.used, self.used + nbytes
        self.bytes[start : start + part.size] = part
        self.bytes[start + part.size : end] = 0
        self.waiting.append((target, (start, offset, _words(nbytes))))
        self.used = -(-end // ALIGNMENT) * ALIGNMENT

    def submit(self) -> None:
        commands.end(self.core, self.commands)
        self.fence.reset()
        self.busy = True
        try:
            self.core.submit(self.info.ptr, self.fence.handle)
        except BaseException:
            self.core.idle()  # the fence will never be signalled
            self.busy = False
            raise

    def finish(self, timeout: float) -> None:
        if self.busy and not self.core.wait(self.fence.array, timeout):
            raise DeviceTimeoutError(f"a copy to or from the device took over {timeout:g} s")
        self.busy = False

    def settle(self, timeout: float) -> None:
        """Loss of what was put here, when the device does not copy it any more."""
        self.used = 0
        self.waiting.clear()
        try:
            self.finish(timeout)
        except DeviceTimeoutError as error:
            self.core.lost, self.core.abandoned = str(error), True
        except DeviceError:  # the driver cannot wait for the copy: it is to wait for all
            self.core.idle()
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
        forks.renew(self)
        self._pool: CommandPool | None = None
        self._slots: list[_Slot] = []
        self._barriers = commands.Barriers()

    def upload(self, target: Allocation, offset: int, data: np.ndarray) -> None:
        """Writing of the bytes of ``data`` into a buffer; offset a multiple of 4."""
        self.upload_all([Upload(target, offset, data, data.nbytes)])

    def upload_all(self, uploads: Iterable[Upload]) -> None:
        """Writing of several arrays; what is staged shares submits. When it returns all is there.

        After an error nothing is being copied any more.
        """
        staged = []
        for upload in uploads:
            if upload.target.mapped is None:
                staged.append(upload)
            else:
                _write(upload.target.mapped, upload)
                upload.target.flush()
        if staged:
            with self._lock:
                self._stage(staged)

    def download(self, source: Allocation, offset: int, nbytes: int) -> np.ndarray:
        """A copy of bytes of a buffer, when the device is done with what was submitted before."""
        result = np.empty(nbytes, np.uint8)
        if source.mapped is not None:
            source.invalidate()
            result[:] = source.mapped[offset : offset + nbytes]
            return result
        with self._lock, self._settled():
            for start in range(0, nbytes, SLOT_BYTES):
                size = min(SLOT_BYTES, nbytes - start)
                slot = self._slot(0)
                self._record(slot, [(source, slot.staging, (offset + start, 0, _words(size)))])
                slot.finish(self._timeout)
                slot.staging.invalidate()
                result[start : start + size] = slot.bytes[:size]
        return result

    def destroy(self) -> None:
        for slot in reversed(self._slots):
            slot.destroy()
        self._slots.clear()
        if self._pool is not None:
            self._pool.destroy()
            self._pool = None

    def _stage(self, uploads: Iterable[Upload]) -> None:
        with self._settled():
            slot, number = self._slot(0), 0
            for upload in uploads:
                raw, done = upload.raw(), 0
                while done < upload.nbytes:
                    if slot.used >= SLOT_BYTES:
                        self._send(slot)
                        number += 1
                        slot = self._slot(number)
                    size = min(SLOT_BYTES - slot.used, upload.nbytes - done)
                    slot.put(raw[done : done + size], size, upload.target, upload.offset + done)
                    done += size
            self._send(slot)
            for slot in self._slots:
                slot.finish(self._timeout)

    @contextlib.contextmanager
    def _settled(self) -> Iterator[None]:
        """Wait, after an error, for copies that were given up on: buffers are about to be freed."""
        try:
            yield
        except BaseException:
            for slot in self._slots:
                slot.settle(self._timeout)
            raise

    def _slot(self, number: int) -> _Slot:
        if self._pool is None:
            self._pool = CommandPool(self._core)
        while len(self._slots) < min(number + 1, SLOTS):
            self._slots.append(_Slot(self._core, self._pool))
        slot = self._slots[number % SLOTS]
        slot.finish(self._timeout)
        return slot

    def _send(self, slot: _Slot) -> None:
        """Submit of the copies of what was put into a slot."""
        slot.staging.flush()
        self._record(slot, [(slot.staging, target, region) for target, region in slot.waiting])
        slot.used = 0
        slot.waiting.clear()

    def _record(
        self, slot: _Slot, copies: Iterable[tuple[Allocation, Allocation, tuple[int, int, int]]]
    ) -> None:
        commands.begin(self._core, slot.commands, once=True)
        self._barriers.device(slot.commands)
        for source, target, region in copies:
            commands.copy(slot.commands, source.handle, target.handle, [region])
        self._barriers.device(slot.commands)
        self._barriers.host(slot.commands)
        slot.submit()


def _write(memory: Any, upload: Upload) -> None:
    raw, start = upload.raw(), upload.offset
    memory[start : start + raw.size] = raw
    memory[start + raw.size : start + upload.nbytes] = 0


def _words(nbytes: int) -> int:
    return -(-nbytes // 4) * 4
