"""Devices: listed, opened, shared and closed."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import warnings
import weakref
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from vknn import environment, forks, interrupts
from vknn.environment import Environment
from vknn.errors import DeviceError, VknnError
from vknn.plan import DeviceLimits
from vknn.runtime import driver_watch
from vknn.runtime.device_selection import choose, refuse_host
from vknn.runtime.pipelines import Pipelines
from vknn.runtime.precompile import Precompiler
from vknn.runtime.quirks import keeps_threads
from vknn.runtime.snapshot import Snapshot
from vknn.runtime.stream_clock import StreamClock
from vknn.runtime.tensor_pool import TensorPool
from vknn.runtime.vulkan import discovery, instance, messages, structs
from vknn.runtime.vulkan.commands import Fence
from vknn.runtime.vulkan.core import Core
from vknn.runtime.vulkan.lifetime import Closing, close_in_order, sweep
from vknn.runtime.vulkan.transfer import Transfer


class Shared:
    """Parts shared by all who opened a device: logical device, pipelines, staging memory."""

    def __init__(self, snapshot: Snapshot, env: Environment) -> None:
        self.core = Core(snapshot, env)
        folder = None if "pipeline-cache" in env.disabled else env.cache_path()
        self.pipelines = Pipelines(self.core, folder)
        self.precompiler = Precompiler(self.core, folder)
        self.transfer = Transfer(self.core, env.timeout)
        self.tensors = TensorPool(self.core, self.transfer)
        self.timeout = env.timeout
        self.users = 0
        self._fences: list[Fence] = []  # of pauses that were in vain

    def pause(self, deadline: float) -> bool:
        """Pause of all submits, begun when the driver has done what it was given; False: in vain.

        By the ``deadline`` of ``time.perf_counter`` it begins in any case.
        """
        core = self.core
        if core.lost is not None or not core.pause(max(0.0, deadline - time.perf_counter())):
            return False
        with contextlib.suppress(VknnError):
            fence = Fence(core)
            self._fences.append(fence)
            core.submit(structs.make("VkSubmitInfo").ptr, fence.handle)
            if core.wait(fence.array, max(0.0, deadline - time.perf_counter())):
                self._fences.pop().destroy()
        return True

    def destroy(self) -> None:
        """Release of everything, in reverse order."""
        with contextlib.ExitStack() as undo:
            parts = (self.core, self.pipelines, self.transfer, self.tensors, self.precompiler)
            for part in parts:
                undo.callback(part.destroy)
            for fence in self._fences:
                undo.callback(fence.destroy)


#: Key of a shared device: index, UUID, disabled abilities, cache folder, timeout.
_Key = tuple[int, bytes, frozenset[str], Path, float]
_lock = forks.hold(threading.RLock())
_open: dict[_Key, Shared] = {}
_devices: weakref.WeakSet[Device] = weakref.WeakSet()
#: Drivers whose threads stayed in the process that this one was forked from.
_without_threads: set[int] = set()


class Device(Closing):
    """An opened device, made by :func:`vknn.open_device`. A context manager.

    Several sessions may share one. Pipelines and staging memory are shared with everybody who has
    the same device open. Closing it closes the executables and weight pools that were made with it,
    and the device tensors.

    Attributes:
        snapshot: What the physical device says of itself, a :class:`vknn.runtime.Snapshot`.
        limits: What plans may use of it, a :class:`vknn.plan.DeviceLimits`.
    """

    close_order = 2  # after everything made with it

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._children: weakref.WeakSet[Closing] = weakref.WeakSet()
        self.snapshot = shared.core.snapshot
        self.limits: DeviceLimits = shared.core.limits
        #: Ids of the device tensors that are open.
        self._tensors: set[int] = set()
        self._retired = False
        self._closed = False
        _devices.add(self)

    @property
    def shared(self) -> Shared:
        """The shared parts; raises DeviceError once the device is closed."""
        if self._closed:
            raise DeviceError(f"the device {self.snapshot.name} was closed; open it again")
        return self._shared

    @property
    def name(self) -> str:
        """Name of the device, as its driver gives it."""
        return self.snapshot.name

    @property
    def memory_allocated(self) -> int:
        """Bytes of device memory in use now, by everybody in this process."""
        return self.shared.core.allocated

    @property
    def memory_peak(self) -> int:
        """The most bytes of device memory in use at once, since opening or :meth:`reset_peak`."""
        return self.shared.core.peak

    def reset_peak(self) -> None:
        """Start of a new measurement of :attr:`memory_peak`."""
        self.shared.core.peak = self.shared.core.allocated

    def time_streams(self) -> StreamClock:
        """The clock of the device's streams, which counts those that are opened from now on."""
        core = self.shared.core
        if core.stream_clock is None:
            core.stream_clock = StreamClock("timestamps" in core.limits.features)
        clock: StreamClock = core.stream_clock
        return clock

    def adopt(self, child: Closing) -> None:
        """Adoption of ``child``, which is closed with the device."""
        self._children.add(child)

    def adopt_tensor(self, tensor: Closing) -> None:
        """Adoption of a device tensor, which says when it is closed (:meth:`let_go`)."""
        self._tensors.add(id(tensor))
        self.adopt(tensor)

    @interrupts.uninterrupted
    def let_go(self, tensor: Closing) -> None:
        """End of a device tensor, and of the device with the last one, where it is retired."""
        self._tensors.discard(id(tensor))
        if self._retired and not self._tensors:
            self.close()

    @interrupts.uninterrupted
    def retire(self) -> None:
        """Closing at once, or together with the last of its tensors."""
        sweep()
        self._retired = True
        if not self._tensors:
            self.close()

    @interrupts.uninterrupted
    def close(self) -> None:
        """Release of the device; may be called twice.

        Raises:
            vknn.ValidationError: With ``VKNN_VALIDATE`` the validation layer had something to say.
        """
        with _lock:
            if self._closed:
                return
            failure: Exception | None = None
            self._retired = False  # its tensors close without it
            try:
                sweep()
                close_in_order(self._children)
            except Exception as error:  # all are closed even so; after an interrupt they are not
                failure = error
            self._closed = True
            _release(self._shared)
        if failure is not None:
            raise failure
        messages.raise_pending()

    def __repr__(self) -> str:
        return f"<Device vulkan:{self.snapshot.index} {self.snapshot.name}>"


