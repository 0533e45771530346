"""Counters: what a GPU's units did meanwhile, by VK_KHR_performance_query.

A set of counters may take several passes, each of which runs the same commands; who reads them
holds the profiling lock, which fixes clocks on some drivers and keeps other processes out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from vknn.errors import DeviceError
from vknn.runtime.host_io import HostIO
from vknn.runtime.recorder import Marks, Recorder, submit_ranges
from vknn.runtime.vulkan import commands, structs
from vknn.runtime.vulkan.commands import CommandPool
from vknn.runtime.vulkan.core import Core
from vknn.runtime.vulkan.discovery import PERFORMANCE_QUERY
from vknn.runtime.vulkan.structs import Struct
from vknn.runtime.vulkan.vulkan_api import ffi, lib, vk

#: VkPerformanceCounterUnitKHR, as it is printed.
UNITS = ("", "%", "ns", "B", "B/s", "K", "W", "V", "A", "Hz", "cycles")
#: VkPerformanceCounterStorageKHR -> member of VkPerformanceCounterResultKHR, and its dtype.
_STORAGE: tuple[tuple[str, type[np.generic]], ...] = (
    ("int32", np.int32),
    ("int64", np.int64),
    ("uint32", np.uint32),
    ("uint64", np.uint64),
    ("float32", np.float32),
    ("float64", np.float64),
)
#: VkPerformanceCounterScopeKHR: what a counter can be read around.
COMMAND_BUFFER, RENDER_PASS, COMMAND = 0, 1, 2
#: By what rows of counted values are: commands of the plan, or its submits.
COMMANDS, SUBMITS = "commands", "submits"
_IMPACTS = 1  # VK_PERFORMANCE_COUNTER_DESCRIPTION_PERFORMANCE_IMPACTING_BIT_KHR
_RESULT_BYTES = 8
_LOCK_NANOSECONDS = 2_000_000_000
_TIMEOUT = 2  # VkResult


@dataclass(frozen=True)
class Counter:
    """A counter of a device.

    Attributes:
        name: The driver's name.
        category: The driver's group of counters.
        description: The driver's words.
        unit: "%", "ns", "B", "B/s", "K", "W", "V", "A", "Hz", "cycles"; "" for plain numbers.
        by_command: Whether it can be read around a command; else only around a submit.
        slows: Whether reading it slows the device down.
        index: Its number, of the queue family.
        storage: VkPerformanceCounterStorageKHR.
    """

    name: str
    category: str
    description: str
    unit: str
    by_command: bool
    slows: bool
    index: int
    storage: int


@dataclass(frozen=True, eq=False)
class CountedRun:
    """Values of counters.

    Attributes:
        outputs: Results by name.
        by: "commands", where ``values`` has a row for each of ``plan.commands``, or "submits".
        values: float64 [rows, counters].
        passes: How often the plan was run for them.
    """

    outputs: dict[str, np.ndarray]
    by: str
    values: np.ndarray
    passes: int


def counters(core: Core) -> tuple[Counter, ...]:
    """The counters of a device's compute queue, in the driver's order.

    Raises DeviceError where the device or its driver has none.
    """
    _require(core)
    enumerate_ = core.instance.function(
        "vkEnumeratePhysicalDeviceQueueFamilyPerformanceQueryCountersKHR"
    )
    ask = partial(enumerate_, core.physical, core.family)
    count = structs.out("uint32_t")
    core.check(ask(count, ffi.NULL, ffi.NULL), "listing counters")
    native = structs.entries("VkPerformanceCounterKHR", count[0])
    texts = structs.entries("VkPerformanceCounterDescriptionKHR", count[0])
    core.check(ask(count, native.ptr, texts.ptr), "listing counters")
    found = [_counter(i, native.ptr[i], texts.ptr[i]) for i in range(count[0])]
    return tuple(c for c in found if c is not None)


class CounterQueries:
    """Command buffers of a plan with queries of some counters."""

    def __init__(
        self, core: Core, recorder: Recorder, host_io: HostIO, chosen: Sequence[Counter]
    ) -> None:
        _require(core)
        self._core, self._host_io, self._chosen = core, host_io, list(chosen)
        plan = recorder.plan
        self._ranges = submit_ranges(plan)
        self.by = COMMANDS if all(c.by_command for c in chosen) else SUBMITS
        self._rows = len(plan.commands) if self.by == COMMANDS else len(self._ranges)
        info = self._pool_info()
        self.passes = self._count_passes(info)
        with ExitStack() as undo:
            self._queries = core.create("query pool", info)
            undo.callback(self._queries.destroy)
            pool = CommandPool(core)
            undo.callback(pool.destroy)
            with profiling_lock(core):
                self._reset = self._record_reset(pool)
                self._targets = self._record(recorder, pool)
            self._undo = undo.pop_all()

    def run(self, feeds: Mapping[str, np.ndarray], execute: Callable[[Struct], None]) -> CountedRun:
        """``execute`` submits a VkSubmitInfo and waits for it; each pass runs the whole plan."""
        self._host_io.store(feeds)
        with profiling_lock(self._core):
            execute(commands.submit_info(self._reset))
            for number in range(self.passes):
                link = structs.make("VkPerformanceQuerySubmitInfoKHR", counterPassIndex=number)
                for target in self._targets:
                    execute(commands.submit_info(target, link=link))
            values = self._values()
        return CountedRun(self._host_io.load(), self.by, values, self.passes)

    def destroy(self) -> None:
        self._undo.close()

    def _pool_info(self) -> Struct:
        indices = [c.index for c in self._chosen]
        link = structs.make(
            "VkQueryPoolPerformanceCreateInfoKHR",
            queueFamilyIndex=self._core.family,
            counterIndexCount=len(indices),
            pCounterIndices=indices,
        )
        self._link = link
        return structs.make(
            "VkQueryPoolCreateInfo",
            pNext=link,
            queryType=vk.VK_QUERY_TYPE_PERFORMANCE_QUERY_KHR,
            queryCount=max(1, self._rows),
        )

    def _count_passes(self, info: Struct) -> int:
        ask = self._core.instance.function(
            "vkGetPhysicalDeviceQueueFamilyPerformanceQueryPassesKHR"
        )
        passes = structs.out("uint32_t")
        ask(self._core.physical, self._link.ptr, passes)
        return max(1, int(passes[0]))

    def _record_reset(self, pool: CommandPool) -> Any:
        # Not in a command buffer with the queries: the specification forbids it.
        target = pool.allocate()
        commands.begin(self._core, target)
        lib.vkCmdResetQueryPool(target, self._queries.handle, 0, max(1, self._rows))
        commands.end(self._core, target)
        return target

    def _record(self, recorder: Recorder, pool: CommandPool) -> list[Any]:
        targets = []
        for number, steps in enumerate(self._ranges):
            target = pool.allocate()
            marks: Marks = (
                _CommandQueries(self._queries.handle)
                if self.by == COMMANDS
                else _SubmitQuery(self._queries.handle, number)
            )
            before = self._host_io.before if number == 0 else None
            after = self._host_io.after if number == len(self._ranges) - 1 else None
            recorder.record(target, steps, before, after, marks)
            targets.append(target)
        return targets

    def _values(self) -> np.ndarray:
        width = len(self._chosen)
        if not self._rows:
            return np.zeros((0, width))
        stride = _RESULT_BYTES * width
        results = structs.out("VkPerformanceCounterResultKHR", self._rows * width)
        code = lib.vkGetQueryPoolResults(
            self._core.device, self._queries.handle, 0, self._rows,
            stride * self._rows, results, stride, vk.VK_QUERY_RESULT_WAIT_BIT,
        )  # fmt: skip
        self._core.check(code, "reading counters")
        cells = np.frombuffer(ffi.buffer(results), np.uint8).reshape(self._rows, width, -1)
        columns = [
            np.ascontiguousarray(cells[:, place]).view(_STORAGE[counter.storage][1])[:, 0]
            for place, counter in enumerate(self._chosen)
        ]
        return np.stack([column.astype(np.float64) for column in columns], axis=1)


class _CommandQueries(Marks):
    """A query around each command, by its number in the plan."""

    def __init__(self, queries: Any) -> None:
        self._queries = queries

    def before(self, target: Any, number: int) -> None:
        lib.vkCmdBeginQuery(target, self._queries, number, 0)

    def behind(self, target: Any, number: int) -> None:
        lib.vkCmdEndQuery(target, self._queries, number)


class _SubmitQuery(Marks):
    """A query around all that a command buffer holds: its first command and its last."""

    def __init__(self, queries: Any, number: int) -> None:
        self._queries, self._number = queries, number

    def first(self, target: Any) -> None:
        lib.vkCmdBeginQuery(target, self._queries, self._number, 0)

    def last(self, target: Any) -> None:
        lib.vkCmdEndQuery(target, self._queries, self._number)


@contextmanager
def profiling_lock(core: Core) -> Iterator[None]:
    """The device's profiling lock. Raises DeviceError where another process keeps it."""
    acquire = core.instance.function("vkAcquireProfilingLockKHR")
    info = structs.make("VkAcquireProfilingLockInfoKHR", timeout=_LOCK_NANOSECONDS)
    code = acquire(core.device, info.ptr)
    if code == _TIMEOUT:
        raise DeviceError(
            f"another process holds the profiling lock of {core.snapshot.name}: end it, or wait"
        )
    core.check(code, "taking the profiling lock")
    try:
        yield
    finally:
        core.instance.function("vkReleaseProfilingLockKHR")(core.device)


