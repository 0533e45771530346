"""Command buffers: the few commands there are, and one-off submits."""

from __future__ import annotations

from typing import Any

from vknn.runtime.vulkan import structs
from vknn.runtime.vulkan.core import Core
from vknn.runtime.vulkan.structs import Struct
from vknn.runtime.vulkan.vulkan_api import ffi, lib, vk

COMPUTE, TRANSFER, HOST = 0x800, 0x1000, 0x4000  # VkPipelineStageFlagBits
ALL_COMMANDS = 0x10000
DEVICE = COMPUTE | TRANSFER
SHADER_READ, SHADER_WRITE = 0x20, 0x40  # VkAccessFlagBits
TRANSFER_READ, TRANSFER_WRITE = 0x800, 0x1000
HOST_READ, HOST_WRITE = 0x2000, 0x4000
DEVICE_WRITES = SHADER_WRITE | TRANSFER_WRITE
DEVICE_ACCESS = DEVICE_WRITES | SHADER_READ | TRANSFER_READ


class CommandPool:
    """A command pool and the buffers made from it (freed with it).

    ``family``: the family of queues they are for, by default the one that computes.
    """

    def __init__(self, core: Core, family: int | None = None) -> None:
        self.core = core
        self._native = core.create(
            "command pool",
            structs.make(
                "VkCommandPoolCreateInfo",
                flags=vk.VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                queueFamilyIndex=core.family if family is None else family,
            ),
        )

    def allocate(self) -> Any:
        """A primary VkCommandBuffer."""
        info = structs.make(
            "VkCommandBufferAllocateInfo",
            commandPool=self._native.handle,
            commandBufferCount=1,
        )
        buffers = structs.out("VkCommandBuffer", 1)
        code = lib.vkAllocateCommandBuffers(self.core.device, info.ptr, buffers)
        self.core.check(code, "allocating a command buffer")
        return buffers[0]

    def destroy(self) -> None:
        self._native.destroy()


class Fence:
    """A fence; ``array`` is what vkWaitForFences takes."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._native = core.create("fence", structs.make("VkFenceCreateInfo"))
        self.handle = self._native.handle
        self.array = structs.array("VkFence", [self.handle]).ptr

    def reset(self) -> None:
        code = lib.vkResetFences(self.core.device, 1, self.array)
        if code:
            self.core.check(code, "resetting a fence")

    def destroy(self) -> None:
        self._native.destroy()


class Semaphore:
    """A binary semaphore: what is submitted to one queue waits for what was to another."""

    def __init__(self, core: Core) -> None:
        self._native = core.create("semaphore", structs.make("VkSemaphoreCreateInfo"))
        self.handle = self._native.handle

    def destroy(self) -> None:
        self._native.destroy()


def submit_info(
    commands: Any,
    wait: Semaphore | None = None,
    signal: Semaphore | None = None,
    link: Struct | None = None,
) -> Struct:
    """VkSubmitInfo for one command buffer, behind ``wait`` and before ``signal``.

    ``link``: what hangs on it (pNext).
    """
    waits, signals = [wait.handle] if wait else [], [signal.handle] if signal else []
    return structs.make(
        "VkSubmitInfo",
        pNext=link,
        commandBufferCount=1,
        pCommandBuffers=[commands],
        waitSemaphoreCount=len(waits),
        pWaitSemaphores=waits,
        pWaitDstStageMask=[ALL_COMMANDS] * len(waits),
        signalSemaphoreCount=len(signals),
        pSignalSemaphores=signals,
    )


def begin(core: Core, commands: Any, once: bool = False) -> None:
    """Start of recording."""
    flags = vk.VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT if once else 0
    info = structs.make("VkCommandBufferBeginInfo", flags=flags)
    core.check(lib.vkBeginCommandBuffer(commands, info.ptr), "recording commands")


def end(core: Core, commands: Any) -> None:
    """End of recording."""
    core.check(lib.vkEndCommandBuffer(commands), "recording commands")


class Barriers:
    """The memory barriers in use, made once."""

    def __init__(self) -> None:
        self._device = structs.make(
            "VkMemoryBarrier", srcAccessMask=DEVICE_WRITES, dstAccessMask=DEVICE_ACCESS
        )
        self._host = structs.make(
            "VkMemoryBarrier", srcAccessMask=DEVICE_WRITES, dstAccessMask=HOST_READ
        )
        self._copied = structs.make(
            "VkMemoryBarrier", srcAccessMask=TRANSFER_WRITE, dstAccessMask=HOST_READ
        )

    def device(self, commands: Any) -> None:
        """All earlier device work before all later device work."""
        _barrier(commands, DEVICE, DEVICE, self._device)

    def host(self, commands: Any) -> None:
        """All earlier device writes before the host's reads (after the fence)."""
        _barrier(commands, DEVICE, HOST, self._host)

    def copied(self, commands: Any) -> None:
        """All earlier copies before the host's reads; for queues that can only copy, too."""
        _barrier(commands, TRANSFER, HOST, self._copied)


def _barrier(commands: Any, before: int, after: int, barrier: Struct) -> None:
    lib.vkCmdPipelineBarrier(commands, before, after, 0, 1, barrier.ptr, 0, ffi.NULL, 0, ffi.NULL)


def copy(commands: Any, source: Any, target: Any, regions: list[tuple[int, int, int]]) -> None:
    """Copy of (source offset, target offset, bytes) regions from buffer to buffer."""
    if regions:
        entries = [{"srcOffset": s, "dstOffset": t, "size": n} for s, t, n in regions]
        native = structs.array("VkBufferCopy", entries)
        lib.vkCmdCopyBuffer(commands, source, target, len(regions), native.ptr)


def fill(commands: Any, buffer: Any, offset: int, nbytes: int, word: int) -> None:
    """Fill of 32-bit words."""
    lib.vkCmdFillBuffer(commands, buffer, offset, nbytes, word & 0xFFFFFFFF)