@interrupts.uninterrupted
def devices() -> list[Snapshot]:
    """The Vulkan devices there are, usable or not, in the order of the loader.

    Drivers are loaded into this process, and one that crashes or hangs takes it along. The command
    ``vknn devices`` has processes of its own for them: it lists the others, and names such a driver
    with the variable that leaves it out. Where drivers are not to be trusted, ask ``vknn devices
    --json`` in a subprocess first, and set that variable (``VK_DRIVER_FILES``) before any call.

    Raises:
        vknn.DeviceError: There is no Vulkan loader.
    """
    with _lock, driver_watch.at(driver_watch.ALL, "listing the devices"):
        host = instance.acquire()
        try:
            found = enumerate(host.physical_devices())
            return [discovery.snapshot(index, device, host.function) for index, device in found]
        finally:
            instance.release()


def list_devices() -> list[Snapshot]:
    """The same as :func:`vknn.devices`, by its first name."""
    return devices()


@interrupts.uninterrupted
def open_device(selector: str = "auto", disable: Collection[str] = ()) -> Device:
    """A device, opened; close it, or use it in a ``with`` block.

    Args:
        selector: "auto" (what ``VKNN_DEVICE`` says, else as "vulkan"); "vulkan" for the best one,
            discrete before integrated before virtual before CPU; "vulkan:1" for the device of that
            index; "uuid:..." or "pci:0000:3b:00.0" for the device of that UUID or PCI address (see
            :attr:`vknn.runtime.Snapshot.lasting_names`); anything else for the best whose name or
            driver contains it.
        disable: Names of parts; abilities of the device among them are off, as are those of
            ``VKNN_DISABLE``.

    Raises:
        vknn.DeviceError: No such device is there or usable; the text names those there are, and the
            remedy. Also for "numpy" and "cpu": the NumPy reference has no device to open; and in a
            process that was forked while a device of SwiftShader was open.
        vknn.NullDeviceError: Only devices that compute nothing fit, and ``VKNN_NULL_DEVICE`` is not
            set. Where it is, one opens with a RuntimeWarning.
    """
    env = environment.read()
    env = replace(env, disabled=env.disabled | environment.ABILITIES.intersection(disable))
    wanted = env.device if selector == "auto" else selector
    refuse_host(wanted)
    with _lock:
        sweep()
        with driver_watch.at(driver_watch.ALL, "creating the Vulkan instance"):
            instance.acquire()  # keeps the instance across the listing and the opening
        try:
            snapshot = choose(devices(), wanted, env.null_device)
            if snapshot.driver in _without_threads:
                raise DeviceError(
                    f"{snapshot.name} was open when this process was forked, and its driver's "
                    "threads stayed behind; close it before, or start processes by spawn"
                )
            key = (snapshot.index, snapshot.uuid, env.disabled, env.cache_path(), env.timeout)
            shared = _open.get(key)
            if shared is None or shared.core.lost is not None:
                with driver_watch.at(snapshot.name, "opening the device"):
                    shared = _open[key] = Shared(snapshot, env)
            shared.users += 1
            device = Device(shared)
        finally:
            instance.release()
    try:
        messages.raise_pending()
        if snapshot.is_null:
            text = f"{snapshot.name} is a null device: nothing is computed on it"
            warnings.warn(text, RuntimeWarning, stacklevel=3)
    except BaseException:
        device.close()
        raise
    return device


def _release(shared: Shared) -> None:
    shared.users -= 1
    if shared.users == 0:
        for key in [k for k, s in _open.items() if s is shared]:
            del _open[key]
        with driver_watch.at(shared.core.snapshot.name, "closing the device"):
            shared.destroy()


@atexit.register
def _close_all() -> None:
    sweep()
    for device in list(_devices):
        device.close()


_paused: list[Shared] = []


def _pause(deadline: float) -> None:
    """Pause of all devices, for a fork."""
    _paused.extend(shared for shared in _open.values() if shared.pause(deadline))


def _resume() -> None:
    while _paused:
        _paused.pop().core.resume()


forks.pause(_pause, _resume)


def _after_fork() -> None:
    """A child process must not touch its parent's device: it only forgets it."""
    for device in list(_devices):
        core = device._shared.core
        core.lost, core.abandoned = "the process was forked", True
        device._shared.precompiler.abandon()
    held = (shared.core.snapshot for shared in _open.values())
    _without_threads.update(s.driver for s in held if keeps_threads(s))
    _open.clear()
    _paused.clear()
    instance.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
