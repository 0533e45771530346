"""Timer: a plan run with timestamps around its commands."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from vknn.errors import DeviceError
from vknn.runtime.calibration import calibration
from vknn.runtime.host_io import HostIO
from vknn.runtime.recorder import Marks, Recorder, submit_ranges
from vknn.runtime.vulkan import commands, structs
from vknn.runtime.vulkan.commands import CommandPool
from vknn.runtime.vulkan.core import Core, Native
from vknn.runtime.vulkan.vulkan_api import ffi, lib, vk

TOP, BOTTOM = 0x1, 0x2000  # VkPipelineStageFlagBits


@dataclass(frozen=True, eq=False)
class PlanProfile:
    """A timed run. Seconds for the host's times, nanoseconds for the device's.

    ``spans``: begin and end of each of ``plan.commands``, float64 [n, 2], counted from the first
    begin. ``submits``: begin and end of each submit as the host saw it, float64 [m, 2], counted
    from the start of the run. ``upload``, ``download``: copying in and out. ``wall``: all of it.
    ``origin``: the first begin, in seconds from the start of the run; None where the device's clock
    cannot be held against the host's.
    """

    outputs: dict[str, np.ndarray]
    spans: np.ndarray
    submits: np.ndarray
    upload: float
    download: float
    wall: float
    origin: float | None = None


class _Timestamps(Marks):
    """Two timestamps around each command."""

    def __init__(self, queries: Any) -> None:
        self._queries = queries

    def before(self, target: Any, number: int) -> None:
        lib.vkCmdWriteTimestamp(target, TOP, self._queries, 2 * number)

    def behind(self, target: Any, number: int) -> None:
        lib.vkCmdWriteTimestamp(target, BOTTOM, self._queries, 2 * number + 1)


class Timer:
    """Command buffers of a plan with two timestamp queries a command."""

    def __init__(self, core: Core, recorder: Recorder, host_io: HostIO) -> None:
        if "timestamps" not in core.limits.features:
            raise DeviceError(
                f"{core.snapshot.name} has no timestamps (or VKNN_DISABLE names them): "
                "it cannot be profiled by dispatch"
            )
        self._core, self._host_io = core, host_io
        self._calibration = calibration(core)
        self._count = 2 * len(recorder.plan.commands)
        self._undo = ExitStack()
        with ExitStack() as undo:
            self._queries = self._query_pool(undo)
            pool = CommandPool(core)
            undo.callback(pool.destroy)
            self._submits = self._record(recorder, pool)
            self._undo = undo.pop_all()
        self._results: Any = structs.out("uint64_t", max(1, self._count))

    def run(
        self, feeds: Mapping[str, np.ndarray], execute: Callable[[structs.Struct], None]
    ) -> PlanProfile:
        """``execute`` submits a VkSubmitInfo and waits for it."""
        start = time.perf_counter()
        self._host_io.store(feeds)
        stored = time.perf_counter()
        submits = []
        for info in self._submits:
            begin = time.perf_counter()
            execute(info)
            submits.append((begin - start, time.perf_counter() - start))
        done = time.perf_counter()
        outputs = self._host_io.load()
        end = time.perf_counter()
        spans, first = self._spans()
        origin = None
        if first is not None and self._calibration is not None:
            origin = self._calibration.seconds(first, self._mask) - start
        return PlanProfile(
            outputs, spans, np.array(submits), stored - start, end - done, end - start, origin
        )

    def destroy(self) -> None:
        self._undo.close()

    def _query_pool(self, undo: ExitStack) -> Native:
        info = structs.make(
            "VkQueryPoolCreateInfo",
            queryType=vk.VK_QUERY_TYPE_TIMESTAMP,
            queryCount=max(1, self._count),
        )
        native = self._core.create("query pool", info)
        undo.callback(native.destroy)
        return native

    def _record(self, recorder: Recorder, pool: CommandPool) -> list[structs.Struct]:
        ranges = submit_ranges(recorder.plan)
        infos = []
        for number, steps in enumerate(ranges):
            target = pool.allocate()
            recorder.record(
                target,
                steps,
                self._first if number == 0 else None,
                self._host_io.after if number == len(ranges) - 1 else None,
                _Timestamps(self._queries.handle),
            )
            infos.append(commands.submit_info(target))
        return infos

    def _first(self, target: Any) -> None:
        lib.vkCmdResetQueryPool(target, self._queries.handle, 0, max(1, self._count))
        self._host_io.before(target)

    @property
    def _mask(self) -> int:
        """Bits that timestamps have: fewer than 64 on some devices, where they wrap."""
        return (1 << self._core.snapshot.queue_families[self._core.family].timestamp_bits) - 1

    def _spans(self) -> tuple[np.ndarray, int | None]:
        """Nanoseconds since the first begin, [n, 2], and the first begin as a timestamp."""
        if not self._count:
            return np.zeros((0, 2)), None
        code = lib.vkGetQueryPoolResults(
            self._core.device,
            self._queries.handle,
            0,
            self._count,
            8 * self._count,
            self._results,
            8,
            vk.VK_QUERY_RESULT_64_BIT | vk.VK_QUERY_RESULT_WAIT_BIT,
        )
        self._core.check(code, "reading timestamps")
        ticks = np.frombuffer(ffi.buffer(self._results), np.uint64).reshape(-1, 2)
        elapsed = (ticks - ticks[0, 0]) & np.uint64(self._mask)
        spans = elapsed.astype(np.float64) * self._core.snapshot.timestamp_period
        return spans, int(ticks[0, 0]) & self._mask
