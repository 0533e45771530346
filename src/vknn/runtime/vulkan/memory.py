"""Buffers and the memory behind them."""

from __future__ import annotations

from typing import Any

import numpy as np

from vknn.errors import OutOfMemoryError
from vknn.runtime.memory_types import memory_type
from vknn.runtime.snapshot import HOST_COHERENT
from vknn.runtime.vulkan import structs
from vknn.runtime.vulkan.core import Core
from vknn.runtime.vulkan.structs import WHOLE_SIZE
from vknn.runtime.vulkan.vk_result import MEMORY_REMEDY
from vknn.runtime.vulkan.vulkan_api import ffi, lib, vk


class Allocation:
    """A VkBuffer with its own memory; ``mapped``: its bytes, where the host can reach them."""

    def __init__(self, core: Core, nbytes: int, purpose: str) -> None:
        self.core, self.nbytes = core, max(16, -(-nbytes // 16) * 16)
        self.mapped: np.ndarray | None = None
        self.coherent = True
        if self.nbytes > core.snapshot.max_allocation:
            raise OutOfMemoryError(
                f"a buffer of {self.nbytes} bytes exceeds the {core.snapshot.max_allocation} that "
                f"{core.snapshot.name} can allocate at once; {MEMORY_REMEDY}"
            )
        self._buffer = core.create("buffer", _buffer_info(self.nbytes, core.families))
        self._memory: Any = None
        try:
            self._bind(purpose)
        except BaseException:
            self.destroy()
            raise

    @property
    def handle(self) -> Any:
        """The VkBuffer."""
        return self._buffer.handle

    def called(self, text: str) -> Allocation:
        """The buffer itself, under a name that other tools show where labels are wanted."""
        self._buffer.called(text)
        self._memory.called(text)
        return self

    def _bind(self, purpose: str) -> None:
        core = self.core
        needs = structs.out("VkMemoryRequirements")
        lib.vkGetBufferMemoryRequirements(core.device, self.handle, needs)
        types = core.snapshot.memory_types
        index = memory_type(types, needs.memoryTypeBits, purpose)
        if index is None and purpose == "unified":  # not for buffers: all is staged
            purpose = "device"
            index = memory_type(types, needs.memoryTypeBits, purpose)
        if index is None:
            raise OutOfMemoryError(f"{core.snapshot.name} has no memory for {purpose} buffers")
        size = needs.size
        info = structs.make("VkMemoryAllocateInfo", allocationSize=size, memoryTypeIndex=index)
        what = f"allocating {size} bytes of device memory ({core.allocated} are in use)"
        self._memory = core.create("memory", info, what)
        core.account(size)
        self._memory.on_destroy = lambda: core.account(-size)
        code = lib.vkBindBufferMemory(core.device, self.handle, self._memory.handle, 0)
        core.check(code, "binding memory")
        if purpose != "device":
            self._map(types[index].flags)

    def _map(self, flags: int) -> None:
        # Mapped for good; freeing the memory unmaps it.
        address = structs.out("void *")
        memory = self._memory.handle
        code = lib.vkMapMemory(self.core.device, memory, 0, WHOLE_SIZE, 0, address)
        self.core.check(code, "mapping memory")
        self.mapped = np.frombuffer(ffi.buffer(address[0], self.nbytes), np.uint8)
        self.coherent = bool(flags & HOST_COHERENT)
        if not self.coherent:
            self._range = structs.make("VkMappedMemoryRange", memory=memory, size=WHOLE_SIZE)

    def flush(self) -> None:
        """Flush of the host's writes to the device; nothing to do on coherent memory."""
        if not self.coherent:
            code = lib.vkFlushMappedMemoryRanges(self.core.device, 1, self._range.ptr)
            self.core.check(code, "flushing memory")

    def invalidate(self) -> None:
        """Invalidation that makes the device's writes reach the host."""
        if not self.coherent:
            code = lib.vkInvalidateMappedMemoryRanges(self.core.device, 1, self._range.ptr)
            self.core.check(code, "invalidating memory")

    def destroy(self) -> None:
        self.mapped = None
        self._buffer.destroy()
        if self._memory is not None:
            self._memory.destroy()


def _buffer_info(nbytes: int, families: tuple[int, ...]) -> structs.Struct:
    usage = (
        vk.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT
        | vk.VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT
        | vk.VK_BUFFER_USAGE_STORAGE_TEXEL_BUFFER_BIT
        | vk.VK_BUFFER_USAGE_TRANSFER_SRC_BIT
        | vk.VK_BUFFER_USAGE_TRANSFER_DST_BIT
    )
    several = len(set(families)) > 1  # for buffers, no driver is known to mind
    return structs.make(
        "VkBufferCreateInfo",
        size=nbytes,
        usage=usage,
        sharingMode=int(several),  # VK_SHARING_MODE_CONCURRENT
        queueFamilyIndexCount=len(families) if several else 0,
        pQueueFamilyIndices=list(families) if several else None,
    )
