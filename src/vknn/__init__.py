"""vknn: neural networks on any GPU with a Vulkan driver."""

from vknn.errors import (
    DeviceError,
    DeviceLostError,
    DeviceTimeoutError,
    InputError,
    ModelFormatError,
    OutOfMemoryError,
    ShaderError,
    ShapeError,
    UnsupportedLayerError,
    ValidationError,
    VknnError,
)
from vknn.session import Session

__version__ = "0.1.0"

__all__ = [
    "DeviceError",
    "DeviceLostError",
    "DeviceTimeoutError",
    "InputError",
    "ModelFormatError",
    "OutOfMemoryError",
    "Session",
    "ShaderError",
    "ShapeError",
    "UnsupportedLayerError",
    "ValidationError",
    "VknnError",
]
