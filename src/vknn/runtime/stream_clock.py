"""Stream clock: where the time of a device's streams goes, by its timestamps and the host's."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from vknn.runtime.vulkan import structs
from vknn.runtime.vulkan.core import Core
from vknn.runtime.vulkan.vulkan_api import lib, vk

#: Told a command buffer that is being recorded.
Recorded = Callable[[Any], None]


class StreamClock:
    """Sums over the runs of a device's streams, in seconds.

    Attributes:
        device: Time in which the device was at work on some run, by its timestamps; None where it
            has none.
        upload: Time in which the host wrote inputs and submitted work.
        waited: Time in which it waited for the device.
        download: Time in which it read outputs.
        runs: Number of runs.
    """

    def __init__(self, has_timestamps: bool) -> None:
        self.device: float | None = 0.0 if has_timestamps else None
        self.upload, self.waited, self.download, self.runs = 0.0, 0.0, 0.0, 0
        self._end = 0

    def add(self, begin: int, end: int, period: float) -> None:
        """A run from one tick of ``period`` nanoseconds to another; runs may overlap, in order."""
        first = max(begin, self._end)
        if self.device is not None and end > first:
            self.device += 1e-9 * period * (end - first)
        self._end = end


class RunSpan:
    """Two timestamps around a run's commands, of the device's own clock."""

    def __init__(self, core: Core) -> None:
        self._core = core
        info = structs.make(
            "VkQueryPoolCreateInfo", queryType=vk.VK_QUERY_TYPE_TIMESTAMP, queryCount=2
        )
        self._undo = ExitStack()
        self._queries = core.create("query pool", info)
        self._undo.callback(self._queries.destroy)
        self._ticks: Any = structs.out("uint64_t", 2)

    def around(self, before: Recorded | None, after: Recorded | None) -> tuple[Recorded, Recorded]:
        """Recording before and behind a run's commands, with the timestamps around it."""
        pool = self._queries.handle

        def begin(target: Any) -> None:
            lib.vkCmdResetQueryPool(target, pool, 0, 2)
            lib.vkCmdWriteTimestamp(target, vk.VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, pool, 0)
            if before is not None:
                before(target)

        def end(target: Any) -> None:
            if after is not None:
                after(target)
            lib.vkCmdWriteTimestamp(target, vk.VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool, 1)

        return begin, end

    def add_to(self, clock: StreamClock) -> None:
        """The run's time, which is over, as part of a clock's."""
        core = self._core
        flags = vk.VK_QUERY_RESULT_64_BIT | vk.VK_QUERY_RESULT_WAIT_BIT
        code = lib.vkGetQueryPoolResults(
            core.device, self._queries.handle, 0, 2, 16, self._ticks, 8, flags
        )
        core.check(code, "reading timestamps")
        mask = (1 << core.snapshot.queue_families[core.family].timestamp_bits) - 1
        begin, end = int(self._ticks[0]) & mask, int(self._ticks[1]) & mask
        clock.add(begin, end, core.snapshot.timestamp_period)

    def destroy(self) -> None:
        """Release of the timestamps."""
        self._undo.close()
