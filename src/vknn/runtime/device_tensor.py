"""Device tensor: a result of a run that stays where it was computed."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np

from vknn import forks, interrupts
from vknn.errors import DeviceError, VknnError
from vknn.printable import one_line
from vknn.runtime.device import Device
from vknn.runtime.device_array import DeviceArray
from vknn.runtime.vulkan.lifetime import Closing

#: DLPack's number of the host's memory, and the device's number there.
HOST = (1, 0)


class DeviceTensor(Closing):
    """A result of a run that stays on the device, as the input of another run or to be read later.

    :meth:`vknn.Session.run` gives it where ``on_device`` asks for it. It does not change: what the
    session runs later has memory of its own. A run on the same device takes it without the host in
    between; elsewhere it is copied by the host. What the host computed (with NumPy, or in a part of
    a network) is held in the host's memory, so that programs are the same for all devices.

    ``np.asarray`` and libraries that take DLPack read it, as an array in the host's memory. Any
    thread may use it. It may outlive its session; an open :class:`vknn.Device` that the session was
    given closes its tensors with itself. A context manager; memory is freed by :meth:`close`, or
    some time after nothing refers to it any more. It can be neither copied nor pickled: the array
    of :meth:`numpy` can.

    Attributes:
        name: Name of the output.
        shape: Sizes of its axes, as those of the array that the run would have given.
        dtype: Its NumPy dtype, likewise; on the device it may be stored in another.
        device: The device that holds it, or None where the host does.
    """

    def __init__(self, name: str, stored: DeviceArray | np.ndarray, device: Device | None) -> None:
        self.name, self.shape, self.dtype = name, stored.shape, stored.dtype
        self.device = device if isinstance(stored, DeviceArray) else None
        self._stored: DeviceArray | np.ndarray | None = stored
        self._lock = threading.RLock()
        forks.renew(self)
        if self.device is not None:
            self.device.adopt_tensor(self)
        self._closed = False

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the array that :meth:`numpy` gives."""
        return self.size * self.dtype.itemsize

    @property
    def closed(self) -> bool:
        """Whether it was closed, by itself or with its device."""
        return self._closed

    @interrupts.uninterrupted
    def numpy(self) -> np.ndarray:
        """A copy in the host's memory, a new one each time, which is the caller's.

        Raises:
            vknn.DeviceError: The tensor was closed, or the driver failed.
        """
        with self._lock:  # closing the device waits for it
            stored = self.stored()
            return stored.numpy() if isinstance(stored, DeviceArray) else stored.copy()

    def stored(self) -> DeviceArray | np.ndarray:
        """Holder of the elements, not to be written to; who works with it keeps it in being.

        Raises:
            vknn.DeviceError: The tensor was closed.
        """
        stored = self._stored
        if stored is None:
            raise DeviceError(f"the device tensor {self.name!r} was closed, or its device was")
        return stored

    @interrupts.uninterrupted
    def close(self) -> None:
        """Release of its memory, when runs that use it are done; may be called twice."""
        with self._lock:
            stored, self._stored, self._closed = self._stored, None, True
        pool = stored.memory.pool if isinstance(stored, DeviceArray) else None
        del stored
        if pool is not None:
            pool.collect()
        if self.device is not None:
            self.device.let_go(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError(f"the device tensor {self.name!r} cannot be read without a copy")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if stream is not None or dl_device not in (None, HOST):
            raise BufferError(f"the device tensor {self.name!r} is read in the host's memory only")
        if copy is False:
            raise BufferError(f"the device tensor {self.name!r} cannot be read without a copy")
        array = self.numpy()
        try:
            return array.__dlpack__(max_version=max_version)
        except TypeError:  # NumPy before 2.1
            return array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return HOST

    def __repr__(self) -> str:
        dims = ", ".join(map(str, self.shape))
        dtype = "string" if self.dtype == object else self.dtype.name
        place = "in the host's memory" if self.device is None else f"on {self.device.name}"
        state = ", closed" if self._closed else ""
        return f"<vknn.DeviceTensor {one_line(self.name)} {dtype}[{dims}] {place}{state}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise VknnError("a DeviceTensor cannot be pickled: pickle the array that numpy() gives")


def as_tensors(results: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Results with device tensors for the arrays of these names, also for those the host made."""
    for name in names:
        array = results.get(name)
        if isinstance(array, np.ndarray | np.generic):
            results[name] = DeviceTensor(name, np.asarray(array), None)
    return results
