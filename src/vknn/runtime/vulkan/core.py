"""The logical device: the one owner of native handles, shared by everybody who opened it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from vknn import forks, interrupts
from vknn.environment import Environment
from vknn.errors import DeviceError, DeviceLostError
from vknn.run_limits import current
from vknn.runtime import measured_speeds
from vknn.runtime.quirks import copies_beside, device_limits
from vknn.runtime.snapshot import Snapshot
from vknn.runtime.vulkan import instance, live_objects, structs
from vknn.runtime.vulkan.discovery import (
    CALIBRATED,
    COOPERATIVE_NEEDS,
    FLOAT16,
    FLOAT_DOT,
    FLOAT_DOT_FIELD,
    INTEGER_DOT,
    PERFORMANCE_FEATURES,
    PERFORMANCE_QUERY,
    PIPELINE_STATISTICS,
    PORTABILITY_SUBSET,
    float_dot_features,
)
from vknn.runtime.vulkan.labels import DebugLabels
from vknn.runtime.vulkan.structs import Struct
from vknn.runtime.vulkan.vk_result import (
    DEVICE_LOST,
    LOST_REMEDY,
    SUCCESS,
    check,
    result_error,
)
from vknn.runtime.vulkan.vulkan_api import ffi, lib

#: kind -> (create, destroy, handle type)
_KINDS = {
    "buffer": ("vkCreateBuffer", "vkDestroyBuffer", "VkBuffer"),
    "memory": ("vkAllocateMemory", "vkFreeMemory", "VkDeviceMemory"),
    "buffer view": ("vkCreateBufferView", "vkDestroyBufferView", "VkBufferView"),
    "shader module": ("vkCreateShaderModule", "vkDestroyShaderModule", "VkShaderModule"),
    "set layout": (
        "vkCreateDescriptorSetLayout",
        "vkDestroyDescriptorSetLayout",
        "VkDescriptorSetLayout",
    ),
    "pipeline layout": ("vkCreatePipelineLayout", "vkDestroyPipelineLayout", "VkPipelineLayout"),
    "pipeline cache": ("vkCreatePipelineCache", "vkDestroyPipelineCache", "VkPipelineCache"),
    "pipeline": ("vkCreateComputePipelines", "vkDestroyPipeline", "VkPipeline"),
    "descriptor pool": ("vkCreateDescriptorPool", "vkDestroyDescriptorPool", "VkDescriptorPool"),
    "command pool": ("vkCreateCommandPool", "vkDestroyCommandPool", "VkCommandPool"),
    "query pool": ("vkCreateQueryPool", "vkDestroyQueryPool", "VkQueryPool"),
    "fence": ("vkCreateFence", "vkDestroyFence", "VkFence"),
    "semaphore": ("vkCreateSemaphore", "vkDestroySemaphore", "VkSemaphore"),
}
#: Nanoseconds of a wait; between two of them Python acts on Ctrl-C, and on what cancels the run.
_WAIT_SLICE = 50_000_000
#: Seconds between further waits for an idle device where the driver cannot wait just now.
_IDLE_PAUSES = (0.01, 0.05, 0.2)


class Native:
    """A counted native object of a device. ``destroy`` may be called twice."""

    __slots__ = ("_core", "handle", "kind", "on_destroy")

    def __init__(self, core: Core, kind: str, handle: Any) -> None:
        self.kind, self.handle, self._core = kind, handle, core
        self.on_destroy: Callable[[], None] | None = None
        live_objects.created(kind)

    def called(self, text: str) -> Native:
        """The object itself, under a name that other tools show where labels are wanted."""
        if self._core.labels is not None:
            self._core.labels.name(self.kind, self.handle, text)
        return self

    def destroy(self) -> None:
        if self.handle is None:
            return
        handle, self.handle = self.handle, None
        if not self._core.abandoned:
            getattr(lib, _KINDS[self.kind][1])(self._core.device, handle, ffi.NULL)
        live_objects.destroyed(self.kind)
        if self.on_destroy is not None:
            self.on_destroy()


class Core:
    """A VkDevice with its compute queue, and where there is one a queue that copies beside it.

    ``families`` are the families of its queues, ``copies`` is the second queue or None.
    ``lost`` holds the reason once the device is lost; from then on every call raises
    DeviceLostError. ``abandoned``: destroying would wait for ever (or the process was forked), so
    native objects are only forgotten.
    """

    def __init__(self, snapshot: Snapshot, env: Environment) -> None:
        self.snapshot = snapshot
        speeds = measured_speeds.load(env.cache_path(), snapshot)
        self.limits = device_limits(snapshot, env.disabled, speeds)
        self.disabled = env.disabled
        self.lost: str | None = None
        self.abandoned = False
        #: Sums of the times of streams (runtime/stream_clock.py); None where nobody asks for them.
        self.stream_clock: Any = None
        #: Names of objects and commands for other tools; None where nobody asks for them.
        self.labels: DebugLabels | None = None
        self.allocated = 0
        self.peak = 0
        self._queue_lock = threading.RLock()
        self._account_lock = threading.RLock()
        forks.renew(self)
        self.instance = instance.acquire()
        try:
            self._open()
        except BaseException:
            instance.release()
            raise

    def _open(self) -> None:
        listed = self.instance.physical_devices()
        if self.snapshot.index >= len(listed):
            raise DeviceError(f"{self.snapshot.name} is not listed any more; open it again")
        self.physical = physical = listed[self.snapshot.index]
        family = self.snapshot.compute_family
        if family is None:
            raise DeviceError(f"{self.snapshot.name} has no compute queue")
        self.family = family
        beside = copies_beside(self.snapshot, self.disabled)
        copying = self.snapshot.copy_family if beside else None
        self.families = (family,) if copying is None else (family, copying)
        handle = structs.out("VkDevice")
        info = _device_info(self.families, self.limits.features, self.snapshot)
        try:
            check(lib.vkCreateDevice(physical, info.ptr, ffi.NULL, handle), "opening the device")
            self.device = handle[0]
            live_objects.created("device")
        except BaseException:
            if handle[0] != ffi.NULL:  # an interrupt came while the driver made it
                lib.vkDestroyDevice(handle[0], ffi.NULL)
            raise
        self.queue = self._queue(family, 0)
        if self.instance.labelled:
            self.labels = DebugLabels(self.instance.handle, self.device)
        number = self.families.count(copying) - 1
        self.copies = None if copying is None else self._queue(copying, number)

    def _queue(self, family: int, number: int) -> Any:
        queue = structs.out("VkQueue")
        lib.vkGetDeviceQueue(self.device, family, number, queue)
        return queue[0]

    def create(self, kind: str, info: Struct, what: str = "") -> Native:
        """A native object of a kind named in the table above; ``what`` is for the error's text."""
        self.ensure_alive()
        function, _, ctype = _KINDS[kind]
        handle = structs.out(ctype)
        try:
            code = getattr(lib, function)(self.device, info.ptr, ffi.NULL, handle)
            self.check(code, what or f"creating a {kind}")
            return Native(self, kind, handle[0])
        except BaseException:
            if handle[0] != ffi.NULL:  # an interrupt came while the driver made it
                Native(self, kind, handle[0]).destroy()
            raise

    def check(self, code: int, what: str) -> None:
        """Check of a VkResult, as by vk_result.check; notes in ``lost`` that the device is lost."""
        if code:
            error = result_error(code, what)
            if isinstance(error, DeviceLostError):
                self.lost = str(error)
            raise error

    def ensure_alive(self) -> None:
        """Check that the device was not lost before; raises DeviceLostError if it was."""
        if self.lost is not None:
            raise DeviceLostError(f"the device was lost earlier ({self.lost}); {LOST_REMEDY}")

    def pause(self, seconds: float) -> bool:
        """Pause of all threads' submits until :meth:`resume`; False: one went on for so long."""
        return self._queue_lock.acquire(timeout=seconds)

    def resume(self) -> None:
        """End of the pause."""
        self._queue_lock.release()

    def submit(self, info: Any, fence: Any, queue: Any = None) -> None:
        """vkQueueSubmit of one VkSubmitInfo, to the compute queue or another; from any thread."""
        with self._queue_lock:
            code = lib.vkQueueSubmit(queue or self.queue, 1, info, fence)
        if code:
            self.check(code, "submitting work")

    def wait(self, fence: Any, timeout: float) -> bool:
        """Wait for a fence (a VkFence array of one); False when ``timeout`` seconds passed.

        Raises RunTimeoutError and RunCancelledError for the run of the thread; the device goes on.
        """
        left, limit = int(timeout * 1e9), current.limit
        while left > 0:
            slice_ = min(left, _WAIT_SLICE)
            if limit is not None and limit.deadline is not None:
                slice_ = max(1, min(slice_, int((limit.deadline - time.perf_counter()) * 1e9)))
            code = lib.vkWaitForFences(self.device, 1, fence, 1, slice_)
            if code == 0:
                return True
            if code != 2:
                self.check(code, "waiting for the device")
            left -= slice_
            interrupts.point()
            if limit is not None:
                limit.check()
        return False

    def idle(self) -> None:
        """Wait until the device has nothing to do, or is lost."""
        for pause in (*_IDLE_PAUSES, 0.0):
            if self.abandoned:
                return
            with self._queue_lock:
                code = lib.vkDeviceWaitIdle(self.device)
            if code in (SUCCESS, DEVICE_LOST):
                return
            time.sleep(pause)

    def account(self, nbytes: int) -> None:
        """Account of device memory that was allocated (or, negative, freed)."""
        with self._account_lock:
            self.allocated += nbytes
            self.peak = max(self.peak, self.allocated)

    def destroy(self) -> None:
        """Release of the device; its objects must be gone."""
        if not self.abandoned:
            self.idle()
            lib.vkDestroyDevice(self.device, ffi.NULL)
            live_objects.destroyed("device")
            instance.release()
        else:
            live_objects.destroyed("device")


