"""Weights on the device: each packed array once, shared by the plans that use it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from vknn import forks, interrupts
from vknn.errors import DeviceError
from vknn.runtime.device import Device
from vknn.runtime.memory_blocks import MemoryBlock, MemoryBlocks
from vknn.runtime.vulkan.lifetime import Closing
from vknn.runtime.vulkan.memory import Allocation
from vknn.runtime.vulkan.transfer import Upload


@dataclass(eq=False)
class DeviceWeight:
    """An array on the device: ``nbytes`` from ``offset`` of ``block``."""

    block: MemoryBlock
    offset: int
    nbytes: int
    source: weakref.ref[np.ndarray]
    users: int = 0

    @property
    def memory(self) -> Allocation:
        return self.block.memory


class WeightPool(Closing):
    """Device copies of packed arrays, known by the array object itself.

    The pool does not keep the arrays; two plans share a copy where they hold the same object. A
    copy is freed with its last user, all are with the device.
    """

    close_order = 1  # after the executables that use it

    def __init__(self, device: Device) -> None:
        self._transfer = device.shared.transfer
        self._lock = threading.Lock()
        forks.renew(self)
        self._blocks = MemoryBlocks(device.shared.core)
        self._weights: dict[int, DeviceWeight] = {}
        self._closed = False
        device.adopt(self)

    @property
    def nbytes(self) -> int:
        """Bytes of device memory that the pool's blocks take."""
        return self._blocks.nbytes

    @property
    def used(self) -> int:
        """Bytes that weights take of it."""
        return self._blocks.used

    @interrupts.uninterrupted
    def acquire(self, arrays: Iterable[tuple[np.ndarray, int]]) -> list[DeviceWeight]:
        """The copies of (array, bytes wanted) pairs; pair with :meth:`release`.

        Bytes behind an array, up to what is wanted, are zero.
        """
        taken: list[DeviceWeight] = []
        with self._lock:
            if self._closed:
                raise DeviceError("the weight pool was closed")
            try:
                wanted = list(arrays)
                coming = self._missing(wanted)
                uploads: list[Upload] = []
                for array, nbytes in wanted:
                    weight = self._find(array, nbytes)
                    if weight is None:
                        weight = self._place(array, nbytes, coming)
                        coming.pop(0)
                        uploads.append(Upload(weight.memory, weight.offset, array, weight.nbytes))
                    weight.users += 1
                    taken.append(weight)
                self._transfer.upload_all(uploads)
            except BaseException:
                self._drop(taken)
                raise
        return taken

    @interrupts.uninterrupted
    def release(self, weights: Iterable[DeviceWeight]) -> None:
        """Release of copies of weights."""
        with self._lock:
            self._drop(weights)

    @interrupts.uninterrupted
    def close(self) -> None:
        """Release of everything, whoever uses it; may be called twice."""
        with self._lock:
            self._closed = True
            self._weights.clear()
            self._blocks.destroy()

    def _find(self, array: np.ndarray, nbytes: int) -> DeviceWeight | None:
        # An id can be that of an array that is gone: the weak reference tells.
        weight = self._weights.get(id(array))
        known = weight is not None and weight.source() is array and weight.nbytes >= nbytes
        return weight if known else None

    def _missing(self, wanted: Sequence[tuple[np.ndarray, int]]) -> list[int]:
        """Sizes of what will have to be placed, in order."""
        largest: dict[int, int] = {}
        sizes = []
        for array, nbytes in wanted:
            size = max(nbytes, array.nbytes)
            if self._find(array, nbytes) is None and largest.get(id(array), 0) < size:
                largest[id(array)] = size
                sizes.append(size)
        return sizes

    def _place(self, array: np.ndarray, nbytes: int, coming: Sequence[int]) -> DeviceWeight:
        size = max(nbytes, array.nbytes)
        block, offset = self._blocks.take(size, coming)
        weight = DeviceWeight(block, offset, size, weakref.ref(array))
        self._weights[id(array)] = weight
        return weight

    def _drop(self, weights: Iterable[DeviceWeight]) -> None:
        for weight in weights:
            weight.users -= 1
            if weight.users == 0:
                self._forget(weight)

    def _forget(self, weight: DeviceWeight) -> None:
        for key in [k for k, w in self._weights.items() if w is weight]:
            del self._weights[key]
        self._blocks.give(weight.block, weight.offset)
