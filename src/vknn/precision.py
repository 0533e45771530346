"""Precisions of a session: how floats are stored on the device, and what they are multiplied in."""

from __future__ import annotations

import warnings

from vknn.errors import VknnError
from vknn.runtime import Device

PRECISIONS = ("fp32", "fp16", "bf16")
ARITHMETICS = ("fp32", "fp16")
_warned_without_half = False


def check_precision(precision: str, arithmetic: str) -> None:
    """Check that the names are known and go together; raises VknnError if not."""
    if precision not in PRECISIONS:
        known = ", ".join(map(repr, PRECISIONS))
        raise VknnError(f"precision {precision!r} is not supported; use {known}")
    if arithmetic not in ARITHMETICS:
        known = " or ".join(map(repr, ARITHMETICS))
        raise VknnError(f"arithmetic {arithmetic!r} is not supported; use {known}")
    if arithmetic == "fp16" and precision != "fp16":
        raise VknnError("arithmetic='fp16' is for what is stored so: it needs precision='fp16'")


def usable_precision(precision: str, device: Device | None, disabled: frozenset[str]) -> str:
    """The precision that a session gets; raises VknnError where the device has no 16 bits."""
    global _warned_without_half
    if precision == "fp32" or device is None:
        return "fp32"
    if "fp16" in disabled:
        if not _warned_without_half:
            _warned_without_half = True
            warnings.warn(
                f"fp16 is disabled: precision={precision!r} becomes 'fp32'",
                RuntimeWarning,
                stacklevel=3,
            )
        return "fp32"
    if "fp16_storage" not in device.limits.features:
        raise VknnError(
            f"{device.name} has no 16-bit storage (storageBuffer16BitAccess), which "
            f"precision={precision!r} needs; use precision='fp32' or another device"
        )
    return precision


def usable_arithmetic(arithmetic: str, precision: str, device: Device | None) -> str:
    """The arithmetic that a session gets; raises VknnError where the device has no float16's."""
    if precision == "fp32" or device is None or arithmetic == "fp32":
        return "fp32"
    if "fp16_arithmetic" not in device.limits.features:
        raise VknnError(
            f"{device.name} has no 16-bit arithmetic (shaderFloat16), which arithmetic='fp16' "
            "needs; use arithmetic='fp32' (precision='fp16' may stay) or another device"
        )
    return arithmetic
