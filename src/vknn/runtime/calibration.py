"""Calibration: where a device's timestamps lie on the host's clock (calibrated timestamps)."""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import Any

from vknn.runtime.vulkan import structs
from vknn.runtime.vulkan.core import Core
from vknn.runtime.vulkan.discovery import CALIBRATED

_DEVICE = 0  # VkTimeDomainKHR
#: The struct, and its VkStructureType: the binding's constants are a string and a wrong number.
_INFO, _INFO_TYPE = "VkCalibratedTimestampInfoKHR", 1000184000
#: The clock that ``time.perf_counter`` reads, as a VkTimeDomainKHR, and its seconds a unit.
_HOST, _UNIT = (
    (3, time.get_clock_info("perf_counter").resolution) if sys.platform == "win32" else (1, 1e-9)
)


class Calibration:
    """Pairs of moments on the device's clock and on ``time.perf_counter``."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._ask = core.instance.function("vkGetCalibratedTimestampsEXT")
        self._infos = structs.array(
            _INFO,
            [structs.make(_INFO, sType=_INFO_TYPE, timeDomain=d) for d in (_DEVICE, _HOST)],
        )
        self._moments = structs.out("uint64_t", 2)
        self._deviation: Any = structs.out("uint64_t")

    def seconds(self, ticks: int, mask: int) -> float:
        """``time.perf_counter`` at a timestamp of the device, which has the bits of ``mask``."""
        code = self._ask(self._core.device, 2, self._infos.ptr, self._moments, self._deviation)
        self._core.check(code, "reading calibrated timestamps")
        device, host = int(self._moments[0]), int(self._moments[1])
        since = ((device - ticks) & mask) * self._core.snapshot.timestamp_period * 1e-9
        return host * _UNIT - since


def calibration(core: Core) -> Calibration | None:
    """Calibration of a device's clock; None where its driver cannot, or not with this clock."""
    if CALIBRATED not in core.snapshot.extensions or sys.platform == "darwin":
        return None  # perf_counter is no clock of Vulkan's on macOS
    name = "vkGetPhysicalDeviceCalibrateableTimeDomainsEXT"
    ask = partial(core.instance.function(name), core.physical)
    code, domains = structs.listed("VkTimeDomainKHR", ask, int)
    if code or not {_DEVICE, _HOST} <= set(domains):
        return None
    return Calibration(core)
