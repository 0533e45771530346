"""Messages of the validation layer, collected until somebody raises them."""

from __future__ import annotations

import threading
from typing import Any

from vknn import forks
from vknn.errors import ValidationError
from vknn.runtime.vulkan import structs
from vknn.runtime.vulkan.structs import Struct
from vknn.runtime.vulkan.vulkan_api import ffi, vk

#: Texts of messages that are none of vknn's doing, with the reason why they do not count.
NOISE = {
    "terminator_CreateInstance": "the loader tells of a driver that is installed but has no GPU",
    "terminator_CreateDevice": "likewise",
    "loader_": "the loader speaks of its own search for drivers and layers",
    "Loader Message": "likewise, as loaders from 1.4 on name what they say",
    "Override layer": "likewise",
    "libdrm": "a hardware driver that finds no GPU",
}
#: What begins a layer's message about its settings, and what it says of those it does not know.
_SETTINGS, _UNKNOWN = "VALIDATION-SETTINGS", "was not recognized"
SHOWN = 10

#: The texts collected so far.
collected: list[str] = []
_lock = forks.hold(threading.RLock())
_callback: Any = None


def pending() -> list[str]:
    """Messages collected so far, which are then forgotten."""
    with _lock:
        taken = list(collected)
        collected.clear()
    return taken


def raise_pending() -> None:
    """Check that nothing was reported since the last call; raises ValidationError if it was."""
    if collected and (taken := pending()):
        more = f"\n... and {len(taken) - SHOWN} more" if len(taken) > SHOWN else ""
        raise ValidationError(
            f"the Vulkan validation layer reported {len(taken)} message(s):\n"
            + "\n".join(taken[:SHOWN])
            + more
        )


def messenger_info() -> Struct:
    """VkDebugUtilsMessengerCreateInfoEXT for warnings and errors."""
    return structs.make(
        "VkDebugUtilsMessengerCreateInfoEXT",
        messageSeverity=vk.VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT
        | vk.VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        messageType=vk.VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT
        | vk.VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT
        | vk.VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT,
        pfnUserCallback=_native_callback(),
    )


def _native_callback() -> Any:
    global _callback
    if _callback is None:  # kept for good: a layer may speak until the process ends
        _callback = ffi.callback("PFN_vkDebugUtilsMessengerCallbackEXT", _on_message)
    return _callback


def _on_message(severity: int, kinds: int, data: Any, user: Any) -> int:
    name = ffi.string(data.pMessageIdName).decode() if data.pMessageIdName else ""
    text = ffi.string(data.pMessage).decode(errors="replace") if data.pMessage else ""
    general = kinds & vk.VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT
    noise = general and any(noise in f"{name} {text}" for noise in NOISE)
    # An older layer does not know a setting of vknn's.
    if not noise and not (name == _SETTINGS and _UNKNOWN in text):
        with _lock:
            collected.append(f"[{name}] {text}" if name else text)
    return 0
