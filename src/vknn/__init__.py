"""vknn: neural networks on any GPU with a Vulkan driver.

The public names: all that a user needs, each with a docstring. They are loaded when first used, so
that ``import vknn`` is quick and a part of the package can be imported without the rest.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING

from vknn import forks

if TYPE_CHECKING:
    from vknn import answers as answers
    from vknn import crosscheck as crosscheck
    from vknn import profiling as profiling
    from vknn import runtime as runtime
    from vknn.bundle.export import export
    from vknn.crosscheck.verify import verify
    from vknn.errors import (
        DeviceError,
        DeviceLostError,
        DeviceTimeoutError,
        ExportError,
        InputError,
        ModelFormatError,
        NullDeviceError,
        OutOfMemoryError,
        RunCancelledError,
        RunTimeoutError,
        ShaderError,
        ShapeError,
        UnsupportedLayerError,
        ValidationError,
        VknnError,
    )
    from vknn.formats.custom import register_layer, unregister_layer
    from vknn.ops.custom import Shader
    from vknn.profiling.profile import profile
    from vknn.runtime.device import Device, devices, list_devices, open_device
    from vknn.runtime.device_tensor import DeviceTensor
    from vknn.session import Session
    from vknn.tuning.tune import tune

__version__ = "0.1.0"

# Applications decide what becomes of records: sessions opened (info), programs compiled (debug).
logging.getLogger("vknn").addHandler(logging.NullHandler())

_HOMES = {
    "Session": "vknn.session",
    "export": "vknn.bundle",
    "verify": "vknn.crosscheck",
    "profile": "vknn.profiling",
    "register_layer": "vknn.formats.custom",
    "unregister_layer": "vknn.formats.custom",
    "Shader": "vknn.ops.custom",
    "Device": "vknn.runtime",
    "DeviceTensor": "vknn.runtime",
    "devices": "vknn.runtime",
    "list_devices": "vknn.runtime",
    "open_device": "vknn.runtime",
    "tune": "vknn.tuning",
}

# Packages with names of their own, which docs/api lists; vknn.profiling needs no import of its own.
_PACKAGES = {"answers", "crosscheck", "kernel_lab", "profiling", "reduction", "runtime", "scale"}

__all__ = [
    "Device",
    "DeviceError",
    "DeviceLostError",
    "DeviceTensor",
    "DeviceTimeoutError",
    "ExportError",
    "InputError",
    "ModelFormatError",
    "NullDeviceError",
    "OutOfMemoryError",
    "RunCancelledError",
    "RunTimeoutError",
    "Session",
    "Shader",
    "ShaderError",
    "ShapeError",
    "UnsupportedLayerError",
    "ValidationError",
    "VknnError",
    "devices",
    "export",
    "list_devices",
    "open_device",
    "profile",
    "register_layer",
    "tune",
    "unregister_layer",
    "verify",
]


def __getattr__(name: str) -> object:
    if name not in __all__ and name not in _PACKAGES:
        raise AttributeError(f"module 'vknn' has no attribute {name!r}")
    with forks.busy():  # a forked child would wait for ever for an import that another thread began
        if name in _PACKAGES:
            return import_module(f"vknn.{name}")  # which sets the attribute
        value = getattr(import_module(_HOMES.get(name, "vknn.errors")), name)
    globals()[name] = value
    return value