def _device_info(families: tuple[int, ...], features: frozenset[str], snapshot: Snapshot) -> Struct:
    """VkDeviceCreateInfo with a queue of each of the families and exactly the features in use."""
    extensions = snapshot.extensions
    links = [
        structs.make(
            "VkPhysicalDeviceFeatures2", features={"shaderInt64": int("int64" in features)}
        )
    ]
    if "fp16_storage" in features:
        links.append(
            structs.make("VkPhysicalDevice16BitStorageFeatures", storageBuffer16BitAccess=1)
        )
    wanted = [name for name in (PORTABILITY_SUBSET, CALIBRATED) if name in extensions]
    if features & {"fp16_arithmetic", "int8_arithmetic"} and FLOAT16 in extensions:
        wanted.append(FLOAT16)
        links.append(
            structs.make(
                "VkPhysicalDeviceShaderFloat16Int8Features",
                shaderFloat16=int("fp16_arithmetic" in features),
                shaderInt8=int("int8_arithmetic" in features),
            )
        )
    if "integer_dot" in features and INTEGER_DOT in extensions:
        wanted.append(INTEGER_DOT)
        links.append(
            structs.make(
                "VkPhysicalDeviceShaderIntegerDotProductFeatures", shaderIntegerDotProduct=1
            )
        )
    if "float_dot" in features and FLOAT_DOT in extensions:
        wanted.append(FLOAT_DOT)
        links.append(float_dot_features(**{FLOAT_DOT_FIELD: 1}))
    if "pipeline_statistics" in features:
        wanted.append(PIPELINE_STATISTICS)
        links.append(
            structs.make(
                "VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR", pipelineExecutableInfo=1
            )
        )
    if snapshot.performance_queries:
        wanted.append(PERFORMANCE_QUERY)
        links.append(structs.make(PERFORMANCE_FEATURES, performanceCounterQueryPools=1))
    if "cooperative_matrix" in features:
        wanted += COOPERATIVE_NEEDS
        links += [
            structs.make(name, **dict.fromkeys(fields, 1))
            for name, fields in COOPERATIVE_NEEDS.values()
        ]
    queues = [
        structs.make(
            "VkDeviceQueueCreateInfo",
            queueFamilyIndex=family,
            queueCount=count,
            pQueuePriorities=[1.0] * count,
        )
        for family, count in Counter(families).items()
    ]
    return structs.make(
        "VkDeviceCreateInfo",
        pNext=structs.chain(*links),
        queueCreateInfoCount=len(queues),
        pQueueCreateInfos=queues,
        enabledExtensionCount=len(wanted),
        ppEnabledExtensionNames=wanted,
    )
