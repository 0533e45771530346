"""VkResult codes as typed exceptions, each with a remedy."""

from __future__ import annotations

from vknn.errors import DeviceError, DeviceLostError, DeviceTimeoutError, OutOfMemoryError

SUCCESS = 0
TIMEOUT = 2
INCOMPLETE = 5
INITIALIZATION_FAILED = -3
DEVICE_LOST = -4

LOST_REMEDY = (
    "close the session and open a new one; if it happens again, the driver's watchdog may have "
    "stopped a long submit (try a smaller input) or the driver may be at fault"
)
MEMORY_REMEDY = "close other sessions, use smaller inputs, or choose another device"

#: VkResult -> (name, exception, remedy); the codes are those of the Vulkan specification.
_RESULTS: dict[int, tuple[str, type[DeviceError], str]] = {
    1: ("VK_NOT_READY", DeviceError, "report this as a bug of vknn"),
    2: ("VK_TIMEOUT", DeviceTimeoutError, "raise VKNN_TIMEOUT (seconds)"),
    5: ("VK_INCOMPLETE", DeviceError, "report this as a bug of vknn"),
    -1: ("VK_ERROR_OUT_OF_HOST_MEMORY", OutOfMemoryError, MEMORY_REMEDY),
    -2: ("VK_ERROR_OUT_OF_DEVICE_MEMORY", OutOfMemoryError, MEMORY_REMEDY),
    -3: ("VK_ERROR_INITIALIZATION_FAILED", DeviceError, "check the driver with `vulkaninfo`"),
    -4: ("VK_ERROR_DEVICE_LOST", DeviceLostError, LOST_REMEDY),
    -5: ("VK_ERROR_MEMORY_MAP_FAILED", OutOfMemoryError, MEMORY_REMEDY),
    -6: (
        "VK_ERROR_LAYER_NOT_PRESENT",
        DeviceError,
        "install the validation layer (Debian: vulkan-validationlayers) or unset VKNN_VALIDATE",
    ),
    -7: ("VK_ERROR_EXTENSION_NOT_PRESENT", DeviceError, "update the Vulkan driver"),
    -8: ("VK_ERROR_FEATURE_NOT_PRESENT", DeviceError, "update the Vulkan driver"),
    -9: (
        "VK_ERROR_INCOMPATIBLE_DRIVER",
        DeviceError,
        "no Vulkan driver is installed (Debian: apt-get install mesa-vulkan-drivers) or "
        "VK_DRIVER_FILES names none; device='cpu' runs without one",
    ),
    -10: ("VK_ERROR_TOO_MANY_OBJECTS", OutOfMemoryError, "close sessions that are not needed"),
    -11: ("VK_ERROR_FORMAT_NOT_SUPPORTED", DeviceError, "set VKNN_DISABLE=texel"),
    -12: ("VK_ERROR_FRAGMENTED_POOL", OutOfMemoryError, MEMORY_REMEDY),
    -13: ("VK_ERROR_UNKNOWN", DeviceError, "check the driver with `vulkaninfo`"),
    -1000069000: ("VK_ERROR_OUT_OF_POOL_MEMORY", OutOfMemoryError, MEMORY_REMEDY),
    -1000012000: ("VK_ERROR_INVALID_SHADER_NV", DeviceError, "update the Vulkan driver"),
}


def result_error(code: int, what: str) -> DeviceError:
    """The exception for a VkResult; ``what`` says which step failed."""
    name, error, remedy = _RESULTS.get(
        code, (f"VkResult {code}", DeviceError, "check the driver with `vulkaninfo`")
    )
    return error(f"{what} failed: {name}; {remedy}")


def check(code: int, what: str) -> None:
    """Check that ``code`` is VK_SUCCESS; raises the matching exception if not."""
    if code != SUCCESS:
        raise result_error(code, what)


def no_driver() -> DeviceError:
    """The error where there is a loader but no usable device behind it."""
    return DeviceError(
        "no usable Vulkan device was found; install a driver (Debian: apt-get install "
        "mesa-vulkan-drivers), check VK_DRIVER_FILES, or use device='cpu'"
    )
