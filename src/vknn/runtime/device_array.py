"""Array in device memory, which a run takes and gives in place of one of NumPy."""

from __future__ import annotations

import dataclasses
import logging
import math
from dataclasses import dataclass

import numpy as np

from vknn import bfloat16
from vknn.plan import Port
from vknn.runtime.tensor_pool import TensorMemory
from vknn.runtime.vulkan.core import Core

_log = logging.getLogger("vknn")


@dataclass(frozen=True, eq=False)
class DeviceArray:
    """A dense row-major array, as a plan's port holds it.

    ``dtype`` is that of the host, ``storage`` the one in memory; ``is_bfloat16`` says that its 16
    bits are a bfloat16.
    """

    memory: TensorMemory
    shape: tuple[int, ...]
    dtype: np.dtype
    storage: np.dtype
    is_bfloat16: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes that it takes on the device."""
        return math.prod(self.shape) * self.storage.itemsize

    def reshaped(self, shape: tuple[int, ...]) -> DeviceArray:
        """The same memory in another shape of as many elements."""
        return self if shape == self.shape else dataclasses.replace(self, shape=shape)

    def numpy(self) -> np.ndarray:
        """A copy in the host's memory and dtype; waits for the device."""
        array = self.memory.read(self.nbytes).view(self.storage).reshape(self.shape)
        if self.is_bfloat16:
            array = bfloat16.floats_of(array)
        with np.errstate(all="ignore"):
            return array.astype(self.dtype, copy=False)

    def unfit(self, core: Core, port: Port) -> str | None:
        """Reason why the bytes are not what the host would write into a port; None: they are."""
        if self.memory.pool.core is not core:
            return "it lies on another device"
        if (self.storage, self.is_bfloat16) != (storage_dtype(port), port.bfloat16):
            return "it is stored in another precision"
        if self.dtype.kind == "f" and self.dtype.itemsize < self.storage.itemsize:
            return f"it holds more digits than {self.dtype} has"
        return None


def on_host(name: str, array: np.ndarray | DeviceArray, reason: str) -> np.ndarray:
    """An input as an array of NumPy; the log says why it had to be copied from a device."""
    if not isinstance(array, DeviceArray):
        return array
    _log.debug("%r is copied from the device: %s", name, reason)
    return array.numpy()


def storage_dtype(port: Port) -> np.dtype:
    """dtype of what lies in a port's buffer."""
    if port.as_typed:
        return port.type.dtype.numpy
    floats = "u2" if port.bfloat16 else f"f{port.width}"
    return np.dtype(floats if port.type.dtype.is_float else np.int32)
