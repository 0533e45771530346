"""Memory of arrays that stay on a device between runs, whoever made them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from vknn import forks
from vknn.errors import DeviceError
from vknn.runtime.memory_blocks import MemoryBlock, MemoryBlocks, block_bytes
from vknn.runtime.vulkan.core import Core
from vknn.runtime.vulkan.transfer import Transfer


class TensorAccount:
    """Account of the bytes that one owner's tensors take, in ``nbytes``.

    ``allow`` is called before there are more, with the bytes that its network and all its tensors
    would take, and with those by which the device's memory in use would grow; it raises
    OutOfMemoryError where that is too much.
    """

    def __init__(self, allow: Callable[[int, int], None] = lambda needed, growth: None) -> None:
        self.nbytes = 0
        self.allow = allow


class TensorMemory:
    """A range of device memory, which is free again when nothing refers to this object any more.

    So who works with it refers to it until the device is done.
    """

    __slots__ = ("account", "block", "nbytes", "offset", "pool")

    def __init__(
        self, pool: TensorPool, block: MemoryBlock, offset: int, nbytes: int, account: TensorAccount
    ) -> None:
        self.pool, self.block, self.offset = pool, block, offset
        self.nbytes, self.account = nbytes, account

    def read(self, nbytes: int) -> np.ndarray:
        """The first bytes of it (uint8), copied to the host; waits for the device."""
        return self.pool.read(self, nbytes)

    def __del__(self) -> None:
        # The garbage collector may run under any lock: the range is given back later.
        self.pool.dropped.append((self.block, self.offset, self.nbytes, self.account))


class TensorPool:
    """Device memory of tensors, in blocks that are shared by all who have the device open."""

    def __init__(self, core: Core, transfer: Transfer) -> None:
        self.core, self._transfer = core, transfer
        self._lock = threading.RLock()
        forks.renew(self)
        self._blocks = MemoryBlocks(core)
        #: Ranges that nobody refers to any more.
        self.dropped: deque[tuple[MemoryBlock, int, int, TensorAccount]] = deque()
        self._closed = False

    @property
    def nbytes(self) -> int:
        """Bytes of device memory that the blocks take."""
        return self._blocks.nbytes

    def take(self, sizes: Sequence[int], account: TensorAccount, beside: int) -> list[TensorMemory]:
        """Ranges of so many bytes; ``beside``: bytes that their owner has besides tensors.

        Raises OutOfMemoryError where the account does not allow them, or the device has no more.
        """
        taken: list[TensorMemory] = []
        with self._lock:
            self.collect()
            self._check_open()
            for nbytes in sizes:
                account.allow(beside + account.nbytes + nbytes, 0)
                found = self._blocks.find(nbytes)
                if found is None:
                    growth = block_bytes((nbytes,), self.core.limits.alignment)
                    account.allow(beside + account.nbytes + nbytes, growth)
                    found = self._blocks.take(nbytes)
                account.nbytes += nbytes
                taken.append(TensorMemory(self, *found, nbytes, account))
        return taken

    def read(self, memory: TensorMemory, nbytes: int) -> np.ndarray:
        """The first bytes (uint8) of a range."""
        with self._lock:  # closing the device waits for it
            self._check_open()
            return self._transfer.download(memory.block.memory, memory.offset, nbytes)

    def collect(self) -> None:
        """Return of the ranges that nobody refers to any more."""
        with self._lock:
            while self.dropped:
                block, offset, nbytes, account = self.dropped.popleft()
                account.nbytes -= nbytes
                self._blocks.give(block, offset)

    def destroy(self) -> None:
        """Release of everything, whoever refers to it."""
        with self._lock:
            self._closed = True
            self._blocks.destroy()

    def _check_open(self) -> None:
        if self._closed:
            raise DeviceError(f"the device {self.core.snapshot.name} was closed")
        self.core.ensure_alive()
