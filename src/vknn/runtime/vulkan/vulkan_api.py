"""The ``vulkan`` package, or a clear error where no Vulkan loader is installed.

``ffi`` and ``lib`` are cffi's handles of the loader (raw calls cost 1 us, the package's wrapped
ones 5 us), ``vk`` holds the constants. Importing this module never fails.
"""

from __future__ import annotations

from typing import Any

from vknn import environment
from vknn.errors import DeviceError, VknnError
from vknn.runtime.vulkan.layer_guard import LayerGuard

NO_LOADER = (
    "no Vulkan loader (libvulkan.so.1) was found; install it together with a driver "
    "(Debian: apt-get install libvulkan1 mesa-vulkan-drivers), or use device='cpu'"
)


class _Missing:
    """Stands for the binding where it cannot be imported: every use says why."""

    def __init__(self, cause: Exception) -> None:
        self._cause = cause

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise DeviceError(f"{NO_LOADER} ({self._cause})") from self._cause


def _load() -> tuple[Any, Any, Any]:
    try:
        import vulkan
    except (OSError, ImportError) as error:  # OSError: the loader is missing
        missing = _Missing(error)
        return missing, missing, missing
    return vulkan, vulkan.ffi, LayerGuard(vulkan.lib) if _validates() else vulkan.lib


def _validates() -> bool:
    """Whether VKNN_VALIDATE was set when this was imported; who makes the instance reads it too."""
    try:
        return bool(environment.read().validate)
    except VknnError:
        return False


vk, ffi, lib = _load()
