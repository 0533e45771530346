"""DebugLabels: names by which other tools show commands and objects (VK_EXT_debug_utils).

They are given where VKNN_DEBUG is set or a capture was begun before the instance was made, and cost
nothing otherwise.
"""

from __future__ import annotations

from typing import Any

from vknn.printable import one_line
from vknn.runtime.vulkan import structs
from vknn.runtime.vulkan.vulkan_api import ffi, lib

EXTENSION = "VK_EXT_debug_utils"
#: Layers' names come from files: a longer one is cut.
MOST_CHARACTERS = 200
#: Kind of an object -> VkObjectType.
_TYPES = {
    "device": 3,
    "queue": 4,
    "command buffer": 6,
    "memory": 8,
    "buffer": 9,
    "query pool": 12,
    "buffer view": 13,
    "shader module": 15,
    "pipeline": 19,
}
_wanted = False


def want() -> None:
    """Request of labels for an instance that is made later."""
    global _wanted
    _wanted = True


def unwant() -> None:
    """End of the request of :func:`want`."""
    global _wanted
    _wanted = False


def wanted() -> bool:
    """Whether somebody requested labels whatever VKNN_DEBUG says."""
    return _wanted


class DebugLabels:
    """Functions of VK_EXT_debug_utils for a device."""

    def __init__(self, instance: Any, device: Any) -> None:
        self._device = device
        self._begin = _function(instance, "vkCmdBeginDebugUtilsLabelEXT")
        self._end = _function(instance, "vkCmdEndDebugUtilsLabelEXT")
        self._name = _function(instance, "vkSetDebugUtilsObjectNameEXT")

    def begin(self, target: Any, text: str) -> None:
        """Begin of what a command buffer records under a label; ``text``: of any length."""
        info = structs.make("VkDebugUtilsLabelEXT", pLabelName=_bounded(text))
        self._begin(target, info.ptr)

    def end(self, target: Any) -> None:
        """End of the label that was begun last."""
        self._end(target)

    def name(self, kind: str, handle: Any, text: str) -> None:
        """Name of an object; kinds are those of ``Core.create``, and "queue" and the like."""
        info = structs.make(
            "VkDebugUtilsObjectNameInfoEXT",
            objectType=_TYPES[kind],
            objectHandle=int(ffi.cast("uint64_t", handle)),
            pObjectName=_bounded(text),
        )
        self._name(self._device, info.ptr)


def _bounded(text: str) -> str:
    # A file's name may hold line ends, or halves of characters that UTF-8 does not know.
    line = one_line(text)
    return line if len(line) <= MOST_CHARACTERS else f"{line[: MOST_CHARACTERS - 3]}..."


def _function(instance: Any, name: str) -> Any:
    return ffi.cast(f"PFN_{name}", lib.vkGetInstanceProcAddr(instance, name.encode()))