def _require(core: Core) -> None:
    if not core.snapshot.performance_queries:
        raise DeviceError(f"{core.snapshot.name} has no counters: {_switch(core)}")


def _switch(core: Core) -> str:
    """What a driver needs to offer them, where that is known."""
    driver = core.snapshot.driver_name.lower()
    known = next((text for name, text in _SWITCHES.items() if name in driver), "")
    missing = f"its driver does not offer {PERFORMANCE_QUERY}"
    return f"{missing}; {known}" if known else missing


#: Part of a driver's name -> what makes it offer counters.
_SWITCHES = {
    "intel": "on Linux, set dev.i915.perf_stream_paranoid=0 (sysctl; dev.xe.observation_paranoid=0 "
    "with the xe kernel driver), and try INTEL_DEBUG=no-oaconfig",
    "turnip": "start it with TU_DEBUG=perfc",
    "radv": "it takes RDNA or newer and a Mesa that counts there",
    "llvmpipe": "a CPU has none",
    "swiftshader": "a CPU has none",
    "nvidia": "NVIDIA's counters are for Nsight Graphics (docs/profilers.md)",
}


def _counter(index: int, native: Any, texts: Any) -> Counter | None:
    """A counter; None for one that cannot be read outside render passes."""
    if native.scope == RENDER_PASS or not 0 <= native.storage < len(_STORAGE):
        return None
    unit = UNITS[native.unit] if 0 <= native.unit < len(UNITS) else ""
    return Counter(
        _text(texts.name),
        _text(texts.category),
        _text(texts.description),
        unit,
        native.scope == COMMAND,
        bool(texts.flags & _IMPACTS),
        index,
        native.storage,
    )


def _text(native: Any) -> str:
    return ffi.string(native).decode(errors="replace")
